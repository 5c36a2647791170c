/* Raft as a decision module: one event in, actions out. This file dispatches to the others. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

static void ignore(struct bw_raft *raft, const struct bw_event *event)
{
    bw_raft_trace(raft, BW_TRACE_IGNORED_STATE, event->node, event->kind, raft->role);
}

static void on_start(struct bw_raft *raft, const struct bw_event *event)
{
    const struct bw_durable *durable = &event->start->durable;
    if (raft->starts > 0) {
        ignore(raft, event);
        return;
    }
    raft->term = durable->term;
    raft->vote = durable->vote;
    raft->starts = durable->starts + 1;
    raft->promised = durable->promised_ns;
    if (raft->term < raft->log.last_term) {
        raft->term = raft->log.last_term;
        raft->vote = BW_NODE_NONE;
    }
    if (raft->promised > 0 && !BW_BUG(raft_promise_forgotten))
        bw_raft_bind(raft, BW_NODE_NONE, 0, raft->promised, raft->promised);
    raft->dirty = true;
    raft->role = BW_RAFT_FOLLOWER;
    raft->election_at = BW_TIME_NEVER;
    if (event->start->passive)
        return;
    if (raft->voter && bw_raft_voters(raft) == 1)
        bw_raft_campaign(raft, false);
    else
        bw_raft_timer_reset(raft);
    /* The node that should lead next campaigns after one period, before the election timeouts of
     * the others. If there is a leader already, its pre-vote fails. */
    if (raft->voter && raft->pre_vote && event->next_leader == raft->self)
        raft->election_at = bw_time_min(raft->election_at, raft->now + raft->period);
}

static void on_message(struct bw_raft *raft, const struct bw_message *msg)
{
    if (msg->to != raft->self || msg->from == raft->self || msg->from == BW_NODE_NONE ||
        msg->term > BW_RAFT_NUMBER_MAX) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_STATE, msg->from, msg->kind, raft->role);
        return;
    }
    switch (msg->kind) {
    case BW_MSG_RAFT_APPEND:
        bw_raft_on_append(raft, msg);
        break;
    case BW_MSG_RAFT_APPEND_REPLY:
        bw_raft_on_append_reply(raft, msg);
        break;
    case BW_MSG_RAFT_VOTE:
        bw_raft_on_vote(raft, msg);
        break;
    case BW_MSG_RAFT_VOTE_REPLY:
        bw_raft_on_vote_reply(raft, msg);
        break;
    case BW_MSG_RAFT_PREVOTE:
        bw_raft_on_prevote(raft, msg);
        break;
    case BW_MSG_RAFT_PREVOTE_REPLY:
        bw_raft_on_prevote_reply(raft, msg);
        break;
    case BW_MSG_RAFT_SNAPSHOT:
        bw_raft_on_snapshot(raft, msg);
        break;
    case BW_MSG_RAFT_TIMEOUT_NOW:
        bw_raft_on_timeout_now(raft, msg);
        break;
    default:
        bw_raft_trace(raft, BW_TRACE_IGNORED_STATE, msg->from, msg->kind, raft->role);
    }
}

static void leader_timeout(struct bw_raft *raft)
{
    if (!bw_raft_check_quorum(raft))
        return;
    bw_raft_transfer_timeout(raft);
    if (raft->role != BW_RAFT_LEADER || raft->now < raft->heartbeat_at)
        return;
    bw_raft_broadcast(raft);
    bw_raft_transfer_heartbeat(raft);
    bw_raft_window_update(raft);
    bw_raft_read_serve(raft);
}

static void on_timeout(struct bw_raft *raft)
{
    if (raft->role == BW_RAFT_LEADER)
        leader_timeout(raft);
    else if (raft->now >= raft->election_at)
        bw_raft_election_timeout(raft);
}

static void on_persisted(struct bw_raft *raft, const struct bw_event *event)
{
    if (!bw_raft_log_persisted(&raft->log, event->persisted.index, event->persisted.term)) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_LATE, raft->self, event->persisted.index,
                      event->persisted.term);
        return;
    }
    if (raft->role == BW_RAFT_LEADER)
        bw_raft_commit_update(raft);
    else
        bw_raft_follower_persisted(raft);
}

/* The transport reports that an append was lost, so the leader need not wait for a rejected
 * heartbeat. */
static void on_send_failed(struct bw_raft *raft, const struct bw_event *event)
{
    const struct bw_message *msg = event->msg;
    struct bw_raft_peer *peer = bw_raft_peer_find(raft, msg->to);
    if (raft->role != BW_RAFT_LEADER || msg->kind != BW_MSG_RAFT_APPEND ||
        msg->term != raft->term || !peer || peer->progress != BW_RAFT_REPLICATE) {
        ignore(raft, event);
        return;
    }
    bw_raft_probe_from(peer, peer->match + 1);
    peer->probed = true; /* the next heartbeat probes */
}

static void on_resign(struct bw_raft *raft, const struct bw_event *event)
{
    if (raft->role != BW_RAFT_LEADER) {
        ignore(raft, event);
        return;
    }
    bw_node next = event->next_leader;
    if (next == BW_NODE_NONE && !BW_BUG(raft_resigns_to_the_newest))
        next = bw_raft_next_in_turn(raft);
    bw_raft_hand_over(raft, BW_LOSS_RESIGNED, next);
    raft->election_at += raft->timeout_max; /* let the others campaign first */
}

static void on_command(struct bw_raft *raft, const struct bw_event *event)
{
    const struct bw_command *command = &event->command;
    switch (command->kind) {
    case BW_COMMAND_PROPOSE:
        bw_raft_propose(raft, command);
        break;
    case BW_COMMAND_READ:
        bw_raft_read_ask(raft, command);
        break;
    case BW_COMMAND_CHANGE:
        bw_raft_change_ask(raft, command);
        break;
    case BW_COMMAND_COMPACT:
        bw_raft_compact(raft, command);
        break;
    case BW_COMMAND_TRANSFER:
        bw_raft_transfer_ask(raft, command);
        break;
    case BW_COMMAND_CAMPAIGN:
        bw_raft_campaign(raft, false);
        break;
    case BW_COMMAND_RESIGN:
        on_resign(raft, event);
        break;
    }
}

static void on_stop(struct bw_raft *raft, const struct bw_event *event)
{
    if (raft->role == BW_RAFT_LEADER)
        bw_raft_hand_over(raft, BW_LOSS_SHUT_DOWN, event->next_leader);
    bw_raft_become_stopped(raft);
}

/* A leader that still waits may now have to wait less. A pre-candidate may have replies from voters
 * that still counted on the dead leader, so it asks again. A candidate does not: its term would
 * grow with every repeated notice, and depose the leader that was elected meanwhile. It need not
 * either: votes that report a wait for the dead leader count, without that wait (window.c). */
static void on_confirmed_dead(struct bw_raft *raft, const struct bw_event *event)
{
    /* the notice is about an earlier term of the current leader, which was elected again since */
    bool older =
        event->dead_term > 0 && event->node == raft->leader && event->dead_term < raft->term;
    bw_raft_confirmed_dead(raft, event->node, event->dead_term);
    if (raft->role == BW_RAFT_LEADER && raft->act_from > raft->now) {
        bw_raft_window_begin(raft);
        bw_raft_window_update(raft);
    } else if (raft->role == BW_RAFT_CANDIDATE && BW_BUG(raft_death_starts_a_term)) {
        bw_raft_become_follower(raft, raft->term, BW_NODE_NONE, BW_LOSS_NONE);
        bw_raft_candidate_ask(raft, 0);
    } else if (raft->role == BW_RAFT_PRECANDIDATE) {
        bw_raft_campaign(raft, false);
    } else if (raft->role == BW_RAFT_FOLLOWER && !older &&
               (!event->handed || BW_BUG(raft_takes_a_transfer_for_a_death))) {
        bw_raft_campaign_early(raft, event->node, event->next_leader);
    }
}

static void dispatch(struct bw_raft *raft, const struct bw_event *event)
{
    switch (event->kind) {
    case BW_EVENT_MESSAGE:
        on_message(raft, event->msg);
        break;
    case BW_EVENT_TIMEOUT:
        on_timeout(raft);
        break;
    case BW_EVENT_PERSISTED:
        on_persisted(raft, event);
        break;
    case BW_EVENT_COMMAND:
        on_command(raft, event);
        break;
    case BW_EVENT_CONFIRMED_DEAD:
        on_confirmed_dead(raft, event);
        break;
    case BW_EVENT_SUSPECT:
    case BW_EVENT_LEAVE:
        bw_raft_campaign_early(raft, event->node, event->next_leader);
        break;
    case BW_EVENT_HINT:
        if (raft->hints)
            bw_raft_campaign_early(raft, event->node, event->next_leader);
        else
            ignore(raft, event);
        break;
    case BW_EVENT_SEND_FAILED:
        on_send_failed(raft, event);
        break;
    case BW_EVENT_STOP:
        on_stop(raft, event);
        break;
    case BW_EVENT_START:
        on_start(raft, event);
        break;
    case BW_EVENT_JOIN: /* only the log defines the voters */
    case BW_EVENT_TRUST:
        ignore(raft, event);
        break;
    }
}

static bw_time next_deadline(const struct bw_raft *raft)
{
    if (raft->role == BW_RAFT_STOPPED)
        return BW_TIME_NEVER;
    if (raft->role != BW_RAFT_LEADER)
        return raft->election_at;
    bw_time at = raft->heartbeat_at;
    if (raft->check_quorum)
        at = bw_time_min(at, bw_raft_lost_at(raft));
    if (raft->transfer_to != BW_NODE_NONE)
        at = bw_time_min(at, raft->transfer_until);
    return at;
}

void bw_raft_step(struct bw_raft *raft, const struct bw_event *event, struct bw_actions *actions)
{
    raft->now = event->now;
    raft->out = actions;
    if (raft->role == BW_RAFT_STOPPED && event->kind != BW_EVENT_START)
        ignore(raft, event);
    else
        dispatch(raft, event);
    bw_raft_flush(raft);
    raft->deadline = next_deadline(raft);
    raft->out = NULL;
}
