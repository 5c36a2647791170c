/* Snapshots (§7). The caller makes them and reports them with COMPACT. A follower that needs
 * compacted entries gets the newest snapshot. The message carries index, term and membership; the
 * caller adds the bytes. LOG_RESTORE means that everything up to its index is committed and
 * contained in the snapshot. */
#include "core/elect/raft/raft_state.h"

#include <string.h>

/* The member needs a snapshot that does not exist yet, up to `least` or later. It gets a heartbeat
 * instead, and the next heartbeat tries again. */
static void wait_for_snapshot(struct bw_raft *raft, struct bw_raft_peer *peer, bw_index least)
{
    peer->progress = BW_RAFT_SNAPSHOT;
    peer->restoring = least;
    peer->resend_at = 0;
    peer->next = least + 1;
    peer->inflight = 0;
    bw_raft_start_append(raft, peer, raft->log.snapshot_index);
}

bool bw_raft_needs_snapshot(const struct bw_raft *raft)
{
    for (uint32_t i = 0; i < raft->peers && raft->role == BW_RAFT_LEADER; i++)
        if (raft->peer[i].progress == BW_RAFT_SNAPSHOT &&
            raft->peer[i].restoring > raft->log.snapshot_index)
            return true;
    return false;
}

void bw_raft_send_snapshot(struct bw_raft *raft, struct bw_raft_peer *peer)
{
    bw_index removed = bw_raft_removed_at(raft, peer->id);
    if (removed > 0) { /* above the snapshot */
        wait_for_snapshot(raft, peer, removed);
        return;
    }
    struct bw_message *msg = bw_raft_send(raft, BW_MSG_RAFT_SNAPSHOT, peer->id);
    if (raft->released)
        msg->flags = BW_FLAG_TRANSFER;
    msg->snapshot.last_index = raft->log.snapshot_index;
    msg->snapshot.last_term = raft->log.snapshot_term;
    msg->snapshot.echo = raft->now;
    bw_raft_put_waits(raft, raft->self, msg, &msg->snapshot.waits);
    msg->snapshot.voters = raft->base.voters;
    msg->data = raft->base.id;
    msg->items = raft->base.count;
    peer->progress = BW_RAFT_SNAPSHOT;
    peer->restoring = raft->log.snapshot_index;
    peer->resend_at = raft->now + raft->timeout_max;
    peer->next = raft->log.snapshot_index + 1;
    peer->inflight = 0;
}

static bool read_group(const struct bw_message *msg, struct bw_raft_group *group)
{
    if (msg->items == 0 || msg->items > BW_RAFT_MEMBERS_MAX || !msg->data ||
        msg->snapshot.voters == 0 || msg->snapshot.voters > msg->items)
        return false;
    memcpy(group->id, msg->data, msg->items * sizeof group->id[0]);
    group->voters = msg->snapshot.voters;
    group->count = msg->items;
    for (uint32_t i = 0; i < group->count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (group->id[i] == group->id[j])
                return false;
    for (uint32_t i = 0; i < group->count; i++)
        if (group->id[i] == BW_NODE_NONE)
            return false;
    return true;
}

static bool plausible(const struct bw_message *msg, struct bw_raft_group *group)
{
    const struct bw_snapshot_part *part = &msg->snapshot;
    return part->last_index > 0 && part->last_index <= BW_RAFT_NUMBER_MAX && part->last_term > 0 &&
           part->last_term <= msg->term && part->echo >= 0 && read_group(msg, group);
}

static void install(struct bw_raft *raft, const struct bw_snapshot_part *part,
                    const struct bw_raft_group *group)
{
    bw_raft_log_restore(&raft->log, part->last_index, part->last_term);
    raft->commit = part->last_index;
    raft->matched = part->last_index;
    raft->base = *group;
    raft->changes = 0;
    bw_raft_group_sync(raft);
    bw_raft_log_action(raft, BW_ACTION_LOG_RESTORE, part->last_index, part->last_term);
    raft->reply_pending = true;
}

void bw_raft_on_snapshot(struct bw_raft *raft, const struct bw_message *msg)
{
    const struct bw_snapshot_part *part = &msg->snapshot;
    struct bw_raft_group group;
    if (!plausible(msg, &group)) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_STATE, msg->from, msg->kind, raft->role);
        return;
    }
    if (!bw_raft_accept_leader(raft, msg, part->echo))
        return;
    bool held = bw_raft_log_term(&raft->log, part->last_index) == part->last_term;
    if (part->last_index <= raft->commit || held) {
        if (part->last_index > raft->commit)
            bw_raft_commit_to(raft, part->last_index);
        if (part->last_index > raft->matched)
            raft->matched = part->last_index;
        bw_raft_reply_yes(raft, part->last_index, part->echo);
    } else if (raft->log.rewritten_from > 0) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_FULL, msg->from, 1, 0);
    } else {
        install(raft, part, &group);
    }
}

/* The caller's snapshot is durable, so the entries that it contains may be dropped. */
void bw_raft_compact(struct bw_raft *raft, const struct bw_command *command)
{
    bw_index index = command->index;
    int error = 0;
    if (index > raft->commit || index > raft->log.durable)
        error = BW_EINVAL;
    else if (index <= raft->log.snapshot_index)
        error = BW_ECOMPACTED;
    if (!error) {
        bw_raft_change_compact(raft, index);
        bw_raft_log_compact(&raft->log, index);
        bw_raft_log_action(raft, BW_ACTION_LOG_COMPACT, index, raft->log.snapshot_term);
    }
    if (command->request != 0)
        bw_raft_answer(raft, command->request, error, index);
    else if (error)
        bw_raft_trace(raft, BW_TRACE_IGNORED_STATE, raft->self, BW_EVENT_COMMAND, raft->role);
}
