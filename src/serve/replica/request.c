/* Requests of clients and of other nodes: the router decides (request_router.h), this file carries
 * out. */
#include "core/base/error.h"
#include "os/clock.h"
#include "serve/replica/state.h"

#include <stdlib.h>
#include <sys/random.h>

/* A forwarded request up to this size, such as a renewal or a read, does not wait behind larger
 * ones. */
#define SMALL_REQUEST 4096u

static void on_sweep(uv_timer_t *timer)
{
    struct bw_replica *r = timer->data;
    bw_router_sweep(&r->router);
    replica_publish(r);
    if (r->router.requests == 0)
        uv_timer_stop(timer); /* an idle node sleeps */
}

void replica_keep_sweeping(struct bw_replica *r)
{
    uint64_t ms = (uint64_t)(BW_ROUTER_SWEEP / BW_MS);
    if (r->router.requests && !uv_is_active((uv_handle_t *)&r->sweeper))
        uv_timer_start(&r->sweeper, on_sweep, ms, ms);
}

/* ---- hooks ---- */

static bw_time now(void *context)
{
    (void)context;
    return bw_clock_boot();
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

static bool forward(void *context, bw_node to, const unsigned char *head, size_t head_length,
                    const unsigned char *rest, size_t length)
{
    struct bw_replica *r = context;
    struct bw_part parts[] = {{head, head_length}, {rest, length}};
    enum bw_mesh_lane lane = length > SMALL_REQUEST ? BW_LANE_BULK : BW_LANE_URGENT;
    return bw_mesh_send(r->mesh, to, BW_FRAME_ASK, lane, parts, 2);
}

static bool send_result(void *context, bw_node to, const unsigned char *bytes, size_t length)
{
    struct bw_replica *r = context;
    return bw_mesh_send(r->mesh, to, BW_FRAME_REPLY, BW_LANE_URGENT,
                        &(struct bw_part){bytes, length}, 1);
}

static void command(void *context, const struct bw_command *requested)
{
    struct bw_event event = {.kind = BW_EVENT_COMMAND, .command = *requested};
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
    if (!replica_incarnation_answered(r, request, true))
        r->options.answered(r->options.context, request, ttl_ns);
}

static void failed(void *context, uint64_t request, int error)
{
    struct bw_replica *r = context;
    if (!replica_incarnation_answered(r, request, false))
        r->options.failed(r->options.context, request, error);
}

int replica_session_init(struct bw_replica *r)
{
    struct bw_router_hooks hooks = {.context = r,
                                    .now = now,
                                    .take = take,
                                    .give = give,
                                    .ask = forward,
                                    .notify = send_result,
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
    bw_router_init(&r->router, r->options.self, seed, &hooks, buckets, REQUEST_BUCKETS);
    r->router.stall_ns = bw_time_max(BW_ROUTER_STALL, 4 * r->options.heartbeat_ns);
    return 0;
}

/* ---- requests of the service ---- */

uint64_t bw_replica_propose(struct bw_replica *r, const struct bw_entry *entry)
{
    replica_beat(r);
    uint64_t id = bw_router_propose(&r->router, entry, r->scratch, r->scratch_size);
    replica_keep_sweeping(r);
    return id;
}

static uint64_t ask(struct bw_replica *r, enum bw_replica_kind kind, int64_t lease)
{
    uint64_t id = bw_router_ask(&r->router, kind, lease);
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
    bw_router_cancel(&r->router, id);
}

uint64_t bw_replica_transfer(struct bw_replica *r, bw_node to)
{
    struct bw_command requested = {.kind = BW_COMMAND_TRANSFER, .node = to};
    uint64_t id = bw_router_transfer(&r->router, &requested);
    replica_keep_sweeping(r);
    return id;
}

void replica_asked(struct bw_replica *r, bw_node from, const unsigned char *bytes, size_t length)
{
    bw_router_receive_request(&r->router, from, bytes, length);
    replica_keep_sweeping(r);
}

void replica_expire(struct bw_replica *r)
{
    bw_router_expire(&r->router, r->scratch, r->scratch_size);
    replica_keep_sweeping(r);
}
