/* Processes append replies at the leader: the progress of each follower, the commit index (§5.3,
 * §5.4.2), and the last contact with a majority. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

void bw_raft_progress_reset(struct bw_raft_peer *peer, bw_index next)
{
    peer->progress = BW_RAFT_PROBE;
    peer->probed = false;
    peer->inflight = peer->oldest = 0;
    peer->window = 1;
    peer->next = next;
    peer->match = 0;
    peer->acked = -1;
    peer->restoring = 0;
}

void bw_raft_probe_from(struct bw_raft_peer *peer, bw_index next)
{
    peer->progress = BW_RAFT_PROBE;
    peer->probed = false;
    peer->inflight = 0;
    peer->next = next;
}

bool bw_raft_term_committed(const struct bw_raft *raft)
{
    return raft->commit >= raft->term_start;
}

/* The highest index that is durable at a majority of the voters, including this node. */
static bw_index majority_match(const struct bw_raft *raft)
{
    bw_index match[BW_RAFT_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < raft->peers; i++) {
        const struct bw_raft_peer *peer = &raft->peer[i];
        if (!peer->voter)
            continue;
        bw_index value = peer->id == raft->self ? raft->log.durable : peer->match;
        uint32_t at = count++;
        for (; at > 0 && match[at - 1] < value; at--)
            match[at] = match[at - 1];
        match[at] = value;
    }
    return BW_ALWAYS(count > 0) ? match[count / 2] : 0;
}

/* The leader commits only entries of its own term by counting replicas; earlier entries are
 * committed with them (§5.4.2). */
void bw_raft_commit_update(struct bw_raft *raft)
{
    bw_index index = majority_match(raft);
    if (index <= raft->commit)
        return;
    if (bw_raft_log_term(&raft->log, index) != raft->term && !BW_BUG(raft_commits_old_term))
        return;
    bw_raft_commit_to(raft, index);
    bw_raft_window_update(raft);
    bw_raft_read_serve(raft);
    bw_raft_change_committed(raft);
}

static void release_inflight(struct bw_raft *raft, struct bw_raft_peer *peer, bw_index index)
{
    const struct bw_raft_ring *ring = &raft->ring[peer->ring];
    while (peer->inflight > 0 && ring->end[peer->oldest] <= index) {
        peer->oldest = (uint8_t)((peer->oldest + 1) % BW_RAFT_INFLIGHT_MAX);
        peer->inflight--;
    }
}

static void accepted(struct bw_raft *raft, struct bw_raft_peer *peer, bw_index index)
{
    if (index > peer->match) {
        peer->match = index;
        release_inflight(raft, peer, index);
        peer->window = (uint8_t)(peer->window + (peer->window < BW_RAFT_INFLIGHT_MAX));
    }
    if (peer->next <= peer->match)
        peer->next = peer->match + 1;
    if (peer->progress == BW_RAFT_PROBE ||
        (peer->progress == BW_RAFT_SNAPSHOT && peer->match >= peer->restoring)) {
        peer->progress = BW_RAFT_REPLICATE;
        peer->inflight = 0;
    }
}

/* The rejected prev_index distinguishes a current rejection from one that is out of date. */
static void refused(struct bw_raft *raft, struct bw_raft_peer *peer,
                    const struct bw_append_reply_part *reply)
{
    bool late = reply->rejected <= peer->match || reply->rejected >= peer->next ||
                (peer->progress == BW_RAFT_PROBE && reply->rejected != peer->next - 1);
    if (peer->progress == BW_RAFT_SNAPSHOT)
        return;
    if (late) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_LATE, peer->id, reply->rejected, peer->next);
        return;
    }
    bw_index hint = reply->index < reply->rejected ? reply->index : reply->rejected - 1;
    bw_index next = bw_raft_log_find(&raft->log, hint, reply->hint_term) + 1;
    peer->window = (uint8_t)(peer->window / 2 + (peer->window < 2));
    bw_raft_probe_from(peer, next > peer->match ? next : peer->match + 1);
    bw_raft_send_append(raft, peer, true);
}

/* Any reply in our term, even a rejection, proves that its sender followed us when we sent the
 * message that it echoes. */
static void record_ack(struct bw_raft *raft, struct bw_raft_peer *peer, bw_time echo)
{
    bw_time before = peer->acked;
    if (BW_BUG(raft_window_from_reply))
        echo = raft->now;
    if (echo <= before)
        return;
    peer->acked = echo;
    if (!peer->voter || before > raft->quorum_echo)
        return;
    bw_time quorum = raft->quorum_echo;
    bw_raft_quorum_update(raft);
    if (raft->quorum_echo != quorum) {
        bw_raft_window_update(raft);
        bw_raft_read_serve(raft);
    }
}

static bool plausible(const struct bw_raft *raft, const struct bw_append_reply_part *reply)
{
    return reply->echo >= 0 && reply->echo <= raft->now && reply->index <= raft->log.last &&
           reply->rejected <= raft->log.last;
}

static struct bw_raft_peer *sender(struct bw_raft *raft, const struct bw_message *msg)
{
    if (msg->term > raft->term) {
        bw_raft_become_follower(raft, msg->term, BW_NODE_NONE, BW_LOSS_TAKEN);
        return NULL;
    }
    if (msg->term < raft->term || raft->role != BW_RAFT_LEADER) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_LATE, msg->from, msg->term, 0);
        return NULL;
    }
    struct bw_raft_peer *peer = bw_raft_peer_find(raft, msg->from);
    if (!peer)
        bw_raft_trace(raft, BW_TRACE_IGNORED_NOT_A_MEMBER, msg->from, 0, 0);
    return peer;
}

void bw_raft_on_append_reply(struct bw_raft *raft, const struct bw_message *msg)
{
    const struct bw_append_reply_part *reply = &msg->append_reply;
    struct bw_raft_peer *peer = sender(raft, msg);
    if (!peer)
        return;
    bool yes = msg->flags & BW_FLAG_YES;
    if (!plausible(raft, reply)) {
        if (yes || reply->echo > raft->now)
            bw_raft_trace(raft, BW_TRACE_IGNORED_STATE, msg->from, msg->kind, raft->role);
        return;
    }
    record_ack(raft, peer, reply->echo);
    if (!yes) {
        refused(raft, peer, reply);
        return;
    }
    accepted(raft, peer, reply->index);
    if (reply->index > raft->commit)
        bw_raft_commit_update(raft);
    if (raft->role != BW_RAFT_LEADER)
        return;
    if (peer->next <= raft->log.last)
        bw_raft_replicate(raft, peer);
    if (raft->transfer_to == peer->id)
        bw_raft_transfer_progress(raft);
}
