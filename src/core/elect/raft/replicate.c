/* The leader's sending side (§5.3, thesis §10.2). Each follower is probed until the logs match,
 * then receives entries without waiting for replies.
 *
 *   PROBE      One append is out. The next follows its reply or the next heartbeat.
 *   REPLICATE  `next` runs ahead of the acknowledged index, by at most `window` appends.
 *              The window doubles each round trip up to BW_RAFT_INFLIGHT_MAX and halves on a
 *              rejection. (On a network that reorders, appends that overtake others are rejected;
 *              more appends would cause more rejections.) A heartbeat carries the entry before
 *              `next` as prev_index. A follower that lost an append rejects it and is probed again.
 *   SNAPSHOT   The entries it needs are compacted. It gets heartbeats until it has the snapshot.
 *
 * A member that was removed and added again gets the entries up to its removal only in a snapshot.
 * It may have come back with an empty log. In that log, the earlier entries would make it the voter
 * that it once was, and it would vote although it has forgotten the later ones. While the newest
 * snapshot is older than the removal, the member is in state SNAPSHOT and gets heartbeats;
 * bw_raft_needs_snapshot asks the caller for a newer snapshot. */
#include "core/elect/raft/raft_state.h"

/* Limits the number of entries from `from` on so that one append carries at most one membership
 * change; sets *out to that change. */
static uint32_t limit_changes(const struct bw_raft *raft, bw_index from, uint32_t limit,
                              struct bw_change *out)
{
    uint32_t i = raft->changes;
    while (i > 0 && raft->change[i - 1].index >= from)
        i--;
    if (i < raft->changes && raft->change[i].index < from + limit)
        *out = (struct bw_change){.op = raft->change[i].op,
                                  .entry = (uint32_t)(raft->change[i].index - from),
                                  .node = raft->change[i].node};
    if (i + 1 < raft->changes && raft->change[i + 1].index < from + limit)
        limit = (uint32_t)(raft->change[i + 1].index - from);
    return limit;
}

/* Fills in up to one batch of entries from `from` on; returns how many. */
static uint32_t fill(const struct bw_raft *raft, bw_index from, struct bw_append_part *part)
{
    const struct bw_raft_log *log = &raft->log;
    uint32_t limit = limit_changes(raft, from, raft->batch_max, &part->change), taken = 0;
    for (uint32_t run = bw_raft_log_run_of(log, from);
         run < log->runs && part->runs < BW_RAFT_APPEND_RUNS_MAX && taken < limit; run++) {
        bw_index count = bw_raft_log_run_end(log, run) - (from + taken) + 1;
        if (count > limit - taken)
            count = limit - taken;
        part->run[part->runs++] =
            (struct bw_term_run){.term = log->run[run].term, .count = (uint32_t)count};
        taken += (uint32_t)count;
    }
    if (part->change.entry >= taken)
        part->change = (struct bw_change){0};
    return taken;
}

struct bw_append_part *bw_raft_start_append(struct bw_raft *raft, struct bw_raft_peer *peer,
                                            bw_index prev)
{
    struct bw_message *msg = bw_raft_send(raft, BW_MSG_RAFT_APPEND, peer->id);
    if (raft->released)
        msg->flags = BW_FLAG_TRANSFER;
    msg->append.prev_index = prev;
    msg->append.prev_term = bw_raft_log_term(&raft->log, prev);
    msg->append.commit = raft->commit;
    msg->append.echo = raft->now;
    if (!BW_BUG(raft_wait_not_passed_on))
        bw_raft_put_waits(raft, raft->self, msg, &msg->append.waits);
    return &msg->append;
}

/* Sends one append from `next` on, with entries if `entries` is set and there are any. */
void bw_raft_send_append(struct bw_raft *raft, struct bw_raft_peer *peer, bool entries)
{
    if (peer->next <= raft->log.snapshot_index ||
        peer->next <= bw_raft_removed_at(raft, peer->id)) {
        bw_raft_send_snapshot(raft, peer);
        return;
    }
    struct bw_append_part *part = bw_raft_start_append(raft, peer, peer->next - 1);
    uint32_t count = entries && peer->next <= raft->log.last ? fill(raft, peer->next, part) : 0;
    if (peer->progress == BW_RAFT_PROBE) {
        peer->probed = true;
    } else if (count > 0) {
        uint32_t slot = (peer->oldest + peer->inflight++) % BW_RAFT_INFLIGHT_MAX;
        peer->next += count;
        raft->ring[peer->ring].end[slot] = peer->next - 1;
    }
}

/* Sends as many entries as the window allows now. */
void bw_raft_replicate(struct bw_raft *raft, struct bw_raft_peer *peer)
{
    for (uint32_t i = 0; i < BW_RAFT_BURST && peer->next <= raft->log.last; i++) {
        bool may_send =
            peer->progress == BW_RAFT_REPLICATE ? peer->inflight < peer->window : !peer->probed;
        if (peer->progress == BW_RAFT_SNAPSHOT || !may_send)
            return;
        bw_raft_send_append(raft, peer, true);
    }
}

void bw_raft_replicate_all(struct bw_raft *raft)
{
    for (uint32_t i = 0; i < raft->peers; i++)
        if (raft->peer[i].id != raft->self)
            bw_raft_replicate(raft, &raft->peer[i]);
}

/* Always sends one message. A probe to a silent follower carries no entries, which would be
 * wasted. */
void bw_raft_heartbeat(struct bw_raft *raft, struct bw_raft_peer *peer)
{
    bw_time last_contact = bw_time_max(peer->acked, raft->won_at);
    if (peer->progress == BW_RAFT_SNAPSHOT && raft->now < peer->resend_at)
        bw_raft_start_append(raft, peer, raft->log.snapshot_index);
    else if (peer->progress == BW_RAFT_REPLICATE)
        bw_raft_send_append(raft, peer, peer->inflight < peer->window);
    else if (peer->progress == BW_RAFT_PROBE)
        bw_raft_send_append(raft, peer, last_contact + raft->timeout_min > raft->now);
    else
        bw_raft_send_snapshot(raft, peer);
}

void bw_raft_broadcast(struct bw_raft *raft)
{
    bw_time begun = raft->together ? raft->now % raft->period : 0;
    raft->heartbeat_at = raft->now - begun + raft->period;
    raft->round_at = raft->now;
    for (uint32_t i = 0; i < raft->peers; i++)
        if (raft->peer[i].id != raft->self)
            bw_raft_heartbeat(raft, &raft->peer[i]);
}
