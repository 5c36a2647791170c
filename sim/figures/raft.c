/* Raft: the published figures of its elections, and the guarantees of pre-vote and transfer. Checks
 * 9, 10, 11 and 12 of the algorithms page.
 *
 * The first two use the textbook's model: no pre-vote, all timers drawn at the same time, messages
 * with the given latency, no other delays. */
#include "sim/checks/invariants.h"
#include "sim/figures/figures.h"
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

static struct bw_sim_config raft_config(uint32_t nodes, uint64_t seed)
{
    struct bw_sim_config config;
    bw_sim_defaults(&config);
    config.algorithm = &bw_elect_raft;
    config.detector = NULL;
    config.nodes = nodes;
    config.seed = seed;
    return config;
}

static struct bw_sim_result play(struct bw_report *report, struct bw_sim *sim,
                                 const struct bw_sim_config *config)
{
    struct bw_sim_result result = {0};
    char why[200];
    if (bw_sim_run_in(sim, config, &result, why))
        bw_report_equal(report, why, 0, 1);
    if (result.violation)
        bw_report_equal(report, result.violation, 0, 1);
    return result;
}

/* --- 9: split votes -------------------------------------------------------------------------- */

struct electorate {
    uint32_t nodes, alive;
    bw_time latency_min, latency_max, timeout_min, timeout_max;
};

/* `alive` of `nodes` start together; the others are dead from the start. */
static struct bw_sim_config election(const struct electorate *group, uint64_t seed)
{
    static const bw_node ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct bw_sim_config config = raft_config(group->nodes, seed);
    config.crashed = ids + group->alive;
    config.crashed_count = group->nodes - group->alive;
    config.latency.min = group->latency_min;
    config.latency.max = group->latency_max;
    config.timeout_min = group->timeout_min;
    config.timeout_max = group->timeout_max;
    config.fresh_timers = true;
    config.pre_vote_off = true;
    return config;
}

/* Measures the percentage of elections whose first term had no winner. */
static void splits_of(struct bw_report *report, struct bw_sim *sim, uint32_t nodes, uint32_t alive,
                      double expected, double tolerance, double size)
{
    struct electorate group = {nodes, alive, 100 * BW_MS, 100 * BW_MS, BW_SEC, 2 * BW_SEC};
    uint32_t runs = bw_report_runs(20000, size, 500), split = 0;
    char what[96];
    for (uint32_t i = 0; i < runs && report->failed == 0; i++) {
        struct bw_sim_config config = election(&group, i + 1);
        split += play(report, sim, &config).term > 1;
    }
    snprintf(what, sizeof what, "%u of %u alive, latency 0.1: %% of first terms split", alive,
             nodes);
    bw_report_near_mean(report, what, expected, 100.0 * split / runs, tolerance, size);
}

static void split_votes(struct bw_report *report, double size)
{
    struct bw_sim *sim = bw_sim_new();
    if (!sim)
        return;
    splits_of(report, sim, 5, 4, 5.2, 0.5, size);
    splits_of(report, sim, 5, 3, 27.1, 1, size);
    splits_of(report, sim, 9, 5, 41, 1.2, size);
    bw_sim_free(sim);
}

/* --- 10: wide area --------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void wan_with(struct bw_report *report, struct bw_sim *sim, uint32_t down, double mean,
                     double tolerance, double worst, double size)
{
    struct electorate group = {5, 5 - down, 30 * BW_MS, 40 * BW_MS, 300 * BW_MS, 600 * BW_MS};
    uint32_t runs = bw_report_runs(10000, size, 1000);
    double *ms = malloc(runs * sizeof *ms), sum = 0;
    char what[96];
    for (uint32_t i = 0; ms && i < runs; i++) {
        struct bw_sim_config config = election(&group, i + 1);
        ms[i] = (double)play(report, sim, &config).time_to_leader / (double)BW_MS;
        sum += ms[i];
    }
    if (!ms)
        return;
    qsort(ms, runs, sizeof *ms, by_value);
    snprintf(what, sizeof what, "%u of 5 down: mean time to a leader, ms", down);
    bw_report_near(report, what, mean, sum / runs, tolerance);
    snprintf(what, sizeof what, "%u of 5 down: 99.9th percentile of that time, ms", down);
    bw_report_at_most(report, what, worst, ms[(uint64_t)runs * 999 / 1000]);
    free(ms);
}

static void wide_area(struct bw_report *report, double size)
{
    struct bw_sim *sim = bw_sim_new();
    if (!sim)
        return;
    wan_with(report, sim, 1, 475, 0.05 * 475, 1600, size);
    wan_with(report, sim, 2, 650, 0.08 * 650, 3000, size);
    bw_sim_free(sim);
}

/* --- 11: an isolated follower comes back ----------------------------------------------------- */

static void count_losses(void *context, bw_time at, bw_node node, uint32_t elector,
                         const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    (void)at, (void)node, (void)elector, (void)act_from, (void)act_until;
    *(uint32_t *)context += a->reason != BW_LOSS_NONE;
}

/* Node 1 leads; node 5 is isolated for ten times the longest timeout. */
static struct bw_sim_result isolate(struct bw_report *report, struct bw_sim *sim, bool pre_vote,
                                    uint64_t seed, uint32_t *losses)
{
    static uint8_t groups[] = {0, 1, 1, 1, 1, 2};
    struct bw_sim_config config = raft_config(5, seed);
    struct bw_sim_observer observer = {.context = losses, .announced = count_losses};
    config.initiator = 1;
    config.timeout_min = 300 * BW_MS;
    config.timeout_max = 600 * BW_MS;
    config.pre_vote_off = !pre_vote;
    struct bw_sim_fault faults[] = {
        {.kind = BW_FAULT_PARTITION, .at = 2 * BW_SEC, .groups = groups},
        {.kind = BW_FAULT_HEAL, .at = 2 * BW_SEC + 10 * config.timeout_max}};
    config.faults = faults;
    config.faults_count = 2;
    config.until = faults[1].at + 5 * BW_SEC;
    config.observer = &observer;
    config.checks = BW_CHECK_ONE_PER_TERM | BW_CHECK_EXCLUSION | BW_CHECK_AGREEMENT;
    *losses = 0;
    return play(report, sim, &config);
}

static void isolated_follower(struct bw_report *report, double size)
{
    struct bw_sim *sim = bw_sim_new();
    uint32_t runs = bw_report_runs(100, size, 10), losses;
    double with = 0, without = 1e9, deposed = 0, stayed = 0;
    for (uint64_t seed = 1; sim && seed <= runs; seed++) {
        struct bw_sim_result on = isolate(report, sim, true, seed, &losses);
        with = (double)on.term > with ? (double)on.term : with;
        deposed += losses;
        stayed += on.leader == 1;
        struct bw_sim_result off = isolate(report, sim, false, seed, &losses);
        without = (double)off.term < without ? (double)off.term : without;
    }
    bw_report_equal(report, "pre-vote on: highest term at the end", 1, with);
    bw_report_equal(report, "pre-vote on: leaders that stepped down", 0, deposed);
    bw_report_equal(report, "pre-vote on: runs whose leader stayed", runs, stayed);
    bw_report_at_least(report, "pre-vote off: lowest term at the end", 2, without);
    bw_sim_free(sim);
}

/* --- 12: TIMEOUT_NOW delayed past the abort -------------------------------------------------- */

#define ASKED (2030 * BW_MS) /* time of the transfer request: between two proposals */

struct late { /* what happened to TIMEOUT_NOW */
    bw_time first_arrival;
    uint32_t resumed; /* the old leader's window was open again before it arrived */
};

static void timeout_now_came(void *context, bw_time at, const struct bw_message *msg)
{
    struct late *late = context;
    if (msg->kind == BW_MSG_RAFT_TIMEOUT_NOW && !late->first_arrival)
        late->first_arrival = at;
}

static void window_seen(void *context, bw_time at, bw_node node, uint32_t elector,
                        const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    (void)elector;
    struct late *late = context;
    late->resumed += !late->first_arrival && at > ASKED + 600 * BW_MS && node == 1 &&
                     a->leader == 1 && act_until > act_from;
}

/* Node 1 leads and is asked to transfer leadership to node 2. Its TIMEOUT_NOW takes 900 ms; all
 * later messages are fast again, and node 2 gets no second one. The abort comes after 600 ms. In
 * every second run the old leader receives nothing when TIMEOUT_NOW arrives. */
static struct bw_sim_result transfer_late(struct bw_report *report, struct bw_sim *sim,
                                          uint64_t seed, struct late *late)
{
    struct bw_sim_config config = raft_config(5, seed);
    struct bw_sim_observer observer = {
        .context = late, .delivered = timeout_now_came, .announced = window_seen};
    struct bw_sim_latency slow = {.min = 900 * BW_MS, .max = 900 * BW_MS};
    bw_time start = ASKED, deaf = start + 890 * BW_MS;
    struct bw_sim_fault faults[] = {
        {.kind = BW_FAULT_LATENCY, .at = start, .latency = slow},
        {.kind = BW_FAULT_TRANSFER, .at = start, .node = 1, .peer = 2},
        {.kind = BW_FAULT_LATENCY, .at = start + BW_US, .latency = config.latency},
        {.kind = BW_FAULT_CUT, .at = start + BW_US, .node = 1, .peer = 2},
        {.kind = BW_FAULT_MEND, .at = deaf, .node = 1, .peer = 2},
        {.kind = BW_FAULT_CUT, .at = deaf, .node = 2, .peer = 1},
        {.kind = BW_FAULT_CUT, .at = deaf, .node = 3, .peer = 1},
        {.kind = BW_FAULT_CUT, .at = deaf, .node = 4, .peer = 1},
        {.kind = BW_FAULT_CUT, .at = deaf, .node = 5, .peer = 1},
        {.kind = BW_FAULT_HEAL, .at = deaf + 3 * BW_SEC}};
    config.initiator = 1;
    config.timeout_min = 300 * BW_MS;
    config.timeout_max = 600 * BW_MS;
    config.faults = faults;
    config.faults_count = seed % 2 ? 10 : 5;
    config.until = deaf + 6 * BW_SEC;
    config.work_ns = 5 * BW_MS;
    config.propose_ns = 50 * BW_MS; /* node 2 is up to date when the transfer is requested */
    config.read_ns = BW_MS;
    config.observer = &observer;
    config.checks = BW_CHECK_ONE_PER_TERM | BW_CHECK_EXCLUSION | BW_CHECK_TOKENS |
                    BW_CHECK_AGREEMENT | BW_CHECK_STALE | BW_CHECK_LOG;
    *late = (struct late){0};
    return play(report, sim, &config);
}

static void late_timeout_now(struct bw_report *report, double size)
{
    struct bw_sim *sim = bw_sim_new();
    uint32_t runs = bw_report_runs(200, size, 20);
    double reads = 0, stale = 0, broken = 0, late_runs = 0, took_over = 0, both = 0;
    for (uint64_t seed = 1; sim && seed <= runs; seed++) {
        struct late late;
        struct bw_sim_result run = transfer_late(report, sim, seed, &late);
        reads += (double)run.reads;
        stale += (double)run.stale_reads + (double)run.stale_accepted;
        broken += run.violation != NULL;
        late_runs += late.first_arrival > ASKED + 600 * BW_MS && late.resumed > 0;
        took_over += run.term > 1;
        both += (double)run.split_brain;
    }
    bw_report_equal(report, "runs where it arrived after the leader had resumed", runs, late_runs);
    bw_report_equal(report, "runs where it was obeyed nevertheless", runs, took_over);
    bw_report_at_least(report, "reads answered", 1000.0 * runs, reads);
    bw_report_equal(report, "stale reads and writes", 0, stale);
    bw_report_equal(report, "runs with two leaders of one term or another violation", 0, broken);
    bw_report_equal(report, "ns in which two could act", 0, both);
    bw_sim_free(sim);
}

const struct bw_sim_check bw_checks_raft[] = {
    {9, "raft-split-votes", "the percentage of split first terms matches the textbook", NULL,
     split_votes},
    {10, "raft-wide-area", "elections between continents take as long as published", NULL,
     wide_area},
    {11, "raft-isolated-follower",
     "a follower that was isolated does not disrupt the leader when it returns, thanks to pre-vote",
     NULL, isolated_follower},
    {12, "raft-late-timeout-now",
     "a TIMEOUT_NOW that arrives after the transfer was aborted does no harm", NULL,
     late_timeout_now},
    {0}};
