/* Tests drifting clocks: world time to local time and back. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "sim/world/clock.h"

static const double drifts[] = {0, 0.01, -0.01, 0.0000001, 0.37, -0.49, -0.9, 10};

static void timer_fires_exactly_when_the_clock_reaches_its_time(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 3);
    for (unsigned d = 0; d < sizeof drifts / sizeof *drifts; d++) {
        struct bw_sim_clock clock;
        bw_sim_clock_init(&clock, 5000 * BW_SEC, drifts[d]);
        for (int i = 0; i < 2000; i++) {
            bw_time local = 5000 * BW_SEC + bw_rng_between(&rng, 1, 400000 * BW_SEC);
            bw_time world = bw_sim_clock_world(&clock, local);
            assert_true(bw_sim_clock_local(&clock, world) >= local);
            assert_true(bw_sim_clock_local(&clock, world - 1) < local);
        }
    }
}

static void clock_never_goes_back(void **state)
{
    (void)state;
    for (unsigned d = 0; d < sizeof drifts / sizeof *drifts; d++) {
        struct bw_sim_clock clock;
        bw_sim_clock_init(&clock, 17, drifts[d]);
        for (bw_time world = 0; world < 3000; world++)
            assert_true(bw_sim_clock_local(&clock, world + 1) >= bw_sim_clock_local(&clock, world));
    }
}

static void clock_stays_continuous_when_its_rate_changes(void **state)
{
    (void)state;
    struct bw_sim_clock clock;
    bw_sim_clock_init(&clock, 100, 0.5);
    assert_int_equal(bw_sim_clock_local(&clock, 1000), 1600);
    bw_sim_clock_change(&clock, 1000, -0.5);
    assert_int_equal(bw_sim_clock_local(&clock, 1000), 1600);
    assert_int_equal(bw_sim_clock_local(&clock, 3000), 2600);
    assert_int_equal(bw_sim_clock_world(&clock, 2600), 3000);
    assert_int_equal(bw_sim_clock_world(&clock, 1), 1000);
}

static void never_stays_never(void **state)
{
    (void)state;
    struct bw_sim_clock clock;
    bw_sim_clock_init(&clock, 100, -0.9);
    assert_true(bw_sim_clock_world(&clock, BW_TIME_NEVER) == BW_TIME_NEVER);
    assert_true(bw_sim_clock_world(&clock, BW_TIME_NEVER - 1) == BW_TIME_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timer_fires_exactly_when_the_clock_reaches_its_time),
        cmocka_unit_test(clock_never_goes_back),
        cmocka_unit_test(clock_stays_continuous_when_its_rate_changes),
        cmocka_unit_test(never_stays_never),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
