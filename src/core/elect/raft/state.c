/* The roles of a Raft node (§5.1, figure 4; plus the pre-candidate of thesis §9.6), and the only
 * functions that change the role. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

static void trace_role(struct bw_raft *raft, enum bw_raft_role role)
{
    if (raft->role != role)
        bw_raft_trace(raft, BW_TRACE_STATE, raft->self, raft->role, role);
}

/* Enters a new term: the vote is free, and nothing is known of the leader's log. */
static void adopt_term(struct bw_raft *raft, bw_term term)
{
    raft->term = term;
    raft->vote = BW_NODE_NONE;
    raft->dirty = true;
    raft->matched = 0;
    raft->newest_echo = 0;
    raft->reply_pending = false;
}

/* When leadership ends, our own window still binds us as a voter. The waits that we had as leader
 * stay in the table. */
static void stop_leading(struct bw_raft *raft)
{
    if (raft->act_until > bw_time_max(raft->act_from, raft->now))
        bw_raft_bind(raft, raft->self, raft->term, raft->act_until - raft->now, raft->promise);
    raft->act_from = raft->act_until = 0;
    raft->released = false;
}

static void end_requests(struct bw_raft *raft, enum bw_loss reason)
{
    bw_raft_read_fail(raft);
    if (raft->transfer_to != BW_NODE_NONE && raft->transfer_request != 0)
        bw_raft_answer(raft, raft->transfer_request,
                       reason == BW_LOSS_TRANSFERRED ? 0 : BW_ENOTLEADER, raft->commit);
    raft->transfer_to = BW_NODE_NONE;
}

/* `reason` is used only if the node was leader. */
void bw_raft_become_follower(struct bw_raft *raft, bw_term term, bw_node leader,
                             enum bw_loss reason)
{
    bool led = raft->role == BW_RAFT_LEADER;
    bool newer = term > raft->term;
    bw_node before = raft->leader;
    if (led)
        stop_leading(raft);
    if (newer)
        adopt_term(raft, term);
    trace_role(raft, BW_RAFT_FOLLOWER);
    raft->role = BW_RAFT_FOLLOWER;
    raft->leader = leader;
    if (leader == BW_NODE_NONE)
        raft->ignore_votes_until = 0;
    if (led) {
        bw_raft_timer_reset(raft);
        bw_raft_trace(raft, BW_TRACE_STEP_DOWN, raft->self, term, reason);
    }
    if (leader != BW_NODE_NONE && (newer || BW_ALWAYS(leader != before)))
        bw_raft_trace(raft, BW_TRACE_LEADER, leader, term, 0);
    if (led || leader != before || (newer && leader != BW_NODE_NONE))
        bw_raft_announce(raft, led ? reason : BW_LOSS_NONE);
    if (led)
        end_requests(raft, reason);
}

static void start_election(struct bw_raft *raft, enum bw_raft_role role)
{
    bw_node before = raft->leader;
    trace_role(raft, role);
    raft->role = (uint8_t)role;
    raft->leader = BW_NODE_NONE;
    raft->ignore_votes_until = 0;
    for (uint32_t i = 0; i < raft->peers; i++)
        raft->peer[i].granted = raft->peer[i].id == raft->self;
    bw_raft_timer_reset(raft);
    bw_raft_trace(raft, BW_TRACE_ELECTION, raft->self, raft->term + 1, role);
    if (before != BW_NODE_NONE)
        bw_raft_announce(raft, BW_LOSS_NONE);
}

/* Asks whether an election could be won, without a new term (thesis §9.6). */
void bw_raft_become_precandidate(struct bw_raft *raft)
{
    BW_ASSERT(raft->role != BW_RAFT_LEADER && raft->role != BW_RAFT_STOPPED);
    start_election(raft, BW_RAFT_PRECANDIDATE);
}

void bw_raft_become_candidate(struct bw_raft *raft)
{
    BW_ASSERT(raft->role != BW_RAFT_LEADER && raft->role != BW_RAFT_STOPPED);
    start_election(raft, BW_RAFT_CANDIDATE);
    adopt_term(raft, raft->term + 1);
    raft->vote = raft->self;
    raft->promised = bw_time_max(raft->promised, raft->promise);
}

/* Becomes leader with an empty window: it must not act before an entry of its own term is committed
 * (§8, window.c). */
void bw_raft_become_leader(struct bw_raft *raft)
{
    BW_ASSERT(raft->role == BW_RAFT_CANDIDATE);
    trace_role(raft, BW_RAFT_LEADER);
    raft->role = BW_RAFT_LEADER;
    raft->leader = raft->self;
    bw_raft_window_begin(raft);
    raft->won_at = raft->now;
    raft->resumed_at = -1;
    raft->quorum_echo = -1;
    raft->released = false;
    raft->transfer_to = BW_NODE_NONE;
    raft->reads = raft->first_read = 0;
    for (uint32_t i = 0; i < raft->peers; i++)
        bw_raft_progress_reset(&raft->peer[i], raft->log.last + 1);
    bw_raft_trace(raft, BW_TRACE_WON, raft->self, raft->term, 0);
    bw_raft_announce(raft, BW_LOSS_NONE);
    bool fits = bw_raft_log_append(&raft->log, raft->term, 1);
    BW_ASSERT(fits);
    raft->term_start = raft->log.last;
    bw_raft_log_action(raft, BW_ACTION_LOG_APPEND, raft->log.last, raft->term)->count = 1;
    bw_raft_broadcast(raft);
}

/* From now on the node ignores all events and sends nothing. */
void bw_raft_become_stopped(struct bw_raft *raft)
{
    BW_ASSERT(raft->role != BW_RAFT_LEADER);
    trace_role(raft, BW_RAFT_STOPPED);
    raft->role = BW_RAFT_STOPPED;
}
