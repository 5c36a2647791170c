/* The output of a step. All messages, announcements and answers pass through these functions. They
 * put a PERSIST first if the term, the vote or the promise changed, so that the node persists its
 * state before it responds (§5.1, §5.2; figure 2). */
#include "core/elect/raft/raft_state.h"

void bw_raft_flush(struct bw_raft *raft)
{
    if (!raft->dirty)
        return;
    raft->dirty = false;
    bw_actions_persist(raft->out,
                       &(struct bw_durable){
                           .term = raft->term,
                           .vote = BW_BUG(raft_vote_not_persisted) ? BW_NODE_NONE : raft->vote,
                           .starts = raft->starts,
                           .token = raft->term,
                           .promised_ns = raft->promised,
                       });
}

struct bw_message *bw_raft_send(struct bw_raft *raft, enum bw_message_kind kind, bw_node to)
{
    bw_raft_flush(raft);
    return bw_actions_send(raft->out, kind, raft->self, to, raft->term);
}

/* Announces the current leader and window. */
void bw_raft_announce(struct bw_raft *raft, enum bw_loss reason)
{
    bool leading = raft->role == BW_RAFT_LEADER;
    bw_raft_flush(raft);
    bw_actions_announce(raft->out, &(struct bw_announcement){
                                       .leader = raft->leader,
                                       .reason = reason,
                                       .term = raft->term,
                                       .token = raft->leader ? raft->term : BW_TOKEN_NONE,
                                       .act_from = leading ? raft->act_from : 0,
                                       .act_until = leading ? raft->act_until : 0,
                                   });
}

void bw_raft_answer(struct bw_raft *raft, uint64_t request, int error, bw_index index)
{
    bw_raft_flush(raft);
    bw_actions_add(raft->out, BW_ACTION_ANSWER)->answer = (struct bw_answer){
        .request = request,
        .error = error,
        .index = index,
        .term = raft->term,
        .leader = raft->leader,
    };
}

void bw_raft_trace(struct bw_raft *raft, enum bw_trace_code code, bw_node node, uint64_t a,
                   uint64_t b)
{
    bw_actions_trace(raft->out, code, node, a, b);
}

struct bw_log_action *bw_raft_log_action(struct bw_raft *raft, enum bw_action_kind kind,
                                         bw_index first, bw_term term)
{
    struct bw_log_action *log = &bw_actions_add(raft->out, kind)->log;
    *log = (struct bw_log_action){.first = first, .term = term};
    return log;
}
