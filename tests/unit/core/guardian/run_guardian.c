/* Decisions of the guardian: work runs only before its deadline, is dead before anything is
 * released, and a kill is never cancelled. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "core/guardian/guardian.h"

#include <signal.h>

struct story {
    struct bw_guardian_core core;
    struct bw_guardian_actions did;
};

static void begin(struct story *s)
{
    bw_guardian_init(&s->core, 2 * BW_SEC);
}

static void happens(struct story *s, enum bw_guardian_event_kind kind, bw_time now)
{
    struct bw_guardian_event event = {
        .kind = kind, .now = now, .token = 7, .at = 10 * BW_SEC, .signal = SIGTERM};
    bw_guardian_step(&s->core, &event, &s->did);
}

static void armed_until(struct story *s, bw_time now, bw_time at)
{
    struct bw_guardian_event event = {.kind = BW_GUARDIAN_ARM, .now = now, .token = 7, .at = at};
    bw_guardian_step(&s->core, &event, &s->did);
}

static void told_to_end(struct story *s, bw_time now, bw_time at)
{
    struct bw_guardian_event event = {
        .kind = BW_GUARDIAN_STOP, .now = now, .token = 7, .at = at, .signal = SIGTERM};
    bw_guardian_step(&s->core, &event, &s->did);
}

static bool did(const struct story *s, enum bw_guardian_action action)
{
    for (unsigned i = 0; i < s->did.count; i++)
        if (s->did.at[i] == action)
            return true;
    return false;
}

static void running(struct story *s)
{
    begin(s);
    happens(s, BW_GUARDIAN_ARM, 0);
    happens(s, BW_GUARDIAN_START, 1);
    assert_true(did(s, BW_GUARDIAN_DO_SPAWN));
}

static void work_starts_only_when_armed_and_in_time(void **state)
{
    struct story s;
    (void)state;
    begin(&s);
    happens(&s, BW_GUARDIAN_START, 0);
    assert_int_equal(s.did.count, 0);
    happens(&s, BW_GUARDIAN_ARM, 0);
    assert_int_equal(bw_guardian_deadline(&s.core), 10 * BW_SEC);
    happens(&s, BW_GUARDIAN_START, 10 * BW_SEC);
    assert_false(did(&s, BW_GUARDIAN_DO_SPAWN));
    assert_true(did(&s, BW_GUARDIAN_DO_CONFIRM));
}

static void deadline_kills_the_work_when_the_supervisor_is_silent(void **state)
{
    struct story s;
    (void)state;
    running(&s);
    happens(&s, BW_GUARDIAN_TIMER, 10 * BW_SEC - 1);
    assert_int_equal(s.did.count, 0);
    happens(&s, BW_GUARDIAN_TIMER, 10 * BW_SEC);
    assert_true(did(&s, BW_GUARDIAN_DO_KILL));
    assert_false(did(&s, BW_GUARDIAN_DO_CONFIRM));
    happens(&s, BW_GUARDIAN_EMPTY, 10 * BW_SEC + BW_MS);
    assert_true(did(&s, BW_GUARDIAN_DO_CONFIRM));
    assert_false(did(&s, BW_GUARDIAN_DO_RELEASE)); /* the supervisor's task */
}

static void repeated_arm_moves_the_deadline(void **state)
{
    struct story s;
    (void)state;
    running(&s);
    armed_until(&s, 3 * BW_SEC, 13 * BW_SEC);
    happens(&s, BW_GUARDIAN_TIMER, 10 * BW_SEC);
    assert_int_equal(s.did.count, 0);
    assert_int_equal(bw_guardian_deadline(&s.core), 13 * BW_SEC);
}

static void renewal_gives_no_more_time_to_ending_work(void **state)
{
    struct story s;
    (void)state;
    running(&s);
    told_to_end(&s, 4 * BW_SEC, 6 * BW_SEC);
    assert_true(did(&s, BW_GUARDIAN_DO_SIGNAL));
    assert_int_equal(s.did.signal, SIGTERM);
    armed_until(&s, 5 * BW_SEC, 15 * BW_SEC);
    happens(&s, BW_GUARDIAN_TIMER, 6 * BW_SEC);
    assert_true(did(&s, BW_GUARDIAN_DO_KILL));
}

static void guardian_kills_releases_and_exits_when_the_supervisor_dies(void **state)
{
    struct story s;
    (void)state;
    running(&s);
    happens(&s, BW_GUARDIAN_GONE, 2 * BW_SEC);
    assert_true(did(&s, BW_GUARDIAN_DO_KILL));
    assert_false(did(&s, BW_GUARDIAN_DO_RELEASE));
    happens(&s, BW_GUARDIAN_EMPTY, 2 * BW_SEC + BW_MS);
    assert_int_equal(s.did.count, 2);
    assert_int_equal(s.did.at[0], BW_GUARDIAN_DO_RELEASE);
    assert_int_equal(s.did.at[1], BW_GUARDIAN_DO_EXIT);
    assert_int_equal(s.did.token, 7);
}

static void unkillable_work_is_reported_and_never_released(void **state)
{
    struct story s;
    bool reported = false;
    (void)state;
    running(&s);
    happens(&s, BW_GUARDIAN_GONE, 2 * BW_SEC);
    for (int blows = 0; blows < 100; blows++) {
        bw_time next = bw_guardian_deadline(&s.core);
        happens(&s, BW_GUARDIAN_TIMER, next);
        assert_true(did(&s, BW_GUARDIAN_DO_KILL));
        assert_false(did(&s, BW_GUARDIAN_DO_RELEASE));
        assert_false(reported && did(&s, BW_GUARDIAN_DO_REPORT));
        reported = reported || did(&s, BW_GUARDIAN_DO_REPORT);
        assert_true(bw_guardian_deadline(&s.core) - next <= 200 * BW_MS);
    }
    assert_true(reported);
}

static void exit_of_the_first_process_does_not_end_the_work(void **state)
{
    struct story s;
    (void)state;
    running(&s);
    happens(&s, BW_GUARDIAN_EXITED, 3 * BW_SEC);
    assert_true(did(&s, BW_GUARDIAN_DO_SIGNAL)); /* the remaining processes get SIGTERM */
    assert_false(did(&s, BW_GUARDIAN_DO_CONFIRM));
    assert_int_equal(bw_guardian_deadline(&s.core), 5 * BW_SEC);
    happens(&s, BW_GUARDIAN_EMPTY, 3 * BW_SEC + BW_MS);
    assert_true(did(&s, BW_GUARDIAN_DO_CONFIRM));
}

static void a_dismissed_guardian_is_ready_for_the_next_leadership(void **state)
{
    struct story s;
    (void)state;
    running(&s);
    happens(&s, BW_GUARDIAN_DISMISS, 2 * BW_SEC); /* ignored while the work runs */
    assert_int_equal(s.did.count, 0);
    happens(&s, BW_GUARDIAN_EXITED, 3 * BW_SEC);
    happens(&s, BW_GUARDIAN_EMPTY, 3 * BW_SEC);
    happens(&s, BW_GUARDIAN_DISMISS, 3 * BW_SEC);
    assert_true(did(&s, BW_GUARDIAN_DO_FORGET));
    assert_int_equal(bw_guardian_deadline(&s.core), BW_TIME_NEVER);
    happens(&s, BW_GUARDIAN_ARM, 4 * BW_SEC);
    happens(&s, BW_GUARDIAN_START, 4 * BW_SEC);
    assert_true(did(&s, BW_GUARDIAN_DO_SPAWN));
}

static void guardian_releases_when_the_supervisor_dies_after_the_work(void **state)
{
    struct story s;
    (void)state;
    running(&s);
    happens(&s, BW_GUARDIAN_EXITED, 3 * BW_SEC);
    happens(&s, BW_GUARDIAN_EMPTY, 3 * BW_SEC);
    happens(&s, BW_GUARDIAN_GONE, 4 * BW_SEC);
    assert_true(did(&s, BW_GUARDIAN_DO_RELEASE));
    assert_true(did(&s, BW_GUARDIAN_DO_EXIT));
}

static void guardian_sends_the_death_notice_three_times_and_exits(void **state)
{
    struct story s;
    (void)state;
    running(&s);
    happens(&s, BW_GUARDIAN_NOTICE, BW_SEC);
    assert_int_equal(s.did.count, 0);
    happens(&s, BW_GUARDIAN_GONE, 2 * BW_SEC);
    assert_false(did(&s, BW_GUARDIAN_DO_SEND_NOTICE)); /* killed is not yet dead */
    happens(&s, BW_GUARDIAN_EMPTY, 2 * BW_SEC + BW_MS);
    assert_true(did(&s, BW_GUARDIAN_DO_RELEASE));
    assert_true(did(&s, BW_GUARDIAN_DO_SEND_NOTICE));
    for (unsigned times = 2; times <= 3; times++) {
        assert_false(did(&s, BW_GUARDIAN_DO_EXIT));
        bw_time next = bw_guardian_deadline(&s.core);
        assert_true(next <= 2 * BW_SEC + 20 * BW_MS);
        happens(&s, BW_GUARDIAN_TIMER, next - 1);
        assert_int_equal(s.did.count, 0);
        happens(&s, BW_GUARDIAN_TIMER, next);
        assert_true(did(&s, BW_GUARDIAN_DO_SEND_NOTICE));
    }
    assert_true(did(&s, BW_GUARDIAN_DO_EXIT));
}

static void death_notice_is_sent_only_for_the_last_leadership_of_a_dead_supervisor(void **state)
{
    struct story s;
    (void)state;
    running(&s);
    happens(&s, BW_GUARDIAN_NOTICE, BW_SEC);
    happens(&s, BW_GUARDIAN_KILL, 2 * BW_SEC);
    happens(&s, BW_GUARDIAN_EMPTY, 2 * BW_SEC);
    assert_int_equal(s.did.count, 1); /* only the running supervisor gets a report */
    assert_int_equal(s.did.at[0], BW_GUARDIAN_DO_CONFIRM);
    happens(&s, BW_GUARDIAN_DISMISS, 3 * BW_SEC);
    struct bw_guardian_event arm = {.kind = BW_GUARDIAN_ARM, .token = 8, .at = 9 * BW_SEC};
    bw_guardian_step(&s.core, &arm, &s.did);
    happens(&s, BW_GUARDIAN_NOTICE, 4 * BW_SEC); /* late, and of the previous leadership */
    happens(&s, BW_GUARDIAN_GONE, 4 * BW_SEC);
    assert_true(did(&s, BW_GUARDIAN_DO_RELEASE));
    assert_false(did(&s, BW_GUARDIAN_DO_SEND_NOTICE));
    assert_true(did(&s, BW_GUARDIAN_DO_EXIT));
}

/* Any events in any order: nothing is spawned at or after the deadline. Nothing is confirmed,
 * released or sent while work may run. After GONE the guardian exits once the containment is
 * empty. */
static void random_event_orders_never_break_the_guarantees(void **state)
{
    struct bw_rng rng;
    (void)state;
    bw_rng_init(&rng, 3);
    for (int run = 0; run < 3000; run++) {
        struct story s;
        bool alive = false;
        begin(&s);
        for (bw_time now = 0; now < 60; now++) {
            struct bw_guardian_event event = {
                .kind = (enum bw_guardian_event_kind)bw_rng_below(&rng, BW_GUARDIAN_FAILED),
                .now = now,
                .at = now + (bw_time)bw_rng_below(&rng, 12) - 2,
                .token = 1 + bw_rng_below(&rng, 2),
                .signal = SIGTERM};
            if (event.kind == BW_GUARDIAN_EXITED && !alive)
                continue;
            bw_time deadline = bw_guardian_deadline(&s.core);
            bw_guardian_step(&s.core, &event, &s.did);
            if (event.kind == BW_GUARDIAN_EMPTY)
                alive = false;
            assert_false(alive && did(&s, BW_GUARDIAN_DO_CONFIRM));
            assert_false(alive && did(&s, BW_GUARDIAN_DO_RELEASE));
            assert_false(alive && did(&s, BW_GUARDIAN_DO_EXIT));
            assert_false(alive && did(&s, BW_GUARDIAN_DO_SEND_NOTICE));
            assert_false(!s.core.gone && did(&s, BW_GUARDIAN_DO_SEND_NOTICE));
            assert_false(did(&s, BW_GUARDIAN_DO_SPAWN) && now >= deadline);
            alive = alive || did(&s, BW_GUARDIAN_DO_SPAWN);
            if (did(&s, BW_GUARDIAN_DO_EXIT))
                break;
        }
    }
}

static void work_that_could_not_be_started_is_dead(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_GUARDIAN_FAILED, 0);
    assert_int_equal(s.did.count, 0);
    running(&s);
    happens(&s, BW_GUARDIAN_FAILED, 2);
    assert_true(did(&s, BW_GUARDIAN_DO_CONFIRM));
    assert_int_equal(s.core.state, BW_GUARDIAN_DEAD);
}

static void nothing_is_armed_or_noticed_without_a_token(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    struct bw_guardian_event event = {.kind = BW_GUARDIAN_ARM, .at = 10 * BW_SEC};
    bw_guardian_step(&s.core, &event, &s.did);
    assert_int_equal(s.core.state, BW_GUARDIAN_IDLE);
    event.kind = BW_GUARDIAN_NOTICE;
    bw_guardian_step(&s.core, &event, &s.did);
    assert_false(s.core.has_notice);
}

static void early_timers_and_signals_without_work_do_nothing(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_GUARDIAN_SIGNAL, 0);
    assert_int_equal(s.did.count, 0);
    happens(&s, BW_GUARDIAN_ARM, 0);
    happens(&s, BW_GUARDIAN_TIMER, 10 * BW_SEC - 1);
    assert_int_equal(s.core.state, BW_GUARDIAN_ARMED);
    happens(&s, BW_GUARDIAN_TIMER, 10 * BW_SEC);
    assert_int_equal(s.core.state, BW_GUARDIAN_DEAD);
    running(&s);
    happens(&s, BW_GUARDIAN_SIGNAL, 2);
    assert_true(did(&s, BW_GUARDIAN_DO_SIGNAL));
    assert_int_equal(s.did.signal, SIGTERM);
}

static void every_state_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(bw_guardian_state_name(BW_GUARDIAN_IDLE), "idle");
    assert_string_equal(bw_guardian_state_name(BW_GUARDIAN_NOTIFYING), "notifying");
    assert_string_equal(bw_guardian_state_name((enum bw_guardian_state)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_starts_only_when_armed_and_in_time),
        cmocka_unit_test(deadline_kills_the_work_when_the_supervisor_is_silent),
        cmocka_unit_test(repeated_arm_moves_the_deadline),
        cmocka_unit_test(renewal_gives_no_more_time_to_ending_work),
        cmocka_unit_test(guardian_kills_releases_and_exits_when_the_supervisor_dies),
        cmocka_unit_test(unkillable_work_is_reported_and_never_released),
        cmocka_unit_test(exit_of_the_first_process_does_not_end_the_work),
        cmocka_unit_test(a_dismissed_guardian_is_ready_for_the_next_leadership),
        cmocka_unit_test(guardian_releases_when_the_supervisor_dies_after_the_work),
        cmocka_unit_test(guardian_sends_the_death_notice_three_times_and_exits),
        cmocka_unit_test(death_notice_is_sent_only_for_the_last_leadership_of_a_dead_supervisor),
        cmocka_unit_test(random_event_orders_never_break_the_guarantees),
        cmocka_unit_test(work_that_could_not_be_started_is_dead),
        cmocka_unit_test(nothing_is_armed_or_noticed_without_a_token),
        cmocka_unit_test(early_timers_and_signals_without_work_do_nothing),
        cmocka_unit_test(every_state_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
