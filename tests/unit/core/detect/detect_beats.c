/* Ping, deadline and NFD: which messages are signs of life, and from when they count. */
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
    solo_event(solo, BW_EVENT_START, 0, 0);
}

static uint64_t seq_of(uint32_t starts, uint32_t round)
{
    return (uint64_t)starts << 32 | round;
}

static void beat_is_sent_to_all_members_each_period(void **state)
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
        solo_event(&solo, BW_EVENT_TIMEOUT, 0, round * PERIOD);
    }
    solo_close(&solo);
}

static void beats_stay_on_the_grid_after_a_pause(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_nfd, 0);
    solo_event(&solo, BW_EVENT_TIMEOUT, 0, 7 * PERIOD + PERIOD / 3);
    const struct bw_message *msg = solo_sent(&solo, BW_MSG_HEARTBEAT, 0);
    assert_true(msg->probe.seq == 8); /* due at 7 periods; number 1 was due at 0 */
    assert_true(solo.ops->deadline(solo.self) == 8 * PERIOD);
    solo_close(&solo);
}

static void silent_member_is_suspected_exactly_at_the_timeout(void **state)
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

static void suspected_member_is_trusted_after_its_next_beat(void **state)
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

static void old_beat_is_not_a_sign_of_life(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_deadline, 0);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 5, PERIOD);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 4, PERIOD + TIMEOUT - 1);
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_OLD));
    solo_wait(&solo, PERIOD + TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    for (uint32_t round = 1; round < 5; round++) /* late beats of the same process */
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, round, PERIOD + TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, seq_of(1, 1), PERIOD + TIMEOUT + 1);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

/* The process with more starts has ended; the other one sends under the same id all the time. */
static void former_duplicate_is_trusted_again(const struct bw_detector_ops *ops)
{
    struct solo solo;
    bw_time at = 10 * PERIOD;
    open_started(&solo, ops, 0);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, seq_of(0, 1), 1);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, seq_of(1, 1), 2);
    for (uint32_t round = 2; round < 9; round++) /* the member is still trusted */
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, seq_of(0, round), 3);
    solo_wait(&solo, at);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    for (uint32_t i = 0; i < 5; i++) /* one late beat, repeated by the network */
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, seq_of(0, 9), at);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, seq_of(0, 10), at);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, seq_of(0, 11), at + PERIOD);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, seq_of(0, 12), at + 2 * PERIOD);
    solo_wait(&solo, at + 3 * PERIOD);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

static void member_is_trusted_after_a_second_process_with_its_id_has_ended(void **state)
{
    (void)state;
    former_duplicate_is_trusted_again(&bw_detect_deadline);
    former_duplicate_is_trusted_again(&bw_detect_nfd);
}

static void beats_in_flight_do_not_revive_a_confirmed_dead_member(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_deadline, 0);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 1, PERIOD);
    solo_event(&solo, BW_EVENT_CONFIRMED_DEAD, 2, PERIOD + 1);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_DEAD);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 2, PERIOD + 2);
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_LATE));
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_DEAD);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, seq_of(1, 1), PERIOD + 3);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

static void beats_count_again_when_they_outlast_the_confirmed_death(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_deadline, 0);
    solo_event(&solo, BW_EVENT_CONFIRMED_DEAD, 2, PERIOD);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 90, PERIOD + TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

static void own_beat_is_on_time_without_a_full_scan(void **state)
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

static void reply_counts_from_when_its_ping_was_sent(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_ping, 0);
    solo_wait(&solo, 3 * PERIOD - 1);
    solo_probe(&solo, BW_MSG_ACK, 2, 2, 3 * PERIOD - 1); /* ping sent at one period */
    solo_wait(&solo, PERIOD + TIMEOUT - 1);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_wait(&solo, PERIOD + TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_close(&solo);
}

static void reply_to_an_older_round_is_ignored(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_ping, 1);
    solo_wait(&solo, 3 * PERIOD);
    solo_probe(&solo, BW_MSG_ACK, 2, seq_of(1, 3), 3 * PERIOD + 1); /* ping sent at two periods */
    static const uint64_t odd[] = {(uint64_t)1 << 32 | 2, (uint64_t)1 << 32 | 3, 4,
                                   (uint64_t)1 << 32 | 99};
    for (int i = 0; i < 4; i++) {
        solo_probe(&solo, BW_MSG_ACK, 2, odd[i], 2 * PERIOD + TIMEOUT - 1);
        assert_true(solo_noted(&solo, BW_TRACE_IGNORED_LATE));
    }
    solo_wait(&solo, 2 * PERIOD + TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    /* ping sent too long ago */
    solo_probe(&solo, BW_MSG_ACK, 2, seq_of(1, 4), 3 * PERIOD + TIMEOUT);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_close(&solo);
}

/* Beat i arrives at i periods plus a delay of `way`. */
static void nfd_receives_beats(struct solo *solo, uint32_t first, uint32_t last, bw_time way)
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
    nfd_receives_beats(&solo, 1, 20, 3 * BW_MS);
    assert_int_equal(solo.count, 0);
    bw_time freshness = 21 * PERIOD + 3 * BW_MS + TIMEOUT;
    solo_wait(&solo, freshness - 1);
    assert_int_equal(solo.count, 0);
    solo_wait(&solo, freshness);
    assert_int_equal(solo.count, 2);
    assert_true(solo.verdicts[0].at == freshness); /* T_D = delta + eta + the smallest delay */
    solo_close(&solo);
}

static void slow_beat_does_not_extend_the_next_freshness_point(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_nfd, 0);
    nfd_receives_beats(&solo, 1, 20, 3 * BW_MS);
    nfd_receives_beats(&solo, 21, 21, 90 * BW_MS);
    bw_time freshness = 22 * PERIOD + 3 * BW_MS + TIMEOUT;
    solo_wait(&solo, freshness);
    assert_int_equal(solo.count, 2);
    assert_true(solo.verdicts[0].at == freshness);
    solo_close(&solo);
}

static void stale_beat_does_not_restore_trust(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_nfd, 0);
    nfd_receives_beats(&solo, 1, 20, 3 * BW_MS);
    solo_wait(&solo, 30 * PERIOD);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 22, 30 * PERIOD);
    assert_true(solo_noted(&solo, BW_TRACE_IGNORED_LATE));
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_SUSPECT);
    solo_probe(&solo, BW_MSG_HEARTBEAT, 2, 28, 30 * PERIOD);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

static void nfd_follows_a_sender_with_a_slow_clock(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_nfd, 0);
    for (uint32_t i = 1; i <= 20000; i++) { /* one per cent slow: in total it lags by 200 periods */
        bw_time now = i * (PERIOD + PERIOD / 100);
        solo_wait(&solo, now - 1);
        solo_probe(&solo, BW_MSG_HEARTBEAT, 2, i, now);
        solo_probe(&solo, BW_MSG_HEARTBEAT, 3, i, now);
    }
    assert_int_equal(solo.count, 0);
    solo_close(&solo);
}

static void reply_in_flight_does_not_revive_a_confirmed_dead_member(void **state)
{
    (void)state;
    struct solo solo;
    open_started(&solo, &bw_detect_ping, 0);
    solo_wait(&solo, PERIOD);
    uint64_t seq = solo_sent(&solo, BW_MSG_PING, 0)->probe.seq;
    solo_event(&solo, BW_EVENT_CONFIRMED_DEAD, 2, PERIOD + 1);
    solo_probe(&solo, BW_MSG_ACK, 2, seq, PERIOD + 2);
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_DEAD);
    struct bw_message ack = {.kind = BW_MSG_ACK, .from = 2, .to = 1};
    ack.probe = (struct bw_probe){.seq = seq, .target = 1, .incarnation = 1};
    solo_receive(&solo, &ack, PERIOD + 3); /* it has restarted */
    assert_int_equal(solo_status(&solo, 2), BW_MEMBER_ALIVE);
    solo_close(&solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beat_is_sent_to_all_members_each_period),
        cmocka_unit_test(beats_stay_on_the_grid_after_a_pause),
        cmocka_unit_test(silent_member_is_suspected_exactly_at_the_timeout),
        cmocka_unit_test(suspected_member_is_trusted_after_its_next_beat),
        cmocka_unit_test(old_beat_is_not_a_sign_of_life),
        cmocka_unit_test(member_is_trusted_after_a_second_process_with_its_id_has_ended),
        cmocka_unit_test(beats_in_flight_do_not_revive_a_confirmed_dead_member),
        cmocka_unit_test(beats_count_again_when_they_outlast_the_confirmed_death),
        cmocka_unit_test(own_beat_is_on_time_without_a_full_scan),
        cmocka_unit_test(a_ping_is_answered_with_its_own_number),
        cmocka_unit_test(reply_counts_from_when_its_ping_was_sent),
        cmocka_unit_test(reply_to_an_older_round_is_ignored),
        cmocka_unit_test(freshness_ends_delta_after_the_next_beat_was_due),
        cmocka_unit_test(slow_beat_does_not_extend_the_next_freshness_point),
        cmocka_unit_test(stale_beat_does_not_restore_trust),
        cmocka_unit_test(nfd_follows_a_sender_with_a_slow_clock),
        cmocka_unit_test(reply_in_flight_does_not_revive_a_confirmed_dead_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
