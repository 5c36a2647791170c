/* Members that leave, are removed, lose their disk and return, by the rules of `peer`
 * (docs/guides/peer-members.md).
 *
 * Raft, with peer_rules:
 * - A node that leaves or is removed stays in the group, and its process runs, until the removal is
 *   committed. Then the process ends, as soon as its work is dead.
 * - A node that lost its disk does not run until its removal is committed.
 * - After that, a new process with an empty disk may join under the same id.
 *
 * Quorum guard with founders_vote: a founder that left returns with its own disk. A founder that
 * lost its disk never returns, because it forgot its promises.
 *
 * Without a quorum a node may restart or return with an empty disk at any time. Its number of
 * starts is not lost: the other peers know it, and the node continues from there. */
#include "sim/world/world.h"

#include "sim/world/raft.h"

/* The world keeps at least this number of members. */
#define MEMBERS_MIN 2u
/* Raft: a voter may lose its disk only if the group has at least this number of voters. Then the
 * other voters are a majority, even if a crashed leader has begun to remove one more voter. */
#define VOTERS_MIN 4u

static bool waits_for_removal(const struct bw_sim *sim)
{
    for (bw_node id = 1; id <= sim->cap; id++)
        if (sim->nodes[id].wiped)
            return true;
    return false;
}

/* Returns whether the founders that remain without `id` are a majority. */
static bool majority_without(const struct bw_sim *sim, bw_node id)
{
    uint32_t nodes = sim->config->nodes, kept = 0;
    for (bw_node founder = 1; founder <= nodes; founder++) {
        const struct bw_sim_node *node = &sim->nodes[founder];
        kept += founder != id && node->member && !node->leaving && !node->left && !node->wiped;
    }
    return kept > nodes / 2;
}

static bool may_go(const struct bw_sim *sim, bw_node id)
{
    if (!sim->config->peer_rules)
        return true;
    if (sim->config->guard)
        return majority_without(sim, id) || id > sim->config->nodes;
    return sim->nodes[id].member && sim->members_count > MEMBERS_MIN;
}

static bool may_join(const struct bw_sim *sim, bw_node id)
{
    const struct bw_sim_node *node = &sim->nodes[id];
    if (node->member || node->up || node->departing || bw_sim_is_second(sim, id))
        return false;
    if (!node->starts)
        return true;
    if (sim->registry || sim->stores)
        return false;
    if (sim->raft)
        return sim->config->peer_rules && bw_sim_raft_removed((struct bw_sim *)sim, id);
    return !(sim->config->guard && node->wiped);
}

static bool may_wipe(const struct bw_sim *sim, bw_node id)
{
    const struct bw_sim_node *node = &sim->nodes[id];
    if (bw_sim_is_store(sim, id))
        return true;
    if (!id || node->up || !node->starts || bw_sim_is_second(sim, id))
        return false;
    if (sim->registry)
        return node->member;
    if (!sim->config->peer_rules || node->wiped || node->departing)
        return false;
    if (!sim->raft && !sim->config->guard)
        return true;
    return may_go(sim, id) &&
           (!sim->raft ||
            (!waits_for_removal(sim) && bw_sim_raft_voters((struct bw_sim *)sim) >= VOTERS_MIN));
}

bool bw_sim_members_may(const struct bw_sim *sim, const struct bw_sim_fault *fault, bw_node id)
{
    switch (fault->kind) {
    case BW_FAULT_JOIN:
        return id && may_join(sim, id);
    case BW_FAULT_REMOVE:
        return id && sim->raft && !sim->registry && sim->config->peer_rules && may_go(sim, id);
    case BW_FAULT_WIPE:
        return may_wipe(sim, id);
    default:
        return may_go(sim, id);
    }
}

void bw_sim_members_depart(struct bw_sim *sim, bw_node id)
{
    sim->nodes[id].departing = true;
    bw_sim_claims_count(&sim->claims, id, false);
    bw_sim_fault_forget_member(sim, id);
    bw_sim_raft_change(sim, NULL);
}

static void end_membership(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    struct bw_event event = {.kind = BW_EVENT_LEAVE, .node = id};
    if (node->up)
        bw_sim_fault_crash(sim, id);
    node->departing = false;
    node->wiped = false;
    node->left = true;
    bw_sim_fault_notify(sim, id, &event);
    sim->recheck = true;
}

bool bw_sim_members_reap(struct bw_sim *sim)
{
    bool more = false;
    for (bw_node id = 1; id <= sim->cap; id++) {
        const struct bw_sim_node *node = &sim->nodes[id];
        if (!node->departing)
            continue;
        bool ends = !node->paused && sim->now >= node->work_until && bw_sim_raft_removed(sim, id);
        if (ends)
            end_membership(sim, id);
        more = more || !ends;
    }
    return more;
}

static void forget_disk(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    bw_sim_disk_init(&node->disk, node->disk.records, node->disk.logs, sim->elections);
}

void bw_sim_members_return(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    if (!node->starts || sim->registry)
        return;
    if (sim->raft || node->wiped)
        forget_disk(sim, id);
    node->returned = sim->raft;
    node->wiped = false;
}

void bw_sim_members_wipe(struct bw_sim *sim, bw_node id)
{
    struct bw_sim_node *node = &sim->nodes[id];
    if (sim->raft && node->member) {
        node->wiped = true;
        bw_sim_members_depart(sim, id);
    } else if (sim->config->guard || !node->member) {
        node->wiped = true;
    } else {
        forget_disk(sim, id);
    }
}
