/* Appends new entries (§5.3). The leader writes them to its disk and sends them to the followers
 * in parallel (thesis §10.2.1). The answer contains their last index and their term. They are safe
 * when COMMIT reaches that index in the same term; they are lost when LOG_TRUNCATE removes them. */
#include "core/elect/raft/raft_state.h"

static int refusal(const struct bw_raft *raft, const struct bw_command *command)
{
    if (raft->role != BW_RAFT_LEADER)
        return BW_ENOTLEADER;
    if (raft->transfer_to != BW_NODE_NONE)
        return BW_ETRANSFERRING;
    if (command->count == 0)
        return BW_EINVAL;
    return raft->log.last > BW_RAFT_NUMBER_MAX - command->count ? BW_ELIMIT : 0;
}

void bw_raft_propose(struct bw_raft *raft, const struct bw_command *command)
{
    int error = refusal(raft, command);
    if (error) {
        bw_raft_answer(raft, command->request, error, 0);
        return;
    }
    bw_index first = raft->log.last + 1;
    bool fits = bw_raft_log_append(&raft->log, raft->term, command->count);
    BW_ASSERT(fits); /* our term has a run since we became leader */
    struct bw_log_action *action =
        bw_raft_log_action(raft, BW_ACTION_LOG_APPEND, first, raft->term);
    action->count = command->count;
    action->request = command->request;
    bw_raft_answer(raft, command->request, 0, raft->log.last);
    bw_raft_replicate_all(raft);
}
