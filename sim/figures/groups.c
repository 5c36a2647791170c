/* Groups that merge and leaders that stay: invitation and stable leader. Checks 8 and 24 of the
 * algorithms page. */
#include "sim/figures/figures.h"
#include "sim/sim.h"

#include <stdio.h>

static struct bw_sim_result play(struct bw_report *report, const struct bw_sim_config *config)
{
    struct bw_sim_result result = {0};
    char why[200];
    if (bw_sim_run(config, &result, why))
        bw_report_equal(report, why, 0, 1);
    return result;
}

/* --- 8: stable leader ------------------------------------------------------------------------ */

#define STEADY (2 * BW_SEC)

/* Returns the longest time from a leader's crash, at any phase of its period, to the next leader,
 * in units of delta. */
static double slowest_failover(struct bw_report *report, uint32_t nodes, uint32_t runs)
{
    bw_time slowest = 0;
    for (uint32_t seed = 1; seed <= runs; seed++) {
        struct bw_sim_config config;
        bw_sim_defaults(&config);
        struct bw_sim_fault crash = {.kind = BW_FAULT_CRASH,
                                     .at = STEADY + config.period_ns * seed / runs};
        config.algorithm = &bw_elect_stable;
        config.detector = NULL;
        config.transport_reports = false;
        config.nodes = nodes;
        config.seed = seed;
        config.faults = &crash;
        config.faults_count = 1;
        struct bw_sim_result result = play(report, &config);
        slowest = bw_time_max(slowest, result.time_to_leader);
    }
    return (double)slowest / (double)(100 * BW_MS);
}

struct links { /* senders since the steady state began */
    bw_node leader;
    uint64_t by_leader, by_others;
};

static void count_link(void *context, bw_time at, const struct bw_message *msg, bw_time arrives)
{
    struct links *links = context;
    (void)arrives;
    if (at < STEADY || bw_message_for_detector(msg->kind))
        return;
    if (msg->from == links->leader)
        links->by_leader++;
    else
        links->by_others++;
}

/* Runs five nodes with leader 1. With `mute`, the links from that follower are cut in the steady
 * state. */
static struct bw_sim_result steady_run(struct bw_report *report, bw_node mute, struct links *links)
{
    struct bw_sim_config config;
    struct bw_sim_fault cuts[4];
    struct bw_sim_observer observer = {.context = links, .sent = count_link};
    uint32_t count = 0;
    for (bw_node to = 1; mute && to <= 5; to++)
        if (to != mute)
            cuts[count++] =
                (struct bw_sim_fault){.kind = BW_FAULT_CUT, .at = STEADY, .node = mute, .peer = to};
    *links = (struct links){.leader = 1};
    bw_sim_defaults(&config);
    config.algorithm = &bw_elect_stable;
    config.faults = cuts;
    config.faults_count = count;
    config.until = STEADY + 10 * BW_SEC - BW_MS;
    config.observer = &observer;
    return play(report, &config);
}

static void stable_leader(struct bw_report *report, double size)
{
    static const uint32_t groups[] = {2, 3, 5, 9, 17};
    uint32_t runs = bw_report_runs(200, size, 20);
    struct links links, muted;
    char what[96];
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        snprintf(what, sizeof what, "n=%u: delta from the crash to the new leader, worst",
                 groups[i]);
        bw_report_at_most(report, what, groups[i] + 4, slowest_failover(report, groups[i], runs));
    }
    struct bw_sim_result plain = steady_run(report, BW_NODE_NONE, &links);
    struct bw_sim_result cut = steady_run(report, 3, &muted);
    bw_report_equal(report, "steady: messages not sent by the leader", 0, (double)links.by_others);
    bw_report_equal(report, "steady, 10 s: messages of the leader", 400, (double)links.by_leader);
    bw_report_equal(report, "a follower's links cut: messages of the others", 0,
                    (double)muted.by_others);
    bw_report_equal(report, "a follower's links cut: messages of the leader",
                    (double)links.by_leader, (double)muted.by_leader);
    bw_report_equal(report, "a follower's links cut: rounds", (double)plain.elections,
                    (double)cut.elections);
    bw_report_equal(report, "a follower's links cut: leader changes", 0,
                    (double)cut.leader_changes);
    bw_report_equal(report, "a follower's links cut: leader", 1, cut.leader);
}

/* --- 24: invitation -------------------------------------------------------------------------- */

static struct bw_sim_result invite(struct bw_report *report, uint32_t nodes,
                                   const struct bw_sim_fault *faults, uint32_t count)
{
    struct bw_sim_config config;
    bw_sim_defaults(&config);
    config.algorithm = &bw_elect_invitation;
    config.nodes = nodes;
    /* no node searches for other groups by itself; node 1 does on command, besides the following
     * faults */
    config.initiator = 1;
    config.period_ns = 10 * BW_SEC;
    config.latency.min = config.latency.max = BW_MS;
    config.faults = faults;
    config.faults_count = count;
    return play(report, &config);
}

static void invitation_merges(struct bw_report *report, double size)
{
    static const struct bw_sim_fault pairs[] = {
        {.kind = BW_FAULT_CAMPAIGN, .at = 0, .node = 1, .peer = 2},
        {.kind = BW_FAULT_CAMPAIGN, .at = 0, .node = 3, .peer = 4},
        {.kind = BW_FAULT_CAMPAIGN, .at = 100 * BW_MS, .node = 1, .peer = 3},
    };
    static const struct bw_sim_fault smaller_asks[] = {
        {.kind = BW_FAULT_CAMPAIGN, .at = 0, .node = 1, .peer = 2},
        {.kind = BW_FAULT_CAMPAIGN, .at = 0, .node = 4, .peer = 5},
        {.kind = BW_FAULT_CAMPAIGN, .at = 100 * BW_MS, .node = 1, .peer = 3},
        {.kind = BW_FAULT_CAMPAIGN, .at = 200 * BW_MS, .node = 4, .peer = 1},
    };
    (void)size;
    struct bw_sim_result equal = invite(report, 4, pairs, 3);
    bw_report_equal(report, "two pairs: leaders at once before they merge", 2, equal.max_leaders);
    bw_report_equal(report, "two pairs, 1 invites 3: leader of all", 1, equal.leader);
    struct bw_sim_result larger = invite(report, 5, smaller_asks, 4);
    bw_report_equal(report, "three and two: leaders at once before they merge", 2,
                    larger.max_leaders);
    bw_report_equal(report, "three and two, the smaller invites: leader of all", 1, larger.leader);
}

const struct bw_sim_check bw_checks_groups[] = {
    {8, "stable-leader",
     "Stable leader: a new one within (n+4) delta, steady state uses the leader's links only, a "
     "mute follower changes nothing",
     NULL, stable_leader},
    {24, "invitation-merges",
     "Invitation: of two equal groups the inviter leads the merged one, a larger group's leader "
     "stays",
     NULL, invitation_merges},
    {0, NULL, NULL, NULL, NULL},
};
