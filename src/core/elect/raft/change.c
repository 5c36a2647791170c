/* Membership changes, one server at a time (thesis §4.1, §4.2).
 *
 * Any majority of the old group intersects any majority of the new one, under two conditions. No
 * change starts before the previous one is committed, nor before the leader has committed an entry
 * of its own term (the bug reported in 2015). New members are learners first; they are promoted
 * when they have caught up (thesis §4.2.1).
 *
 * A removed node may return under its id as another process, perhaps on another machine, while the
 * work of the first process still runs. No node waits for a window of its own, so the id is not
 * added again before that window has ended. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

/* The index of the newest entry that changed the membership of `node`. If no entry that we hold
 * did, it is in the snapshot. */
static bw_index last_change_of(const struct bw_raft *raft, bw_node node)
{
    bw_index last = raft->log.snapshot_index;
    for (uint32_t i = 0; i < raft->changes; i++)
        if (raft->change[i].node == node)
            last = raft->change[i].index;
    return last;
}

static int check_members(struct bw_raft *raft, const struct bw_command *command)
{
    const struct bw_raft_peer *peer = bw_raft_peer_find(raft, command->node);
    switch (command->op) {
    case BW_CHANGE_ADD_LEARNER:
        if (command->node == BW_NODE_NONE || peer)
            return BW_EINVAL;
        if (bw_raft_window_may_be_open(raft, command->node) &&
            !BW_BUG(raft_readmits_while_it_waits))
            return BW_EBUSY;
        return raft->peers >= BW_RAFT_MEMBERS_MAX ? BW_ELIMIT : 0;
    case BW_CHANGE_PROMOTE:
        if (!peer)
            return BW_ENOTMEMBER;
        if (peer->voter)
            return BW_EINVAL;
        if (BW_BUG(raft_promotes_the_lagging))
            return 0;
        if (peer->progress != BW_RAFT_REPLICATE || peer->acked + raft->timeout_min <= raft->now)
            return BW_EBUSY;
        return peer->match < last_change_of(raft, peer->id) ? BW_EBUSY : 0;
    case BW_CHANGE_REMOVE:
        if (!peer)
            return BW_ENOTMEMBER;
        return peer->voter && bw_raft_voters(raft) == 1 ? BW_ENOQUORUM : 0;
    case BW_CHANGE_NONE:
        break;
    }
    return BW_EINVAL;
}

static int refusal(struct bw_raft *raft, const struct bw_command *command)
{
    if (raft->role != BW_RAFT_LEADER)
        return BW_ENOTLEADER;
    if (raft->transfer_to != BW_NODE_NONE)
        return BW_ETRANSFERRING;
    if (!BW_BUG(raft_two_changes_at_once)) {
        if (!bw_raft_term_committed(raft))
            return BW_EBUSY;
        if (raft->changes > 0 && raft->change[raft->changes - 1].index > raft->commit)
            return BW_EBUSY;
    }
    if (raft->changes >= BW_RAFT_CHANGES_MAX)
        return BW_ELIMIT;
    return check_members(raft, command);
}

void bw_raft_change_ask(struct bw_raft *raft, const struct bw_command *command)
{
    int error = refusal(raft, command);
    if (error) {
        bw_raft_answer(raft, command->request, error, 0);
        return;
    }
    bool fits = bw_raft_log_append(&raft->log, raft->term, 1);
    BW_ASSERT(fits);
    bw_index index = raft->log.last;
    struct bw_log_action *action =
        bw_raft_log_action(raft, BW_ACTION_LOG_APPEND, index, raft->term);
    action->count = 1;
    action->request = command->request;
    action->change = (struct bw_change){.op = (uint8_t)command->op, .node = command->node};
    bw_raft_change_add(raft, index, command->op, command->node);
    bw_raft_answer(raft, command->request, 0, index);
    bw_raft_quorum_update(raft);
    bw_raft_replicate_all(raft);
}

/* A leader that was removed from the group leads until the removal is committed, then hands over
 * (thesis §4.2.2). */
void bw_raft_change_committed(struct bw_raft *raft)
{
    if (BW_NEVER(raft->role != BW_RAFT_LEADER) || raft->voter)
        return;
    if (BW_ALWAYS(raft->changes > 0) && raft->change[raft->changes - 1].index > raft->commit)
        return;
    bw_raft_step_aside(raft);
}
