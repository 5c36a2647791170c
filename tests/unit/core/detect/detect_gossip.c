/* Gossip: merging by maximum, failing, forgetting, and no return with an old counter. */
#include "core/detect/gossip.h"
#include "detect_pump.h"

#define PERIOD (100 * BW_MS)

static bw_node ids[] = {1, 2, 3, 4};

static void open_started(struct solo *solo)
{
    struct bw_detector_config config = {.self = 1, .members = ids, .count = 4, .cap = 4};
    bw_detector_defaults(&config, PERIOD);
    config.fanout = 1;
    solo_open(solo, &bw_detect_gossip, &config);
    solo_event(solo, BW_EVENT_START, 0, 0);
}

static void receive_counter(struct solo *solo, bw_node from, bw_node about, uint64_t value,
                            bw_time now)
{
    struct bw_counter table[] = {{.node = about, .value = value}};
    struct bw_message msg = {
        .kind = BW_MSG_GOSSIP, .from = from, .to = 1, .items = 1, .data = table};
    solo_receive(solo, &msg, now);
}

static uint64_t value_sent(const struct solo *solo, bw_node about)
{
    const struct bw_message *msg = solo_sent(solo, BW_MSG_GOSSIP, 0);
    const struct bw_counter *table = msg->data;
    for (uint32_t i = 0; i < msg->items; i++)
        if (table[i].node == about)
            return table[i].value;
    return 0;
}

static void each_round_one_table_goes_to_one_member(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo);
    uint32_t to[5] = {0};
    for (uint32_t round = 1; round <= 3000; round++) {
        solo_event(&solo, BW_EVENT_TIMEOUT, 0, round * PERIOD);
        assert_true(value_sent(&solo, 1) == round + 1);
        assert_null(solo_sent(&solo, BW_MSG_GOSSIP, 1));
        to[solo_sent(&solo, BW_MSG_GOSSIP, 0)->to]++;
    }
    for (bw_node i = 2; i <= 4; i++)
        assert_in_range(to[i], 900, 1100);
    solo_close(&solo);
}

static void larger_counter_wins_whichever_member_sent_it(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo);
    receive_counter(&solo, 2, 3, 7, 1);
    receive_counter(&solo, 4, 3, 5, 2);
    assert_true(bw_gossip_counter(solo.self, 3) == 7);
    receive_counter(&solo, 4, 3, 8, 3);
    solo_event(&solo, BW_EVENT_TIMEOUT, 0, PERIOD);
    assert_true(value_sent(&solo, 3) == 8);
    assert_true(value_sent(&solo, 2) == 0); /* no counter received from 2 itself */
    solo_close(&solo);
}

static void member_fails_and_is_forgotten_when_its_counter_stops(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo);
    bw_time fail = bw_gossip_fail_ns(solo.self);
    assert_true(fail == 8 * PERIOD); /* timeout of 4 periods, plus twice log2(4) rounds */
    receive_counter(&solo, 3, 3, 40, PERIOD);
    solo_wait(&solo, PERIOD + fail - 1);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_ALIVE);
    solo_wait(&solo, PERIOD + fail);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_SUSPECT);
    assert_true(value_sent(&solo, 3) == 40);
    solo_wait(&solo, PERIOD + 2 * fail + PERIOD);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_DEAD);
    assert_true(value_sent(&solo, 3) == 0);
    solo_close(&solo);
}

static void old_counter_does_not_revive_a_forgotten_member(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo);
    bw_time gone = PERIOD + 2 * bw_gossip_fail_ns(solo.self);
    receive_counter(&solo, 3, 3, 40, PERIOD);
    solo_wait(&solo, gone);
    solo.count = 0;
    receive_counter(&solo, 2, 3, 40, gone + 1);
    receive_counter(&solo, 2, 3, 39, gone + 2);
    assert_int_equal(solo.count, 0);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_DEAD);
    receive_counter(&solo, 2, 3, 41, gone + 3);
    assert_int_equal(solo.count, 1);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

static void own_counter_continues_above_that_of_a_second_process_with_our_id(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo);
    receive_counter(&solo, 2, 1, 1, 1);
    assert_true(bw_gossip_counter(solo.self, 1) == 1);
    receive_counter(&solo, 2, 1, (uint64_t)UINT32_MAX << 32, 2); /* no larger number of starts */
    assert_true(bw_gossip_counter(solo.self, 1) == 1);
    receive_counter(&solo, 2, 1, ((uint64_t)4 << 32) + 77, 3);
    assert_true(bw_gossip_counter(solo.self, 1) == ((uint64_t)5 << 32) + 1);
    solo_event(&solo, BW_EVENT_TIMEOUT, 0, PERIOD);
    assert_true(value_sent(&solo, 1) == ((uint64_t)5 << 32) + 2);
    solo_close(&solo);
}

static void member_is_trusted_after_a_second_process_with_its_id_is_forgotten(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo);
    bw_time gone = PERIOD + 2 * bw_gossip_fail_ns(solo.self);
    receive_counter(&solo, 3, 3, ((uint64_t)1 << 32) + 40, PERIOD);
    solo_wait(&solo, gone);
    for (uint64_t value = 50; value < 60; value++) /* from others it may be an old table */
        receive_counter(&solo, 2, 3, value, gone);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_DEAD);
    for (uint64_t value = 60; value < 63; value++)
        receive_counter(&solo, 3, 3, value, gone);
    assert_int_equal(solo_status(&solo, 3), BW_MEMBER_ALIVE);
    assert_true(bw_gossip_counter(solo.self, 3) == 62);
    solo_close(&solo);
}

static void full_fanout_reaches_each_member_once(void **state)
{
    (void)state;
    struct bw_detector_config config = {.self = 2, .members = ids, .count = 4, .cap = 4};
    bw_detector_defaults(&config, PERIOD);
    config.fanout = 9;
    struct solo solo;
    solo_open(&solo, &bw_detect_gossip, &config);
    solo_event(&solo, BW_EVENT_START, 0, 0);
    solo_event(&solo, BW_EVENT_TIMEOUT, 0, PERIOD);
    bw_node sum = 0;
    for (uint32_t i = 0; i < 3; i++)
        sum += solo_sent(&solo, BW_MSG_GOSSIP, i)->to;
    assert_int_equal(sum, 1 + 3 + 4);
    assert_null(solo_sent(&solo, BW_MSG_GOSSIP, 3));
    solo_close(&solo);
}

static void a_table_too_long_to_be_ours_is_ignored(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo);
    struct bw_counter table[6] = {{.node = 2, .value = 9}};
    struct bw_message msg = {.kind = BW_MSG_GOSSIP, .from = 2, .to = 1, .items = 6, .data = table};
    solo_receive(&solo, &msg, 1);
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_STATE));
    assert_true(bw_gossip_counter(solo.self, 2) == 0);
    solo_close(&solo);
}

static void counters_of_self_and_nonmembers_can_be_read(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo);
    assert_true(bw_gossip_counter(solo.self, 1) > 0);
    assert_int_equal(bw_gossip_counter(solo.self, 99), 0);
    receive_counter(&solo, 2, 3, 77, 0);
    assert_int_equal(bw_gossip_counter(solo.self, 3), 77);
    solo_close(&solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_round_one_table_goes_to_one_member),
        cmocka_unit_test(larger_counter_wins_whichever_member_sent_it),
        cmocka_unit_test(member_fails_and_is_forgotten_when_its_counter_stops),
        cmocka_unit_test(old_counter_does_not_revive_a_forgotten_member),
        cmocka_unit_test(own_counter_continues_above_that_of_a_second_process_with_our_id),
        cmocka_unit_test(member_is_trusted_after_a_second_process_with_its_id_is_forgotten),
        cmocka_unit_test(full_fanout_reaches_each_member_once),
        cmocka_unit_test(a_table_too_long_to_be_ours_is_ignored),
        cmocka_unit_test(counters_of_self_and_nonmembers_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
