/* Second processes: for a while, two processes run under the same id (sim/world/duplicate_id.c). A
 * quarter of the storms of leases, and of the wider storms of other algorithms except Raft, have
 * them.
 *
 * They have their own random numbers, so the other storms stay the same. */
#include "sim/faults/storm_plan.h"

#define SECONDS_MAX 6u

/* Returns the slot of second processes. */
static bw_node slot_of(const struct storm *s)
{
    return s->config.nodes + s->config.spare;
}

void bw_storm_second_config(struct storm *s, const struct bw_storm_fixed *fixed)
{
    struct bw_sim_config *c = &s->config;
    bool lease = bw_sim_is_lease(c->algorithm);
    bool peers = s->wide && !bw_sim_is_raft(c->algorithm) && (!c->guard || c->founders_vote);
    bw_rng_init(&s->second_rng, c->seed ^ 0x7365636f6e64u);
    if (!bw_rng_chance(&s->second_rng, 0.25) || !(lease || peers) || fixed->shards)
        return;
    c->second = true;
    if (c->spare < 2)
        c->spare = 2;
    if (c->nodes + c->spare > BW_STORM_NODES_MAX)
        c->nodes = BW_STORM_NODES_MAX - c->spare;
    if (s->present > slot_of(s))
        s->present = slot_of(s);
    if (c->guard) { /* only members that are not founders can have one: they must join first */
        for (bw_node id = c->nodes + 1; id < slot_of(s); id++)
            bw_storm_add(s, BW_FAULT_JOIN, bw_rng_between(&s->second_rng, 0, 2 * BW_SEC), id);
    }
}

/* Without a quorum, the process that was first may be the one that ends. The other one then has the
 * id for itself, but another disk. */
static void first_ends(struct storm *s, bw_time at, bw_node node)
{
    bw_storm_add(s, BW_FAULT_CRASH, at, node);
    if (!s->stores)
        bw_storm_add(s, BW_FAULT_WIPE, at, node);
    bw_storm_add(s, BW_FAULT_RESTART, at, node);
}

void bw_storm_second(struct storm *s)
{
    static const bw_time longest[] = {100 * BW_MS, BW_SEC, 6 * BW_SEC, 20 * BW_SEC};
    struct bw_rng *rng = &s->second_rng;
    uint64_t count = 1 + bw_rng_below(rng, SECONDS_MAX);
    for (uint64_t i = 0; s->config.second && i < count; i++) {
        bw_time at = bw_rng_between(rng, 500 * BW_MS, s->end);
        bw_time most = longest[bw_rng_below(rng, sizeof longest / sizeof longest[0])];
        bw_time until = bw_storm_until(s, at, bw_rng_between(rng, BW_MS, most));
        bool leader = bw_rng_chance(rng, 0.5);
        bw_node node = 1 + (bw_node)bw_rng_below(rng, slot_of(s) - 1);
        if (s->config.guard)
            node = s->config.nodes + 1 + (bw_node)bw_rng_below(rng, s->config.spare - 1);
        bw_storm_add(s, BW_FAULT_SECOND, at, leader ? BW_NODE_NONE : node);
        bw_storm_add(s, BW_FAULT_CRASH, until, slot_of(s));
        if (!leader && !s->config.guard && bw_rng_chance(rng, 0.4))
            first_ends(s, until, node);
    }
}
