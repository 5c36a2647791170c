/* Members that are unable to lead: their host is drained or unhealthy.
 *
 * Such a member votes and follows. When it is elected, it resigns by the shipped rule of `peer`
 * (core/peer/leader_slot.h): not before it could act, and at most once a second. A host stays
 * unable to lead when its process restarts. */
#include "sim/world/world.h"

/* Looks now whether the member must resign, or plans when to look. */
static void plan(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    bw_time now = bw_sim_clock_local(&node->clock, sim->now), at = now;
    if (!node->unable || !node->up)
        return;
    if (!leader_slot_must_resign(&node->slot, now))
        at = leader_slot_deadline(&node->slot, now);
    struct bw_sim_slot *slot = at < BW_TIME_NEVER ? bw_sim_pend(sim, BW_PENDING_UNABLE, id) : NULL;
    if (!slot)
        return;
    slot->extra = ++node->unable_look;
    bw_sim_queue_push(&sim->queue, slot,
                      bw_time_max(bw_sim_clock_world(&node->clock, at), sim->now));
}

void bw_sim_unable_start(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    leader_slot_init(&node->slot, bw_sim_id_of(sim, id), 0);
    node->slot.line = node->unable ? PEER_QUEUE_OUT : PEER_QUEUE_IN;
}

void bw_sim_unable_announced(struct bw_sim *sim, bw_node id, const struct bw_announcement *a)
{
    struct bw_sim_node *node = &sim->nodes[id];
    leader_slot_announce(&node->slot, a, bw_sim_clock_local(&node->clock, sim->now));
    plan(sim, id);
}

void bw_sim_unable_set(struct bw_sim *sim, bw_node id, bool unable)
{
    struct bw_sim_node *node = &sim->nodes[id];
    node->unable = unable;
    node->slot.line = unable ? PEER_QUEUE_OUT : PEER_QUEUE_IN;
    plan(sim, id);
}

void bw_sim_unable_due(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    bw_node id = slot->node;
    struct bw_sim_node *node = &sim->nodes[id];
    bw_time now = bw_sim_clock_local(&node->clock, sim->now);
    bool current = slot->extra == node->unable_look;
    bw_sim_queue_give(&sim->queue, slot);
    if (!current || !node->unable)
        return;
    if (leader_slot_must_resign(&node->slot, now)) {
        leader_slot_resigned(&node->slot, now);
        bw_sim_fault_resign(sim, id);
    }
    plan(sim, id);
}
