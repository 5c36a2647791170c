/* Receives APPEND (§5.3): heartbeat, entries and commit index in one message.
 *
 * Entries that the log already holds stay, even if a shorter or older duplicate arrives. A conflict
 * truncates the log at the first entry that differs, but never at a committed one. New entries are
 * written without waiting and acknowledged on PERSISTED. An append without new entries is answered
 * at once, with what is durable. Both replies tell the leader that we received the append whose
 * send time we echo. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

void bw_raft_reply_yes(struct bw_raft *raft, bw_index index, bw_time echo)
{
    if (index > raft->log.durable && !BW_BUG(raft_acks_before_durable))
        index = raft->log.durable;
    struct bw_message *reply = bw_raft_send(raft, BW_MSG_RAFT_APPEND_REPLY, raft->leader);
    reply->flags = BW_FLAG_YES;
    reply->append_reply.index = index;
    reply->append_reply.echo = echo;
}

static void reply_no(struct bw_raft *raft, const struct bw_message *msg, bw_index index,
                     bw_time echo)
{
    struct bw_message *reply = bw_raft_send(raft, BW_MSG_RAFT_APPEND_REPLY, msg->from);
    reply->append_reply.index = index;
    reply->append_reply.hint_term = bw_raft_log_term(&raft->log, index);
    reply->append_reply.rejected = msg->kind == BW_MSG_RAFT_APPEND ? msg->append.prev_index : 0;
    reply->append_reply.echo = echo;
}

/* The leader of this term sent a message. Restarts the election timer and adopts the leader's
 * waits. Renews the promise to it, or ends the promise if the append carries the flag TRANSFER
 * (window.c). An append that arrives after a newer one does neither: the newer one has renewed the
 * promise for longer, or the leader has given up its window since then. */
static void on_leader_contact(struct bw_raft *raft, const struct bw_message *msg, bw_time echo)
{
    raft->ignore_votes_until = raft->now + raft->timeout_min;
    bw_raft_timer_reset(raft);
    if (raft->promised < raft->promise) {
        raft->promised = raft->promise;
        raft->dirty = true;
    }
    const struct bw_raft_waits *waits = bw_message_waits(msg);
    if (BW_ALWAYS(waits) && !BW_BUG(raft_wait_not_inherited))
        bw_raft_take_waits(raft, waits);
    bool late = echo < raft->newest_echo && !BW_BUG(raft_late_append_renews);
    if (!late && !(msg->flags & BW_FLAG_TRANSFER))
        bw_raft_bind(raft, msg->from, raft->term, raft->promise, raft->promise);
    else if (!late && BW_ALWAYS(msg->flags & BW_FLAG_TRANSFER))
        bw_raft_unbind(raft, msg->from);
    raft->newest_echo = bw_time_max(raft->newest_echo, echo);
}

/* Accepts the sender of an append or snapshot as the leader of its term. Returns false if its term
 * is old (and replies so), or if this term already has another leader. */
bool bw_raft_accept_leader(struct bw_raft *raft, const struct bw_message *msg, bw_time echo)
{
    if (msg->term < raft->term) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_OLD, msg->from, msg->term, raft->term);
        reply_no(raft, msg, 0, echo);
        return false;
    }
    bool other = raft->leader != BW_NODE_NONE && raft->leader != msg->from;
    if (msg->term == raft->term && other) {
        bw_raft_trace(raft, BW_TRACE_SPLIT_BRAIN, msg->from, msg->term, raft->leader);
        return false;
    }
    if (msg->term > raft->term || raft->role != BW_RAFT_FOLLOWER || raft->leader != msg->from)
        bw_raft_become_follower(raft, msg->term, msg->from, BW_LOSS_TAKEN);
    on_leader_contact(raft, msg, echo);
    return true;
}

/* The index of the first entry in the message that our log lacks or holds with another term; one
 * past the last entry if there is none. */
static bw_index first_new(const struct bw_raft_log *log, const struct bw_append_part *part)
{
    bw_index at = part->prev_index + 1;
    if (part->prev_index == log->last)
        return at;
    for (uint32_t i = 0; i < part->runs; i++) {
        bw_index end = at + part->run[i].count;
        if (at <= log->snapshot_index)
            at = log->snapshot_index + 1;
        while (at < end && at <= log->last) {
            uint32_t run = bw_raft_log_run_of(log, at);
            if (log->run[run].term != part->run[i].term)
                return at;
            at = bw_raft_log_run_end(log, run) + 1;
        }
        if (at < end)
            return at;
        at = end;
    }
    return at;
}

static uint32_t total_of(const struct bw_append_part *part)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < part->runs; i++)
        total += part->run[i].count;
    return total;
}

/* Truncates the log. Returns false if an entry is committed, or if an earlier truncation is not
 * durable yet. */
static bool truncate_from(struct bw_raft *raft, bw_index from)
{
    if (from <= raft->commit && !BW_BUG(raft_truncates_matching)) {
        bw_raft_trace(raft, BW_TRACE_SPLIT_BRAIN, raft->leader, from, raft->commit);
        return false;
    }
    if (raft->log.rewritten_from > 0) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_FULL, raft->leader, 1, 0);
        return false;
    }
    bw_raft_log_truncate(&raft->log, from);
    bw_raft_change_rollback(raft, from);
    if (raft->matched >= from)
        raft->matched = from - 1;
    bw_raft_log_action(raft, BW_ACTION_LOG_TRUNCATE, from, 0);
    return true;
}

/* Appends the message's entries from `first` on, as far as the tables of terms and changes have
 * space, and writes them. */
static void append_entries(struct bw_raft *raft, const struct bw_append_part *part, bw_index first)
{
    const struct bw_change *change = &part->change;
    bw_index start = part->prev_index + 1, at = start, stop = BW_RAFT_NUMBER_MAX;
    bool changes = change->op != BW_CHANGE_NONE && start + change->entry >= first;
    if (changes && raft->changes >= BW_RAFT_CHANGES_MAX)
        stop = start + change->entry;
    for (uint32_t i = 0; i < part->runs; i++) {
        bw_index end = at + part->run[i].count, from = at > first ? at : first;
        at = end;
        if (end > stop)
            end = stop;
        if (end > from &&
            !bw_raft_log_append(&raft->log, part->run[i].term, (uint32_t)(end - from)))
            break;
    }
    if (raft->log.last < first) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_FULL, raft->leader, raft->log.runs, raft->changes);
        return;
    }
    struct bw_log_action *action =
        bw_raft_log_action(raft, BW_ACTION_LOG_APPEND, first, raft->log.last_term);
    action->count = (uint32_t)(raft->log.last - first + 1);
    action->skip = (uint32_t)(first - start);
    if (changes && start + change->entry <= raft->log.last) {
        action->change = *change;
        bw_raft_change_add(raft, start + change->entry, change->op, change->node);
    }
}

/* Merges the entries and the commit index. Returns true if new entries are being written; the reply
 * then waits for them. */
static bool merge(struct bw_raft *raft, const struct bw_append_part *part)
{
    bw_index end = part->prev_index + total_of(part), first = first_new(&raft->log, part);
    if (BW_BUG(raft_truncates_matching) && part->runs > 0 && first > end && end < raft->log.last &&
        end >= raft->log.snapshot_index)
        truncate_from(raft, end + 1);
    bool fresh = first <= end;
    if (fresh && first <= raft->log.last && !truncate_from(raft, first)) {
        fresh = false;
        end = first - 1;
    }
    if (fresh) {
        bw_index last = raft->log.last;
        append_entries(raft, part, first);
        fresh = raft->log.last > last;
        end = raft->log.last < end ? raft->log.last : end;
    }
    if (end > raft->matched)
        raft->matched = end;
    if (part->commit > raft->commit) {
        bw_index commit = part->commit < end ? part->commit : end;
        if (commit > raft->commit)
            bw_raft_commit_to(raft, commit);
    }
    return fresh;
}

/* Whether a correct leader could have sent this append. */
static bool plausible(const struct bw_message *msg)
{
    const struct bw_append_part *part = &msg->append;
    bw_term term = part->prev_term;
    uint64_t total = 0;
    if (part->prev_index > BW_RAFT_NUMBER_MAX || part->commit > BW_RAFT_NUMBER_MAX ||
        (part->prev_index == 0) != (part->prev_term == 0) || part->echo < 0 ||
        part->runs > BW_RAFT_APPEND_RUNS_MAX)
        return false;
    for (uint32_t i = 0; i < part->runs; i++) {
        if (part->run[i].term < term || part->run[i].count == 0)
            return false;
        term = part->run[i].term;
        total += part->run[i].count;
    }
    if (part->change.op != BW_CHANGE_NONE &&
        (part->change.op > BW_CHANGE_REMOVE || part->change.entry >= total ||
         part->change.node == BW_NODE_NONE))
        return false;
    return term <= msg->term && total <= UINT32_MAX;
}

void bw_raft_on_append(struct bw_raft *raft, const struct bw_message *msg)
{
    const struct bw_append_part *part = &msg->append;
    const struct bw_raft_log *log = &raft->log;
    if (!plausible(msg)) {
        bw_raft_trace(raft, BW_TRACE_IGNORED_STATE, msg->from, msg->kind, raft->role);
        return;
    }
    if (!bw_raft_accept_leader(raft, msg, part->echo))
        return;
    if (bw_raft_log_restoring(log)) {
        bw_raft_reply_yes(raft, 0, part->echo);
        return;
    }
    if (part->prev_index > log->last) {
        reply_no(raft, msg, log->last, part->echo);
        return;
    }
    if (part->prev_index >= log->snapshot_index &&
        bw_raft_log_term(log, part->prev_index) != part->prev_term) {
        reply_no(raft, msg, bw_raft_log_find(log, part->prev_index - 1, part->prev_term),
                 part->echo);
        return;
    }
    if (merge(raft, part))
        raft->reply_pending = true;
    else
        bw_raft_reply_yes(raft, raft->matched, part->echo);
}

void bw_raft_follower_persisted(struct bw_raft *raft)
{
    if (!raft->reply_pending || raft->leader == BW_NODE_NONE)
        return;
    if (raft->log.durable >= raft->matched)
        raft->reply_pending = false;
    bw_raft_reply_yes(raft, raft->matched, raft->newest_echo);
}

void bw_raft_commit_to(struct bw_raft *raft, bw_index index)
{
    raft->commit = index;
    bw_raft_log_action(raft, BW_ACTION_COMMIT, index, bw_raft_log_term(&raft->log, index));
}
