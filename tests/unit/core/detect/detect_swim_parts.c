/* The parts of SWIM at their limits: a group of one, tables that are empty or full, updates that
 * make no sense, relays and probes of members that left. */
#include "core/base/error.h"
#include "core/detect/swim/swim.h"
#include "detect_pump.h"

#define PERIOD (300 * BW_MS)

static bw_node ids[] = {1, 2, 3, 4, 5, 6};

static struct bw_detector_config some_config(uint32_t n)
{
    struct bw_detector_config config = {
        .self = 1, .members = ids, .count = n, .cap = n + 2, .seed = 5};
    bw_detector_defaults(&config, PERIOD);
    return config;
}

static void open_started(struct solo *solo, const struct bw_detector_config *config)
{
    solo_open(solo, &bw_detect_swim, config);
    solo_event(solo, BW_EVENT_START, 0, 0);
}

static void receive(struct solo *solo, enum bw_message_kind kind, bw_node from, bw_node target,
                    uint64_t seq, bw_time now)
{
    struct bw_message msg = {.kind = (uint8_t)kind, .from = from, .to = 1};
    msg.probe = (struct bw_probe){.seq = seq, .target = target};
    solo_receive(solo, &msg, now);
}

static void suspicion_by(struct solo *solo, bw_node by, bw_node about, bw_time now)
{
    struct bw_swim_update update = {.node = about, .status = BW_MEMBER_SUSPECT, .by = by};
    struct bw_message msg = {
        .kind = BW_MSG_SWIM_PING, .from = by, .to = 1, .items = 1, .data = &update};
    msg.probe = (struct bw_probe){.seq = 9, .target = 1};
    solo_receive(solo, &msg, now);
}

static void group_of_one_probes_no_one(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(1);
    struct solo solo;
    open_started(&solo, &config);
    solo_wait(&solo, 3 * PERIOD);
    assert_null(solo_sent(&solo, BW_MSG_SWIM_PING, 0));
    assert_true(solo.ops->deadline(solo.self) == 4 * PERIOD);
    solo_event(&solo, BW_EVENT_JOIN, 2, 3 * PERIOD);
    solo_wait(&solo, 4 * PERIOD);
    assert_int_equal(solo_sent(&solo, BW_MSG_SWIM_PING, 0)->to, 2);
    solo_close(&solo);
}

/* The queue of live members becomes empty and is filled again. */
static void hint_about_the_only_other_member_keeps_it_probed(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(2);
    struct solo solo;
    open_started(&solo, &config);
    solo_event(&solo, BW_EVENT_HINT, 2, 1);
    solo_event(&solo, BW_EVENT_JOIN, 3, 2);
    bool probed[4] = {0};
    for (uint32_t i = 1; i <= 12; i++) {
        solo_wait(&solo, i * PERIOD - 1);
        solo_event(&solo, BW_EVENT_TIMEOUT, 0, i * PERIOD);
        const struct bw_message *ping = solo_sent(&solo, BW_MSG_SWIM_PING, 0);
        probed[ping->to] = true;
        receive(&solo, BW_MSG_SWIM_ACK, ping->to, 1, ping->probe.seq, i * PERIOD);
    }
    assert_true(probed[2] && probed[3]);
    solo_close(&solo);
}

static void members_may_be_listed_in_any_order_but_once(void **state)
{
    (void)state;
    static const bw_node orders[][6] = {
        {6, 5, 4, 3, 2, 1}, {4, 6, 2, 1, 3, 5}, {2, 3, 6, 5, 1, 4}, {3, 6, 5, 2, 4, 1}};
    for (unsigned i = 0; i < 4; i++) {
        struct bw_detector_config config = some_config(6);
        struct solo solo;
        config.members = orders[i];
        solo_open(&solo, &bw_detect_swim, &config);
        const struct bw_swim *swim = solo.self;
        for (bw_node id = 2; id <= 6; id++)
            assert_int_equal(swim->members.at[id - 2].id, id);
        solo_close(&solo);
    }
}

static void table_refuses_members_that_are_known_or_none(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(4);
    struct solo solo;
    open_started(&solo, &config);
    struct bw_swim_members *members = &((struct bw_swim *)solo.self)->members;
    assert_null(bw_swim_members_add(members, 3));
    assert_null(bw_swim_members_add(members, 1)); /* ourselves */
    assert_int_equal(members->count, 3);
    solo_event(&solo, BW_EVENT_JOIN, BW_NODE_NONE, 1);
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_FULL));
    assert_int_equal(members->count, 3);
    for (bw_node id = 11; id < 14; id++)
        assert_non_null(bw_swim_members_add(members, id));
    assert_null(bw_swim_members_add(members, 14)); /* full */
    solo_close(&solo);
}

static void update_with_an_unknown_status_overrides_nothing(void **state)
{
    (void)state;
    struct bw_swim_update update = {.node = 2, .incarnation = 9, .status = 3};
    assert_false(bw_swim_overrides(&update, BW_MEMBER_ALIVE, 1));
    assert_false(bw_swim_overrides(&update, BW_MEMBER_DEAD, 1));
}

static uint32_t updates_about(const struct bw_swim_gossip *gossip, bw_node node)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < gossip->count; i++)
        count += gossip->at[i].update.node == node;
    return count;
}

static void repeated_report_replaces_the_queued_one(void **state)
{
    (void)state;
    static struct bw_swim_gossip gossip;
    struct bw_swim_update update = {.node = 3, .status = BW_MEMBER_SUSPECT, .by = 2};
    bw_swim_gossip_add(&gossip, &update);
    bw_swim_gossip_add(&gossip, &update);
    assert_int_equal(updates_about(&gossip, 3), 1);
    update.by = 4; /* an independent report */
    bw_swim_gossip_add(&gossip, &update);
    assert_int_equal(updates_about(&gossip, 3), 2);
    update.incarnation = 1;
    bw_swim_gossip_add(&gossip, &update);
    assert_int_equal(updates_about(&gossip, 3), 1);
}

static void member_that_leaves_takes_its_updates_and_relays_with_it(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(6);
    struct solo solo;
    open_started(&solo, &config);
    const struct bw_swim *swim = solo.self;
    receive(&solo, BW_MSG_SWIM_PING_REQ, 2, 5, 70, 1); /* 2 asks us to probe 5 */
    receive(&solo, BW_MSG_SWIM_PING_REQ, 6, 5, 71, 1);
    receive(&solo, BW_MSG_SWIM_PING_REQ, 2, 3, 72, 1);
    assert_int_equal(swim->relays_count, 3);
    suspicion_by(&solo, 2, 3, 2);
    suspicion_by(&solo, 2, 4, 2);
    solo_event(&solo, BW_EVENT_LEAVE, 3, 3);
    assert_int_equal(swim->relays_count, 2);
    assert_int_equal(updates_about(&swim->gossip, 3), 0);
    assert_int_equal(updates_about(&swim->gossip, 4), 1);
    solo_event(&solo, BW_EVENT_LEAVE, 2, 3);
    assert_int_equal(swim->relays_count, 1);
    assert_int_equal(swim->relays[0].asker, 6);
    solo_close(&solo);
}

/* Another member sends the number of our probe. */
static void ack_of_another_member_does_not_answer_our_probe(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(3);
    struct solo solo;
    open_started(&solo, &config);
    solo_wait(&solo, PERIOD);
    const struct bw_message ping = *solo_sent(&solo, BW_MSG_SWIM_PING, 0);
    bw_node other = ping.to == 2 ? 3 : 2;
    receive(&solo, BW_MSG_SWIM_ACK, other, 1, ping.probe.seq, PERIOD + 1);
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_LATE));
    solo_wait(&solo, 2 * PERIOD);
    assert_int_equal(solo_status(&solo, ping.to), BW_MEMBER_SUSPECT);
    solo_close(&solo);
}

static void table_of_suspicions_may_be_empty(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(4);
    struct solo solo;
    open_started(&solo, &config);
    struct bw_swim_suspicions *all = &((struct bw_swim *)solo.self)->suspicions;
    assert_int_equal(bw_swim_suspicions_oldest(all), BW_NODE_NONE);
    assert_false(bw_swim_suspicions_confirm(all, 3, 2)); /* no one suspects 3 */
    bw_swim_suspicions_begin(all, 3, 2, 4, BW_SEC);
    bw_swim_suspicions_begin(all, 4, 2, 4, BW_MS);
    assert_int_equal(bw_swim_suspicions_oldest(all), 4);
    assert_true(bw_swim_suspicions_confirm(all, 3, 4));
    solo_close(&solo);
}

static void suspicion_without_a_range_lasts_its_minimum(void **state)
{
    (void)state;
    for (uint32_t reports = 0; reports < 3; reports++) {
        assert_true(bw_lifeguard_suspicion_ns(8, BW_SEC, 4, 1, reports) == 4 * BW_SEC);
        assert_true(bw_lifeguard_suspicion_ns(8, BW_SEC, 4, 6, reports) > 4 * BW_SEC);
    }
}

static void suspicion_without_a_duration_is_at_its_highest_level(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(4);
    config.suspicion_min = 1e-9;
    config.suspicion_max = 1;
    struct solo solo;
    open_started(&solo, &config);
    suspicion_by(&solo, 2, 3, 5);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_SUSPECT);
    assert_true(solo.ops->level(solo.self, 3, 5) == 2);
    solo_wait(&solo, 5);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_DEAD);
    solo_close(&solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_of_one_probes_no_one),
        cmocka_unit_test(hint_about_the_only_other_member_keeps_it_probed),
        cmocka_unit_test(members_may_be_listed_in_any_order_but_once),
        cmocka_unit_test(table_refuses_members_that_are_known_or_none),
        cmocka_unit_test(update_with_an_unknown_status_overrides_nothing),
        cmocka_unit_test(repeated_report_replaces_the_queued_one),
        cmocka_unit_test(member_that_leaves_takes_its_updates_and_relays_with_it),
        cmocka_unit_test(ack_of_another_member_does_not_answer_our_probe),
        cmocka_unit_test(table_of_suspicions_may_be_empty),
        cmocka_unit_test(suspicion_without_a_range_lasts_its_minimum),
        cmocka_unit_test(suspicion_without_a_duration_is_at_its_highest_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
