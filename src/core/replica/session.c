/* Proposals, reads and keep-alives: ours, and those other nodes pass on to us while we lead.
 *
 * A request is with exactly one state at a time. What was not yet handed to a log may be tried
 * again with another leader; what was is lost or done when the leadership ends, and only its
 * application tells which: until then its owner is told that nobody knows (BW_ELOST). */
#include "core/replica/session.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/little.h"
#include "core/registry/expiry.h"

#include <string.h>

#define ASK_HEAD   9u
#define TOLD_BYTES 28u

void bw_session_init(struct bw_session *s, bw_node self, uint64_t seed,
                     const struct bw_session_hooks *hooks, struct bw_request **buckets,
                     uint32_t bucket_count)
{
    *s = (struct bw_session){.hooks = *hooks,
                             .self = self,
                             .next_request = BW_BUG(session_numbers_begin_anew) ? 0 : seed,
                             .buckets = buckets,
                             .bucket_count = bucket_count};
    s->last_turn = hooks->now(hooks->context);
    s->stall_ns = BW_SESSION_STALL;
}

static struct bw_request **bucket_of(const struct bw_session *s, uint64_t id)
{
    return &s->buckets[(id ^ id >> BW_SESSION_NODE) & (s->bucket_count - 1)];
}

struct bw_request *bw_session_find(const struct bw_session *s, uint64_t id)
{
    struct bw_request *at = *bucket_of(s, id);
    while (at && at->id != id)
        at = at->chain;
    return at;
}

/* Renewals have room of their own: nobody loses a lease because others ask for more than can be
 * done. */
static bool has_room(const struct bw_session *s, enum bw_replica_kind kind)
{
    bool renewal = kind == BW_REPLICA_KEEP_ALIVE && !BW_BUG(session_refuses_renewals_too);
    return s->requests < BW_REPLICA_REQUESTS_MAX - (renewal ? 0 : BW_REPLICA_RENEWALS);
}

static struct bw_request *request_new(struct bw_session *s, uint64_t id, enum bw_replica_kind kind,
                                      bw_node origin, uint32_t length)
{
    if (!has_room(s, kind) || (length && s->request_bytes + length > BW_REPLICA_BYTES_MAX))
        return NULL;
    struct bw_request *request = s->hooks.take(s->hooks.context, sizeof *request + length);
    if (!request)
        return NULL;
    *request = (struct bw_request){.id = id,
                                   .kind = kind,
                                   .origin = origin,
                                   .since = s->hooks.now(s->hooks.context),
                                   .length = length,
                                   .bytes = (unsigned char *)(request + 1),
                                   .previous = s->last};
    *(s->last ? &s->last->next : &s->first) = request;
    s->last = request;
    struct bw_request **bucket = bucket_of(s, id);
    request->chain = *bucket;
    *bucket = request;
    s->requests++;
    s->request_bytes += length;
    return request;
}

/* Groups hold pointers: one that is in a group is taken out by whoever ends the group. */
static void leave_group(struct bw_request_group *group, const struct bw_request *request)
{
    struct bw_request **at = &group->first;
    while (*at && *at != request)
        at = &(*at)->with;
    if (!*at)
        return;
    if (!(*at = request->with))
        group->end = at;
    group->count--;
}

static void leave_groups(struct bw_session *s, const struct bw_request *request)
{
    if (s->batch)
        leave_group(s->batch, request);
    if (s->round)
        leave_group(s->round, request);
    if (s->proposed)
        leave_group(s->proposed, request);
    for (struct bw_request_group *group = s->rounds; group; group = group->next)
        leave_group(group, request);
}

void bw_session_end(struct bw_session *s, struct bw_request *request)
{
    struct bw_request **at = bucket_of(s, request->id);
    while (*at != request)
        at = &(*at)->chain;
    *at = request->chain;
    *(request->previous ? &request->previous->next : &s->first) = request->next;
    *(request->next ? &request->next->previous : &s->last) = request->previous;
    if (request->state == BW_REQUEST_ROUND || request->state == BW_REQUEST_LOGGED)
        leave_groups(s, request);
    s->indexed -= request->state == BW_REQUEST_INDEX;
    s->requests--;
    s->request_bytes -= request->length;
    s->hooks.give(s->hooks.context, request);
}

static void give_groups(struct bw_session *s, struct bw_request_group *group)
{
    while (group) {
        struct bw_request_group *next = group->next;
        s->hooks.give(s->hooks.context, group);
        group = next;
    }
}

void bw_session_clear(struct bw_session *s)
{
    while (s->first)
        bw_session_end(s, s->first);
    give_groups(s, s->batch);
    give_groups(s, s->round);
    give_groups(s, s->rounds);
    s->batch = s->round = s->rounds = NULL;
}

static void tell(struct bw_session *s, const struct bw_request *request, int error, bw_index index,
                 bw_time ttl_ns)
{
    unsigned char bytes[TOLD_BYTES];
    bw_put64(bytes, request->id);
    bw_put32(bytes + 8, (uint32_t)-error);
    bw_put64(bytes + 12, index);
    bw_put64(bytes + 20, (uint64_t)ttl_ns);
    s->hooks.tell(s->hooks.context, request->origin, bytes, sizeof bytes);
}

void bw_session_fail(struct bw_session *s, struct bw_request *request, int error)
{
    uint64_t id = request->id;
    bool ours = request->origin == s->self;
    if (request->revokes &&
        !BW_BUG(session_drops_refused_revokes)) /* it must be tried again, but not at once: Raft had
                                                   a reason */
        bw_registry_begin(s->registry, request->lease, s->hooks.now(s->hooks.context));
    else if (!ours && request->origin != BW_NODE_NONE)
        tell(s, request, error, 0, 0);
    bw_session_end(s, request);
    if (ours) {
        s->proposals_failed++;
        s->hooks.failed(s->hooks.context, id, error);
    }
}

static void answer(struct bw_session *s, struct bw_request *request, bw_index index, bw_time ttl_ns)
{
    uint64_t id = request->id;
    if (request->origin != s->self) {
        tell(s, request, 0, index, ttl_ns);
    } else if (request->kind == BW_REPLICA_READ && index > s->applied &&
               !BW_BUG(session_reads_before_applied)) {
        leave_groups(s, request);
        request->state = BW_REQUEST_INDEX;
        request->index = index;
        s->indexed++;
        return;
    } else {
        bw_session_end(s, request);
        s->hooks.answered(s->hooks.context, id, ttl_ns);
        return;
    }
    bw_session_end(s, request);
}

static struct bw_request_group *group_new(struct bw_session *s)
{
    struct bw_request_group *group = s->hooks.take(s->hooks.context, sizeof *group);
    if (group) {
        *group = (struct bw_request_group){.id = ++s->next_group};
        group->end = &group->first;
    }
    return group;
}

/* What becomes an entry of the log. */
static bool is_logged(enum bw_replica_kind kind)
{
    return kind == BW_REPLICA_PROPOSAL || kind == BW_REPLICA_CHANGE;
}

/* Into this turn's group of its kind. False: no memory. */
static bool join_group(struct bw_session *s, struct bw_request *request)
{
    bool logged = is_logged(request->kind);
    struct bw_request_group **group = logged ? &s->batch : &s->round;
    if (!*group && !(*group = group_new(s)))
        return false;
    request->state = logged ? BW_REQUEST_LOGGED : BW_REQUEST_ROUND;
    request->with = NULL;
    *(*group)->end = request;
    (*group)->end = &request->with;
    (*group)->count++;
    return true;
}

static bool pass_on(struct bw_session *s, struct bw_request *request)
{
    unsigned char head[ASK_HEAD], lease[8];
    bw_put64(head, request->id);
    head[8] = (unsigned char)request->kind;
    bw_put64(lease, (uint64_t)request->lease);
    bool logged = is_logged(request->kind);
    if (!s->hooks.ask(s->hooks.context, s->leader, head, sizeof head,
                      logged ? request->bytes : lease, logged ? request->length : sizeof lease))
        return false;
    request->state = BW_REQUEST_PASSED;
    return true;
}

static void make_change(struct bw_session *s, struct bw_request *request)
{
    if (s->hooks.change)
        s->hooks.change(s->hooks.context, request);
    else
        bw_session_fail(s, request, BW_EUNSUPPORTED);
}

void bw_session_log(struct bw_session *s, struct bw_request *request)
{
    join_group(s, request);
    s->hooks.turn(s->hooks.context);
}

/* To whoever leads; it stays NEW while nobody does. */
static void place(struct bw_session *s, struct bw_request *request)
{
    if (request->transfer)
        return;
    if (s->leading && request->kind == BW_REPLICA_CHANGE) {
        make_change(s, request);
        return;
    }
    if (s->leading)
        join_group(s, request);
    else if (s->leader != BW_NODE_NONE && request->origin == s->self)
        pass_on(s, request);
    if (request->state == BW_REQUEST_LOGGED || request->state == BW_REQUEST_ROUND)
        s->hooks.turn(s->hooks.context);
}

static uint64_t next_id(struct bw_session *s)
{
    return (uint64_t)s->self << BW_SESSION_NODE |
           (++s->next_request & (((uint64_t)1 << BW_SESSION_NODE) - 1));
}

uint64_t bw_session_propose(struct bw_session *s, const struct bw_entry *entry,
                            unsigned char *scratch, size_t size)
{
    int length = bw_entry_encode(entry, scratch + BW_SESSION_HEAD, size - BW_SESSION_HEAD);
    if (length < 0)
        return 0;
    uint64_t id = next_id(s);
    struct bw_request *request =
        request_new(s, id, BW_REPLICA_PROPOSAL, s->self, (uint32_t)length + BW_SESSION_HEAD);
    if (!request)
        return 0;
    bw_put64(scratch, id);
    memcpy(request->bytes, scratch, request->length);
    s->proposals++;
    place(s, request);
    return id;
}

uint64_t bw_session_ask(struct bw_session *s, enum bw_replica_kind kind, int64_t lease)
{
    uint64_t id = next_id(s);
    struct bw_request *request = request_new(s, id, kind, s->self, 0);
    if (!request)
        return 0;
    request->lease = lease;
    place(s, request);
    return id;
}

uint64_t bw_session_transfer(struct bw_session *s, struct bw_command *command)
{
    uint64_t id = next_id(s);
    struct bw_request *request = request_new(s, id, BW_REPLICA_READ, s->self, 0);
    if (!request)
        return 0;
    request->transfer = true;
    command->request = id;
    s->hooks.command(s->hooks.context, command);
    return id;
}

/* It may be refused, and that is not told from within this call: it is placed with the turn's end.
 */
uint64_t bw_session_change(struct bw_session *s, const unsigned char *bytes, size_t length,
                           bw_node origin)
{
    uint64_t id = next_id(s);
    struct bw_request *request =
        request_new(s, id, BW_REPLICA_CHANGE, origin, (uint32_t)(BW_SESSION_HEAD + length));
    if (!request)
        return 0;
    bw_put64(request->bytes, id);
    memcpy(request->bytes + BW_SESSION_HEAD, bytes, length);
    s->unplaced = true;
    s->hooks.turn(s->hooks.context);
    return id;
}

void bw_session_forget(struct bw_session *s, uint64_t id)
{
    struct bw_request *request = bw_session_find(s, id);
    if (request && request->state != BW_REQUEST_LOGGED)
        bw_session_end(s, request);
    else if (request) /* its bytes are in a log: its owner only stops to care */
        request->origin = BW_NODE_NONE;
}

/* Another node passes a request on to us. */
void bw_session_asked(struct bw_session *s, bw_node from, const unsigned char *bytes, size_t length)
{
    if (length < ASK_HEAD || bytes[8] >= BW_REPLICA_KINDS)
        return;
    uint64_t id = bw_get64(bytes);
    enum bw_replica_kind kind = (enum bw_replica_kind)bytes[8];
    size_t rest = length - ASK_HEAD;
    bool logged = is_logged(kind);
    if (id >> BW_SESSION_NODE != from || bw_session_find(s, id) || (!logged && rest != 8) ||
        (logged && (rest < BW_SESSION_HEAD || bw_get64(bytes + ASK_HEAD) != id)))
        return;
    struct bw_request *request = request_new(s, id, kind, from, logged ? (uint32_t)rest : 0);
    struct bw_request refused = {.id = id, .origin = from};
    if (!request || !s->leading) {
        tell(s, &refused, request ? BW_ENOTLEADER : BW_EBUSY, 0, 0);
        if (request)
            bw_session_end(s, request);
        return;
    }
    if (logged)
        memcpy(request->bytes, bytes + ASK_HEAD, rest);
    else
        request->lease = (int64_t)bw_get64(bytes + ASK_HEAD);
    place(s, request);
}

/* The node that leads answers what we passed on. A proposal is only told of when it failed. */
void bw_session_told(struct bw_session *s, bw_node from, const unsigned char *bytes, size_t length)
{
    struct bw_request *request = length == TOLD_BYTES ? bw_session_find(s, bw_get64(bytes)) : NULL;
    if (!request || request->state != BW_REQUEST_PASSED || request->origin != s->self)
        return;
    int error = -(int)bw_get32(bytes + 8);
    if (error == BW_ENOTLEADER) {
        request->state = BW_REQUEST_NEW;
        if (s->leader != from)
            place(s, request);
    } else if (error) {
        bw_session_fail(s, request, error);
    } else {
        answer(s, request, bw_get64(bytes + 12), (bw_time)bw_get64(bytes + 20));
    }
}

/* Reads whose index has been applied since. */
void bw_session_reads(struct bw_session *s)
{
    for (struct bw_request *at = s->first, *next; at && s->indexed; at = next) {
        uint32_t others = s->requests - 1;
        next = at->next;
        if (at->state != BW_REQUEST_INDEX || at->index > s->applied)
            continue;
        answer(s, at, at->index, 0);
        if (s->requests != others) /* who was told has forgotten others */
            next = s->first;
    }
}

static struct bw_request_group *find_round(const struct bw_session *s, uint64_t id)
{
    struct bw_request_group *at = s->rounds;
    while (at && at->id != id)
        at = at->next;
    return at;
}

bool bw_session_is_round(const struct bw_session *s, uint64_t id)
{
    return find_round(s, id) != NULL;
}

static void drop_round(struct bw_session *s, struct bw_request_group *group)
{
    struct bw_request_group **at = &s->rounds;
    while (*at != group)
        at = &(*at)->next;
    *at = group->next;
    s->hooks.give(s->hooks.context, group);
}

/* It stays in the list until the end: who is answered may forget others of the same round. */
static void end_round(struct bw_session *s, struct bw_request_group *group,
                      const struct bw_answer *told)
{
    bw_time now = s->hooks.now(s->hooks.context);
    struct bw_request *request;
    while ((request = group->first)) {
        if (!(group->first = request->with))
            group->end = &group->first;
        bool refused = told->error &&
                       !(BW_BUG(session_renews_deposed) && request->kind == BW_REPLICA_KEEP_ALIVE);
        if (refused) {
            request->state = BW_REQUEST_NEW; /* nothing was done: somebody else may */
            if (request->origin != s->self)
                bw_session_fail(s, request, BW_ENOTLEADER);
        } else if (request->kind == BW_REPLICA_KEEP_ALIVE) {
            answer(s, request, 0, bw_registry_keep_alive(s->registry, request->lease, now));
        } else if (request->kind == BW_REPLICA_LEFT) {
            answer(s, request, 0, bw_registry_left(s->registry, request->lease, now));
        } else {
            answer(s, request, told->index, 0);
        }
    }
    drop_round(s, group);
}

/* A batch that Raft did not take. */
static void refuse_batch(struct bw_session *s)
{
    struct bw_request *request;
    while ((request = s->proposed->first)) {
        s->proposed->first = request->with;
        request->state = BW_REQUEST_NEW;
        if (request->origin != s->self)
            bw_session_fail(s, request, BW_ENOTLEADER);
    }
}

/* Raft has taken it, and its application tells; or not. */
static void change_answered(struct bw_session *s, struct bw_request *request, int error)
{
    if (error == BW_EBUSY || error == BW_ETRANSFERRING || error == BW_ENOTLEADER)
        request->state = BW_REQUEST_NEW; /* not now: tried again with the next sweep */
    else if (error)
        bw_session_fail(s, request, error);
}

/* Raft answers a command: a round of reads, a refused batch, a transfer, a change. */
void bw_session_answer(struct bw_session *s, const struct bw_answer *told)
{
    struct bw_request *request = bw_session_find(s, told->request);
    struct bw_request_group *group = find_round(s, told->request);
    if (group) {
        end_round(s, group, told);
    } else if (s->proposed && s->proposed->id == told->request && told->error) {
        refuse_batch(s);
    } else if (request && request->kind == BW_REPLICA_CHANGE) {
        change_answered(s, request, told->error);
    } else if (request && request->transfer) {
        if (told->error)
            bw_session_fail(s, request, told->error);
        else
            answer(s, request, 0, 0);
    }
}

const struct bw_request *bw_session_batch(const struct bw_session *s, uint64_t id)
{
    return s->proposed && s->proposed->id == id ? s->proposed->first : NULL;
}

static void flush_batch(struct bw_session *s)
{
    struct bw_command command = {
        .kind = BW_COMMAND_PROPOSE, .count = s->batch->count, .request = s->batch->id};
    s->proposed = s->batch;
    s->batch = NULL;
    if (s->proposed->count)
        s->hooks.command(s->hooks.context, &command);
    s->hooks.give(s->hooks.context, s->proposed);
    s->proposed = NULL;
}

static void flush_round(struct bw_session *s)
{
    struct bw_command command = {.kind = BW_COMMAND_READ, .request = s->round->id};
    struct bw_request_group *round = s->round;
    s->round = NULL;
    round->next = s->rounds;
    s->rounds = round;
    if (BW_BUG(session_reads_without_round))
        bw_session_answer(s, &(struct bw_answer){.request = round->id, .index = s->applied});
    else
        s->hooks.command(s->hooks.context, &command);
}

/* A change that is refused is gone, and whoever is told of it may forget others: then the rest
 * waits for the next sweep. */
static void place_new(struct bw_session *s)
{
    uint32_t before = s->requests;
    for (struct bw_request *at = s->first, *next; at && s->requests == before; at = next) {
        next = at->next;
        if (at->state == BW_REQUEST_NEW)
            place(s, at);
    }
}

/* A follower learns of a commit with the next append: when one of them waits, a round goes out now
 * instead of with the next heartbeat. */
static void nudge(struct bw_session *s)
{
    struct bw_command command = {.kind = BW_COMMAND_READ};
    s->nudge = false;
    if (s->leading)
        s->hooks.command(s->hooks.context, &command);
}

/* Renewals and reads ahead of new work, whatever came first: their round is on its way to the
 * followers before the entries, which take longer the more are asked for. Nothing starves: both go
 * out with every turn. */
void bw_session_flush(struct bw_session *s)
{
    bw_session_stalled(s);
    if (s->unplaced) {
        s->unplaced = false;
        place_new(s);
    }
    bool new_first = BW_BUG(session_new_work_first);
    if (s->batch && new_first)
        flush_batch(s);
    if (s->round)
        flush_round(s);
    if (s->batch)
        flush_batch(s);
    if (s->nudge)
        nudge(s);
}

/* Telling that a request failed may lead to others being forgotten: the walk begins anew behind
 * each. */
void bw_session_place(struct bw_session *s)
{
    for (struct bw_request *at = s->first; at;) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): failed ones unlink themselves */
        bool logged = at->state == BW_REQUEST_LOGGED && !s->leading;
        bool passed = at->state == BW_REQUEST_PASSED;
        if (BW_BUG(session_repeats_lost) && logged)
            at->state = BW_REQUEST_NEW;
        else if (is_logged(at->kind) && (logged || passed)) {
            bw_session_fail(s, at, BW_BUG(session_denies_lost) ? BW_ENOTLEADER : BW_ELOST);
            at = s->first;
            continue;
        }
        if (passed)
            at->state = BW_REQUEST_NEW;
        at = at->next;
    }
    place_new(s);
}

void bw_session_restored(struct bw_session *s)
{
    bw_session_place(s);
    bw_session_reads(s);
}

void bw_session_sweep(struct bw_session *s)
{
    bw_time now = s->hooks.now(s->hooks.context);
    while (s->first && s->first->since + BW_SESSION_PATIENCE <= now) /* oldest first */
        bw_session_fail(s, s->first,
                        s->first->state == BW_REQUEST_NEW ? BW_ENOTLEADER : BW_ETIMEDOUT);
    place_new(s);
}
