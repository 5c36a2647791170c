/* The wider plan of lease storms; half of the seeds use it. It adds to the faults of storm.c:
 *
 * - leases of up to 20 s, many times the retry time and the time of a request
 * - candidates, mostly the leader, that are paused for up to twice a lease
 * - processes that are killed while their work runs on, until the lease ends
 * - answers that come after up to two leases, and stores that are gone for as long
 * - late timers, and up to half of all messages duplicated */
#include "sim/faults/storm_plan.h"

bool bw_storm_is_wide_lease(struct storm *s, const struct bw_elector_ops *algorithm, uint64_t seed)
{
    if (!bw_sim_is_lease(algorithm))
        return false;
    bw_rng_init(&s->wide_rng, seed ^ 0x6c656173657377u);
    return bw_rng_chance(&s->wide_rng, 0.5);
}

static bw_time drawn(struct bw_rng *rng, bw_time fixed, bw_time low, bw_time high)
{
    bw_time value = bw_rng_between(rng, low, high);
    return fixed >= 0 ? fixed : value;
}

void bw_storm_lease_config(struct storm *s, const struct bw_sim_lease *fixed)
{
    static const bw_time longest[] = {2 * BW_SEC, 8 * BW_SEC, 20 * BW_SEC};
    struct bw_sim_config *c = &s->config;
    struct bw_sim_lease *lease = &c->lease;
    struct bw_rng *rng = &s->wide_rng;
    bw_time most = longest[bw_rng_below(rng, sizeof longest / sizeof longest[0])];
    lease->ttl_ns = drawn(rng, fixed->ttl_ns, 600 * BW_MS, most);
    lease->retry_ns = drawn(rng, fixed->retry_ns, 20 * BW_MS, lease->ttl_ns);
    lease->kill_after_ns = drawn(rng, fixed->kill_after_ns, 0, lease->ttl_ns / 4);
    lease->margin_ns = bw_rng_between(rng, 0, lease->ttl_ns / 20);
    if (lease->uncertainty_ns > 0)
        lease->uncertainty_ns = bw_time_min(fixed->uncertainty_ns, lease->ttl_ns / 10);
    c->stop_ns = bw_rng_between(rng, 0, lease->kill_after_ns * 3 / 2);
    c->timers_late_ns = bw_rng_chance(rng, 0.5) ? bw_rng_between(rng, 1, 3 * BW_MS) : 0;
    if (bw_rng_chance(rng, 0.3))
        c->duplicate = bw_rng_unit(rng) * 0.5;
}

/* A span around the length of a lease: from much shorter to twice as long. */
static bw_time around_lease(struct storm *s)
{
    return bw_rng_between(&s->wide_rng, BW_MS, 2 * s->config.lease.ttl_ns);
}

static bw_node any_candidate(struct storm *s)
{
    return 1 + (bw_node)bw_rng_below(&s->wide_rng, s->present);
}

/* Mostly the leader. */
static bw_node victim(struct storm *s)
{
    return bw_rng_chance(&s->wide_rng, 0.6) ? BW_NODE_NONE : any_candidate(s);
}

static bw_node any_store(struct storm *s)
{
    bw_node first = s->config.nodes + s->config.spare + 1;
    return first + (bw_node)bw_rng_below(&s->wide_rng, s->stores);
}

/* Which node is paused becomes known only in the run, so all candidates resume at the end. */
static void pause_long(struct storm *s, bw_time at)
{
    bw_time until = bw_storm_until(s, at, around_lease(s));
    bw_storm_add(s, BW_FAULT_PAUSE, at, victim(s));
    for (bw_node id = 1; id <= s->config.nodes + s->config.spare; id++)
        bw_storm_add(s, BW_FAULT_RESUME, until, id);
}

static void kill_supervisor(struct storm *s, bw_time at)
{
    bw_node node = victim(s);
    bw_storm_add(s, BW_FAULT_KILL, at, node);
    bw_storm_add(s, BW_FAULT_RESTART, bw_storm_until(s, at, around_lease(s)), node);
}

/* All processes die within one lease, and come back in any order. */
static void kill_all(struct storm *s, bw_time at)
{
    for (bw_node id = 1; id <= s->present; id++) {
        bw_time when = bw_storm_until(s, at, around_lease(s) / 2);
        bool killed = bw_rng_chance(&s->wide_rng, 0.5);
        bw_storm_add(s, killed ? BW_FAULT_KILL : BW_FAULT_CRASH, when, id);
        bw_storm_add(s, BW_FAULT_RESTART, bw_storm_until(s, when, around_lease(s)), id);
    }
}

static void late_answers(struct storm *s, bw_time at)
{
    struct bw_sim_latency late = s->config.latency;
    late.max += around_lease(s);
    bw_storm_add(s, BW_FAULT_LATENCY, at, BW_NODE_NONE)->latency = late;
    bw_storm_add(s, BW_FAULT_LATENCY, bw_storm_until(s, at, around_lease(s)), BW_NODE_NONE)
        ->latency = s->config.latency;
}

/* Requests or answers are lost, between one candidate and one store. */
static void cut_one_way(struct storm *s, bw_time at)
{
    bw_node candidate = any_candidate(s), store = any_store(s);
    bool answers = bw_rng_chance(&s->wide_rng, 0.6);
    bw_node from = answers ? store : candidate, to = answers ? candidate : store;
    bw_storm_add(s, BW_FAULT_CUT, at, from)->peer = to;
    bw_storm_add(s, BW_FAULT_MEND, bw_storm_until(s, at, around_lease(s)), from)->peer = to;
}

static void lose_stores(struct storm *s, bw_time at)
{
    bw_storm_add(s, BW_FAULT_STORE_DOWN, at, BW_NODE_NONE);
    bw_storm_add(s, BW_FAULT_STORE_UP, bw_storm_until(s, at, around_lease(s)), BW_NODE_NONE);
}

/* Leadership passes between candidates, many times within one lease. */
static void pass_around(struct storm *s, bw_time at)
{
    uint64_t steps = 2 + bw_rng_below(&s->wide_rng, 6);
    for (uint64_t i = 0; i < steps; i++) {
        bool named = bw_rng_chance(&s->wide_rng, 0.6);
        bw_node to = any_candidate(s);
        struct bw_sim_fault *fault = bw_storm_add(s, named ? BW_FAULT_TRANSFER : BW_FAULT_RESIGN,
                                                  bw_time_min(at, s->end), 0);
        if (named)
            fault->peer = to;
        at += bw_rng_between(&s->wide_rng, BW_MS, s->config.lease.ttl_ns / 4);
    }
}

bool bw_storm_lease_trouble(struct storm *s, bw_time at)
{
    uint64_t which = bw_rng_below(&s->wide_rng, 100);
    if (which >= 50 || s->count + 12 * BW_STORM_NODES_MAX >= BW_STORM_DRAWN_MAX)
        return false;
    if (which < 14)
        pause_long(s, at);
    else if (which < 22)
        kill_supervisor(s, at);
    else if (which < 25)
        kill_all(s, at);
    else if (which < 33)
        late_answers(s, at);
    else if (which < 40)
        cut_one_way(s, at);
    else if (which < 44)
        lose_stores(s, at);
    else
        pass_around(s, at);
    return true;
}
