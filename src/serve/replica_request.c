/* Proposals, reads and keep-alives: ours, and those other nodes pass on to us while we lead.
 *
 * A request is with exactly one state at a time. What was not yet handed to a log may be tried
 * again with another leader; what was is lost or done when the leadership ends, and only its
 * application tells which: until then its owner is told that nobody knows (BW_ELOST). */
#include "base/error.h"
#include "base/little.h"
#include "registry/expiry.h"
#include "serve/replica_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SWEEP_MS   200u
#define ASK_HEAD   9u
#define TOLD_BYTES 28u

static struct request **bucket_of(const struct bw_replica *r, uint64_t id)
{
    return &r->buckets[(id ^ id >> REQUEST_NODE) & (REQUEST_BUCKETS - 1)];
}

struct request *request_find(const struct bw_replica *r, uint64_t id)
{
    struct request *at = *bucket_of(r, id);
    while (at && at->id != id)
        at = at->chain;
    return at;
}

static void sweep(struct bw_replica *r, bw_time now);

static void on_sweep(uv_timer_t *timer)
{
    struct bw_replica *r = timer->data;
    sweep(r, replica_now());
    if (r->requests == 0)
        uv_timer_stop(timer); /* an idle node sleeps */
}

static struct request *request_new(struct bw_replica *r, uint64_t id, enum bw_replica_kind kind,
                                   bw_node origin, uint32_t length)
{
    if (r->requests >= BW_REPLICA_REQUESTS_MAX ||
        (length && r->request_bytes + length > BW_REPLICA_BYTES_MAX))
        return NULL;
    struct request *request = calloc(1, sizeof *request + length);
    if (!request)
        return NULL;
    *request = (struct request){.id = id,
                                .kind = kind,
                                .origin = origin,
                                .since = replica_now(),
                                .length = length,
                                .bytes = (unsigned char *)(request + 1),
                                .previous = r->last};
    *(r->last ? &r->last->next : &r->first) = request;
    r->last = request;
    struct request **bucket = bucket_of(r, id);
    request->chain = *bucket;
    *bucket = request;
    if (r->requests++ == 0 && !uv_is_active((uv_handle_t *)&r->sweeper))
        uv_timer_start(&r->sweeper, on_sweep, SWEEP_MS, SWEEP_MS);
    r->request_bytes += length;
    return request;
}

/* Groups hold pointers: one that is in a group is taken out by whoever ends the group. */
static void leave_group(struct group *group, const struct request *request)
{
    struct request **at = &group->first;
    while (*at && *at != request)
        at = &(*at)->with;
    if (!*at)
        return;
    if (!(*at = request->with))
        group->end = at;
    group->count--;
}

static void leave_groups(struct bw_replica *r, const struct request *request)
{
    if (r->batch)
        leave_group(r->batch, request);
    if (r->round)
        leave_group(r->round, request);
    for (struct group *group = r->rounds; group; group = group->next)
        leave_group(group, request);
}

void request_end(struct bw_replica *r, struct request *request)
{
    struct request **at = bucket_of(r, request->id);
    while (*at != request)
        at = &(*at)->chain;
    *at = request->chain;
    *(request->previous ? &request->previous->next : &r->first) = request->next;
    *(request->next ? &request->next->previous : &r->last) = request->previous;
    if (request->state == REQUEST_ROUND || request->state == REQUEST_LOGGED)
        leave_groups(r, request);
    r->requests--;
    r->request_bytes -= request->length;
    free(request);
}

static void tell(struct bw_replica *r, const struct request *request, int error, bw_index index,
                 bw_time ttl_ns)
{
    unsigned char bytes[TOLD_BYTES];
    bw_put64(bytes, request->id);
    bw_put32(bytes + 8, (uint32_t)-error);
    bw_put64(bytes + 12, index);
    bw_put64(bytes + 20, (uint64_t)ttl_ns);
    bw_mesh_send(r->mesh, request->origin, BW_FRAME_TOLD, &(struct bw_part){bytes, sizeof bytes},
                 1);
}

static void fail(struct bw_replica *r, struct request *request, int error)
{
    uint64_t id = request->id;
    bool ours = request->origin == r->options.self;
    if (!ours)
        tell(r, request, error, 0, 0);
    request_end(r, request);
    if (ours && id >> REQUEST_NODE) {
        r->proposals_failed++;
        r->options.failed(r->options.context, id, error);
    }
}

static void answer(struct bw_replica *r, struct request *request, bw_index index, bw_time ttl_ns)
{
    uint64_t id = request->id;
    if (request->origin != r->options.self) {
        tell(r, request, 0, index, ttl_ns);
    } else if (request->kind == BW_REPLICA_READ && index > r->applied) {
        leave_groups(r, request);
        request->state = REQUEST_INDEX;
        request->index = index;
        return;
    } else {
        request_end(r, request);
        r->options.answered(r->options.context, id, ttl_ns);
        return;
    }
    request_end(r, request);
}

static struct group *group_new(struct bw_replica *r)
{
    struct group *group = calloc(1, sizeof *group);
    if (group) {
        group->id = ++r->next_group;
        group->end = &group->first;
    }
    return group;
}

/* Into this turn's group of its kind. False: no memory. */
static bool join_group(struct bw_replica *r, struct request *request)
{
    struct group **group = request->kind == BW_REPLICA_PROPOSAL ? &r->batch : &r->round;
    if (!*group && !(*group = group_new(r)))
        return false;
    request->state = request->kind == BW_REPLICA_PROPOSAL ? REQUEST_LOGGED : REQUEST_ROUND;
    request->with = NULL;
    *(*group)->end = request;
    (*group)->end = &request->with;
    (*group)->count++;
    return true;
}

static bool pass_on(struct bw_replica *r, struct request *request)
{
    unsigned char head[ASK_HEAD], lease[8];
    bw_put64(head, request->id);
    head[8] = (unsigned char)request->kind;
    bw_put64(lease, (uint64_t)request->lease);
    bool proposal = request->kind == BW_REPLICA_PROPOSAL;
    struct bw_part parts[] = {{head, sizeof head},
                              {proposal ? request->bytes : lease, proposal ? request->length : 8}};
    if (!bw_mesh_send(r->mesh, r->leader, BW_FRAME_ASK, parts, 2))
        return false;
    request->state = REQUEST_PASSED;
    return true;
}

/* To whoever leads; it stays NEW while nobody does. */
static void place(struct bw_replica *r, struct request *request)
{
    if (request->change)
        return;
    if (r->leading)
        join_group(r, request);
    else if (r->leader != BW_NODE_NONE && request->origin == r->options.self)
        pass_on(r, request);
    if (request->state == REQUEST_LOGGED || request->state == REQUEST_ROUND)
        replica_turn(r);
}

/* Numbers begin anywhere: the log holds those of an earlier life of this node, and an entry of it
 * that is applied after a restart must not pass for the answer to a new request. */
static uint64_t next_id(struct bw_replica *r)
{
    if (r->next_request == 0 &&
        getrandom(&r->next_request, sizeof r->next_request, 0) != (ssize_t)sizeof r->next_request)
        abort();
    return (uint64_t)r->options.self << REQUEST_NODE |
           (++r->next_request & (((uint64_t)1 << REQUEST_NODE) - 1));
}

uint64_t bw_replica_propose(struct bw_replica *r, const struct bw_entry *entry)
{
    int length = bw_entry_encode(entry, r->scratch + REQUEST_HEAD, r->scratch_size - REQUEST_HEAD);
    if (length < 0)
        return 0;
    uint64_t id = next_id(r);
    struct request *request =
        request_new(r, id, BW_REPLICA_PROPOSAL, r->options.self, (uint32_t)length + REQUEST_HEAD);
    if (!request)
        return 0;
    bw_put64(r->scratch, id);
    memcpy(request->bytes, r->scratch, request->length);
    r->proposals++;
    place(r, request);
    return id;
}

static uint64_t ask(struct bw_replica *r, enum bw_replica_kind kind, int64_t lease)
{
    uint64_t id = next_id(r);
    struct request *request = request_new(r, id, kind, r->options.self, 0);
    if (!request)
        return 0;
    request->lease = lease;
    place(r, request);
    return id;
}

uint64_t bw_replica_read(struct bw_replica *r)
{
    return ask(r, BW_REPLICA_READ, 0);
}

uint64_t bw_replica_keep_alive(struct bw_replica *r, int64_t lease)
{
    return ask(r, BW_REPLICA_KEEP_ALIVE, lease);
}

uint64_t bw_replica_left(struct bw_replica *r, int64_t lease)
{
    return ask(r, BW_REPLICA_LEFT, lease);
}

void bw_replica_forget(struct bw_replica *r, uint64_t id)
{
    struct request *request = request_find(r, id);
    if (request && request->state != REQUEST_LOGGED)
        request_end(r, request);
    else if (request) /* its bytes are in a log: its owner only stops to care */
        request->origin = BW_NODE_NONE;
}

/* Our own: nobody waits for it, and another leader would see for itself. */
void replica_revoke(struct bw_replica *r, int64_t lease)
{
    struct bw_entry entry = {.kind = BW_ENTRY_REVOKE, .lease = {.id = lease}};
    uint64_t id = bw_replica_propose(r, &entry);
    struct request *request = id ? request_find(r, id) : NULL;
    if (request)
        request->origin = BW_NODE_NONE;
}

uint64_t bw_replica_transfer(struct bw_replica *r, bw_node to)
{
    uint64_t id = next_id(r);
    struct request *request = request_new(r, id, BW_REPLICA_READ, r->options.self, 0);
    if (!request)
        return 0;
    request->change = true;
    struct bw_event event = {.kind = BW_EVENT_COMMAND,
                             .command = {.kind = BW_COMMAND_TRANSFER, .node = to, .request = id}};
    replica_step(r, &event);
    return id;
}

/* Another node passes a request on to us. */
void replica_asked(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length)
{
    if (length < ASK_HEAD || bytes[8] >= BW_REPLICA_KINDS)
        return;
    uint64_t id = bw_get64(bytes);
    enum bw_replica_kind kind = (enum bw_replica_kind)bytes[8];
    size_t rest = length - ASK_HEAD;
    bool proposal = kind == BW_REPLICA_PROPOSAL;
    if (id >> REQUEST_NODE != from || request_find(r, id) || (!proposal && rest != 8) ||
        (proposal && (rest < REQUEST_HEAD || bw_get64(bytes + ASK_HEAD) != id)))
        return;
    struct request *request = request_new(r, id, kind, from, proposal ? (uint32_t)rest : 0);
    struct request refused = {.id = id, .origin = from};
    if (!request || !r->leading) {
        tell(r, &refused, request ? BW_ENOTLEADER : BW_EBUSY, 0, 0);
        if (request)
            request_end(r, request);
        return;
    }
    if (proposal)
        memcpy(request->bytes, bytes + ASK_HEAD, rest);
    else
        request->lease = (int64_t)bw_get64(bytes + ASK_HEAD);
    place(r, request);
}

/* The node that leads answers what we passed on. A proposal is only told of when it failed. */
void replica_told(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length)
{
    struct request *request = length == TOLD_BYTES ? request_find(r, bw_get64(bytes)) : NULL;
    if (!request || request->state != REQUEST_PASSED || request->origin != r->options.self)
        return;
    int error = -(int)bw_get32(bytes + 8);
    if (error == BW_ENOTLEADER) {
        request->state = REQUEST_NEW;
        if (r->leader != from)
            place(r, request);
    } else if (error) {
        fail(r, request, error);
    } else {
        answer(r, request, bw_get64(bytes + 12), (bw_time)bw_get64(bytes + 20));
    }
}

/* Reads whose index has been applied since. */
void replica_reads(struct bw_replica *r)
{
    for (struct request *at = r->first, *next; at; at = next) {
        next = at->next;
        if (at->state == REQUEST_INDEX && at->index <= r->applied)
            answer(r, at, at->index, 0);
    }
}

static struct group *take_round(struct bw_replica *r, uint64_t id)
{
    struct group **at = &r->rounds;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    struct group *group = *at;
    if (group)
        *at = group->next;
    return group;
}

static void end_round(struct bw_replica *r, struct group *group, const struct bw_answer *told)
{
    bw_time now = replica_now();
    struct request *request;
    while ((request = group->first)) {
        if (!(group->first = request->with))
            group->end = &group->first;
        if (told->error) {
            request->state = REQUEST_NEW; /* nothing was done: somebody else may */
            if (request->origin != r->options.self)
                fail(r, request, BW_ENOTLEADER);
        } else if (request->kind == BW_REPLICA_KEEP_ALIVE) {
            answer(r, request, 0, bw_registry_keep_alive(r->registry, request->lease, now));
        } else if (request->kind == BW_REPLICA_LEFT) {
            answer(r, request, 0, bw_registry_left(r->registry, request->lease, now));
        } else {
            answer(r, request, told->index, 0);
        }
    }
    free(group);
}

/* Raft answers a command: a round of reads, a refused batch, a transfer. */
void replica_answer(struct bw_replica *r, const struct bw_answer *told)
{
    struct request *request = request_find(r, told->request);
    struct group *group = take_round(r, told->request);
    if (group) {
        end_round(r, group, told);
    } else if (r->proposed && r->proposed->id == told->request && told->error) {
        while ((request = r->proposed->first)) {
            r->proposed->first = request->with;
            request->state = REQUEST_NEW;
            if (request->origin != r->options.self)
                fail(r, request, BW_ENOTLEADER);
        }
    } else if (request && request->change) {
        if (told->error)
            fail(r, request, told->error);
        else
            answer(r, request, 0, 0);
    }
}

struct group *replica_batch(struct bw_replica *r, uint64_t id)
{
    return r->proposed && r->proposed->id == id ? r->proposed : NULL;
}

static void flush_batch(struct bw_replica *r)
{
    struct bw_event event = {
        .kind = BW_EVENT_COMMAND,
        .command = {.kind = BW_COMMAND_PROPOSE, .count = r->batch->count, .request = r->batch->id}};
    r->proposed = r->batch;
    r->batch = NULL;
    if (r->proposed->count)
        replica_step(r, &event);
    free(r->proposed);
    r->proposed = NULL;
}

static void flush_round(struct bw_replica *r)
{
    struct bw_event event = {.kind = BW_EVENT_COMMAND,
                             .command = {.kind = BW_COMMAND_READ, .request = r->round->id}};
    struct group *round = r->round;
    r->round = NULL;
    round->next = r->rounds;
    r->rounds = round;
    replica_step(r, &event);
}

/* What came in this turn goes to Raft: proposals as one batch, the rest as one round. */
void replica_flush(struct bw_replica *r)
{
    if (r->batch)
        flush_batch(r);
    if (r->round)
        flush_round(r);
}

static void place_new(struct bw_replica *r)
{
    for (struct request *at = r->first; at; at = at->next)
        if (at->state == REQUEST_NEW)
            place(r, at);
}

/* Somebody else leads, or nobody: what was with the last one is lost or unknown, the rest is placed
 * anew. Telling that a request failed may lead to others being forgotten: the walk begins anew
 * behind each. */
void replica_led(struct bw_replica *r)
{
    for (struct request *at = r->first; at;) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): failed ones unlink themselves */
        bool logged = at->state == REQUEST_LOGGED && !r->leading;
        bool passed = at->state == REQUEST_PASSED;
        if (at->kind == BW_REPLICA_PROPOSAL && (logged || passed)) {
            fail(r, at, BW_ELOST);
            at = r->first;
            continue;
        }
        if (passed)
            at->state = REQUEST_NEW;
        at = at->next;
    }
    place_new(r);
}

static void sweep(struct bw_replica *r, bw_time now)
{
    while (r->first && r->first->since + REQUEST_PATIENCE <= now) /* oldest first */
        fail(r, r->first, r->first->state == REQUEST_NEW ? BW_ENOTLEADER : BW_ETIMEDOUT);
    place_new(r);
}
