/* Requests of clients and of other nodes: the session decides (session.h), this carries out. */
#include "core/base/error.h"
#include "serve/replica/state.h"

#include <stdlib.h>
#include <sys/random.h>

static void on_sweep(uv_timer_t *timer)
{
    struct bw_replica *r = timer->data;
    bw_session_sweep(&r->session);
    replica_publish(r);
    if (r->session.requests == 0)
        uv_timer_stop(timer); /* an idle node sleeps */
}

void replica_keep_sweeping(struct bw_replica *r)
{
    uint64_t ms = (uint64_t)(BW_SESSION_SWEEP / BW_MS);
    if (r->session.requests && !uv_is_active((uv_handle_t *)&r->sweeper))
        uv_timer_start(&r->sweeper, on_sweep, ms, ms);
}

/* ── hooks ── */

static bw_time now(void *context)
{
    (void)context;
    return replica_now();
}

static void *take(void *context, size_t bytes)
{
    (void)context;
    return malloc(bytes);
}

static void give(void *context, void *block)
{
    (void)context;
    free(block);
}

static bool pass_on(void *context, bw_node to, const unsigned char *head, size_t head_length,
                    const unsigned char *rest, size_t length)
{
    struct bw_replica *r = context;
    struct bw_part parts[] = {{head, head_length}, {rest, length}};
    return bw_mesh_send(r->mesh, to, BW_FRAME_ASK, parts, 2);
}

static bool tell(void *context, bw_node to, const unsigned char *bytes, size_t length)
{
    struct bw_replica *r = context;
    return bw_mesh_send(r->mesh, to, BW_FRAME_TOLD, &(struct bw_part){bytes, length}, 1);
}

static void command(void *context, const struct bw_command *asked)
{
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .command = *asked};
    replica_step(context, &event);
}

static void change(void *context, struct bw_request *request)
{
    replica_change_try(context, request);
}

static void turn(void *context)
{
    replica_turn(context);
}

static void applied(void *context, uint64_t request, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results)
{
    struct bw_replica *r = context;
    r->options.applied(r->options.context, request, entry, refusal, results);
}

static void answered(void *context, uint64_t request, bw_time ttl_ns)
{
    struct bw_replica *r = context;
    if (!replica_life_answered(r, request, true))
        r->options.answered(r->options.context, request, ttl_ns);
}

static void failed(void *context, uint64_t request, int error)
{
    struct bw_replica *r = context;
    if (!replica_life_answered(r, request, false))
        r->options.failed(r->options.context, request, error);
}

int replica_session_init(struct bw_replica *r)
{
    struct bw_session_hooks hooks = {.context = r,
                                     .now = now,
                                     .take = take,
                                     .give = give,
                                     .ask = pass_on,
                                     .tell = tell,
                                     .command = command,
                                     .change = change,
                                     .turn = turn,
                                     .applied = applied,
                                     .answered = answered,
                                     .failed = failed};
    uint64_t seed;
    struct bw_request **buckets = calloc(REQUEST_BUCKETS, sizeof(struct bw_request *));
    if (!buckets)
        return BW_ENOMEM;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        abort();
    bw_session_init(&r->session, r->options.self, seed, &hooks, buckets, REQUEST_BUCKETS);
    r->session.stall_ns = bw_time_max(BW_SESSION_STALL, 4 * r->options.heartbeat_ns);
    return 0;
}

/* ── what the front asks ── */

uint64_t bw_replica_propose(struct bw_replica *r, const struct bw_entry *entry)
{
    uint64_t id = bw_session_propose(&r->session, entry, r->scratch, r->scratch_size);
    replica_keep_sweeping(r);
    return id;
}

static uint64_t ask(struct bw_replica *r, enum bw_replica_kind kind, int64_t lease)
{
    uint64_t id = bw_session_ask(&r->session, kind, lease);
    replica_keep_sweeping(r);
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
    bw_session_forget(&r->session, id);
}

uint64_t bw_replica_transfer(struct bw_replica *r, bw_node to)
{
    struct bw_command asked = {.kind = BW_COMMAND_TRANSFER, .node = to};
    uint64_t id = bw_session_transfer(&r->session, &asked);
    replica_keep_sweeping(r);
    return id;
}

void replica_asked(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length)
{
    bw_session_asked(&r->session, from, bytes, length);
    replica_keep_sweeping(r);
}

void replica_expire(struct bw_replica *r)
{
    bw_session_expire(&r->session, r->scratch, r->scratch_size);
    replica_keep_sweeping(r);
}
