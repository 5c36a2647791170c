/* The channel: chooses one endpoint at a time and enforces deadlines; see grpc.h. */
#include "net/grpc/state.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "net/seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS      20u
#define IDLE_TICK_MS 500u
#define STALL_MS     ((uint64_t)2 * IDLE_TICK_MS)
#define PING_MS      6000u /* etcd's servers allow a PING every 5 s */
#define PAUSE_MIN_MS 50u
#define PAUSE_MAX_MS 1000u
#define SETUP_MAX_MS 5000u
#define SLOW_MAX     3u

static void connect_next(struct bw_grpc *channel);

static bool is_connected(const struct bw_grpc *channel)
{
    return channel->state == GRPC_UP || channel->state == GRPC_READY;
}

/* Returns the oldest call of the first rank that may start now. */
static struct bw_grpc_call *next_to_begin(const struct bw_grpc *channel)
{
    bool full = channel->at_once >= BW_GRPC_AT_ONCE;
    for (unsigned rank = 0; rank < GRPC_RANKS; rank++) {
        bool ready =
            channel->state == GRPC_READY || (channel->state == GRPC_UP && rank == GRPC_EARLY);
        if (channel->queue[rank].first && ready && (rank == GRPC_STREAM || !full))
            return channel->queue[rank].first;
    }
    return NULL;
}

void grpc_begin_waiting(struct bw_grpc *channel)
{
    struct bw_grpc_call *call;
    while (is_connected(channel) && !channel->closed && (call = next_to_begin(channel)))
        grpc_call_begin(call);
}

static void on_up(void *context)
{
    struct bw_grpc *channel = context;
    channel->state = GRPC_UP;
    channel->slow = 0;
    channel->pinged_ms = 0;
    if (channel->options.up(channel->options.context))
        bw_grpc_ready(channel);
}

void bw_grpc_ready(struct bw_grpc *channel)
{
    if (channel->state != GRPC_UP)
        return;
    channel->state = GRPC_READY;
    grpc_begin_waiting(channel);
}

/* Hooks may cancel other calls and make new ones, so the search restarts after each. */
static struct bw_grpc_call *next_to_end(const struct bw_grpc *channel, uint64_t newest,
                                        bool also_waiting)
{
    struct bw_grpc_call *call = channel->calls;
    while (call && (call->serial > newest || (!call->stream && !also_waiting)))
        call = call->next;
    return call;
}

static void end_calls(struct bw_grpc *channel, bool also_waiting)
{
    uint64_t newest = channel->serial;
    struct bw_grpc_call *call;
    while (!channel->closed && (call = next_to_end(channel, newest, also_waiting)))
        grpc_call_end(call, BW_GRPC_UNAVAILABLE, channel->why);
}

static void on_pause_over(uv_timer_t *timer)
{
    connect_next(timer->data);
}

/* All endpoints have failed: waits, longer each round, but never longer than the timeout. */
static void start_pause(struct bw_grpc *channel)
{
    uint32_t round = channel->failed / channel->options.count;
    uint64_t most = PAUSE_MIN_MS << (round < 6 ? round : 6);
    most = most < PAUSE_MAX_MS ? most : PAUSE_MAX_MS;
    most = most < channel->timeout_ms ? most : channel->timeout_ms;
    uint64_t pause = most / 2 + bw_rng_below(&channel->rng, most / 2 + 1);
    channel->state = GRPC_PAUSING;
    uv_timer_start(&channel->pause, on_pause_over, pause, 0);
}

void grpc_drop(struct bw_grpc *channel, const char *why, bool pause)
{
    bool was_up = is_connected(channel);
    const struct bw_grpc_endpoint *endpoint = &channel->options.endpoints[channel->at];
    uint64_t lasted_ms = bw_h2_now_ms() - channel->opened_ms;
    char line[BW_GRPC_WHY_MAX + 1];
    snprintf(line, sizeof line, "%.120s:%u: %.120s", endpoint->host, endpoint->port, why);
    memcpy(channel->why, line, sizeof line);
    channel->failed++;
    channel->late += channel->state != GRPC_READY && lasted_ms >= channel->timeout_ms;
    channel->at = (channel->at + 1) % channel->options.count;
    if (channel->h2)
        bw_h2_close(channel->h2);
    channel->h2 = NULL;
    bool round = pause || channel->failed % channel->options.count == 0;
    if (round)
        start_pause(channel);
    else
        connect_next(channel);
    end_calls(channel, round);
    if (was_up && !channel->closed)
        channel->options.down(channel->options.context, channel->why);
}

void bw_grpc_leave(struct bw_grpc *channel, const char *why, bool pause)
{
    if (is_connected(channel) && !channel->closed)
        grpc_drop(channel, why, pause);
}

static void on_down(void *context, const char *why)
{
    grpc_drop(context, why, false);
}

/* A slow server must not fall behind forever, with one attempt after the other that is given up
 * shortly before it would succeed. So the limit doubles with each round in which all endpoints
 * were too slow. Endpoints that refuse at once do not count. */
uint64_t bw_grpc_setup_ms(const struct bw_grpc *channel)
{
    uint64_t most = channel->timeout_ms > SETUP_MAX_MS ? channel->timeout_ms : SETUP_MAX_MS;
    uint64_t limit = channel->timeout_ms;
    if (BW_BUG(grpc_setup_limit_does_not_grow))
        return limit;
    for (uint32_t round = channel->late / channel->options.count; round > 0 && limit < most;
         round--)
        limit *= 2;
    return limit < most ? limit : most;
}

static void connect_next(struct bw_grpc *channel)
{
    const struct bw_grpc_endpoint *endpoint = &channel->options.endpoints[channel->at];
    struct bw_h2_options options = {.loop = channel->options.loop,
                                    .host = endpoint->host,
                                    .port = endpoint->port,
                                    .tls = channel->options.tls,
                                    .within_ms = channel->timeout_ms,
                                    .setup_ms = bw_grpc_setup_ms(channel),
                                    .context = channel,
                                    .up = on_up,
                                    .down = on_down};
    channel->state = GRPC_CONNECTING;
    channel->connection++;
    channel->opened_ms = bw_h2_now_ms();
    channel->h2 = bw_h2_open(&options);
    if (!channel->h2) {
        snprintf(channel->why, sizeof channel->why, "out of memory for a connection");
        channel->failed++;
        start_pause(channel);
    }
}

/* ---- time ---- */

static void check_liveness(struct bw_grpc *channel, uint64_t now)
{
    if (!is_connected(channel))
        return;
    uint64_t received_ms = bw_h2_received_ms(channel->h2);
    if (received_ms >= channel->pinged_ms)
        channel->pinged_ms = 0;
    if (channel->pinged_ms && now - channel->pinged_ms > channel->timeout_ms) {
        grpc_drop(channel, "the server does not answer a PING", false);
    } else if (!channel->pinged_ms && now - received_ms > PING_MS) {
        channel->pinged_ms = now;
        bw_h2_ping(channel->h2);
    }
}

/* Ends a call whose deadline has passed. Returns true if the endpoint should be left. */
static bool expire_call(struct bw_grpc *channel, struct bw_grpc_call *call)
{
    bool begun = call->stream != NULL;
    uint64_t now = bw_h2_now_ms();
    if (!call->begun_ms && channel->state == GRPC_READY &&
        now - call->made_ms < BW_GRPC_WAIT_MS) { /* other calls are before it */
        call->until_ms = now + call->head.within_ms;
        return false;
    }
    bool silent = begun && bw_h2_received_ms(channel->h2) <= call->begun_ms;
    if (begun) {
        channel->slow++;
        bw_h2_cancel(call->stream);
        call->stream = NULL;
    }
    call->result.sent = begun;
    grpc_call_end(call, BW_GRPC_DEADLINE, begun ? "no answer in time" : "not connected in time");
    return begun && (silent || channel->slow >= SLOW_MAX);
}

static struct bw_grpc_call *next_late(const struct bw_grpc *channel, uint64_t newest, uint64_t now)
{
    struct bw_grpc_call *call = channel->timed ? channel->calls : NULL;
    while (call && (call->serial > newest || !call->until_ms || now < call->until_ms))
        call = call->next;
    return call;
}

static void on_tick(uv_timer_t *timer)
{
    struct bw_grpc *channel = timer->data;
    uint64_t now = bw_h2_now_ms(), before = channel->ticked_ms;
    uint64_t newest = channel->serial;
    struct bw_grpc_call *call;
    bool leave = false;
    channel->ticked_ms = now;
    if (now - before > STALL_MS) /* this process was paused: first process what arrived meanwhile */
        return;
    while (!channel->closed && (call = next_late(channel, newest, now)))
        leave = expire_call(channel, call) || leave;
    if (channel->closed)
        return;
    uv_timer_set_repeat(timer, channel->timed ? TICK_MS : IDLE_TICK_MS);
    if (leave && is_connected(channel))
        grpc_drop(channel, "the server does not answer", false);
    else
        check_liveness(channel, now);
}

void grpc_tick_soon(struct bw_grpc *channel)
{
    if (uv_timer_get_repeat(&channel->tick) != TICK_MS)
        uv_timer_start(&channel->tick, on_tick, TICK_MS, TICK_MS);
}

/* ---- opening and closing ---- */

int bw_grpc_open(struct bw_grpc **out, const struct bw_grpc_options *options)
{
    struct bw_grpc *channel = calloc(1, sizeof *channel);
    if (!channel || options->count == 0 || options->count > BW_GRPC_ENDPOINTS_MAX) {
        free(channel);
        return BW_ENOMEM;
    }
    channel->options = *options;
    channel->timeout_ms = BW_GRPC_TIMEOUT_MS;
    bw_net_seed(&channel->rng);
    channel->at = (uint32_t)bw_rng_below(&channel->rng, options->count);
    uv_timer_init(options->loop, &channel->pause);
    uv_timer_init(options->loop, &channel->tick);
    channel->pause.data = channel->tick.data = channel;
    channel->handles = 2;
    grpc_tick_soon(channel);
    connect_next(channel);
    *out = channel;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct bw_grpc *channel = handle->data;
    if (--channel->handles == 0)
        free(channel);
}

void bw_grpc_close(struct bw_grpc *channel)
{
    channel->closed = true;
    while (channel->calls)
        bw_grpc_cancel(channel->calls);
    if (channel->h2)
        bw_h2_close(channel->h2);
    channel->h2 = NULL;
    uv_close((uv_handle_t *)&channel->pause, on_closed);
    uv_close((uv_handle_t *)&channel->tick, on_closed);
}

void bw_grpc_set_header(struct bw_grpc *channel, const char *name, const char *value)
{
    snprintf(channel->name, sizeof channel->name, "%s", value[0] ? name : "");
    snprintf(channel->value, sizeof channel->value, "%s", value);
}

uint64_t bw_grpc_connection(const struct bw_grpc *channel)
{
    return is_connected(channel) ? channel->connection : 0;
}

int bw_grpc_fd(const struct bw_grpc *channel)
{
    return is_connected(channel) && channel->h2 ? bw_h2_fd(channel->h2) : -1;
}

void bw_grpc_set_timeout(struct bw_grpc *channel, uint64_t ms)
{
    channel->timeout_ms = ms;
}
