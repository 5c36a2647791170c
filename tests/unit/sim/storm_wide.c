/* Tests the plan of wide storms: after its last event, a correct leader has the time that it needs
 * before the checkers expect it to act, on an undisturbed network. */
#include "unit/unit.h"

#include "sim/faults/storm_plan.h"
#include "sim/sim.h"

#define QUIET_END (60 * BW_SEC)
#define SEEDS     200u
#define SETTLE    (6 * BW_SEC) /* time for a leader to act after an event that deposes none */

static struct storm storm;

/* Draws the end of a storm that has `count` faults before. Returns whether the network is disturbed
 * in it. */
static bool draw_end(uint64_t seed, bw_time stop_ns, uint32_t count)
{
    memset(&storm, 0, sizeof storm);
    bw_sim_defaults(&storm.config);
    bw_rng_init(&storm.wide_rng, seed);
    storm.config.algorithm = &bw_elect_invitation;
    storm.config.guard = true;
    storm.config.promise_ns = 12 * BW_SEC;
    storm.config.stop_ns = stop_ns;
    storm.end = QUIET_END - 30 * BW_SEC;
    storm.count = count;
    bw_storm_wide_end(&storm, QUIET_END);
    bool disturbed = false;
    for (uint32_t i = count; i < storm.count; i++)
        disturbed = disturbed || storm.faults[i].kind == BW_FAULT_LATENCY;
    return disturbed;
}

static bw_time last_event(void)
{
    bw_time last = 0;
    for (uint32_t i = 0; i < storm.count; i++)
        last = bw_time_max(last, storm.faults[i].at);
    return last;
}

/* Contention leaves groups of which each has a leader. When they merge, one leader is deposed while
 * its work runs. The other one may act when that work has ended. */
static void contention_leaves_time_for_work_of_a_deposed_leader(void **state)
{
    (void)state;
    uint32_t contended = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        bw_time stop_ns = (bw_time)(seed % 7) * BW_SEC;
        if (!draw_end(seed, stop_ns, 0))
            continue;
        contended++;
        assert_true(last_event() + stop_ns + SETTLE <= QUIET_END);
    }
    assert_true(contended > SEEDS / 10);
}

/* Without contention the leader has ended its work before it hands over. So its successor must not
 * need the time that work takes to end. */
static void hand_over_leaves_no_time_for_work_to_end(void **state)
{
    (void)state;
    uint32_t handed = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        if (draw_end(seed, 6 * BW_SEC, 0))
            continue;
        handed++;
        assert_true(last_event() + SETTLE == QUIET_END);
    }
    assert_true(handed > SEEDS / 10);
}

/* A fault that does not fit into the list would be lost, and the network would stay disturbed. */
static void network_is_restored_when_a_storm_has_the_most_faults(void **state)
{
    (void)state;
    uint32_t contended = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint32_t begun = 0, ended = 0;
        if (!draw_end(seed, 0, BW_STORM_DRAWN_MAX))
            continue;
        contended++;
        for (uint32_t i = BW_STORM_DRAWN_MAX; i < storm.count; i++) {
            const struct bw_sim_fault *fault = &storm.faults[i];
            bw_time slowest = fault->kind == BW_FAULT_LATENCY ? fault->latency.max : 0;
            begun += fault->rate > 0 || slowest > storm.config.latency.max;
            ended += (fault->kind == BW_FAULT_LOSS && fault->rate == 0) ||
                     slowest == storm.config.latency.max;
        }
        assert_true(begun > 0);
        assert_int_equal(ended, 2);
    }
    assert_true(contended > SEEDS / 10);
}

/* In this seed node 2 is paused while node 7 leaves, and returns under the same id. When node 2
 * goes on, it suspects node 7 before it learns of both. */
static void suspicion_of_a_member_that_has_left_is_not_judged(void **state)
{
    (void)state;
    struct bw_storm_result result;
    struct bw_sim *sim = bw_sim_new();
    assert_non_null(sim);
    assert_int_equal(
        bw_storm_seed(sim, &bw_elect_bully_candidates, &bw_storm_any, 19470, NULL, &result), 0);
    assert_null(result.violation);
    bw_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contention_leaves_time_for_work_of_a_deposed_leader),
        cmocka_unit_test(hand_over_leaves_no_time_for_work_to_end),
        cmocka_unit_test(suspicion_of_a_member_that_has_left_is_not_judged),
        cmocka_unit_test(network_is_restored_when_a_storm_has_the_most_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
