/* Members that are unable to lead. In a part of the seeds, hosts are drained or unhealthy for some
 * time, and some of them until the end. A member that is able to lead must lead then, and
 * leadership must not pass on without end. The plan has its own random numbers, so the other faults
 * of a seed are the same as without it. */
#include "sim/faults/storm_plan.h"

#define PROPOSE_NS (500 * BW_MS)
#define SPELLS_MAX 8u /* times that a host becomes unable to lead */

/* Without a detector, no node learns that one whose death was confirmed has returned. With shards,
 * the checker would count the leaders of all elections together. */
bool bw_storm_may_be_unable(const struct bw_sim_config *config)
{
    return config->algorithm != &bw_sim_registry_ops && !config->spread &&
           (config->detector || bw_sim_is_raft(config->algorithm));
}

void bw_storm_unable(struct storm *s)
{
    struct bw_rng rng;
    bw_rng_init(&rng, s->config.seed ^ 0x756e61626c65u);
    if (s->frantic || s->stores || !bw_storm_may_be_unable(&s->config) || !bw_rng_chance(&rng, 0.5))
        return;
    s->unable = true;
    /* the log of `peer` contains membership changes only, so a successor is rarely behind */
    s->config.propose_ns = bw_time_max(s->config.propose_ns, PROPOSE_NS);
    uint64_t spells = 1 + bw_rng_below(&rng, SPELLS_MAX);
    bw_node highest = s->config.nodes + s->config.spare;
    double lasting = bw_rng_unit(&rng) * 0.8;
    for (uint64_t i = 0; i < spells && s->count + 4 * BW_STORM_NODES_MAX < BW_STORM_DRAWN_MAX;
         i++) {
        bw_node node = 1 + (bw_node)bw_rng_below(&rng, highest);
        bw_node host = bw_rng_chance(&rng, 0.5) ? BW_NODE_NONE : node; /* NONE: the leader */
        bw_time at = bw_rng_between(&rng, BW_MS, s->end);
        bw_storm_add(s, BW_FAULT_UNABLE, at, host);
        bw_storm_add(s, BW_FAULT_ABLE, bw_rng_between(&rng, at, s->end), node);
    }
    for (bw_node node = 1; node <= highest; node++) {
        bool unable = bw_rng_chance(&rng, lasting);
        bw_storm_add(s, unable ? BW_FAULT_UNABLE : BW_FAULT_ABLE, s->end, node);
    }
}
