/* Proposals, reads and keep-alives: those of this node, and those that other nodes forward to this
 * node while it is the leader.
 *
 * A request has exactly one state. A request that was not yet given to a log may be retried with
 * another leader. A request that was given to a log may or may not take effect when the leadership
 * ends; its owner then receives BW_ELOST, which means that the outcome is unknown. */
#include "core/replica/request_router.h"
#include "core/base/assert.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/little.h"
#include "core/registry/expiry.h"

#include <string.h>

#define ASK_HEAD    9u
#define REPLY_BYTES 28u

void bw_router_init(struct bw_router *router, bw_node self, uint64_t seed,
                    const struct bw_router_hooks *hooks, struct bw_request **buckets,
                    uint32_t bucket_count)
{
    *router = (struct bw_router){.hooks = *hooks,
                                 .self = self,
                                 .next_request = BW_BUG(session_numbers_restart) ? 0 : seed,
                                 .buckets = buckets,
                                 .bucket_count = bucket_count};
    router->last_turn = hooks->now(hooks->context);
    router->stall_ns = BW_ROUTER_STALL;
    router->waiting.end = &router->waiting.first;
}

static struct bw_request **bucket_of(const struct bw_router *router, uint64_t id)
{
    return &router->buckets[(id ^ id >> BW_ROUTER_NODE_SHIFT) & (router->bucket_count - 1)];
}

struct bw_request *bw_router_find(const struct bw_router *router, uint64_t id)
{
    struct bw_request *at = *bucket_of(router, id);
    while (at && at->id != id)
        at = at->chain;
    return at;
}

/* Renewals have reserved capacity: overload by other requests must not cost a client its lease. */
static bool has_capacity(const struct bw_router *router, enum bw_replica_kind kind)
{
    bool renewal = kind == BW_REPLICA_KEEP_ALIVE && !BW_BUG(session_refuses_renewals_too);
    return router->requests < BW_REPLICA_REQUESTS_MAX - (renewal ? 0 : BW_REPLICA_RENEWALS);
}

/* The counter of bytes to which the request belongs. */
static size_t *bytes_of(struct bw_router *router, uint64_t id)
{
    return id >> BW_ROUTER_NODE_SHIFT == router->self ? &router->request_bytes
                                                      : &router->forwarded_bytes;
}

/* Large proposals leave capacity to small ones. */
static bool has_bytes(struct bw_router *router, uint64_t id, uint32_t length)
{
    size_t reserved = length > BW_REPLICA_SMALL ? BW_REPLICA_BYTES_SMALL : 0;
    return length == 0 || *bytes_of(router, id) + length <= BW_REPLICA_BYTES_MAX - reserved;
}

/* Adds the request to the list of all requests, which is in the order of `since`. */
static void append(struct bw_router *router, struct bw_request *request)
{
    request->since = router->hooks.now(router->hooks.context);
    request->previous = router->last;
    request->next = NULL;
    *(router->last ? &router->last->next : &router->first) = request;
    router->last = request;
}

static struct bw_request *request_new(struct bw_router *router, uint64_t id,
                                      enum bw_replica_kind kind, bw_node origin, uint32_t length)
{
    if (!has_capacity(router, kind) || !has_bytes(router, id, length))
        return NULL;
    struct bw_request *request =
        router->hooks.take(router->hooks.context, sizeof *request + length);
    if (!request)
        return NULL;
    *request = (struct bw_request){.id = id,
                                   .kind = kind,
                                   .origin = origin,
                                   .length = length,
                                   .bytes = (unsigned char *)(request + 1)};
    append(router, request);
    struct bw_request **bucket = bucket_of(router, id);
    request->chain = *bucket;
    *bucket = request;
    router->requests++;
    *bytes_of(router, id) += length;
    return request;
}

/* Groups hold pointers to requests, so a request must leave its group before it is freed. */
static void leave_group(struct bw_request *request)
{
    struct bw_request_group *group = request->group;
    if (!group)
        return;
    *request->link = request->with;
    *(request->with ? &request->with->link : &group->end) = request->link;
    group->count--;
    request->group = NULL;
}

static void enter_group(struct bw_request_group *group, struct bw_request *request)
{
    request->with = NULL;
    request->group = group;
    request->link = group->end;
    *group->end = request;
    group->end = &request->with;
    group->count++;
}

static bool is_waiting(const struct bw_router *router, const struct bw_request *request)
{
    return request->group == &router->waiting;
}

static void leave_list(struct bw_router *router, struct bw_request *request)
{
    *(request->previous ? &request->previous->next : &router->first) = request->next;
    *(request->next ? &request->next->previous : &router->last) = request->previous;
}

/* Releases the request's bytes of the window. Proposals that wait for the window continue at the
 * end of this turn. */
static void leave_window(struct bw_router *router, const struct bw_request *request)
{
    if (!request->in_window)
        return;
    router->window_bytes -= request->length;
    if (router->waiting.count)
        router->hooks.turn(router->hooks.context);
}

void bw_router_end(struct bw_router *router, struct bw_request *request)
{
    struct bw_request **at = bucket_of(router, request->id);
    while (*at != request)
        at = &(*at)->chain;
    *at = request->chain;
    if (!is_waiting(router, request))
        leave_list(router, request);
    leave_group(request);
    leave_window(router, request);
    router->indexed -= request->state == BW_REQUEST_INDEX;
    router->requests--;
    *bytes_of(router, request->id) -= request->length;
    router->hooks.give(router->hooks.context, request);
}

static void free_groups(struct bw_router *router, struct bw_request_group *group)
{
    while (group) {
        struct bw_request_group *next = group->next;
        router->hooks.give(router->hooks.context, group);
        group = next;
    }
}

void bw_router_clear(struct bw_router *router)
{
    while (router->waiting.first)
        bw_router_end(router, router->waiting.first);
    while (router->first)
        bw_router_end(router, router->first);
    free_groups(router, router->batch);
    free_groups(router, router->round);
    free_groups(router, router->rounds);
    router->batch = router->round = router->rounds = NULL;
}

static void send_reply(struct bw_router *router, const struct bw_request *request, int error,
                       bw_index index, bw_time ttl_ns)
{
    unsigned char bytes[REPLY_BYTES];
    bw_put64(bytes, request->id);
    bw_put32(bytes + 8, (uint32_t)-error);
    bw_put64(bytes + 12, index);
    bw_put64(bytes + 20, (uint64_t)ttl_ns);
    router->hooks.notify(router->hooks.context, request->origin, bytes, sizeof bytes);
}

void bw_router_fail(struct bw_router *router, struct bw_request *request, int error)
{
    uint64_t id = request->id;
    bool ours = request->origin == router->self;
    if (request->revokes &&
        !BW_BUG(session_drops_refused_revokes)) /* retried later: Raft had a reason to refuse */
        bw_registry_begin(router->registry, request->lease,
                          router->hooks.now(router->hooks.context));
    else if (!ours && request->origin != BW_NODE_NONE)
        send_reply(router, request, error, 0, 0);
    bw_router_end(router, request);
    if (ours) {
        router->proposals_failed++;
        router->hooks.failed(router->hooks.context, id, error);
    }
}

static void answer(struct bw_router *router, struct bw_request *request, bw_index index,
                   bw_time ttl_ns)
{
    uint64_t id = request->id;
    if (request->origin != router->self) {
        send_reply(router, request, 0, index, ttl_ns);
    } else if (request->kind == BW_REPLICA_READ && index > router->applied &&
               !BW_BUG(session_reads_before_applied)) {
        leave_group(request);
        request->state = BW_REQUEST_INDEX;
        request->index = index;
        router->indexed++;
        return;
    } else {
        bw_router_end(router, request);
        router->hooks.answered(router->hooks.context, id, ttl_ns);
        return;
    }
    bw_router_end(router, request);
}

static struct bw_request_group *group_new(struct bw_router *router)
{
    struct bw_request_group *group = router->hooks.take(router->hooks.context, sizeof *group);
    if (group) {
        *group = (struct bw_request_group){.id = ++router->next_group};
        group->end = &group->first;
    }
    return group;
}

/* Requests that become log entries. */
static bool is_logged(enum bw_replica_kind kind)
{
    return kind == BW_REPLICA_PROPOSAL || kind == BW_REPLICA_CHANGE;
}

/* Adds the request to this turn's group of its kind. Returns false if memory is exhausted. */
static bool join_group(struct bw_router *router, struct bw_request *request)
{
    bool logged = is_logged(request->kind);
    struct bw_request_group **group = logged ? &router->batch : &router->round;
    if (!*group && !(*group = group_new(router)))
        return false;
    request->state = logged ? BW_REQUEST_LOGGED : BW_REQUEST_ROUND;
    enter_group(*group, request);
    return true;
}

static bool forward(struct bw_router *router, struct bw_request *request)
{
    unsigned char head[ASK_HEAD], lease[8];
    bw_put64(head, request->id);
    head[8] = (unsigned char)request->kind;
    bw_put64(lease, (uint64_t)request->lease);
    bool logged = is_logged(request->kind);
    if (!router->hooks.ask(router->hooks.context, router->leader, head, sizeof head,
                           logged ? request->bytes : lease,
                           logged ? request->length : sizeof lease))
        return false;
    request->state = BW_REQUEST_FORWARDED;
    return true;
}

static void make_change(struct bw_router *router, struct bw_request *request)
{
    if (router->hooks.change)
        router->hooks.change(router->hooks.context, request);
    else
        bw_router_fail(router, request, BW_EUNSUPPORTED);
}

void bw_router_log(struct bw_router *router, struct bw_request *request)
{
    join_group(router, request);
    router->hooks.turn(router->hooks.context);
}

/* Routes the request to the leader. The request stays NEW while there is no leader. */
static void place(struct bw_router *router, struct bw_request *request)
{
    if (request->transfer)
        return;
    if (router->leading && request->kind == BW_REPLICA_CHANGE) {
        make_change(router, request);
        return;
    }
    if (router->leading)
        join_group(router, request);
    else if (router->leader != BW_NODE_NONE && request->origin == router->self)
        forward(router, request);
    if (request->state == BW_REQUEST_LOGGED || request->state == BW_REQUEST_ROUND)
        router->hooks.turn(router->hooks.context);
}

static uint64_t next_id(struct bw_router *router)
{
    return (uint64_t)router->self << BW_ROUTER_NODE_SHIFT |
           (++router->next_request & (((uint64_t)1 << BW_ROUTER_NODE_SHIFT) - 1));
}

static bool fits_window(const struct bw_router *router, const struct bw_request *request)
{
    return router->window_bytes == 0 || BW_BUG(session_window_unbounded) ||
           router->window_bytes + request->length <= BW_REPLICA_WINDOW;
}

/* Returns false if the proposal has to wait. A large proposal does not overtake others. */
static bool enter_window(struct bw_router *router, struct bw_request *request)
{
    if (request->length <= BW_REPLICA_SMALL && !BW_BUG(session_small_requests_wait))
        return true;
    if (router->waiting.count || !fits_window(router, request))
        return false;
    request->in_window = true;
    router->window_bytes += request->length;
    return true;
}

/* Routes the proposals that waited, as far as the window admits. */
static void continue_waiting(struct bw_router *router)
{
    struct bw_request *request;
    while ((request = router->waiting.first) && fits_window(router, request)) {
        leave_group(request);
        append(router, request);
        request->in_window = true;
        router->window_bytes += request->length;
        place(router, request);
    }
}

uint64_t bw_router_propose(struct bw_router *router, const struct bw_entry *entry,
                           unsigned char *scratch, size_t size)
{
    int length = bw_entry_encode(entry, scratch + BW_ROUTER_HEAD, size - BW_ROUTER_HEAD);
    if (length < 0)
        return 0;
    uint64_t id = next_id(router);
    struct bw_request *request = request_new(router, id, BW_REPLICA_PROPOSAL, router->self,
                                             (uint32_t)length + BW_ROUTER_HEAD);
    if (!request)
        return 0;
    bw_put64(scratch, id);
    memcpy(request->bytes, scratch, request->length);
    router->proposals++;
    if (enter_window(router, request)) {
        place(router, request);
    } else {
        leave_list(router, request);
        enter_group(&router->waiting, request);
    }
    return id;
}

uint64_t bw_router_ask(struct bw_router *router, enum bw_replica_kind kind, int64_t lease)
{
    uint64_t id = next_id(router);
    struct bw_request *request = request_new(router, id, kind, router->self, 0);
    if (!request)
        return 0;
    request->lease = lease;
    place(router, request);
    return id;
}

uint64_t bw_router_transfer(struct bw_router *router, struct bw_command *command)
{
    uint64_t id = next_id(router);
    struct bw_request *request = request_new(router, id, BW_REPLICA_READ, router->self, 0);
    if (!request)
        return 0;
    request->transfer = true;
    command->request = id;
    router->hooks.command(router->hooks.context, command);
    return id;
}

/* The leader may refuse the change. The answer must not come from within this call, so the request
 * is routed at the end of the turn. */
uint64_t bw_router_change(struct bw_router *router, const unsigned char *bytes, size_t length,
                          bw_node origin)
{
    uint64_t id = next_id(router);
    struct bw_request *request =
        request_new(router, id, BW_REPLICA_CHANGE, origin, (uint32_t)(BW_ROUTER_HEAD + length));
    if (!request)
        return 0;
    bw_put64(request->bytes, id);
    memcpy(request->bytes + BW_ROUTER_HEAD, bytes, length);
    router->unplaced = true;
    router->hooks.turn(router->hooks.context);
    return id;
}

void bw_router_cancel(struct bw_router *router, uint64_t id)
{
    struct bw_request *request = bw_router_find(router, id);
    if (request && request->state != BW_REQUEST_LOGGED)
        bw_router_end(router, request);
    else if (request) /* its bytes are in a log: only its answer is dropped */
        request->origin = BW_NODE_NONE;
}

/* Another node forwards a request to us. */
void bw_router_receive_request(struct bw_router *router, bw_node from, const unsigned char *bytes,
                               size_t length)
{
    if (length < ASK_HEAD || bytes[8] >= BW_REPLICA_KINDS)
        return;
    uint64_t id = bw_get64(bytes);
    enum bw_replica_kind kind = (enum bw_replica_kind)bytes[8];
    size_t rest = length - ASK_HEAD;
    bool logged = is_logged(kind);
    if (id >> BW_ROUTER_NODE_SHIFT != from || bw_router_find(router, id) ||
        (!logged && rest != 8) ||
        (logged && (rest < BW_ROUTER_HEAD || bw_get64(bytes + ASK_HEAD) != id)))
        return;
    struct bw_request *request = request_new(router, id, kind, from, logged ? (uint32_t)rest : 0);
    struct bw_request refused = {.id = id, .origin = from};
    if (!request || !router->leading) {
        send_reply(router, &refused, request ? BW_ENOTLEADER : BW_EBUSY, 0, 0);
        if (request)
            bw_router_end(router, request);
        return;
    }
    if (logged)
        memcpy(request->bytes, bytes + ASK_HEAD, rest);
    else
        request->lease = (int64_t)bw_get64(bytes + ASK_HEAD);
    place(router, request);
}

/* The leader answers a request that we forwarded. A proposal receives a reply only if it failed. */
void bw_router_receive_reply(struct bw_router *router, bw_node from, const unsigned char *bytes,
                             size_t length)
{
    struct bw_request *request =
        length == REPLY_BYTES ? bw_router_find(router, bw_get64(bytes)) : NULL;
    if (!request || request->state != BW_REQUEST_FORWARDED ||
        BW_NEVER(request->origin != router->self))
        return;
    int error = -(int)bw_get32(bytes + 8);
    if (error == BW_ENOTLEADER) {
        request->state = BW_REQUEST_NEW;
        if (router->leader != from)
            place(router, request);
    } else if (error) {
        bw_router_fail(router, request, error);
    } else {
        answer(router, request, bw_get64(bytes + 12), (bw_time)bw_get64(bytes + 20));
    }
}

/* Answers reads whose index has been applied since. */
void bw_router_serve_reads(struct bw_router *router)
{
    for (struct bw_request *at = router->first, *next; at && router->indexed; at = next) {
        uint32_t others = router->requests - 1;
        next = at->next;
        if (at->state != BW_REQUEST_INDEX || at->index > router->applied)
            continue;
        answer(router, at, at->index, 0);
        if (router->requests != others) /* the hook has cancelled other requests */
            next = router->first;
    }
}

static struct bw_request_group *find_round(const struct bw_router *router, uint64_t id)
{
    struct bw_request_group *at = router->rounds;
    while (at && at->id != id)
        at = at->next;
    return at;
}

bool bw_router_is_round(const struct bw_router *router, uint64_t id)
{
    return find_round(router, id) != NULL;
}

static void drop_round(struct bw_router *router, struct bw_request_group *group)
{
    struct bw_request_group **at = &router->rounds;
    while (*at != group)
        at = &(*at)->next;
    *at = group->next;
    router->hooks.give(router->hooks.context, group);
}

/* Answers all requests of a round. The round stays in the list until all are answered, because a
 * hook may cancel other requests of the same round. */
static void end_round(struct bw_router *router, struct bw_request_group *group,
                      const struct bw_answer *reply)
{
    bw_time now = router->hooks.now(router->hooks.context);
    struct bw_request *request;
    while ((request = group->first)) {
        leave_group(request);
        bool refused = reply->error &&
                       !(BW_BUG(session_renews_deposed) && request->kind == BW_REPLICA_KEEP_ALIVE);
        if (refused) {
            request->state = BW_REQUEST_NEW; /* not executed: another leader may do it */
            if (request->origin != router->self)
                bw_router_fail(router, request, BW_ENOTLEADER);
        } else if (request->kind == BW_REPLICA_KEEP_ALIVE) {
            answer(router, request, 0,
                   bw_registry_keep_alive(router->registry, request->lease, now));
        } else if (request->kind == BW_REPLICA_LEFT) {
            answer(router, request, 0, bw_registry_left(router->registry, request->lease, now));
        } else {
            answer(router, request, reply->index, 0);
        }
    }
    drop_round(router, group);
}

/* Raft refused the batch. */
static void refuse_batch(struct bw_router *router)
{
    struct bw_request *request;
    while ((request = router->proposed->first)) {
        leave_group(request);
        request->state = BW_REQUEST_NEW;
        if (request->origin != router->self)
            bw_router_fail(router, request, BW_ENOTLEADER);
    }
}

/* Raft accepted the change, and applying its entry answers it; or Raft refused it. */
static void change_answered(struct bw_router *router, struct bw_request *request, int error)
{
    if (error == BW_EBUSY || error == BW_ETRANSFERRING || error == BW_ENOTLEADER)
        request->state = BW_REQUEST_NEW; /* retried with the next sweep */
    else if (error)
        bw_router_fail(router, request, error);
}

/* Raft answers a command: a round of reads, a refused batch, a transfer, or a change. */
void bw_router_raft_answered(struct bw_router *router, const struct bw_answer *reply)
{
    struct bw_request *request = bw_router_find(router, reply->request);
    struct bw_request_group *group = find_round(router, reply->request);
    if (group) {
        end_round(router, group, reply);
    } else if (router->proposed && router->proposed->id == reply->request && reply->error) {
        refuse_batch(router);
    } else if (request && request->kind == BW_REPLICA_CHANGE) {
        change_answered(router, request, reply->error);
    } else if (request && request->transfer) {
        if (reply->error)
            bw_router_fail(router, request, reply->error);
        else
            answer(router, request, 0, 0);
    }
}

const struct bw_request *bw_router_batch(const struct bw_router *router, uint64_t id)
{
    return router->proposed && router->proposed->id == id ? router->proposed->first : NULL;
}

static void flush_batch(struct bw_router *router)
{
    struct bw_command command = {
        .kind = BW_COMMAND_PROPOSE, .count = router->batch->count, .request = router->batch->id};
    router->proposed = router->batch;
    router->batch = NULL;
    if (router->proposed->count)
        router->hooks.command(router->hooks.context, &command);
    while (router->proposed->first)
        leave_group(router->proposed->first);
    router->hooks.give(router->hooks.context, router->proposed);
    router->proposed = NULL;
}

static void flush_round(struct bw_router *router)
{
    struct bw_command command = {.kind = BW_COMMAND_READ, .request = router->round->id};
    struct bw_request_group *round = router->round;
    router->round = NULL;
    round->next = router->rounds;
    router->rounds = round;
    if (BW_BUG(session_reads_without_round))
        bw_router_raft_answered(
            router, &(struct bw_answer){.request = round->id, .index = router->applied});
    else
        router->hooks.command(router->hooks.context, &command);
}

/* A refused change is freed, and its hook may cancel other requests. The remaining ones then wait
 * for the next sweep. */
static void place_new(struct bw_router *router)
{
    uint32_t before = router->requests;
    for (struct bw_request *at = router->first, *next; at && router->requests == before;
         at = next) {
        next = at->next;
        if (at->state == BW_REQUEST_NEW)
            place(router, at);
    }
}

/* A follower learns of a commit with the next append. If a follower waits for one, the leader sends
 * a round now instead of waiting for the next heartbeat. */
static void nudge(struct bw_router *router)
{
    struct bw_command command = {.kind = BW_COMMAND_READ};
    router->nudge = false;
    if (router->leading)
        router->hooks.command(router->hooks.context, &command);
}

/* Renewals and reads go ahead of proposals, whatever the order of arrival: their round reaches the
 * followers before the entries, which take longer under load. Proposals do not starve: both are
 * flushed in every turn. */
void bw_router_flush(struct bw_router *router)
{
    bw_router_stalled(router);
    continue_waiting(router);
    if (router->unplaced) {
        router->unplaced = false;
        place_new(router);
    }
    bool new_first = BW_BUG(session_new_work_first);
    if (router->batch && BW_NEVER(new_first))
        flush_batch(router);
    if (router->round)
        flush_round(router);
    if (router->batch)
        flush_batch(router);
    if (router->nudge)
        nudge(router);
}

/* A hook that reports a failure may cancel other requests, so the walk restarts after each. */
void bw_router_reroute(struct bw_router *router)
{
    for (struct bw_request *at = router->first; at;) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): failed ones unlink themselves */
        bool logged = at->state == BW_REQUEST_LOGGED && !router->leading;
        bool passed = at->state == BW_REQUEST_FORWARDED;
        if (BW_BUG(session_repeats_lost) && logged)
            at->state = BW_REQUEST_NEW;
        else if (is_logged(at->kind) && (logged || passed)) {
            bw_router_fail(router, at, BW_BUG(session_denies_lost) ? BW_ENOTLEADER : BW_ELOST);
            at = router->first;
            continue;
        }
        if (passed)
            at->state = BW_REQUEST_NEW;
        at = at->next;
    }
    place_new(router);
}

void bw_router_snapshot_installed(struct bw_router *router)
{
    bw_router_reroute(router);
    bw_router_serve_reads(router);
}

/* Fails requests older than BW_ROUTER_TIMEOUT. A proposal that waits for the window has no time
 * limit of its own: it fails only if a routed request times out too, which shows that the node
 * makes no progress. A proposal that still waits was given to no log, so it has no effect. */
void bw_router_sweep(struct bw_router *router)
{
    bw_time now = router->hooks.now(router->hooks.context);
    int error = 0;
    while (router->first && router->first->since + BW_ROUTER_TIMEOUT <= now) { /* oldest first */
        error = router->first->state == BW_REQUEST_NEW ? BW_ENOTLEADER : BW_ETIMEDOUT;
        bw_router_fail(router, router->first, error);
    }
    while (error && router->waiting.first &&
           router->waiting.first->since + BW_ROUTER_TIMEOUT <= now)
        bw_router_fail(router, router->waiting.first, error);
    continue_waiting(router);
    place_new(router);
}
