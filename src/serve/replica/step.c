/* Raft's steps and their actions, and the turn of the loop that ends with one write and one sync.
 *
 * Records for the disk keep their order by themselves: they go into the log's next batch. What must
 * not be heard of before a record is durable (everything behind a PERSIST) waits: held.c.
 */
#include "core/base/codec.h"
#include "core/base/error.h"
#include "core/base/little.h"
#include "serve/crash.h"
#include "serve/replica/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bw_time replica_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * BW_SEC + now.tv_nsec;
}

static unsigned char *scratch(struct bw_replica *r, size_t bytes)
{
    if (bytes > r->scratch_size) {
        unsigned char *larger = realloc(r->scratch, bytes);
        if (!larger)
            return NULL;
        r->scratch = larger;
        r->scratch_size = bytes;
    }
    return r->scratch;
}

/* Entries behind an APPEND: each its length and its bytes. False: the log does not hold them. */
static bool attach(struct bw_replica *r, const struct bw_message *msg, size_t *length)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < msg->append.runs; i++)
        count += msg->append.run[i].count;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct bw_log_entry *entry = bw_log_at(&r->log, msg->append.prev_index + 1 + i);
        if (!entry)
            return false;
        bytes += 4 + entry->length;
    }
    unsigned char *at = scratch(r, bytes);
    if (!at)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct bw_log_entry *entry = bw_log_at(&r->log, msg->append.prev_index + 1 + i);
        bw_put32(at, entry->length);
        if (entry->length)
            memcpy(at + 4, entry->bytes, entry->length);
        at += 4 + entry->length;
    }
    *length = bytes;
    return true;
}

static void send_message(struct bw_replica *r, const struct bw_message *msg)
{
    static unsigned char frame[BW_FRAME_MAX];
    unsigned char head[4];
    size_t entries = 0;
    if (msg->kind == BW_MSG_RAFT_APPEND && !attach(r, msg, &entries))
        return;
    if (msg->kind == BW_MSG_RAFT_SNAPSHOT)
        replica_snapshot_send(r, msg->to);
    int length = bw_message_encode(msg, frame, sizeof frame);
    if (length < 0)
        return;
    bw_put32(head, (uint32_t)length);
    struct bw_part parts[] = {{head, 4}, {frame, (size_t)length}, {r->scratch, entries}};
    bw_mesh_send(r->mesh, msg->to, BW_FRAME_RAFT, parts, 3);
}

static void announce(struct bw_replica *r, const struct bw_announcement *said)
{
    bw_node before = r->session.leader;
    if (said->leader == before && said->term == r->term)
        return;
    r->leader_changes += said->leader != before && said->leader != BW_NODE_NONE;
    r->term = said->term;
    replica_agree(r);
    bw_session_led(&r->session, said->leader);
    if (said->leader != before)
        bw_silence_forget(&r->silence);
    replica_publish(r);
    r->options.led(r->options.context);
}

void replica_carry_out(struct bw_replica *r, const struct bw_action *action)
{
    switch (action->kind) {
    case BW_ACTION_SEND:
        send_message(r, &action->msg);
        break;
    case BW_ACTION_ANNOUNCE:
        announce(r, &action->announce);
        break;
    case BW_ACTION_COMMIT:
        replica_apply(r, action->log.first);
        break;
    case BW_ACTION_ANSWER:
        bw_session_answer(&r->session, &action->answer);
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
    /* While the disk stands still no more than these are told apart: later is safe. */
    if (!last || (last->commit != commit && r->mark_count < cap))
        last = &r->marks[(r->mark_first + r->mark_count++) % cap];
    *last = (struct mark){.commit = commit, .index = index, .term = term};
}

static void keep(struct bw_replica *r, bw_index index, const struct bw_log_entry *entry)
{
    if (bw_log_append(&r->log, entry) != 0)
        abort(); /* without memory for the log nothing can be promised any more */
    replica_roster_learn(r, entry);
    bw_wal_entry(r->wal, &(struct bw_wal_entry){.index = index,
                                                .term = entry->term,
                                                .change = entry->change,
                                                .node = entry->node,
                                                .bytes = entry->bytes,
                                                .length = entry->length});
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

/* Entries that came with the message being stepped; their lengths were checked. */
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
            keep(r, log->first + i - log->skip, &entry);
        at += 4 + length;
    }
}

/* Entries born here: proposals, a change of the members, or Raft's own. */
static void append_own(struct bw_replica *r, const struct bw_log_action *log)
{
    const struct bw_request *request =
        log->request ? bw_session_batch(&r->session, log->request) : NULL;
    if (log->change.op)
        request = bw_session_find(&r->session, log->request);
    for (uint32_t i = 0; i < log->count; i++) {
        bool change = log->change.op && log->change.entry == i;
        struct bw_log_entry entry = {.term = log->term,
                                     .change = change ? log->change.op : (uint8_t)0,
                                     .node = change ? log->change.node : BW_NODE_NONE,
                                     .length = request ? request->length : 0,
                                     .bytes = request ? request->bytes : NULL};
        keep(r, log->first + i, &entry);
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
        replica_remember(r, bw_log_last(&r->log), action->log.term);
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
        replica_say(r, action);
    }
}

/* Carrying out an action may lead to another step: the list is used again only when it is done. */
void replica_step(struct bw_replica *r, struct bw_event *event)
{
    struct bw_action *list = r->actions + (size_t)r->depth * r->actions_max;
    struct bw_actions actions = {.at = list, .cap = r->actions_max};
    BW_ASSERT(r->depth < REPLICA_DEPTH);
    event->now = replica_now();
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

/* Entries behind an append: as many as it says, each whole. */
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
    replica_back_note(r, &msg);
    r->payload = payload;
    replica_step(r, &event);
    r->payload = NULL;
    if (msg.kind == BW_MSG_RAFT_APPEND && from == r->session.leader)
        bw_silence_heard(&r->silence, event.now);
}

void replica_durable(struct bw_replica *r, uint64_t commit)
{
    uint32_t cap = sizeof r->marks / sizeof r->marks[0];
    struct mark mark = {0};
    r->durable_commit = commit;
    r->disk_since = commit + 1 < bw_wal_next(r->wal) ? replica_now() : 0;
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
    (void)
        idle; /* the loop does not sleep while there is one: the check that follows does the work */
}

/* Something was asked for or collected: it goes out at the end of this turn of the loop, or of the
 * next one if nothing else happens in this. */
void replica_turn(struct bw_replica *r)
{
    uv_idle_start(&r->turn, on_idle);
}

/* A timer of whole milliseconds: never early. The loop counts them from when its turn began. */
void replica_arm(struct bw_replica *r)
{
    bw_time now = replica_now(), at = bw_elect_raft.deadline(r->raft);
    at = bw_time_min(at, bw_session_deadline(&r->session));
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

/* A leader whose disk stands still can promise nothing of its own, and all that its followers took
 * piles up in its memory: it lets another one lead (fault 26). It cannot be elected again before
 * its disk has taken the vote. */
static void mind_disk(struct bw_replica *r, bw_time now)
{
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .command = {.kind = BW_COMMAND_RESIGN}};
    if (!r->session.leading || r->disk_since == 0 || now - r->disk_since < r->disk_patience)
        return;
    fprintf(stderr, "bellwether: the disk under %s has stood still for %lld ms: stepping down\n",
            r->options.directory, (long long)((now - r->disk_since) / BW_MS));
    replica_step(r, &event);
}

void replica_timer(uv_timer_t *timer)
{
    struct bw_replica *r = timer->data;
    bw_time now = replica_now();
    r->armed_for = 0;
    if (now >= bw_elect_raft.deadline(r->raft)) {
        struct bw_event event = {.kind = BW_EVENT_TIMEOUT};
        replica_step(r, &event);
    }
    if (now >= bw_silence_deadline(&r->silence) && bw_silence_over(&r->silence, now)) {
        struct bw_event event = {.kind = BW_EVENT_SUSPECT, .node = r->session.leader};
        replica_step(r, &event);
    }
    mind_disk(r, now);
    replica_expire(r);
    replica_arm(r);
}

/* Once per turn of the loop: proposals and reads to Raft, records to the disk, news to watchers. */
void replica_check(uv_check_t *check)
{
    struct bw_replica *r = check->data;
    uv_idle_stop(&r->turn);
    bw_session_flush(&r->session);
    replica_promote_ready(r);
    replica_feed(r);
    /* A follower has nothing to do meanwhile; a leader hears its followers. */
    bw_wal_place(r->wal, r->session.leading ? BW_WAL_ANY_CORE : BW_WAL_LOOP_CORE);
    uint64_t commit = bw_wal_commit(r->wal);
    if (r->disk_since == 0 && commit > r->durable_commit)
        r->disk_since = replica_now();
    if (r->changed) {
        r->changed = false;
        r->options.changed(r->options.context, false);
    }
    replica_arm(r);
}
