/* A second process under the id of a running node: an id given twice by mistake.
 *
 * It has its own slot in the table of nodes, the highest one, with its own clock and an empty disk.
 * Its electors believe that they are the node whose id they use, so both processes send under one
 * id. Which process receives a message to that id follows from what `peer` and the stores do:
 *
 * - A store replies over the connection of the request. Both processes get every reply, and the one
 *   that did not ask ignores it.
 * - Without a quorum, the members believe the row with the highest incarnation, and each process
 *   raises its own when it learns of the other. So a message reaches one of both by chance.
 * - With a quorum, the members refuse the row of a process with another directory, and keep the
 *   address of the first one. The second one receives nothing, but what it sends is received. It
 *   ends before it takes part if it uses the id of a founder, so only other members have one.
 *
 * A Raft peer refuses to take part, so there is no second process with Raft. */
#include "sim/world/world.h"

bw_node bw_sim_id_of(const struct bw_sim *sim, bw_node slot)
{
    return sim->nodes[slot].same_id_as ? sim->nodes[slot].same_id_as : slot;
}

bool bw_sim_is_second(const struct bw_sim *sim, bw_node slot)
{
    return sim->config->second && slot == sim->config->nodes + sim->config->spare;
}

bw_node bw_sim_second_of(const struct bw_sim *sim, bw_node id)
{
    bw_node slot = sim->config->nodes + sim->config->spare;
    bool used = sim->config->second && sim->nodes[slot].up;
    return used && sim->nodes[slot].same_id_as == id ? slot : BW_NODE_NONE;
}

bool bw_sim_second_may(const struct bw_sim *sim, bw_node id)
{
    const struct bw_sim_config *config = sim->config;
    bw_node slot = config->nodes + config->spare;
    if (!config->second || sim->raft || id == BW_NODE_NONE || id >= slot)
        return false;
    if (config->guard && (!config->founders_vote || id <= config->nodes))
        return false;
    return sim->nodes[id].member && !sim->nodes[id].leaving && !sim->nodes[slot].up;
}

void bw_sim_second_start(struct bw_sim *sim, bw_node id)
{
    bw_node slot = sim->config->nodes + sim->config->spare;
    struct bw_sim_node *second = &sim->nodes[slot];
    second->same_id_as = id;
    second->starts = sim->nodes[id].starts;
    bw_sim_disk_init(&second->disk, second->disk.records, second->disk.logs, sim->elections);
    bw_sim_node_boot(sim, slot);
    if (!sim->error)
        bw_sim_node_start(sim, slot, false, BW_NODE_NONE);
    sim->nodes[id].starts = second->starts; /* the next process of the node starts above it */
}

bw_node bw_sim_receiver(struct bw_sim *sim, bw_node id)
{
    bw_node second = bw_sim_second_of(sim, id);
    if (!second || sim->config->guard || sim->stores)
        return id;
    return !sim->nodes[id].up || bw_rng_chance(&sim->rng, 0.5) ? second : id;
}
