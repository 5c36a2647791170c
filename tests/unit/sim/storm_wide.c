/* Tests the plan of wide storms: after its last event, a correct leader has the time that it needs
 * before the checkers expect it to act. */
#include "unit/unit.h"

#include "sim/faults/storm_plan.h"
#include "sim/sim.h"

#define QUIET_END (60 * BW_SEC)
#define SEEDS     200u
#define SETTLE    (6 * BW_SEC) /* time for a leader to act after an event that deposes none */

static struct storm storm;

/* Draws the end of a storm; returns the number of times that its network is disturbed. */
static uint32_t draw_end(uint64_t seed, bw_time stop_ns)
{
    memset(&storm, 0, sizeof storm);
    bw_sim_defaults(&storm.config);
    bw_rng_init(&storm.wide_rng, seed);
    storm.config.algorithm = &bw_elect_invitation;
    storm.config.guard = true;
    storm.config.promise_ns = 12 * BW_SEC;
    storm.config.stop_ns = stop_ns;
    storm.end = QUIET_END - 30 * BW_SEC;
    bw_storm_wide_end(&storm, QUIET_END);
    uint32_t disturbed = 0;
    for (uint32_t i = 0; i < storm.count; i++)
        disturbed += storm.faults[i].kind == BW_FAULT_LOSS && storm.faults[i].rate > 0;
    return disturbed;
}

static bw_time last_event(void)
{
    bw_time last = 0;
    for (uint32_t i = 0; i < storm.count; i++)
        last = bw_time_max(last, storm.faults[i].at);
    return last;
}

/* Contention leaves groups of which each has a leader. When they merge, one of them is deposed while
 * its work runs. The remaining leader may act when that work has ended. */
static void contention_leaves_time_for_work_of_a_deposed_leader(void **state)
{
    (void)state;
    uint32_t contended = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        bw_time stop_ns = (bw_time)(seed % 7) * BW_SEC;
        if (draw_end(seed, stop_ns) == 0)
            continue;
        contended++;
        assert_true(last_event() + stop_ns + SETTLE <= QUIET_END);
    }
    assert_true(contended > SEEDS / 10);
}

/* Without contention the leader has ended its work before it hands over. The successor must not need
 * the time that the work takes to end. */
static void hand_over_leaves_no_time_for_work_to_end(void **state)
{
    (void)state;
    uint32_t handed = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        if (draw_end(seed, 6 * BW_SEC) > 0)
            continue;
        handed++;
        assert_true(last_event() + SETTLE == QUIET_END);
    }
    assert_true(handed > SEEDS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contention_leaves_time_for_work_of_a_deposed_leader),
        cmocka_unit_test(hand_over_leaves_no_time_for_work_to_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
