/* Allowed silence of one sender: steady, jittery, busy and forgotten senders, and a paused
 * receiver. */
#include "core/detect/silence.h"

#include "unit/unit.h"

#define PERIOD (100 * BW_MS)
#define LIMIT  (500 * BW_MS)

static void no_sender_is_watched_at_first(void **state)
{
    (void)state;
    struct bw_silence s;
    bw_silence_init(&s, PERIOD, LIMIT);
    assert_true(bw_silence_deadline(&s) == BW_TIME_NEVER);
}

static bw_time after_beats(struct bw_silence *s, const bw_time *gaps, unsigned count)
{
    bw_time now = BW_SEC;
    bw_silence_init(s, PERIOD, LIMIT);
    bw_silence_received(s, now);
    for (unsigned i = 0; i < 200; i++) {
        now += gaps[i % count];
        bw_silence_received(s, now);
    }
    return bw_silence_deadline(s) - now;
}

static void a_steady_sender_is_suspected_after_two_and_a_half_periods(void **state)
{
    (void)state;
    struct bw_silence s;
    bw_time wait = after_beats(&s, (const bw_time[]){PERIOD}, 1);
    assert_in_range(wait, 2 * PERIOD, 3 * PERIOD);
}

static void jittery_sender_gets_more_time_up_to_the_limit(void **state)
{
    (void)state;
    struct bw_silence s;
    bw_time steady = after_beats(&s, (const bw_time[]){PERIOD}, 1);
    bw_time shaky = after_beats(&s, (const bw_time[]){60 * BW_MS, 160 * BW_MS}, 2);
    assert_true(shaky > steady + PERIOD / 2);
    assert_true(after_beats(&s, (const bw_time[]){60 * BW_MS, 700 * BW_MS}, 2) == LIMIT);
}

static void messages_between_beats_do_not_shorten_the_allowed_silence(void **state)
{
    (void)state;
    struct bw_silence s;
    bw_time steady = after_beats(&s, (const bw_time[]){PERIOD}, 1);
    assert_true(after_beats(&s, (const bw_time[]){BW_MS}, 1) >= steady - BW_MS); /* rounding */
}

static void silence_is_reported_once(void **state)
{
    (void)state;
    struct bw_silence s;
    after_beats(&s, (const bw_time[]){PERIOD}, 1);
    bw_time at = bw_silence_deadline(&s);
    assert_false(bw_silence_over(&s, at - 1));
    assert_true(bw_silence_over(&s, at));
    assert_true(bw_silence_deadline(&s) == BW_TIME_NEVER);
}

static void paused_receiver_reads_its_queue_before_suspecting(void **state)
{
    (void)state;
    struct bw_silence s;
    after_beats(&s, (const bw_time[]){PERIOD}, 1);
    bw_time woke = bw_silence_deadline(&s) + 10 * BW_SEC;
    assert_false(bw_silence_over(&s, woke));
    assert_true(bw_silence_deadline(&s) == woke + PERIOD);
    assert_true(bw_silence_over(&s, woke + PERIOD));
}

static void forgotten_sender_is_not_suspected(void **state)
{
    (void)state;
    struct bw_silence s;
    after_beats(&s, (const bw_time[]){PERIOD}, 1);
    bw_silence_forget(&s);
    assert_true(bw_silence_deadline(&s) == BW_TIME_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_sender_is_watched_at_first),
        cmocka_unit_test(a_steady_sender_is_suspected_after_two_and_a_half_periods),
        cmocka_unit_test(jittery_sender_gets_more_time_up_to_the_limit),
        cmocka_unit_test(messages_between_beats_do_not_shorten_the_allowed_silence),
        cmocka_unit_test(silence_is_reported_once),
        cmocka_unit_test(paused_receiver_reads_its_queue_before_suspecting),
        cmocka_unit_test(forgotten_sender_is_not_suspected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
