/* Ping, deadline and NFD: what counts as a sign of life, and from when. */
#include "detect_pump.h"

#define PERIOD  (100 * BW_MS)
#define TIMEOUT (400 * BW_MS)

static bw_node ids[] = {1, 2, 3};

static void open_started(struct solo *solo, const struct bw_detector_ops *ops, uint32_t starts)
{
    struct bw_detector_config config = {
        .self = 1, .members = ids, .count = 3, .cap = 8, .starts = starts};
    bw_detector_defaults(&config, PERIOD);
    solo_open(solo, ops, &config);
    solo_tell(solo, BW_EVENT_START, 0, 0);
}

static uint64_t seq_of(uint32_t starts, uint32_t round)
{
    return (uint64_t)starts << 32 | round;
}

static void a_beat_goes_to_everybody_each_period(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_deadline, 3);
    for (uint32_t round = 1; round <= 3; round++) {
        for (uint32_t i = 0; i < 2; i++) {
            const struct bw_message *msg = solo_sent(&solo, BW_MSG_HEARTBEAT, i);
            assert_non_null(msg);
            assert_int_equal(msg->to, ids[i + 1]);
            assert_true(msg->probe.seq == seq_of(3, round));
        }
        assert_null(solo_sent(&solo, BW_MSG_HEARTBEAT, 2));
        assert_true(solo.ops->deadline(solo.self) == round * PERIOD);
        solo_tell(&solo, BW_EVENT_TIMEOUT, 0, round * PERIOD);
    }
    solo_close(&solo);
}

static void beats_stay_on_the_grid_after_a_pause(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_nfd, 0);
    solo_tell(&solo, BW_EVENT_TIMEOUT, 0, 7 * PERIOD + PERIOD / 3);
    const struct bw_message *msg = solo_sent(&solo, BW_MSG_HEARTBEAT, 0);
    assert_true(msg->probe.seq == 8); /* due at 7 periods; the first was number 1 at 0 */
    assert_true(solo.ops->deadline(solo.self) == 8 * PERIOD);
    solo_close(&solo);
}

static void silence_is_suspicious_exactly_at_the_time_out(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_deadline, 0);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 1, 10 * BW_MS);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 3, 1, 30 * BW_MS);
    solo_wait(&solo, 30 * BW_MS + TIMEOUT - 1);
    assert_int_equal(solo.count, 1);
    assert_true(solo.verdicts[0].node == 2 && solo.verdicts[0].at == 10 * BW_MS + TIMEOUT);
    assert_true(solo.verdicts[0].level == 1);
    solo_wait(&solo, 30 * BW_MS + TIMEOUT);
    assert_int_equal(solo.count, 2);
    solo_close(&solo);
}

static void the_next_beat_brings_trust_back(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_deadline, 0);
    solo_wait(&solo, 2 * TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo.count = 0;
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 9, 2 * TIMEOUT + 1);
    assert_int_equal(solo.count, 1);
    assert_true(!solo.verdicts[0].suspect && solo.verdicts[0].node == 2);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_wait(&solo, 4 * TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_close(&solo);
}

static void an_old_beat_proves_nothing(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_deadline, 0);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 5, PERIOD);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 4, PERIOD + TIMEOUT - 1);
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_OLD));
    solo_wait(&solo, PERIOD + TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, seq_of(1, 1), PERIOD + TIMEOUT + 1);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

static void beats_in_flight_do_not_bring_the_confirmed_dead_back(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_deadline, 0);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 1, PERIOD);
    solo_tell(&solo, BW_EVENT_CONFIRMED_DEAD, 2, PERIOD + 1);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_DEAD);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 2, PERIOD + 2);
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_LATE));
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_DEAD);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, seq_of(1, 1), PERIOD + 3);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

static void who_outlives_its_confirmed_death_is_believed_in_the_end(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_deadline, 0);
    solo_tell(&solo, BW_EVENT_CONFIRMED_DEAD, 2, PERIOD);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 90, PERIOD + TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

static void the_own_beat_does_not_wait_for_a_scan_of_all(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_deadline, 0);
    for (uint32_t i = 1; i < 100; i++) {
        bw_time now = i * PERIOD;
        solo_wait(&solo, now);
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, i, now);
        solo_probe(&solo, BW_MSG_HEARTBEAT, 3, i, now);
        assert_true(solo.ops->deadline(solo.self) > now);
    }
    assert_int_equal(solo.count, 0);
    solo_close(&solo);
}

static void a_ping_is_answered_with_its_own_number(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_ping, 4);
    solo_probe(&solo, BW_MSG_PING, 3, 77, 1);
    const struct bw_message *ack = solo_sent(&solo, BW_MSG_ACK, 0);
    assert_non_null(ack);
    assert_true(ack->to == 3 && ack->probe.seq == 77 && ack->probe.incarnation == 4);
    solo_close(&solo);
}

static void an_answer_counts_from_when_it_was_asked_for(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_ping, 0);
    solo_wait(&solo, 3 * PERIOD - 1);
    solo_probe(&solo, BW_MSG_ACK, 2, 2, 3 * PERIOD - 1); /* asked at one period */
    solo_wait(&solo, PERIOD + TIMEOUT - 1);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_wait(&solo, PERIOD + TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_close(&solo);
}

static void an_answer_to_an_older_round_is_late(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_ping, 1);
    solo_wait(&solo, 3 * PERIOD);
    solo_probe(&solo, BW_MSG_ACK, 2, seq_of(1, 3), 3 * PERIOD + 1); /* asked at two periods */
    static const uint64_t odd[] = {(uint64_t)1 << 32 | 2, (uint64_t)1 << 32 | 3, 4,
                                   (uint64_t)1 << 32 | 99};
    for (int i = 0; i < 4; i++) {
        solo_probe(&solo, BW_MSG_ACK, 2, odd[i], 2 * PERIOD + TIMEOUT - 1);
        assert_true(solo_noted(&solo, BW_TRACE_IGNORED_LATE));
    }
    solo_wait(&solo, 2 * PERIOD + TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_probe(&solo, BW_MSG_ACK, 2, seq_of(1, 4), 3 * PERIOD + TIMEOUT); /* asked too long ago */
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_close(&solo);
}

/* Beat i comes at i periods plus a way of 3 ms, but for the ones in `slow`. */
static void nfd_hears(struct solo *solo, uint32_t first, uint32_t last, bw_time way)
{
    for (uint32_t i = first; i <= last; i++) {
        bw_time now = i * PERIOD + way;
        solo_wait(solo, now - 1);
        solo_probe(solo, BW_MSG_HEARTBEAT, 2, i, now);
        solo_probe(solo, BW_MSG_HEARTBEAT, 3, i, now);
    }
}

static void freshness_ends_delta_after_the_next_beat_was_due(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_nfd, 0);
    nfd_hears(&solo, 1, 20, 3 * BW_MS);
    assert_int_equal(solo.count, 0);
    bw_time freshness = 21 * PERIOD + 3 * BW_MS + TIMEOUT;
    solo_wait(&solo, freshness - 1);
    assert_int_equal(solo.count, 0);
    solo_wait(&solo, freshness);
    assert_int_equal(solo.count, 2);
    assert_true(solo.verdicts[0].at == freshness); /* T_D = delta + eta + the quickest way */
    solo_close(&solo);
}

static void a_slow_beat_does_not_buy_the_next_one_time(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_nfd, 0);
    nfd_hears(&solo, 1, 20, 3 * BW_MS);
    nfd_hears(&solo, 21, 21, 90 * BW_MS);
    bw_time freshness = 22 * PERIOD + 3 * BW_MS + TIMEOUT;
    solo_wait(&solo, freshness);
    assert_int_equal(solo.count, 2);
    assert_true(solo.verdicts[0].at == freshness);
    solo_close(&solo);
}

static void a_beat_that_comes_when_it_is_stale_is_no_news(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_nfd, 0);
    nfd_hears(&solo, 1, 20, 3 * BW_MS);
    solo_wait(&solo, 30 * PERIOD);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 22, 30 * PERIOD);
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_LATE));
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 28, 30 * PERIOD);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

static void a_sender_with_a_slow_clock_is_followed(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_nfd, 0);
    for (uint32_t i = 1; i <= 20000; i++) { /* one per cent slow, for 200 periods of lag */
        bw_time now = i * (PERIOD + PERIOD / 100);
        solo_wait(&solo, now - 1);
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, i, now);
        solo_probe(&solo, BW_MSG_HEARTBEAT, 3, i, now);
    }
    assert_int_equal(solo.count, 0);
    solo_close(&solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beat_goes_to_everybody_each_period),
        cmocka_unit_test(beats_stay_on_the_grid_after_a_pause),
        cmocka_unit_test(silence_is_suspicious_exactly_at_the_time_out),
        cmocka_unit_test(the_next_beat_brings_trust_back),
        cmocka_unit_test(an_old_beat_proves_nothing),
        cmocka_unit_test(beats_in_flight_do_not_bring_the_confirmed_dead_back),
        cmocka_unit_test(who_outlives_its_confirmed_death_is_believed_in_the_end),
        cmocka_unit_test(the_own_beat_does_not_wait_for_a_scan_of_all),
        cmocka_unit_test(a_ping_is_answered_with_its_own_number),
        cmocka_unit_test(an_answer_counts_from_when_it_was_asked_for),
        cmocka_unit_test(an_answer_to_an_older_round_is_late),
        cmocka_unit_test(freshness_ends_delta_after_the_next_beat_was_due),
        cmocka_unit_test(a_slow_beat_does_not_buy_the_next_one_time),
        cmocka_unit_test(a_beat_that_comes_when_it_is_stale_is_no_news),
        cmocka_unit_test(a_sender_with_a_slow_clock_is_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
