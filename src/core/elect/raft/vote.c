/* Votes and pre-votes (§5.2, §5.4.1, thesis §9.6).
 *
 * - A node votes for one candidate per term, whose log must be at least as up to date as its own.
 *   The vote is durable before the reply is sent.
 * - While a node has a leader, it refuses votes and does not adopt their term (thesis §4.2.3),
 *   unless that leader asked for the election.
 * - A node answers every request with its own term, even a request of a lower term. Otherwise a
 *   node with a high term, and a log too short to win, could block elections forever.
 * - A node also answers unknown senders, because the membership may have changed in entries that it
 *   does not hold yet. The candidate counts only voters.
 * - A node that is not a member according to its own log gives no vote, unless its removal is not
 *   known to be committed. It may have been removed and have come back with an empty disk. A voter
 *   that missed the removal would still count its vote, although the node has forgotten the log
 *   that made it a voter. Its log lists it only when it contains the removal, because replicate.c
 *   sends it no earlier part. A new member is not needed for votes before its log lists it:
 *   change.c promotes it only after that. */
#include "core/elect/raft/raft_state.h"

static bool up_to_date(const struct bw_raft *raft, const struct bw_vote_part *vote)
{
    if (BW_BUG(raft_votes_for_shorter_log))
        return true;
    return vote->last_term > raft->log.last_term ||
           (vote->last_term == raft->log.last_term && vote->last_index >= raft->log.last);
}

static bool vote_free(const struct bw_raft *raft, bw_node from)
{
    return raft->vote == BW_NODE_NONE || raft->vote == from || BW_BUG(raft_votes_twice);
}

/* All conditions except the term; traces the reason for a refusal. */
static bool may_grant(struct bw_raft *raft, const struct bw_message *msg)
{
    if (bw_raft_own_standing(raft) == BW_RAFT_OUTSIDER && !BW_BUG(raft_unlisted_votes)) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_NOT_A_MEMBER, raft->self, 0, 0);
        return false;
    }
    if (!up_to_date(raft, &msg->vote)) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_LOG, msg->from, 0, 0);
        return false;
    }
    if (msg->term == raft->term && !vote_free(raft, msg->from)) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_VOTED, msg->from, raft->vote, 0);
        return false;
    }
    return true;
}

static void trace_alive(struct bw_raft *raft, bw_node candidate)
{
    bw_time received =
        raft->role == BW_RAFT_LEADER ? raft->now : raft->ignore_votes_until - raft->timeout_min;
    bw_raft_trace(raft, BW_TRACE_IGNORED_LEADER_ALIVE, candidate, (uint64_t)(raft->now - received),
                  0);
}

static bool prevote_granted(struct bw_raft *raft, const struct bw_message *msg)
{
    bool leads = raft->role == BW_RAFT_LEADER && !raft->check_quorum;
    if (msg->term < raft->term) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_OLD, msg->from, msg->term, raft->term);
        return false;
    }
    if (leads || bw_raft_leader_alive(raft)) {
        trace_alive(raft, msg->from);
        return false;
    }
    return may_grant(raft, msg);
}

void bw_raft_on_prevote(struct bw_raft *raft, const struct bw_message *msg)
{
    bool yes = prevote_granted(raft, msg);
    if (BW_BUG(raft_prevote_unanswered) && msg->term < raft->term)
        return;
    struct bw_message *reply = bw_raft_send(raft, BW_MSG_RAFT_PREVOTE_REPLY, msg->from);
    reply->flags = yes ? BW_FLAG_YES : 0;
    reply->vote.last_term = msg->term; /* the request that this answers */
}

static struct bw_raft_peer *voter_of(struct bw_raft *raft, const struct bw_message *msg)
{
    struct bw_raft_peer *peer = bw_raft_peer_find(raft, msg->from);
    if (peer && peer->voter)
        return peer;
    bw_raft_trace(raft, BW_TRACE_IGNORED_NOT_A_MEMBER, msg->from, 0, 0);
    return NULL;
}

void bw_raft_on_prevote_reply(struct bw_raft *raft, const struct bw_message *msg)
{
    bool yes = msg->flags & BW_FLAG_YES;
    if (raft->role != BW_RAFT_PRECANDIDATE || (yes && msg->vote.last_term != raft->term + 1)) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_LATE, msg->from, msg->term, 0);
        return;
    }
    if (!yes) {
        if (msg->term > raft->term)
            bw_raft_become_follower(raft, msg->term, BW_NODE_NONE, BW_LOSS_NONE);
        return;
    }
    struct bw_raft_peer *peer = voter_of(raft, msg);
    if (!peer)
        return;
    peer->granted = true;
    if (bw_raft_elected(raft))
        bw_raft_candidate_ask(raft, 0);
}

static bool vote_granted(struct bw_raft *raft, const struct bw_message *msg)
{
    if (msg->term < raft->term) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_OLD, msg->from, msg->term, raft->term);
        return false;
    }
    if (!(msg->flags & BW_FLAG_TRANSFER) && bw_raft_leader_alive(raft)) {
        trace_alive(raft, msg->from);
        return false;
    }
    if (msg->term == raft->term + 1 && (msg->flags & BW_FLAG_TRANSFER) && raft->leader)
        bw_raft_window_ended(raft, raft->leader, msg->vote.ended);
    if (msg->term > raft->term) {
        bool asked = raft->released && msg->from == raft->transfer_to;
        bw_raft_become_follower(raft, msg->term, BW_NODE_NONE,
                                asked ? BW_LOSS_TRANSFERRED : BW_LOSS_TAKEN);
    }
    return may_grant(raft, msg);
}

void bw_raft_on_vote(struct bw_raft *raft, const struct bw_message *msg)
{
    bool yes = vote_granted(raft, msg);
    if (yes && raft->vote != msg->from) {
        raft->vote = msg->from;
        raft->dirty = true;
    }
    if (yes || BW_BUG(raft_timer_reset_on_denied_vote))
        bw_raft_timer_reset(raft);
    struct bw_message *reply = bw_raft_send(raft, BW_MSG_RAFT_VOTE_REPLY, msg->from);
    reply->flags = yes ? BW_FLAG_YES : 0;
    if (yes)
        reply->vote.left_ns = bw_raft_put_waits(raft, msg->from, reply, &reply->vote.waits);
}

void bw_raft_on_vote_reply(struct bw_raft *raft, const struct bw_message *msg)
{
    const struct bw_raft_waits *waits = &msg->vote.waits;
    bw_time left = msg->vote.left_ns;
    if (msg->term > raft->term) {
        bw_raft_become_follower(raft, msg->term, BW_NODE_NONE, BW_LOSS_TAKEN);
        return;
    }
    if (msg->term < raft->term || raft->role != BW_RAFT_CANDIDATE || !(msg->flags & BW_FLAG_YES)) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_LATE, msg->from, msg->term, 0);
        return;
    }
    struct bw_raft_peer *peer = voter_of(raft, msg);
    if (!peer || peer->granted || left < 0 || left > BW_TIME_NEVER / 4)
        return;
    peer->granted = true;
    if (waits->count > 0) {
        bw_raft_take_waits(raft, waits);
    } else if (left > 0) { /* a voter that names no leader */
        bw_time span = bw_time_max(left, raft->promise);
        struct bw_raft_waits one = {.count = 1, .span_ns = span, .at = {{.left_ns = left}}};
        bw_raft_take_waits(raft, &one);
    }
    if (bw_raft_elected(raft))
        bw_raft_become_leader(raft);
}
