/* Leadership transfer (thesis §3.10). The leader accepts no more requests, brings the successor up
 * to date, ends its own window, reports this to all voters, and sends TIMEOUT_NOW. If no new leader
 * appears within one election timeout, it leads again. The TIMEOUT_NOW may still be in flight then.
 * This is harmless: voters report the promises they have given since, and the higher term wins.
 *
 * If work depends on the window, the node leads again in a new term. Its host ended the work of the
 * old term and may have reported it dead. A voter that learns of this death late would otherwise
 * also drop the promise that it gave after the abort, because both belong to the same term. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

enum transfer_step { STEP_STARTED, STEP_RELEASED, STEP_ABORTED, STEP_HANDED_OVER };

static void send_timeout_now(struct bw_raft *raft, bw_node to)
{
    bw_raft_send(raft, BW_MSG_RAFT_TIMEOUT_NOW, to)->promise.echo = raft->now;
}

/* The voter with the longest matching log; among equals, the one with the newest
 * acknowledgement. */
static struct bw_raft_peer *best_successor(struct bw_raft *raft)
{
    struct bw_raft_peer *best = NULL;
    for (uint32_t i = 0; i < raft->peers; i++) {
        struct bw_raft_peer *peer = &raft->peer[i];
        if (peer->id == raft->self || !peer->voter)
            continue;
        if (!best || peer->match > best->match ||
            (peer->match == best->match && peer->acked > best->acked))
            best = peer;
    }
    return best;
}

/* The voter with the next higher id (after the highest comes the lowest) that responds and whose
 * log is complete. A voter that is unable to lead resigns again, so each voter gets its turn. If
 * the newest acknowledgement decided, two such voters could hand over to each other without end. */
bw_node bw_raft_next_in_turn(const struct bw_raft *raft)
{
    bw_node next = BW_NODE_NONE, nearest = 0;
    for (uint32_t i = 0; i < raft->peers; i++) {
        const struct bw_raft_peer *peer = &raft->peer[i];
        bw_node distance = peer->id - raft->self; /* wraps around */
        if (distance == 0 || !peer->voter || peer->match != raft->log.last ||
            !bw_raft_is_responsive(raft, peer->id, raft->now))
            continue;
        if (next == BW_NODE_NONE || distance < nearest) {
            next = peer->id;
            nearest = distance;
        }
    }
    return next;
}

static int refusal(const struct bw_raft *raft, const struct bw_raft_peer *peer)
{
    if (raft->role != BW_RAFT_LEADER)
        return BW_ENOTLEADER;
    if (raft->transfer_to != BW_NODE_NONE)
        return BW_EBUSY;
    if (!peer || !peer->voter)
        return BW_ENOTMEMBER;
    return peer->id == raft->self ? BW_EINVAL : 0;
}

/* Answers when the transfer has succeeded, failed or been refused, if the command has a request
 * id. */
void bw_raft_transfer_ask(struct bw_raft *raft, const struct bw_command *command)
{
    struct bw_raft_peer *peer =
        command->node ? bw_raft_peer_find(raft, command->node) : best_successor(raft);
    int error = refusal(raft, peer);
    if (error) {
        if (command->request != 0)
            bw_raft_answer(raft, command->request, error, 0);
        else
            bw_raft_trace(raft, BW_TRACE_IGNORED_STATE, command->node, BW_EVENT_COMMAND,
                          raft->role);
        return;
    }
    raft->transfer_to = peer->id;
    raft->transfer_request = command->request;
    raft->transfer_until = raft->now + raft->timeout_max;
    bw_raft_trace(raft, BW_TRACE_TRANSFER, peer->id, STEP_STARTED, 0);
    bw_raft_transfer_progress(raft);
    if (!raft->released)
        bw_raft_replicate(raft, peer);
}

void bw_raft_transfer_progress(struct bw_raft *raft)
{
    const struct bw_raft_peer *peer = bw_raft_peer_find(raft, raft->transfer_to);
    if (BW_NEVER(!peer) || raft->released || peer->match != raft->log.last)
        return;
    bw_raft_trace(raft, BW_TRACE_TRANSFER, peer->id, STEP_RELEASED, 0);
    bw_raft_window_release(raft);
    bw_raft_broadcast(raft);
    send_timeout_now(raft, peer->id);
}

/* TIMEOUT_NOW may have been lost, so the leader repeats it with every round. */
void bw_raft_transfer_heartbeat(struct bw_raft *raft)
{
    if (raft->transfer_to != BW_NODE_NONE && raft->released)
        send_timeout_now(raft, raft->transfer_to);
}

static void lead_in_a_new_term(struct bw_raft *raft)
{
    raft->window_ended = 0;
    bw_raft_become_follower(raft, raft->term, BW_NODE_NONE, BW_LOSS_RESIGNED);
    bw_raft_campaign(raft, true);
}

void bw_raft_transfer_timeout(struct bw_raft *raft)
{
    if (raft->transfer_to == BW_NODE_NONE || raft->now < raft->transfer_until)
        return;
    bw_raft_trace(raft, BW_TRACE_TRANSFER, raft->transfer_to, STEP_ABORTED, 0);
    raft->transfer_to = BW_NODE_NONE;
    if (raft->transfer_request != 0)
        bw_raft_answer(raft, raft->transfer_request, BW_ENOQUORUM, 0);
    if (!raft->released)
        return;
    if (raft->untimed || BW_BUG(raft_resumes_in_its_term))
        bw_raft_window_resume(raft);
    else
        lead_in_a_new_term(raft);
}

/* The group removed us while our work may be running, in this term or from an earlier term of ours.
 * Leadership passes on at once, but we do not give up the window. The successor waits until the
 * work is confirmed dead or the window has ended. */
void bw_raft_step_aside(struct bw_raft *raft)
{
    bool acts =
        (raft->act_from <= raft->now && raft->now < raft->act_until) ||
        (bw_raft_window_may_be_open(raft, raft->self) && !BW_BUG(raft_removed_forgets_its_work));
    const struct bw_raft_peer *peer = best_successor(raft);
    if (raft->untimed || !acts || BW_BUG(raft_removed_leader_releases)) {
        bw_raft_hand_over(raft, BW_LOSS_RESIGNED, BW_NODE_NONE);
        return;
    }
    if (BW_ALWAYS(peer))
        bw_raft_send(raft, BW_MSG_RAFT_TIMEOUT_NOW, peer->id);
    bw_raft_become_follower(raft, raft->term, BW_NODE_NONE, BW_LOSS_RESIGNED);
}

/* Gives up leadership at once: to the preferred successor if its log is complete, otherwise to the
 * best successor, if any. The work has already been stopped. */
void bw_raft_hand_over(struct bw_raft *raft, enum bw_loss reason, bw_node successor)
{
    const struct bw_raft_peer *peer = bw_raft_peer_find(raft, successor);
    if (!peer || !peer->voter || peer->id == raft->self || peer->match != raft->log.last)
        peer = best_successor(raft);
    if (peer) {
        bw_raft_trace(raft, BW_TRACE_TRANSFER, peer->id, STEP_HANDED_OVER, 0);
        bw_raft_window_release(raft);
        bw_raft_broadcast(raft);
        send_timeout_now(raft, peer->id);
    }
    bw_raft_become_follower(raft, raft->term, BW_NODE_NONE, reason);
}

void bw_raft_on_timeout_now(struct bw_raft *raft, const struct bw_message *msg)
{
    if (msg->term < raft->term && !BW_BUG(raft_old_timeout_now_obeyed)) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_OLD, msg->from, msg->term, raft->term);
        return;
    }
    bool other =
        msg->term == raft->term && raft->leader != BW_NODE_NONE && raft->leader != msg->from;
    if (raft->role == BW_RAFT_LEADER || raft->role == BW_RAFT_CANDIDATE || other || !raft->voter) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_STATE, msg->from, msg->kind, raft->role);
        return;
    }
    if (msg->term > raft->term)
        bw_raft_become_follower(raft, msg->term, msg->from, BW_LOSS_NONE);
    raft->window_ended = msg->promise.echo;
    bw_raft_window_ended(raft, msg->from, raft->window_ended);
    bw_raft_campaign(raft, true);
}
