/* Times of a peer: whatever single time the user gives, the others fit to it. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "core/peer/times.h"

static struct bw_peer_times derived(bw_time period, bw_time detect, bw_time latency)
{
    struct bw_peer_times times = {period, detect, latency};
    bw_peer_times_derive(&times);
    return times;
}

static void check(struct bw_peer_times times, bw_time period, bw_time detect, bw_time latency)
{
    assert_int_equal(times.period_ns, period);
    assert_int_equal(times.detect_ns, detect);
    assert_int_equal(times.latency_ns, latency);
}

static void derived_times_follow_the_given_one(void **state)
{
    (void)state;
    check(derived(0, 0, 0), 100 * BW_MS, 500 * BW_MS, 50 * BW_MS);
    check(derived(BW_SEC, 0, 0), BW_SEC, 5 * BW_SEC, 50 * BW_MS);
    check(derived(10 * BW_MS, 0, 0), 10 * BW_MS, 500 * BW_MS, 50 * BW_MS);
    check(derived(0, 150 * BW_MS, 0), 30 * BW_MS, 150 * BW_MS, 50 * BW_MS);
    check(derived(0, 2 * BW_SEC, 0), 100 * BW_MS, 2 * BW_SEC, 50 * BW_MS);
    check(derived(0, 0, 200 * BW_MS), 100 * BW_MS, 2 * BW_SEC, 200 * BW_MS);
    check(derived(200 * BW_MS, 600 * BW_MS, 0), 200 * BW_MS, 600 * BW_MS, 50 * BW_MS);
}

static void any_single_time_gives_times_that_fit(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 5);
    for (int i = 0; i < 100000; i++) {
        bw_time top = BW_PEER_DETECT_MIN << bw_rng_below(&rng, 27);
        bw_time given = bw_rng_between(&rng, BW_PEER_DETECT_MIN, top);
        given = bw_time_min(given, BW_PEER_TIME_MAX);
        uint64_t which = bw_rng_below(&rng, 3);
        struct bw_peer_times times =
            derived(which == 0 ? given : 0, which == 1 ? given : 0, which == 2 ? given : 0);
        assert_true(bw_peer_times_fit(&times));
        assert_true(times.period_ns >= BW_PEER_PERIOD_MIN);
        assert_true(times.detect_ns <= BW_PEER_DETECT_MAX);
        bw_time kept[] = {times.period_ns, times.detect_ns, times.latency_ns};
        assert_int_equal(kept[which], given);
    }
}

static void two_given_times_can_contradict_each_other(void **state)
{
    (void)state;
    struct bw_peer_times times = derived(BW_SEC, 2 * BW_SEC, 0);
    assert_false(bw_peer_times_fit(&times));
    times = derived(BW_SEC, 3 * BW_SEC, 0);
    assert_true(bw_peer_times_fit(&times));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derived_times_follow_the_given_one),
        cmocka_unit_test(any_single_time_gives_times_that_fit),
        cmocka_unit_test(two_given_times_can_contradict_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
