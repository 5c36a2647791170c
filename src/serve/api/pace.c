/* Paces the reads with large responses, so that they do not delay other requests.
 *
 * A response is built in one piece, and 36 MB of JSON take about 100 ms. Two bounds apply:
 *   - The reads of one turn of the loop build at most TURN_BYTES and one response more.
 *   - After such a turn the service rests from large responses for as long as the turn has lasted.
 * So a request that needs several turns waits for one large response, not for one in each turn, and
 * large responses get half of the time. Reads that wait are answered in the order in which they
 * arrived. They return newer state, which is allowed while a read is in progress. Responses of at
 * most SMALL_BYTES never wait. */
#include "core/base/bug.h"
#include "serve/api/service.h"
#include "serve/api/state.h"

#include <stdlib.h>

#define TURN_BYTES  ((size_t)1 << 20)
#define SMALL_BYTES ((size_t)64 << 10)

static bool is_resting(const struct bw_service *service)
{
    return uv_now(service->options.loop) < service->pace.rest_until_ms;
}

static void serve_queue(uv_timer_t *timer);

/* Continues with the queue after the rest. Returns false if memory is exhausted. */
static bool continue_later(struct bw_service *service)
{
    struct bw_pace *pace = &service->pace;
    uint64_t now_ms = uv_now(service->options.loop);
    if (!pace->timer) {
        pace->timer = malloc(sizeof *pace->timer);
        if (!pace->timer)
            return false;
        uv_timer_init(service->options.loop, pace->timer);
        pace->timer->data = service;
    }
    uv_timer_start(pace->timer, serve_queue,
                   pace->rest_until_ms > now_ms ? pace->rest_until_ms - now_ms : 0, 0);
    return true;
}

void bw_service_pace_forget(struct bw_wait *wait)
{
    struct bw_pace *pace = &wait->call->service->pace;
    if (!wait->link)
        return;
    *wait->link = wait->next;
    if (wait->next)
        wait->next->link = wait->link;
    else
        pace->end = wait->link;
    wait->link = NULL;
}

static void serve_queue(uv_timer_t *timer)
{
    struct bw_service *service = timer->data;
    struct bw_pace *pace = &service->pace;
    pace->serving = true;
    while (pace->first && !is_resting(service)) {
        struct bw_call *call = pace->first->call;
        bw_service_pace_forget(pace->first);
        if (call->is_crowded(call))
            call->awaits_reader = true;
        else
            bw_call_answer_held(call);
    }
    pace->serving = false;
    if (pace->first)
        continue_later(service);
}

bool bw_service_postpone(struct bw_call *call, size_t bytes,
                         void (*answered)(struct bw_call *, int64_t, bw_time))
{
    struct bw_service *service = call->service;
    struct bw_pace *pace = &service->pace;
    bool waits = is_resting(service) || (pace->first && !pace->serving);
    if (bytes <= SMALL_BYTES || !waits || BW_BUG(large_reads_are_never_postponed) ||
        !continue_later(service))
        return false;
    struct bw_wait *wait = malloc(sizeof *wait);
    if (!wait) {
        bw_call_end(call, BW_CODE_EXHAUSTED, BW_NO_MEMORY);
        return true;
    }
    if (!pace->first)
        pace->end = &pace->first;
    *wait = (struct bw_wait){
        .call = call, .answered = answered, .reads = true, .large = true, .link = pace->end};
    *pace->end = wait;
    pace->end = &wait->next;
    call->held = wait;
    return true;
}

void bw_service_built(struct bw_service *service, size_t bytes)
{
    struct bw_pace *pace = &service->pace;
    if (bytes <= SMALL_BYTES)
        return; /* small responses do not wait, so they must not make large ones wait for ever */
    uint64_t turn_ms = uv_now(service->options.loop), now_ms = uv_hrtime() / 1000000u;
    pace->built = pace->turn_ms == turn_ms ? pace->built + bytes : bytes;
    pace->turn_ms = turn_ms;
    if (pace->built >= TURN_BYTES)
        pace->rest_until_ms = turn_ms + 1 + (now_ms > turn_ms ? 2 * (now_ms - turn_ms) : 0);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle);
}

void bw_service_pace_close(struct bw_service *service)
{
    if (service->pace.timer)
        uv_close((uv_handle_t *)service->pace.timer, on_timer_closed);
    service->pace.timer = NULL;
}
