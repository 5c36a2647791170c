/* The timeout-free heartbeat: what a beat costs, what the vector says, who stands still. */
#include "core/detect/heartbeat.h"
#include "detect_pump.h"

#define PERIOD (100 * BW_MS)

static struct bw_detector_config some_config(uint32_t neighbours, bool dedupe)
{
    struct bw_detector_config config = {0};
    bw_detector_defaults(&config, PERIOD);
    config.neighbours = neighbours;
    config.dedupe = dedupe;
    return config;
}

/* Messages of the one beat that each of n members sends at the start, per member. */
static uint64_t messages_per_beat(uint32_t n, uint32_t neighbours, bool dedupe)
{
    struct bw_detector_config config = some_config(neighbours, dedupe);
    struct group group;
    group_open(&group, &bw_detect_heartbeat, n, &config, BW_MS);
    group_start(&group);
    group_run(&group, PERIOD - 1);
    uint64_t sent = group.sent[BW_MSG_HEARTBEAT_PATH];
    group_close(&group);
    assert_int_equal(sent % n, 0);
    return sent / n;
}

static void every_simple_path_is_walked_on_a_complete_graph(void **state)
{
    (void)state;
    assert_int_equal(messages_per_beat(2, 0, false), 1);
    assert_int_equal(messages_per_beat(5, 0, false), 64);
    assert_int_equal(messages_per_beat(6, 0, false), 325);
}

static void dedupe_makes_each_member_pass_a_beat_on_once(void **state)
{
    (void)state;
    assert_int_equal(messages_per_beat(5, 0, true), 16);
    assert_int_equal(messages_per_beat(30, 0, true), 29 * 29);
}

static void a_ring_costs_two_messages_per_member_at_most(void **state)
{
    (void)state;
    assert_int_equal(messages_per_beat(12, 2, false), 2 * 11);
    assert_true(messages_per_beat(64, 4, true) <= 256);
}

static void hear(struct solo *solo, const bw_node *path, uint32_t items, uint64_t seq)
{
    struct bw_message msg = {.kind = BW_MSG_HEARTBEAT_PATH,
                             .from = path[items - 1],
                             .to = solo->config.self,
                             .items = items,
                             .data = path};
    msg.probe.seq = seq;
    solo_hear(solo, &msg, PERIOD / 2);
}

static void everybody_in_a_path_is_counted_once(void **state)
{
    (void)state;
    bw_node ids[] = {1, 2, 3, 4};
    struct bw_detector_config config = some_config(0, false);
    config.self = 1;
    config.members = ids;
    config.count = config.cap = 4;
    struct solo solo;
    solo_open(&solo, &bw_detect_heartbeat, &config);
    solo_tell(&solo, BW_EVENT_START, 0, 0);
    bw_node path[] = {3, 2};
    hear(&solo, path, 2, 1);
    assert_true(bw_heartbeat_counter(solo.self, 2) == 1);
    assert_true(bw_heartbeat_counter(solo.self, 3) == 1);
    assert_true(bw_heartbeat_counter(solo.self, 4) == 0);
    const struct bw_message *on = solo_sent(&solo, BW_MSG_HEARTBEAT_PATH, 0);
    assert_non_null(on); /* to the only neighbour that is not in the path */
    assert_int_equal(on->to, 4);
    assert_int_equal(on->items, 3);
    const bw_node *longer = on->data;
    assert_true(longer[0] == 3 && longer[1] == 2 && longer[2] == 1);
    assert_null(solo_sent(&solo, BW_MSG_HEARTBEAT_PATH, 1));
    solo_close(&solo);
}

static void unsound_paths_are_ignored(void **state)
{
    (void)state;
    bw_node ids[] = {1, 2, 3};
    struct bw_detector_config config = some_config(0, false);
    config.self = 1;
    config.members = ids;
    config.count = config.cap = 3;
    struct solo solo;
    solo_open(&solo, &bw_detect_heartbeat, &config);
    solo_tell(&solo, BW_EVENT_START, 0, 0);
    bw_node through_us[] = {1, 2}, stranger[] = {9, 2}, long_one[] = {3, 2, 3, 2, 3, 2};
    const bw_node *paths[] = {through_us, stranger, long_one};
    const uint32_t items[] = {2, 2, 6};
    for (int i = 0; i < 3; i++) {
        hear(&solo, paths[i], items[i], 1);
        assert_true(solo_noted(&solo, BW_TRACE_IGNORED_STATE));
        assert_int_equal(solo.out.count, 1);
    }
    assert_true(bw_heartbeat_counter(solo.self, 2) == 0);
    solo_close(&solo);
}

static void the_counter_of_a_crashed_member_is_bounded(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(0, false);
    struct group group;
    group_open(&group, &bw_detect_heartbeat, 4, &config, BW_MS);
    group_start(&group);
    group_run(&group, 10 * PERIOD);
    group_crash(&group, 4);
    group_run(&group, group.now + PERIOD);
    uint64_t dead = bw_heartbeat_counter(group.at[0].self, 4);
    uint64_t live = bw_heartbeat_counter(group.at[0].self, 2);
    group_run(&group, group.now + 100 * PERIOD);
    assert_true(bw_heartbeat_counter(group.at[0].self, 4) == dead);
    assert_true(bw_heartbeat_counter(group.at[0].self, 2) >= live + 100);
    group_close(&group);
}

static void the_verdict_falls_after_k_beats_of_the_others(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(0, true);
    struct group group;
    group_open(&group, &bw_detect_heartbeat, 3, &config, BW_MS);
    group_start(&group);
    group_run(&group, 10 * PERIOD + PERIOD / 2);
    group_crash(&group, 3);
    group_run(&group, group.now + 3 * PERIOD);
    assert_int_equal(group_suspicions(&group), 0);
    group_run(&group, group.now + 3 * PERIOD);
    assert_int_equal(group_suspecting(&group, 3), 2);
    assert_int_equal(group_suspicions(&group), 2);
    group_close(&group);
}

static void a_ring_reaches_round_crashed_stretches(void **state)
{
    (void)state;
    struct bw_detector_config config = some_config(2, true);
    struct group group;
    group_open(&group, &bw_detect_heartbeat, 12, &config, BW_MS);
    group_start(&group);
    group_run(&group, 5 * PERIOD);
    static const bw_node crashed[] = {3, 4, 5, 9, 10};
    for (int i = 0; i < 5; i++)
        group_crash(&group, crashed[i]);
    group_run(&group, group.now + 60 * PERIOD);
    assert_int_equal(group_suspicions(&group), 5 * 7);
    for (int i = 0; i < 5; i++)
        assert_int_equal(group_suspecting(&group, crashed[i]), 7);
    group_close(&group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_simple_path_is_walked_on_a_complete_graph),
        cmocka_unit_test(dedupe_makes_each_member_pass_a_beat_on_once),
        cmocka_unit_test(a_ring_costs_two_messages_per_member_at_most),
        cmocka_unit_test(everybody_in_a_path_is_counted_once),
        cmocka_unit_test(unsound_paths_are_ignored),
        cmocka_unit_test(the_counter_of_a_crashed_member_is_bounded),
        cmocka_unit_test(the_verdict_falls_after_k_beats_of_the_others),
        cmocka_unit_test(a_ring_reaches_round_crashed_stretches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
