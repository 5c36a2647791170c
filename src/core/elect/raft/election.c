/* When an election starts (§5.2, §9.3): after a random time without a leader or a granted vote,
 * or early if there is evidence that the leader is gone. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

void bw_raft_timer_reset(struct bw_raft *raft)
{
    raft->election_at =
        raft->now + bw_rng_between(&raft->rng, raft->timeout_min, raft->timeout_max);
}

void bw_raft_restart_timer(struct bw_raft *raft, bw_time now)
{
    if (raft->role == BW_RAFT_LEADER || raft->role == BW_RAFT_STOPPED)
        return;
    raft->now = now;
    bw_raft_timer_reset(raft);
    raft->deadline = raft->election_at;
}

/* For the rule that a node ignores vote requests while it has a leader (§6, thesis §4.2.3). True
 * if we received from the leader within the minimum timeout, or if we lead and have a majority. */
bool bw_raft_leader_alive(const struct bw_raft *raft)
{
    if (raft->role == BW_RAFT_LEADER)
        return raft->check_quorum && raft->now < bw_raft_lost_at(raft);
    return raft->now < raft->ignore_votes_until;
}

bool bw_raft_elected(const struct bw_raft *raft)
{
    uint32_t granted = 0;
    for (uint32_t i = 0; i < raft->peers; i++)
        granted += raft->peer[i].granted && raft->peer[i].voter;
    return granted >= bw_raft_voters(raft) / 2 + 1;
}

static void ask(struct bw_raft *raft, enum bw_message_kind kind, bw_term term, uint8_t flags)
{
    for (uint32_t i = 0; i < raft->peers; i++) {
        if (raft->peer[i].id == raft->self || !raft->peer[i].voter)
            continue;
        struct bw_message *msg = bw_raft_send(raft, kind, raft->peer[i].id);
        msg->term = term;
        msg->flags = flags;
        msg->vote.last_index = raft->log.last;
        msg->vote.last_term = raft->log.last_term;
        msg->vote.ended = flags & BW_FLAG_TRANSFER ? raft->window_ended : 0;
    }
}

/* A voter may lead. So may a node whose removal is not known to be committed, because it may be the
 * only one left whose log can win (thesis §4.2.2). Its own vote counts only if it is a voter. */
static bool may_lead(const struct bw_raft *raft)
{
    return bw_raft_own_standing(raft) == BW_RAFT_VOTER;
}

/* Starts an election in a new term. */
void bw_raft_candidate_ask(struct bw_raft *raft, uint8_t flags)
{
    bw_raft_become_candidate(raft);
    if (bw_raft_elected(raft))
        bw_raft_become_leader(raft);
    else
        ask(raft, BW_MSG_RAFT_VOTE, raft->term, flags);
}

/* Starts an election now. If a transfer asked for it, there is no pre-vote, because the leader
 * itself wants the election (thesis §3.10). */
void bw_raft_campaign(struct bw_raft *raft, bool transfer)
{
    if (!may_lead(raft) || raft->role == BW_RAFT_LEADER) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_STATE, raft->self, BW_EVENT_TIMEOUT, raft->role);
        return;
    }
    if (bw_raft_log_full(&raft->log)) {
        bw_raft_timer_reset(raft);
        bw_raft_trace(raft, BW_TRACE_IGNORED_FULL, raft->self, BW_RAFT_TERM_RUNS_MAX, 0);
        return;
    }
    if (!transfer)
        raft->window_ended = 0;
    if (raft->pre_vote && !transfer) {
        bw_raft_become_precandidate(raft);
        if (!bw_raft_elected(raft)) {
            ask(raft, BW_MSG_RAFT_PREVOTE, raft->term + 1, 0);
            return;
        }
    }
    bw_raft_candidate_ask(raft, transfer ? BW_FLAG_TRANSFER : 0);
}

void bw_raft_election_timeout(struct bw_raft *raft)
{
    if (may_lead(raft))
        bw_raft_campaign(raft, false);
    else
        raft->election_at = BW_TIME_NEVER;
}

/* How long to wait before campaigning, so that voters that notice the end of a leader at the same
 * time do not split the vote. The preferred successor campaigns at once; if there is none, the
 * voter with the next id does. The others follow one after the other. */
static bw_time campaign_delay(const struct bw_raft *raft, bw_node gone, bw_node successor)
{
    bw_time others = 0, ahead = 0;
    bw_node first = successor != BW_NODE_NONE ? successor : gone;
    for (uint32_t i = 0; i < raft->peers; i++) {
        bw_node id = raft->peer[i].id;
        if (!raft->peer[i].voter || id == gone || id == raft->self)
            continue;
        others++;
        ahead += id - first < raft->self - first; /* in a circle of ids */
    }
    return others ? raft->jitter * ahead / others : 0;
}

/* The detector, the transport or the leader itself reports that the leader is gone. The node
 * forgets that it received from the leader and campaigns soon. */
void bw_raft_campaign_early(struct bw_raft *raft, bw_node node, bw_node successor)
{
    if (node == BW_NODE_NONE || node != raft->leader || raft->role != BW_RAFT_FOLLOWER) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_STATE, node, BW_EVENT_SUSPECT, raft->role);
        return;
    }
    raft->ignore_votes_until = 0;
    if (may_lead(raft))
        raft->election_at =
            bw_time_min(raft->election_at, raft->now + campaign_delay(raft, node, successor));
}
