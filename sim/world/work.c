/* The work of a leader: while it may act, it writes to the resource at regular intervals.
 *
 * It checks its deadline on its own clock at each write, also after a pause. No check can close one
 * gap: the process may be paused between the check and the write. Fencing exists for this case, so
 * it happens here too. */
#include "sim/world/world.h"

#include <string.h>

/* Probability that a pause hits a leader between its check and its write. */
#define STRAY_CHANCE 0.25

static bool may_act(const struct bw_sim *sim, bw_node id, const struct bw_sim_claim *claim)
{
    bw_time local = bw_sim_clock_local(&sim->nodes[id].clock, sim->now);
    return claim->leads && local >= claim->act_from && local < claim->act_until;
}

static void write_out(struct bw_sim *sim, bw_node id, uint32_t election,
                      const struct bw_sim_write *write)
{
    struct bw_sim_slot *slot = bw_sim_pend(sim, BW_PENDING_WRITE, id);
    if (!slot)
        return;
    slot->election = (uint16_t)election;
    memcpy(slot->body, write, sizeof *write);
    sim->result->writes_tried++;
    bw_sim_queue_push(&sim->queue, slot, sim->now + bw_sim_net_delay(&sim->net));
}

void bw_sim_work_schedule(struct bw_sim *sim, bw_node id, uint32_t election)
{
    struct bw_sim_claim *claim = bw_sim_claims_of(&sim->claims, election, id);
    if (!sim->config->work_ns || claim->working || !claim->leads)
        return;
    bw_time from = bw_sim_clock_world(&sim->nodes[id].clock, claim->act_from);
    bw_time until = bw_sim_clock_world(&sim->nodes[id].clock, claim->act_until);
    bw_time at = bw_time_max(from, sim->now);
    struct bw_sim_slot *slot = at < until ? bw_sim_pend(sim, BW_PENDING_WORK, id) : NULL;
    if (!slot)
        return;
    slot->election = (uint16_t)election;
    claim->working = true;
    bw_sim_queue_push(&sim->queue, slot, at);
}

void bw_sim_work_due(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    bw_node id = slot->node;
    struct bw_sim_claim *claim = bw_sim_claims_of(&sim->claims, slot->election, id);
    bw_time local = bw_sim_clock_local(&sim->nodes[id].clock, sim->now);
    if (!claim->leads || local >= claim->act_until) {
        claim->working = false; /* an extension of the window starts it again */
        bw_sim_queue_give(&sim->queue, slot);
        return;
    }
    if (may_act(sim, id, claim)) {
        struct bw_sim_write write = {.serial = claim->serial, .token = claim->token};
        write_out(sim, id, slot->election, &write);
    }
    bw_sim_queue_push(&sim->queue, slot, sim->now + sim->config->work_ns);
}

void bw_sim_work_arrives(struct bw_sim *sim, struct bw_sim_slot *slot)
{
    struct bw_sim_write write;
    bool stale;
    memcpy(&write, slot->body, sizeof write);
    bool accepted = bw_sim_resource_write(&sim->resources[slot->election], &write,
                                          !sim->config->fencing_off, &stale);
    sim->result->stale_tried += stale;
    sim->result->stale_accepted += stale && accepted;
    bw_sim_trace_wrote(&sim->trace, sim->now, slot->node, write.token, accepted, stale);
    bw_sim_queue_give(&sim->queue, slot);
}

void bw_sim_work_pause(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    for (uint32_t e = 0; sim->config->work_ns && e < sim->elections; e++) {
        const struct bw_sim_claim *claim = bw_sim_claims_of(&sim->claims, e, id);
        if (!may_act(sim, id, claim) || !bw_rng_chance(&sim->rng, STRAY_CHANCE))
            continue;
        node->stray = (struct bw_sim_write){.serial = claim->serial, .token = claim->token};
        node->stray_election = (uint16_t)e;
    }
}

void bw_sim_work_resume(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    if (node->stray.serial)
        write_out(sim, id, node->stray_election, &node->stray);
    node->stray.serial = 0;
}
