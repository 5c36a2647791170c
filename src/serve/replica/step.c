/* Runs Raft: passes events to the core and carries out the actions it returns. At the end of each
 * turn of the loop, all new records go to the disk with one write and one sync.
 *
 * Records keep their order: each goes into the next batch of the write-ahead log. Actions after a
 * PERSIST wait until its record is durable (durable_barrier.c). */
#include "core/base/bug.h"
#include "core/base/codec.h"
#include "core/base/error.h"
#include "core/base/little.h"
#include "os/clock.h"
#include "os/crash.h"
#include "os/journal.h"
#include "serve/replica/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void announce(struct bw_replica *r, const struct bw_announcement *announced)
{
    bw_node before = r->router.leader;
    if (announced->leader == before && announced->term == r->term)
        return;
    if (announced->leader != r->options.self)
        replica_send_stop(r);
    r->leader_changes += announced->leader != before && announced->leader != BW_NODE_NONE;
    r->term = announced->term;
    replica_agree(r);
    bw_router_set_leader(&r->router, announced->leader);
    if (announced->leader != before)
        bw_silence_forget(&r->silence);
    replica_publish(r);
    r->options.led(r->options.context);
}

void replica_carry_out(struct bw_replica *r, const struct bw_action *action)
{
    switch (action->kind) {
    case BW_ACTION_SEND:
        replica_send(r, &action->msg);
        break;
    case BW_ACTION_ANNOUNCE:
        announce(r, &action->announce);
        break;
    case BW_ACTION_COMMIT:
        replica_apply(r, action->log.first);
        break;
    case BW_ACTION_ANSWER:
        bw_router_raft_answered(&r->router, &action->answer);
        break;
    default:
        break;
    }
}

void replica_remember(struct bw_replica *r, bw_index index, bw_term term)
{
    uint32_t cap = sizeof r->marks / sizeof r->marks[0];
    uint64_t commit = bw_wal_next(r->wal);
    struct mark *last = r->mark_count ? &r->marks[(r->mark_first + r->mark_count - 1) % cap] : NULL;
    /* If the disk stalls and the list is full, the last mark covers later entries too, which is
     * safe. */
    if (!last || (last->commit != commit && r->mark_count < cap))
        last = &r->marks[(r->mark_first + r->mark_count++) % cap];
    *last = (struct mark){.commit = commit, .index = index, .term = term};
}

static void append_entry(struct bw_replica *r, bw_index index, const struct bw_log_entry *entry)
{
    if (bw_log_append(&r->log, entry) != 0) {
        /* a node that cannot store entries must not acknowledge them */
        bw_print_line(BW_PRIORITY_ERROR,
                      "bellwether: cannot store an entry of %u bytes: out of memory; exiting",
                      (unsigned)entry->length);
        abort();
    }
    replica_roster_learn(r, entry);
    bw_wal_entry(r->wal, &(struct bw_wal_entry){.index = index,
                                                .term = entry->term,
                                                .change = entry->change,
                                                .node = entry->node,
                                                .bytes = entry->bytes,
                                                .length = entry->length});
    replica_remember(r, index, entry->term);
}

static bw_term term_of(const struct bw_append_part *part, uint32_t entry)
{
    for (uint32_t i = 0; i < part->runs; i++) {
        if (entry < part->run[i].count)
            return part->run[i].term;
        entry -= part->run[i].count;
    }
    return 0;
}

/* Appends entries from the message being stepped; their lengths were checked. */
static void append_received(struct bw_replica *r, const struct bw_log_action *log,
                            const struct bw_message *msg)
{
    const unsigned char *at = r->payload;
    for (uint32_t i = 0; i < log->skip + log->count; i++) {
        uint32_t length = bw_get32(at);
        bool change = msg->append.change.op && msg->append.change.entry == i;
        struct bw_log_entry entry = {.term = term_of(&msg->append, i),
                                     .change = change ? msg->append.change.op : (uint8_t)0,
                                     .node = change ? msg->append.change.node : BW_NODE_NONE,
                                     .length = length,
                                     .bytes = (unsigned char *)at + 4};
        if (i >= log->skip)
            append_entry(r, log->first + i - log->skip, &entry);
        at += 4 + length;
    }
}

/* Appends entries created on this node: proposals, a membership change, or Raft's own. */
static void append_own(struct bw_replica *r, const struct bw_log_action *log)
{
    const struct bw_request *request =
        log->request ? bw_router_batch(&r->router, log->request) : NULL;
    if (log->change.op)
        request = bw_router_find(&r->router, log->request);
    for (uint32_t i = 0; i < log->count; i++) {
        bool change = log->change.op && log->change.entry == i;
        struct bw_log_entry entry = {.term = log->term,
                                     .change = change ? log->change.op : (uint8_t)0,
                                     .node = change ? log->change.node : BW_NODE_NONE,
                                     .length = request ? request->length : 0,
                                     .bytes = request ? request->bytes : NULL};
        append_entry(r, log->first + i, &entry);
        request = request ? request->with : NULL;
    }
}

static void act(struct bw_replica *r, const struct bw_action *action, const struct bw_event *event)
{
    const struct bw_message *msg = event->kind == BW_EVENT_MESSAGE ? event->msg : NULL;
    switch (action->kind) {
    case BW_ACTION_PERSIST:
        r->durable = action->durable;
        BW_CRASH("raft.state.before-collecting");
        bw_wal_state(r->wal, &action->durable);
        r->barrier = bw_wal_next(r->wal);
        BW_CRASH("raft.state.after-collecting");
        break;
    case BW_ACTION_LOG_APPEND:
        if (msg && msg->kind == BW_MSG_RAFT_APPEND && !action->log.request)
            append_received(r, &action->log, msg);
        else
            append_own(r, &action->log);
        BW_CRASH("raft.entries.after-collecting");
        break;
    case BW_ACTION_LOG_TRUNCATE:
        bw_log_truncate(&r->log, action->log.first);
        bw_wal_truncate(r->wal, action->log.first);
        replica_roster_rebuild(r);
        BW_CRASH("raft.truncate.after-collecting");
        break;
    case BW_ACTION_LOG_COMPACT:
        bw_log_compact(&r->log, action->log.first);
        break;
    case BW_ACTION_LOG_RESTORE:
        replica_snapshot_install(r, action->log.first);
        break;
    case BW_ACTION_SUSPECT:
    case BW_ACTION_TRUST:
    case BW_ACTION_TRACE:
        break;
    default:
        replica_act_when_durable(r, action);
    }
}

/* An action of a step may cause another, nested step, so each depth has its own list of actions. */
static void step_at(struct bw_replica *r, struct bw_event *event, bw_time now)
{
    struct bw_action *list = r->actions + (size_t)r->depth * r->actions_max;
    struct bw_actions actions = {.at = list, .cap = r->actions_max};
    BW_ASSERT(r->depth < REPLICA_DEPTH);
    event->now = now;
    bw_elect_raft.step(r->raft, event, &actions);
    r->depth++;
    for (uint32_t i = 0; i < actions.count; i++)
        act(r, &list[i], event);
    r->depth--;
    if (r->depth > 0)
        return;
    replica_turn(r);
    if (r->resync)
        replica_mesh_sync(r);
}

void replica_step(struct bw_replica *r, struct bw_event *event)
{
    step_at(r, event, bw_clock_boot());
}

/* Checks that an append is followed by exactly the entries it announces. */
static bool payload_fits(const struct bw_message *msg, const unsigned char *at, size_t length)
{
    uint32_t count = 0;
    if (msg->kind != BW_MSG_RAFT_APPEND)
        return length == 0;
    for (uint32_t i = 0; i < msg->append.runs; i++)
        count += msg->append.run[i].count;
    for (uint32_t i = 0; i < count; i++) {
        if (length < 4 || bw_get32(at) > length - 4)
            return false;
        size_t used = 4 + (size_t)bw_get32(at);
        at += used;
        length -= used;
    }
    return length == 0;
}

void replica_message(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length)
{
    static _Alignas(8) unsigned char list[BW_MESSAGE_DATA_MAX];
    struct bw_message msg;
    size_t frame = length >= 4 ? bw_get32(bytes) : SIZE_MAX;
    if (frame > length - 4 || bw_message_decode(&msg, bytes + 4, frame, list, sizeof list) != 0)
        return;
    const unsigned char *payload = bytes + 4 + frame;
    size_t rest = length - 4 - frame;
    if (msg.from != from || msg.to != r->options.self || !payload_fits(&msg, payload, rest))
        return;
    if (msg.kind == BW_MSG_RAFT_SNAPSHOT && !replica_snapshot_ready(r, &msg)) {
        replica_snapshot_defer(r, &msg, bytes, length);
        return;
    }
    struct bw_event event = {.kind = BW_EVENT_MESSAGE, .node = from, .msg = &msg};
    replica_rejoin_note(r, &msg);
    r->payload = payload;
    replica_step(r, &event);
    r->payload = NULL;
    if (msg.kind == BW_MSG_RAFT_APPEND_REPLY)
        replica_send_more(r, from);
    if (msg.kind == BW_MSG_RAFT_APPEND && from == r->router.leader)
        bw_silence_received(&r->silence, event.now);
}

void replica_durable(struct bw_replica *r, uint64_t commit)
{
    uint32_t cap = sizeof r->marks / sizeof r->marks[0];
    struct mark mark = {0};
    r->durable_commit = commit;
    replica_remove_durable(r, commit);
    r->disk_since = commit + 1 < bw_wal_next(r->wal) ? bw_clock_boot() : 0;
    if (r->barrier && r->barrier <= commit)
        r->barrier = 0;
    BW_CRASH("raft.durable.before-speaking");
    replica_held_release(r);
    BW_CRASH("raft.durable.after-speaking");
    while (r->mark_count && r->marks[r->mark_first].commit <= commit) {
        mark = r->marks[r->mark_first];
        r->mark_first = (r->mark_first + 1) % cap;
        r->mark_count--;
    }
    if (!mark.commit)
        return;
    struct bw_event event = {.kind = BW_EVENT_PERSISTED,
                             .persisted = {.index = mark.index, .term = mark.term}};
    replica_step(r, &event);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* an active idle handle keeps the loop awake; replica_check does the work */
}

/* Makes sure that replica_check runs soon: at the end of this turn of the loop, or of the next
 * one. */
void replica_turn(struct bw_replica *r)
{
    uv_idle_start(&r->turn, on_idle);
}

/* Rounds up to whole milliseconds, so the timer is never early. The loop counts from the start of
 * its turn. */
void replica_arm(struct bw_replica *r)
{
    bw_time now = bw_clock_boot(), at = bw_elect_raft.deadline(r->raft);
    at = bw_time_min(at, bw_router_deadline(&r->router));
    at = bw_time_min(at, bw_silence_deadline(&r->silence));
    if (at == r->armed_for)
        return;
    r->armed_for = at;
    if (at == BW_TIME_NEVER) {
        uv_timer_stop(&r->timer);
        return;
    }
    bw_time turn = (bw_time)uv_hrtime() - (bw_time)uv_now(r->timer.loop) * BW_MS;
    bw_time left = at <= now ? 0 : at - now + turn;
    uv_timer_start(&r->timer, replica_timer, (uint64_t)((left + BW_MS - 1) / BW_MS), 0);
}

/* A leader whose disk stalls cannot store entries itself, while the entries that its followers
 * accept accumulate in its memory. It resigns (fault 26 in docs/reference/faults.md). It cannot be
 * elected again before its disk has stored the vote. */
static void check_disk(struct bw_replica *r, bw_time now)
{
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .command = {.kind = BW_COMMAND_RESIGN}};
    if (!r->router.leading || r->disk_since == 0 || now - r->disk_since < r->disk_timeout)
        return;
    bw_print_line(BW_PRIORITY_WARNING,
                  "bellwether: the disk of %s has not completed a write for %lld ms; stepping down",
                  r->options.directory, (long long)((now - r->disk_since) / BW_MS));
    replica_step(r, &event);
}

/* Check and step use the same time. Otherwise the step could find that the leadership has ended,
 * and answer requests of other clients while a proposal begins. */
void replica_beat(struct bw_replica *r)
{
    struct bw_event event = {.kind = BW_EVENT_TIMEOUT};
    if (r->depth > 0 || !r->router.leading || BW_BUG(replica_beats_only_between_turns))
        return;
    bw_time now = bw_clock_boot();
    if (bw_raft_is_heartbeat_due(r->raft, now))
        step_at(r, &event, now);
}

void replica_timer(uv_timer_t *timer)
{
    struct bw_replica *r = timer->data;
    r->timer_due = true;
    replica_turn(r);
}

/* A node that was stopped or starved comes late to its timer, while messages of the others wait in
 * its sockets. It reads them before it judges that the others are silent: timers run at the end of
 * a turn, and those of a follower wait while it has more to read than one turn allows. The wait is
 * bounded, so a peer that sends without end cannot prevent an election. */
static bool must_read_first(struct bw_replica *r)
{
    bool first = !r->router.leading && r->postponed < POSTPONED_MAX && bw_mesh_is_behind(r->mesh);
    r->postponed = first ? r->postponed + 1 : 0;
    if (first)
        replica_turn(r);
    return first;
}

static void run_timers(struct bw_replica *r)
{
    bw_time now = bw_clock_boot();
    r->timer_due = false;
    r->armed_for = 0;
    if (now >= bw_elect_raft.deadline(r->raft)) {
        struct bw_event event = {.kind = BW_EVENT_TIMEOUT};
        replica_step(r, &event);
    }
    if (now >= bw_silence_deadline(&r->silence) && bw_silence_over(&r->silence, now)) {
        struct bw_event event = {.kind = BW_EVENT_SUSPECT, .node = r->router.leader};
        replica_step(r, &event);
    }
    check_disk(r, now);
    replica_expire(r);
    replica_arm(r);
}

/* Once per turn of the loop: passes proposals and reads to Raft, records to the disk, changes to
 * watchers. */
void replica_check(uv_check_t *check)
{
    struct bw_replica *r = check->data;
    uv_idle_stop(&r->turn);
    if (r->timer_due && !must_read_first(r))
        run_timers(r);
    bw_router_flush(&r->router);
    replica_promote_ready(r);
    replica_feed(r);
    replica_release_memory(r);
    replica_compact_when_possible(r);
    replica_snapshot_consider(r);
    replica_measure(r);
    /* A follower is idle while the log is written; a leader receives messages of its followers. */
    bw_wal_place(r->wal, r->router.leading ? BW_WAL_ANY_CORE : BW_WAL_LOOP_CORE);
    uint64_t commit = bw_wal_commit(r->wal);
    if (r->disk_since == 0 && commit > r->durable_commit)
        r->disk_since = bw_clock_boot();
    if (r->changed) {
        r->changed = false;
        r->options.changed(r->options.context, false);
    }
    replica_arm(r);
}
