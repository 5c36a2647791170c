/* Split brain: which algorithms have it, which do not, and the damage. Checks 2, 20, 26 and 28 of
 * the algorithms page. */
#include "sim/faults/antipattern.h"
#include "sim/faults/storm.h"
#include "sim/figures/figures.h"
#include "sim/sim.h"
#include "sim/stores/lease.h"

#include <stdio.h>
#include <string.h>

#define T_CUT  (3 * BW_SEC)
#define T_HEAL (9 * BW_SEC)
#define T_END  (25 * BW_SEC)

static uint8_t sides[] = {0, 1, 1, 1, 2, 2}; /* 1,2,3 / 4,5 */

static const struct bw_sim_fault split_and_heal[] = {
    {.kind = BW_FAULT_PARTITION, .at = T_CUT, .groups = sides},
    {.kind = BW_FAULT_HEAL, .at = T_HEAL},
};

static struct bw_sim_result run_split(const struct bw_elector_ops *algorithm, bool guard)
{
    struct bw_sim_config config;
    struct bw_sim_result result = {0};
    char why[200];
    bw_sim_defaults(&config);
    config.algorithm = algorithm;
    config.guard = guard;
    config.faults = split_and_heal;
    config.faults_count = 2;
    config.until = T_END;
    config.work_ns = 50 * BW_MS;
    if (bw_sim_run(&config, &result, why) != 0)
        result.max_leaders = UINT32_MAX;
    return result;
}

static void check_split(struct bw_report *report, const struct bw_elector_ops *algorithm,
                        bw_node healed_leader)
{
    char what[96];
    struct bw_sim_result plain = run_split(algorithm, false), guarded = run_split(algorithm, true);
    snprintf(what, sizeof what, "%s: leaders at once in the partition", algorithm->name);
    bw_report_equal(report, what, 2, plain.max_leaders);
    snprintf(what, sizeof what, "%s: leader after healing", algorithm->name);
    if (healed_leader)
        bw_report_equal(report, what, healed_leader, plain.leader);
    else
        bw_report_at_least(report, what, 1, plain.leader);
    snprintf(what, sizeof what, "%s with quorum guard: leaders at once", algorithm->name);
    bw_report_equal(report, what, 1, guarded.max_leaders);
    snprintf(what, sizeof what, "%s with quorum guard: ms with two that may act", algorithm->name);
    bw_report_equal(report, what, 0, (double)guarded.split_brain / (double)BW_MS);
    snprintf(what, sizeof what, "%s with quorum guard: a leader at the end", algorithm->name);
    bw_report_at_least(report, what, 1, guarded.leader);
}

static void bully_partition(struct bw_report *report, double size)
{
    (void)size;
    check_split(report, &bw_elect_bully, 5);
}

static void other_partitions(struct bw_report *report, double size)
{
    (void)size;
    check_split(report, &bw_elect_ring_list, 5);
    check_split(report, &bw_elect_ring_max, 5);
    check_split(report, &bw_elect_invitation, 0);
    check_split(report, &bw_elect_lowest, 1);
}

static void storms(struct bw_report *report, double size)
{
    uint32_t seeds = bw_report_runs(10000, size, 20);
    struct bw_sim *sim = bw_sim_new();
    for (unsigned i = 0; sim && bw_sim_algorithm_at(i); i++) {
        char what[96];
        double violations = 0;
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            struct bw_storm_result result;
            int error =
                bw_storm_seed(sim, bw_sim_algorithm_at(i), &bw_storm_any, seed, NULL, &result);
            violations += error || result.violation;
        }
        snprintf(what, sizeof what, "%s: violations in %u storms", bw_sim_algorithm_at(i)->name,
                 seeds);
        bw_report_equal(report, what, 0, violations);
    }
    bw_sim_free(sim);
}

static struct bw_sim_result run_script(const struct bw_elector_ops *algorithm, bool guard,
                                       bool fencing_off, uint64_t seed,
                                       const struct bw_sim_fault *faults, uint32_t count)
{
    struct bw_sim_config config;
    struct bw_sim_result result = {0};
    char why[200];
    bw_sim_defaults(&config);
    config.algorithm = algorithm;
    config.guard = guard;
    config.fencing_off = fencing_off;
    config.seed = seed;
    config.faults = faults;
    config.faults_count = count;
    config.until = T_END;
    config.work_ns = 20 * BW_MS;
    bw_sim_run(&config, &result, why);
    return result;
}

/* A leader pauses between its check and its write, and resumes when another one leads. */
static void no_fencing(struct bw_report *report)
{
    const struct bw_sim_fault pauses[] = {
        {.kind = BW_FAULT_PAUSE, .at = 3 * BW_SEC, .node = 5},
        {.kind = BW_FAULT_RESUME, .at = 8 * BW_SEC, .node = 5},
        {.kind = BW_FAULT_PAUSE, .at = 13 * BW_SEC, .node = 5},
        {.kind = BW_FAULT_RESUME, .at = 18 * BW_SEC, .node = 5},
    };
    double open = 0, fenced = 0, tried = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        open += (double)run_script(&bw_elect_bully, true, true, seed, pauses, 4).stale_accepted;
        struct bw_sim_result result = run_script(&bw_elect_bully, true, false, seed, pauses, 4);
        fenced += (double)result.stale_accepted;
        tried += (double)result.stale_tried;
    }
    bw_report_at_least(report, "no fencing: stale writes accepted", 1, open);
    bw_report_at_least(report, "fenced: stale writes tried", 1, tried);
    bw_report_equal(report, "fenced: stale writes accepted", 0, fenced);
}

/* The holder's time of day is set back an hour, then the holder is cut off: by its own clock the
 * lease is still valid. */
static void wall_clock(struct bw_report *report)
{
    static uint8_t alone[] = {0, 1, 1, 1, 1, 2};
    const struct bw_sim_fault jump[] = {
        {.kind = BW_FAULT_JUMP, .at = 3 * BW_SEC, .node = 5, .span = -3600 * BW_SEC},
        {.kind = BW_FAULT_PARTITION, .at = 3 * BW_SEC + BW_MS, .groups = alone},
        {.kind = BW_FAULT_HEAL, .at = 20 * BW_SEC},
    };
    struct bw_sim_result wrong = run_script(&bw_anti_wall_clock, false, false, 1, jump, 3);
    struct bw_sim_result right = run_script(&bw_elect_bully, true, false, 1, jump, 3);
    bw_report_at_least(report, "wall clock decides: ms with two that act", 1000,
                       (double)wrong.split_brain / (double)BW_MS);
    bw_report_at_least(report, "wall clock decides: stale writes accepted", 1,
                       (double)wrong.stale_accepted);
    bw_report_equal(report, "monotonic promises: ms with two that act", 0,
                    (double)right.split_brain / (double)BW_MS);
    bw_report_equal(report, "monotonic promises: stale writes accepted", 0,
                    (double)right.stale_accepted);
}

static void ping_leads(struct bw_report *report)
{
    struct bw_sim_result wrong = run_script(&bw_anti_ping, false, false, 1, split_and_heal, 2);
    struct bw_sim_result right = run_script(&bw_elect_raft, false, false, 1, split_and_heal, 2);
    bw_report_at_least(report, "I can ping them so I lead: ms with two that act", 1000,
                       (double)wrong.split_brain / (double)BW_MS);
    bw_report_at_least(report, "I can ping them so I lead: stale writes accepted", 1,
                       (double)wrong.stale_accepted);
    bw_report_equal(report, "raft: ms with two that act", 0,
                    (double)right.split_brain / (double)BW_MS);
    bw_report_equal(report, "raft: stale writes accepted", 0, (double)right.stale_accepted);
}

static void antipatterns(struct bw_report *report, double size)
{
    (void)size;
    no_fencing(report);
    wall_clock(report);
    ping_leads(report);
}

const struct bw_sim_check bw_checks_split[] = {
    {.number = 2,
     .name = "bully-partition",
     .claim = "Bully, partition 3|2: two leaders; healed: one, the highest id. With the quorum "
              "guard: never two, at any instant.",
     .run = bully_partition},
    {.number = 20,
     .name = "storms",
     .claim = "Every algorithm under random fault schedules: its stated safety holds always, its "
              "liveness after healing.",
     .run = storms},
    {.number = 26,
     .name = "other-partitions",
     .claim =
         "ring-list, ring-max, invitation, lowest-id, partition 3|2: two leaders; healed: one. "
         "With the quorum guard: never two, at any instant.",
     .run = other_partitions},
    {.number = 28,
     .name = "anti-patterns",
     .claim = "No fencing, wall clock decides, 'I can ping them so I lead': each does measurable "
              "damage, the shipped counterpart none.",
     .run = antipatterns},
    {0},
};
