/* A storm: for 10 to 30 seconds anything may fail. Then all faults end and an idle time follows,
 * after which every guarantee must hold and all nodes must agree. The guarantees are derived from
 * the algorithm's traits, so a new algorithm needs no code here. Clock rates stay within the bound
 * that the electors assume. */
#include "sim/faults/storm.h"
#include "sim/faults/storm_plan.h"

#include "core/base/assert.h"
#include "core/base/rng.h"
#include "sim/checks/invariants.h"
#include "sim/stores/lease.h"
#include "sim/stores/registry.h"

#include <string.h>

#define NODES_MAX      BW_STORM_NODES_MAX
#define IDS_MAX        BW_STORM_IDS_MAX
#define PARTITIONS_MAX BW_STORM_PARTITIONS_MAX
#define QUIET          (30 * BW_SEC)
/* before the end of the idle time; a leader must exist within it */
#define FLAP          (6 * BW_SEC)
#define QUIET_SHARDS  (40 * BW_SEC)
#define QUIET_FRANTIC (4 * BW_SEC)
#define CALM_CLIENTS  (4 * BW_SEC)
#define QUIET_CLIENTS (6 * BW_SEC)
#define OPERATIONS    6u /* registry: number of operator requests in one storm */

static bw_node any_node(struct storm *s)
{
    return 1 + (bw_node)bw_rng_below(&s->rng, s->present);
}

static bw_node any_store(struct storm *s)
{
    bw_node first = s->config.nodes + s->config.spare + 1;
    return first + (bw_node)bw_rng_below(&s->rng, s->stores);
}

struct bw_sim_fault *bw_storm_add(struct storm *s, enum bw_sim_fault_kind kind, bw_time at,
                                  bw_node node)
{
    BW_ASSERT(s->count < BW_SIM_FAULTS_MAX); /* a lost fault might be one that ends another */
    struct bw_sim_fault *fault = &s->faults[s->count++];
    *fault = (struct bw_sim_fault){.kind = kind, .at = at, .node = node};
    return fault;
}

/* Returns until when a fault that begins at `at` lasts: mostly short, sometimes long, never past
 * the end. */
static bw_time lasting(struct storm *s, bw_time at)
{
    static const bw_time longest[] = {10 * BW_MS, BW_SEC, BW_SEC, BW_SEC, 8 * BW_SEC};
    bw_time most = longest[bw_rng_below(&s->rng, sizeof longest / sizeof longest[0])];
    if (s->frantic && most < 8 * BW_SEC)
        most = 40 * BW_MS;
    return bw_time_min(at + bw_rng_between(&s->rng, BW_MS, most), s->end);
}

/* Returns how long a node has no new fault after one. */
static bw_time rest(const struct storm *s)
{
    return s->frantic ? 5 * BW_MS : 400 * BW_MS;
}

static void crash(struct storm *s, bw_time at, bw_node node)
{
    bw_time until = lasting(s, at);
    if (bw_rng_chance(&s->rng, 0.15))
        bw_storm_add(s, BW_FAULT_DISK_FAIL, at - bw_rng_between(&s->rng, 0, 300 * BW_MS), node);
    bw_storm_add(s, BW_FAULT_CRASH, at, node);
    if (bw_rng_chance(&s->rng, 0.2))
        bw_storm_add(s, BW_FAULT_CONFIRM, at + (until - at) / 2, node);
    bw_storm_add(s, BW_FAULT_RESTART, until, node);
    s->busy[node] = until + rest(s);
}

/* Crashes the current leader and restarts it. */
static void crash_leader(struct storm *s, bw_time at)
{
    bw_storm_add(s, BW_FAULT_CRASH, at, BW_NODE_NONE);
    bw_storm_add(s, BW_FAULT_RESTART, lasting(s, at), BW_NODE_NONE);
}

/* Crashes all nodes within a few milliseconds. */
static void blackout(struct storm *s, bw_time at)
{
    if (at + 20 * BW_MS >= s->end)
        return;
    for (bw_node node = 1; node <= s->present; node++) {
        bw_time when = at + bw_rng_between(&s->rng, 0, 20 * BW_MS);
        if (when <= s->busy[node])
            continue;
        bw_storm_add(s, BW_FAULT_CRASH, when, node);
        bw_storm_add(s, BW_FAULT_RESTART, lasting(s, when), node);
        s->busy[node] = when + 9 * BW_SEC;
    }
}

/* The operator of a service adds a member, removes one, does both at once, or replaces one whose
 * disk is lost. The service chooses the numbers of new members. */
static void operate(struct storm *s, bw_time at)
{
    bw_node node = any_node(s);
    uint64_t which = bw_rng_below(&s->rng, 4);
    if (s->changes == 0)
        return;
    if (which != 1)
        bw_storm_add(s, BW_FAULT_JOIN, at, s->config.nodes + s->config.spare);
    if (which == 1 || which == 2)
        bw_storm_add(s, BW_FAULT_LEAVE, at, bw_rng_chance(&s->rng, 0.3) ? BW_NODE_NONE : node);
    if (which == 3 && at > s->busy[node] && s->left == 0) {
        bw_storm_add(s, BW_FAULT_CRASH, at, node);
        bw_storm_add(s, BW_FAULT_WIPE, at + BW_MS, node);
        s->busy[node] = BW_TIME_NEVER;
        s->left++;
    }
    s->changes--;
}

/* Adds or removes members. The quorum guard supports one change at a time, so it gets only one
 * here. With voters at most one member leaves: it may be gone before any node could remove its
 * vote. */
static void change_members(struct storm *s, bw_time at)
{
    struct bw_sim_config *c = &s->config;
    bw_node node = any_node(s);
    if (c->algorithm == &bw_sim_registry_ops) {
        operate(s, at);
        return;
    }
    bool may_split = !c->guard && (c->algorithm->traits & BW_TRAIT_MAY_SPLIT);
    bool grow = s->present < c->nodes + c->spare && bw_rng_chance(&s->rng, 0.6);
    if (s->changes == 0)
        return;
    if (grow) {
        bw_storm_add(s, BW_FAULT_JOIN, at, ++s->present);
    } else if (s->present - s->left > 3 && at > s->busy[node] && (s->left == 0 || may_split)) {
        bw_storm_add(s, BW_FAULT_LEAVE, at, node);
        s->busy[node] = BW_TIME_NEVER;
        s->left++;
    } else {
        return;
    }
    s->changes--;
}

static void pause_node(struct storm *s, bw_time at, bw_node node)
{
    bw_time until = lasting(s, at);
    bw_storm_add(s, BW_FAULT_PAUSE, at, node);
    bw_storm_add(s, BW_FAULT_RESUME, until, node);
    s->busy[node] = until + rest(s);
}

static void slow_disk(struct storm *s, bw_time at, bw_node node)
{
    bw_time until = lasting(s, at);
    bw_storm_add(s, BW_FAULT_DISK_SLOW, at, node)->span =
        bw_rng_between(&s->rng, 5 * BW_MS, 500 * BW_MS);
    bw_storm_add(s, BW_FAULT_DISK_SLOW, until, node)->span = 0;
    s->busy[node] = until + rest(s);
}

static void partition(struct storm *s, bw_time at)
{
    if (s->partitions == PARTITIONS_MAX)
        return;
    uint8_t *groups = s->groups[s->partitions++];
    uint64_t parts = 2 + bw_rng_below(&s->rng, 2);
    for (uint32_t i = 1; i <= (s->stores ? IDS_MAX : NODES_MAX); i++)
        groups[i] = (uint8_t)(1 + bw_rng_below(&s->rng, parts));
    bw_storm_add(s, BW_FAULT_PARTITION, at, BW_NODE_NONE)->groups = groups;
    bw_storm_add(s, BW_FAULT_HEAL, lasting(s, at), BW_NODE_NONE);
}

static void cut(struct storm *s, bw_time at)
{
    bw_node from = any_node(s), to = any_node(s);
    if (s->stores && bw_rng_chance(&s->rng, 0.5))
        from = any_store(s);
    else if (s->stores)
        to = any_store(s);
    if (from == to)
        return;
    bw_storm_add(s, BW_FAULT_CUT, at, from)->peer = to;
    bw_storm_add(s, BW_FAULT_MEND, lasting(s, at), from)->peer = to;
}

static void command(struct storm *s, bw_time at)
{
    bw_node node = any_node(s);
    switch (bw_rng_below(&s->rng, 4)) {
    case 0:
        bw_storm_add(s, BW_FAULT_HINT, at, node)->peer = any_node(s);
        break;
    case 1:
        bw_storm_add(s, BW_FAULT_CAMPAIGN, at, node);
        break;
    case 2:
        bw_storm_add(s, BW_FAULT_RESIGN, at, BW_NODE_NONE);
        break;
    default:
        bw_storm_add(s, BW_FAULT_TRANSFER, at, BW_NODE_NONE)->peer = node;
    }
}

/* Delays responses of the store, up to the time when no candidate waits for them any more, and
 * reorders them. */
static void slow_answers(struct storm *s, bw_time at)
{
    struct bw_sim_latency slow = s->config.latency;
    slow.max += bw_rng_between(&s->rng, 0, s->config.lease.ttl_ns / 2);
    bw_storm_add(s, BW_FAULT_LATENCY, at, BW_NODE_NONE)->latency = slow;
    bw_storm_add(s, BW_FAULT_LATENCY, lasting(s, at), BW_NODE_NONE)->latency = s->config.latency;
}

static void weather(struct storm *s, bw_time at)
{
    if (s->stores && bw_rng_chance(&s->rng, 0.4)) {
        slow_answers(s, at);
        return;
    }
    if (bw_rng_chance(&s->rng, 0.5)) {
        bw_storm_add(s, BW_FAULT_LOSS, at, BW_NODE_NONE)->rate = bw_rng_unit(&s->rng) * 0.3;
        bw_storm_add(s, BW_FAULT_LOSS, lasting(s, at), BW_NODE_NONE)->rate = s->config.loss;
    } else {
        double bound = s->config.drift_bound;
        bool store = s->stores && bw_rng_chance(&s->rng, 0.3);
        bw_node node = store ? any_store(s) : any_node(s);
        bw_storm_add(s, BW_FAULT_DRIFT, at, node)->rate = (2 * bw_rng_unit(&s->rng) - 1) * bound;
    }
}

/* Makes the store unavailable, frozen, or slow in writing. */
static void store_trouble(struct storm *s, bw_time at)
{
    bw_node store = any_store(s);
    if (at <= s->busy[store])
        return;
    bw_time until = lasting(s, at);
    uint64_t which = bw_rng_below(&s->rng, 4);
    if (which == 0) {
        pause_node(s, at, store);
    } else if (which == 1) {
        slow_disk(s, at, store);
    } else {
        bw_storm_add(s, BW_FAULT_STORE_DOWN, at, BW_NODE_NONE);
        bw_storm_add(s, BW_FAULT_STORE_UP, until, BW_NODE_NONE);
    }
    for (bw_node id = NODES_MAX - 1; id <= IDS_MAX && which > 1; id++)
        s->busy[id] = bw_time_max(s->busy[id], until + 400 * BW_MS);
}

static void one_trouble(struct storm *s, bw_time at)
{
    if (s->wide && bw_storm_wide_trouble(s, at))
        return;
    if (s->wide_lease && bw_storm_lease_trouble(s, at))
        return;
    if (s->stores && bw_rng_chance(&s->rng, 0.15)) {
        store_trouble(s, at);
        return;
    }
    bw_node node = any_node(s);
    uint64_t which = bw_rng_below(&s->rng, 100);
    bool free = at > s->busy[node];
    if (which < 22 && free)
        crash(s, at, node);
    else if (which < 27)
        crash_leader(s, at);
    else if (which < 29)
        blackout(s, at);
    else if (which < (s->config.algorithm == &bw_sim_registry_ops ? 36 : 32))
        change_members(s, at);
    else if (which < 45 && free)
        pause_node(s, at, node);
    else if (which < 52 && free)
        slow_disk(s, at, node);
    else if (which < 64)
        partition(s, at);
    else if (which < 76)
        cut(s, at);
    else if (which < 88)
        command(s, at);
    else
        weather(s, at);
}

/* After the loads are even again: one node crashes and later restarts. */
static void one_goes(struct storm *s)
{
    bw_node node = any_node(s);
    if (s->left > 0)
        return;
    bw_storm_add(s, BW_FAULT_CRASH, s->end + QUIET_SHARDS, node);
    bw_storm_add(s, BW_FAULT_RESTART, s->end + 2 * QUIET_SHARDS, node);
}

/* The leader resigns, and its successor is killed and restarted before any node could have noticed.
 * This happens so late that a gap of some seconds would still exist at the end. It has its own
 * random numbers, so the storm before it is unchanged. */
static void resign_and_flap(struct storm *s)
{
    struct bw_rng rng;
    bw_rng_init(&rng, s->config.seed ^ 0x666c617073u);
    bw_time at = s->end + QUIET - FLAP - bw_rng_between(&rng, 0, BW_SEC);
    if (s->unable)
        at -= BW_STORM_TURNS_NS;
    bw_time crash_at = at + bw_rng_between(&rng, 200 * BW_MS, BW_SEC);
    bw_time restart_at = crash_at + bw_rng_between(&rng, 10 * BW_MS, 400 * BW_MS);
    bool plain = !s->stores && !s->frantic && !s->config.spread &&
                 s->config.algorithm != &bw_sim_registry_ops;
    if (!plain || !bw_rng_chance(&rng, 0.5))
        return;
    bw_storm_add(s, BW_FAULT_RESIGN, at, BW_NODE_NONE);
    bw_storm_add(s, BW_FAULT_CRASH, crash_at, BW_NODE_NONE);
    bw_storm_add(s, BW_FAULT_RESTART, restart_at, BW_NODE_NONE);
}

/* Ends all faults. Sometimes one node stays dead: the others must agree without it. */
static void end_faults(struct storm *s)
{
    bw_storm_add(s, BW_FAULT_HEAL, s->end, BW_NODE_NONE);
    bw_storm_add(s, BW_FAULT_LOSS, s->end, BW_NODE_NONE)->rate = 0;
    if (s->stores)
        bw_storm_add(s, BW_FAULT_LATENCY, s->end, BW_NODE_NONE)->latency = s->config.latency;
    if (s->config.second)
        bw_storm_add(s, BW_FAULT_CRASH, s->end, s->config.nodes + s->config.spare);
    for (bw_node node = 1; node <= s->present; node++) /* no effect on nodes that are up */
        bw_storm_add(s, BW_FAULT_RESTART, s->end, node);
    if (s->config.spread) {
        one_goes(s);
        return;
    }
    if (s->wide) {
        bw_storm_wide_end(s, s->end + QUIET);
        return;
    }
    bool changed = s->config.algorithm == &bw_sim_registry_ops && s->changes < OPERATIONS;
    /* a node that left may still be counted */
    if (s->left == 0 && !changed && bw_rng_chance(&s->rng, 0.3))
        bw_storm_add(s, BW_FAULT_CRASH, s->end + BW_SEC,
                     bw_rng_chance(&s->rng, 0.5) ? any_node(s) : 0);
    resign_and_flap(s);
}

static void sort_faults(struct storm *s)
{
    for (uint32_t i = 1; i < s->count; i++) { /* stable: equal times keep their order */
        struct bw_sim_fault fault = s->faults[i];
        uint32_t k = i;
        for (; k > 0 && s->faults[k - 1].at > fault.at; k--)
            s->faults[k] = s->faults[k - 1];
        s->faults[k] = fault;
    }
}

/* In half of the lease storms an operator deletes the store again and again. Drawn separately, so
 * that existing storms keep their other faults. */
static void draw_wipes(struct storm *s)
{
    struct bw_rng rng;
    bool keeps = s->config.lease.store == BW_SIM_STORE_QUORUM ||
                 s->config.lease.store == BW_SIM_STORE_SINGLE;
    bw_rng_init(&rng, s->config.seed ^ 0x7769706573u);
    if (!s->stores || !keeps || !bw_rng_chance(&rng, 0.5))
        return;
    bw_node store = s->config.nodes + s->config.spare + 1;
    bw_time at = 0;
    while ((at += bw_rng_between(&rng, 200 * BW_MS, 3 * BW_SEC)) < s->end &&
           s->count + 4 * NODES_MAX < BW_STORM_DRAWN_MAX)
        bw_storm_add(s, BW_FAULT_WIPE, at, store);
}

static void draw_faults(struct storm *s)
{
    bw_time begin = bw_storm_return_behind(s);
    s->end = bw_rng_between(&s->rng, 10 * BW_SEC, 30 * BW_SEC);
    bw_time gap = bw_rng_between(&s->rng, 100 * BW_MS, 2 * BW_SEC);
    if (s->frantic) {
        s->end /= 4;
        gap /= 20;
    }
    s->end += begin;
    bw_time at = begin + bw_rng_between(&s->rng, 300 * BW_MS, 2 * BW_SEC);
    for (; at < s->end && s->count + 4 * NODES_MAX < BW_STORM_DRAWN_MAX;
         at += bw_rng_between(&s->rng, BW_MS, 2 * gap))
        one_trouble(s, at);
    draw_wipes(s);
    bw_storm_kill_shards(s);
    bw_storm_second(s);
    bw_storm_lead_again(s);
    bw_storm_unable(s);
    end_faults(s);
    sort_faults(s);
}

static const struct bw_detector_ops *any_detector(struct storm *s)
{
    unsigned count = 0;
    while (bw_detector_at(count))
        count++;
    return bw_detector_at((unsigned)bw_rng_below(&s->rng, count));
}

static void draw_network(struct storm *s)
{
    struct bw_sim_config *c = &s->config;
    struct bw_rng *rng = &s->rng;
    c->latency.min = bw_rng_between(rng, 50 * BW_US, 2 * BW_MS);
    c->latency.max = c->latency.min + bw_rng_between(rng, 0, 10 * BW_MS);
    c->loss = bw_rng_chance(rng, 0.5) ? bw_rng_unit(rng) * 0.05 : 0;
    c->duplicate = bw_rng_chance(rng, 0.5) ? bw_rng_unit(rng) * 0.05 : 0;
    c->reorder = bw_rng_chance(rng, 0.5) ? bw_rng_unit(rng) * 0.1 : 0;
    c->drift = c->drift_bound;
    c->disk_min = 10 * BW_US;
    c->disk_max = bw_rng_between(rng, 20 * BW_US, 10 * BW_MS);
    c->transport_reports = bw_rng_chance(rng, 0.5);
    c->transport_hints = bw_rng_chance(rng, 0.3);
}

static bw_time drawn(struct storm *s, bw_time fixed, bw_time low, bw_time high)
{
    bw_time value = bw_rng_between(&s->rng, low, high);
    return fixed >= 0 ? fixed : value;
}

/* Draws a declared clock bound that leaves enough of the TTL for the other draws. Without one
 * nothing is drawn, so that existing storms stay the same. */
static void draw_wall_clocks(struct bw_sim_lease *lease, const struct bw_sim_lease *fixed)
{
    if (fixed->uncertainty_ns <= 0)
        return;
    lease->expires = false;
    lease->uncertainty_ns = bw_time_min(fixed->uncertainty_ns, lease->ttl_ns / 10);
}

/* Draws leases short enough to end many times in a storm; fixed settings stay. */
static void draw_lease(struct storm *s, const struct bw_sim_lease *fixed)
{
    struct bw_sim_lease *lease = &s->config.lease;
    bool single = bw_rng_chance(&s->rng, 0.5), slow = bw_rng_chance(&s->rng, 0.3);
    lease->store = single ? BW_SIM_STORE_SINGLE : BW_SIM_STORE_QUORUM;
    if (fixed->store != BW_SIM_STORE_ANY)
        lease->store = fixed->store;
    lease->expires = bw_rng_chance(&s->rng, 0.3) || fixed->expires;
    lease->lag_ns = bw_time_max(fixed->lag_ns, 0);
    lease->ttl_ns = drawn(s, fixed->ttl_ns, 600 * BW_MS, slow ? 8 * BW_SEC : 2 * BW_SEC);
    lease->grace_ns = drawn(s, fixed->grace_ns, 0, 500 * BW_MS);
    lease->retry_ns = drawn(s, fixed->retry_ns, 50 * BW_MS, BW_SEC);
    lease->kill_after_ns = drawn(s, fixed->kill_after_ns, 0, lease->ttl_ns / 4);
    lease->margin_ns = drawn(s, -1, 0, lease->ttl_ns / 20);
    draw_wall_clocks(lease, fixed);
    s->config.stop_ns = bw_rng_between(&s->rng, 0, lease->kill_after_ns * 3 / 2);
    s->config.algorithm = bw_sim_lease_ops(lease->store);
    s->stores = bw_sim_stores(&s->config);
}

/* Returns whether any node can become the successor. Other algorithms elect by rank, independently
 * of the last leader: bullies transfer at most to the second in rank. Rings transfer to any node,
 * but the highest node leads again after the next election. */
bool bw_storm_any_can_succeed(const struct bw_elector_ops *algorithm)
{
    return bw_sim_is_raft(algorithm) || algorithm == &bw_elect_stable ||
           algorithm == &bw_elect_invitation;
}

/* Returns the checks that follow from the algorithm's traits. */
static unsigned checks_for(const struct bw_sim_config *c)
{
    unsigned checks = BW_CHECK_AGREEMENT | BW_CHECK_LIVENESS | BW_CHECK_MEMORY;
    bool safe = c->guard || !(c->algorithm->traits & BW_TRAIT_MAY_SPLIT);
    if (safe)
        checks |= BW_CHECK_ONE_PER_TERM | BW_CHECK_EXCLUSION | BW_CHECK_TOKENS | BW_CHECK_STALE;
    if (bw_sim_is_raft(c->algorithm))
        checks |= BW_CHECK_LOG;
    if (c->detector)
        checks |= BW_CHECK_DETECTOR;
    if (c->guard && c->founders_vote && c->promise_ns)
        checks |= BW_CHECK_PROMISES;
    if (c->peer_rules && (bw_sim_is_raft(c->algorithm) || c->algorithm == &bw_elect_stable))
        checks |= BW_CHECK_TRANSFER;
    if (bw_storm_may_be_unable(c))
        checks |= BW_CHECK_ABLE;
    if (c->spread)
        checks |= BW_CHECK_MOVES | (bw_storm_any_can_succeed(c->algorithm) ? BW_CHECK_SPREAD : 0);
    return checks;
}

/* Draws the members that can lead, or that are next in line, in random order. */
static void draw_chosen(struct storm *s)
{
    struct bw_sim_config *c = &s->config;
    uint32_t count = 1 + (uint32_t)bw_rng_below(&s->rng, c->nodes);
    for (uint32_t i = 0; i < c->nodes; i++)
        s->chosen[i] = i + 1;
    bw_rng_shuffle(&s->rng, s->chosen, c->nodes);
    if (c->algorithm == &bw_elect_bully_candidates) {
        c->candidates = s->chosen;
        c->candidates_count = count;
    } else if (c->algorithm == &bw_elect_bully_next) {
        c->alternatives = s->chosen;
        c->alternatives_count = count;
    }
}

/* Draws permanent elections and equally slow disks, to show messages that are sent before their
 * state is durable. */
static void draw_frantic(struct storm *s)
{
    struct bw_sim_config *c = &s->config;
    s->frantic = true;
    c->detector = NULL;
    c->period_ns = 10 * BW_MS;
    c->timeout_min = 40 * BW_MS;
    c->timeout_max = bw_rng_between(&s->rng, 50 * BW_MS, 120 * BW_MS);
    c->latency.max = bw_time_min(c->latency.max, 5 * BW_MS);
    c->latency.min = bw_time_min(c->latency.min, c->latency.max);
    c->disk_max = bw_rng_between(&s->rng, BW_MS, 30 * BW_MS);
    c->propose_ns = bw_rng_between(&s->rng, BW_MS, 10 * BW_MS);
}

/* Draws clients that ask often, leases that end many times, and frequent snapshots. */
static void draw_registry(struct storm *s)
{
    struct bw_sim_config *c = &s->config;
    struct bw_rng *rng = &s->rng;
    c->propose_ns = c->read_ns = 0;
    c->spare = NODES_MAX - c->nodes;
    s->present = NODES_MAX; /* faults on absent nodes are skipped */
    s->changes = OPERATIONS;
    c->compact_every = 10 + (uint32_t)bw_rng_below(rng, 200);
    c->registry.clients = 2 + (uint32_t)bw_rng_below(rng, 9);
    c->registry.pace_ns = bw_rng_between(rng, BW_MS, 40 * BW_MS);
    c->registry.ttl_min = bw_rng_between(rng, 100 * BW_MS, 600 * BW_MS);
    c->registry.ttl_max = c->registry.ttl_min + bw_rng_between(rng, 0, 2 * BW_SEC);
}

/* Moves need time to settle between faults, so no frantic storms; each log grows slowly. */
static void draw_shards(struct storm *s, uint32_t shards)
{
    struct bw_sim_config *c = &s->config;
    c->elections = shards;
    c->spread = true;
    if (!c->detector)
        c->detector = any_detector(s);
    c->propose_ns = c->read_ns = 500 * BW_MS;
    c->propose_count = 1;
    c->work_ns = 500 * BW_MS;
    c->stop_ns = bw_rng_between(&s->rng, 0, 300 * BW_MS);
}

static void draw_config(struct storm *s, const struct bw_elector_ops *algorithm,
                        const struct bw_storm_fixed *fixed, uint64_t seed)
{
    struct bw_sim_config *c = &s->config;
    bool own_timers = algorithm->traits & BW_TRAIT_OWN_TIMERS;
    bw_sim_defaults(c);
    c->algorithm = algorithm;
    c->seed = seed;
    c->nodes = 3 + (uint32_t)bw_rng_below(&s->rng, s->wide ? 3 : 5);
    c->detector = fixed->detector;
    if (!c->detector && !(own_timers && bw_rng_chance(&s->rng, 0.8)))
        c->detector = any_detector(s);
    c->guard = (algorithm->traits & BW_TRAIT_GUARDABLE) && bw_rng_chance(&s->rng, 0.6);
    c->spare = (uint32_t)bw_rng_below(&s->rng, NODES_MAX - c->nodes + 1);
    s->present = c->nodes;
    s->changes = c->guard ? 1 : 4;
    c->rank = bw_rng_chance(&s->rng, 0.3) ? BW_RANK_STABILITY : BW_RANK_ID;
    c->pre_vote_off = bw_rng_chance(&s->rng, 0.2);
    c->propose_ns = bw_rng_between(&s->rng, 2 * BW_MS, 20 * BW_MS);
    c->propose_count = 1 + (uint32_t)bw_rng_below(&s->rng, 8);
    c->read_ns = bw_rng_between(&s->rng, 5 * BW_MS, 50 * BW_MS);
    c->compact_every = bw_rng_chance(&s->rng, 0.7) ? 50 + (uint32_t)bw_rng_below(&s->rng, 500) : 0;
    c->work_ns = 50 * BW_MS;
    draw_network(s);
    draw_chosen(s);
    if (bw_sim_is_raft(algorithm) && bw_rng_chance(&s->rng, 0.4) && !fixed->shards && !s->wide)
        draw_frantic(s);
    if (bw_sim_is_lease(algorithm))
        draw_lease(s, &fixed->lease);
    if (algorithm == &bw_sim_registry_ops)
        draw_registry(s);
    if (fixed->shards)
        draw_shards(s, fixed->shards);
    if (s->wide)
        bw_storm_wide_config(s);
    if (s->wide_lease)
        bw_storm_lease_config(s, &fixed->lease);
    bw_storm_second_config(s, fixed);
}

/* Clients continue in the idle time for a while; then their leases must end. */
static void end_clients(struct storm *s)
{
    s->config.registry.stop = s->end + CALM_CLIENTS;
    s->config.until = s->config.registry.stop + 4 * s->config.registry.ttl_max + QUIET_CLIENTS;
}

const struct bw_storm_fixed bw_storm_any = {.lease = {.store = BW_SIM_STORE_ANY,
                                                      .ttl_ns = -1,
                                                      .grace_ns = -1,
                                                      .retry_ns = -1,
                                                      .kill_after_ns = -1}};

int bw_storm_seed(struct bw_sim *sim, const struct bw_elector_ops *algorithm,
                  const struct bw_storm_fixed *fixed, uint64_t seed, FILE *trace,
                  struct bw_storm_result *result)
{
    struct storm s;
    struct bw_sim_result run;
    memset(&s, 0, sizeof s);
    memset(result, 0, sizeof *result);
    bw_rng_init(&s.rng, seed ^ 0x73746f726d00u);
    s.wide = bw_storm_is_wide(&s, algorithm, fixed, seed);
    s.wide_lease = !s.wide && bw_storm_is_wide_lease(&s, algorithm, seed);
    draw_config(&s, algorithm, fixed, seed);
    draw_faults(&s);
    s.config.faults = s.faults;
    s.config.faults_count = s.count;
    s.config.until = s.end + (s.frantic ? QUIET_FRANTIC : QUIET);
    if (s.wide || s.wide_lease)
        s.config.timers_late_until = s.end;
    if (s.wide_lease)
        s.config.until += 2 * s.config.lease.ttl_ns;
    if (algorithm == &bw_sim_registry_ops)
        end_clients(&s);
    if (s.config.spread)
        s.config.until = s.end + 3 * QUIET_SHARDS;
    s.config.trace = trace;
    s.config.checks = checks_for(&s.config);
    int error = bw_sim_run_in(sim, &s.config, &run, result->text);
    if (error)
        return error;
    result->delivered = run.delivered;
    result->events = run.events;
    result->trace_hash = run.trace_hash;
    result->asked = run.asked;
    result->undecided = run.undecided;
    if (run.violation) {
        memcpy(result->text, run.violation_text, sizeof result->text);
        result->violation = result->text;
    }
    return 0;
}
