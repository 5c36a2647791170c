/* New entries (§5.3): appended, written here and sent to the followers at the same time (thesis
 * §10.2.1). The answer says where they stand and in which term; they are safe when COMMIT reaches
 * that index while this term still holds it, and lost when LOG_TRUNCATE passes it. */
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
    bool room = bw_raft_log_append(&raft->log, raft->term, command->count);
    BW_ASSERT(room); /* our own term has its run since we lead */
    struct bw_log_action *action =
        bw_raft_log_action(raft, BW_ACTION_LOG_APPEND, first, raft->term);
    action->count = command->count;
    action->request = command->request;
    bw_raft_answer(raft, command->request, 0, raft->log.last);
    bw_raft_replicate_all(raft);
}
