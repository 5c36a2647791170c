/* Redlock's validity, and wall clocks with a declared uncertainty. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "core/lease/redlock_validity.h"
#include "core/lease/wall_clock.h"

static void redlock_subtracts_acquisition_time_and_drift(void **state)
{
    (void)state;
    assert_int_equal(bw_redlock_validity(10000 * BW_MS, 150 * BW_MS), 9748 * BW_MS);
    assert_int_equal(bw_redlock_validity(2000 * BW_MS, 50 * BW_MS), 1928 * BW_MS);
}

static void redlock_that_took_too_long_is_invalid(void **state)
{
    (void)state;
    assert_int_equal(bw_redlock_validity(BW_SEC, BW_SEC), 0);
    assert_int_equal(bw_redlock_validity(BW_SEC, 988 * BW_MS), 0);
    assert_int_equal(bw_redlock_validity(BW_SEC, 987 * BW_MS), BW_MS);
    assert_int_equal(bw_redlock_validity(BW_SEC, BW_TIME_NEVER), 0);
    assert_int_equal(bw_redlock_validity(0, 0), 0);
}

static void an_interval_clock_brackets_the_true_time_and_saturates(void **state)
{
    (void)state;
    struct bw_clock_interval now = bw_clock_interval_at(100, 7);
    assert_int_equal(now.earliest, 93);
    assert_int_equal(now.latest, 107);
    now = bw_clock_interval_at(5, 7);
    assert_int_equal(now.earliest, 0);
    now = bw_clock_interval_at(BW_TIME_NEVER - 1, 7);
    assert_int_equal(now.latest, BW_TIME_NEVER);
}

static void holder_stops_at_the_expiry_and_successor_starts_after_it(void **state)
{
    (void)state;
    assert_false(bw_clock_holder_must_stop(bw_clock_interval_at(92, 7), 100));
    assert_true(bw_clock_holder_must_stop(bw_clock_interval_at(93, 7), 100));
    assert_false(bw_clock_successor_may_start(bw_clock_interval_at(107, 7), 100));
    assert_true(bw_clock_successor_may_start(bw_clock_interval_at(108, 7), 100));
}

/* Two clocks, each wrong by up to u: at no true instant may the successor start before the holder
 * must have stopped. */
static void two_clocks_within_their_bound_never_let_both_lead(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 1);
    const bw_time u = 5 * BW_MS, expiry = BW_SEC;
    for (int i = 0; i < 100000; i++) {
        bw_time truth = bw_rng_between(&rng, expiry - 20 * BW_MS, expiry + 20 * BW_MS);
        bw_time holder = truth + bw_rng_between(&rng, -u, u);
        bw_time successor = truth + bw_rng_between(&rng, -u, u);
        bool holds = !bw_clock_holder_must_stop(bw_clock_interval_at(holder, u), expiry);
        bool starts = bw_clock_successor_may_start(bw_clock_interval_at(successor, u), expiry);
        assert_false(holds && starts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redlock_subtracts_acquisition_time_and_drift),
        cmocka_unit_test(redlock_that_took_too_long_is_invalid),
        cmocka_unit_test(an_interval_clock_brackets_the_true_time_and_saturates),
        cmocka_unit_test(holder_stops_at_the_expiry_and_successor_starts_after_it),
        cmocka_unit_test(two_clocks_within_their_bound_never_let_both_lead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
