/* The asker: one store, one timer, and a heap of clients by due time; see asker.h. */
#include "store/asker/state.h"

#include "core/base/assert.h"
#include "os/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define FIRST_CAPACITY 16u
/* A client that is due again immediately waits this long, so that it cannot keep the loop busy. */
#define AGAIN_NS BW_MS

/* ---- clients: by the high half of their request ids, and by due time ---- */

static struct bw_asker_client **bucket(const struct bw_asker *asker, uint32_t high)
{
    return &asker->buckets[high & (asker->capacity - 1)];
}

static struct bw_asker_client *find(const struct bw_asker *asker, uint32_t high)
{
    struct bw_asker_client *at = asker->capacity ? *bucket(asker, high) : NULL;
    while (at && at->high != high)
        at = at->chain;
    return at;
}

bool bw_asker_high_taken(const struct bw_asker *asker, uint32_t high)
{
    return high == 0 || find(asker, high);
}

void bw_asker_set_high(struct bw_asker *asker, struct bw_asker_client *asked, uint32_t high)
{
    asked->high = high;
    asked->chain = *bucket(asker, high);
    *bucket(asker, high) = asked;
}

static int grow(struct bw_asker *asker)
{
    uint32_t capacity = asker->capacity ? asker->capacity * 2 : FIRST_CAPACITY;
    struct bw_asker_client **heap =
        realloc(asker->heap, capacity * sizeof(struct bw_asker_client *));
    if (heap)
        asker->heap = heap;
    struct bw_asker_client **buckets = calloc(capacity, sizeof(struct bw_asker_client *));
    if (!heap || !buckets) {
        free(buckets);
        return BW_ENOMEM;
    }
    free(asker->buckets);
    asker->buckets = buckets;
    asker->capacity = capacity;
    for (uint32_t i = 0; i < asker->count; i++)
        if (heap[i]->high)
            bw_asker_set_high(asker, heap[i], heap[i]->high);
    return 0;
}

static void put(struct bw_asker *asker, struct bw_asker_client *asked, uint32_t at)
{
    asker->heap[at] = asked;
    asked->place = at;
}

void bw_asker_moved(struct bw_asker *asker, struct bw_asker_client *asked)
{
    uint32_t at = asked->place;
    while (at > 0 && asked->due < asker->heap[(at - 1) / 2]->due) {
        put(asker, asker->heap[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < asker->count && asker->heap[child + 1]->due < asker->heap[child]->due)
            child++;
        if (child >= asker->count || asker->heap[child]->due >= asked->due)
            break;
        put(asker, asker->heap[child], at);
        at = child;
    }
    put(asker, asked, at);
}

int bw_asker_add(struct bw_asker *asker, struct bw_asker_client *asked)
{
    if (asker->count == asker->capacity && grow(asker) != 0)
        return BW_ENOMEM;
    put(asker, asked, asker->count++);
    bw_asker_moved(asker, asked);
    return 0;
}

void bw_asker_remove(struct bw_asker *asker, struct bw_asker_client *asked)
{
    struct bw_asker_client *last = asker->heap[--asker->count];
    if (last != asked) {
        put(asker, last, asked->place);
        bw_asker_moved(asker, last);
    }
    if (!asked->high)
        return;
    struct bw_asker_client **at = bucket(asker, asked->high);
    while (*at != asked)
        at = &(*at)->chain;
    *at = asked->chain;
}

/* ---- answers ---- */

/* The first cause of an outage is not always the important one. A few more are reported, each
 * once. */
static bool is_new_reason(struct bw_asker *asker, const char *why)
{
    uint32_t hash = 2166136261u;
    for (; *why; why++)
        hash = (hash ^ (unsigned char)*why) * 16777619u;
    for (uint32_t i = 0; i < asker->reason_count; i++)
        if (asker->reasons[i] == hash)
            return false;
    if (asker->reason_count == ASKER_REASONS_MAX)
        return false;
    asker->reasons[asker->reason_count++] = hash;
    return true;
}

void bw_asker_replied(struct bw_asker *asker, const struct bw_store_reply *reply)
{
    bool answered = reply->outcome == BW_OUTCOME_DONE || reply->outcome == BW_OUTCOME_REFUSED;
    if (answered && !asker->away)
        return;
    /* a candidate that never entered leaves without a request to the server */
    if (reply->op == BW_STORE_LEAVE)
        return;
    if (answered)
        asker->reason_count = 0;
    else if (!is_new_reason(asker, reply->why))
        return;
    asker->away = !answered;
    if (asker->options.away)
        asker->options.away(asker->options.context, asker->away, reply->error, reply->why);
}

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    struct bw_asker *asker = context;
    struct bw_asker_client *asked = find(asker, (uint32_t)(reply->id >> 32));
    if (asked)
        bw_asker_client_reply(asked, reply);
}

/* ---- time ---- */

static void on_timer(uv_poll_t *handle, int status, int events)
{
    struct bw_asker *asker = handle->data;
    uint64_t count;
    (void)status;
    (void)events;
    (void)!read(asker->timer_fd, &count, sizeof count);
    asker->armed_at = -1;
    bw_time now = bw_clock_boot();
    while (asker->count > 0 && asker->heap[0]->due <= now) {
        struct bw_asker_client *asked = asker->heap[0];
        bw_asker_client_due(asked, now);
        if (asked->due <= now) {
            asked->due = now + AGAIN_NS;
            bw_asker_moved(asker, asked);
        }
    }
}

static void arm(struct bw_asker *asker)
{
    bw_time at = asker->count > 0 ? asker->heap[0]->due : BW_TIME_NEVER;
    if (at == asker->armed_at)
        return;
    struct itimerspec when = {{0, 0}, {0, 0}};
    asker->armed_at = at;
    if (at != BW_TIME_NEVER) {
        bw_time not_zero = bw_time_max(at, 1); /* 0 would disarm it */
        when.it_value.tv_sec = not_zero / BW_SEC;
        when.it_value.tv_nsec = not_zero % BW_SEC;
    }
    timerfd_settime(asker->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_prepare(uv_prepare_t *handle)
{
    arm(handle->data);
}

/* ---- opening and closing ---- */

static void free_self(struct bw_asker *asker)
{
    if (asker->timer_fd >= 0)
        close(asker->timer_fd);
    free(asker->heap);
    free(asker->buckets);
    free(asker);
}

static void on_closed(uv_handle_t *handle)
{
    struct bw_asker *asker = handle->data;
    if (--asker->handles == 0)
        free_self(asker);
}

/* 0 or a negative errno. */
static int open_timer(struct bw_asker *asker)
{
    asker->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    int error =
        asker->timer_fd < 0 ? -errno : uv_poll_init(asker->loop, &asker->timer, asker->timer_fd);
    if (error)
        return error;
    uv_prepare_init(asker->loop, &asker->prepare);
    asker->timer.data = asker->prepare.data = asker;
    asker->handles = 2;
    uv_poll_start(&asker->timer, UV_READABLE, on_timer);
    uv_prepare_start(&asker->prepare, on_prepare);
    return 0;
}

static void on_event(void *context, const char *event, const char *line)
{
    struct bw_asker *asker = context;
    if (asker->options.event)
        asker->options.event(asker->options.context, event, line);
}

static void on_ended(void *context, int error, const char *line)
{
    struct bw_asker *asker = context;
    if (asker->options.ended)
        asker->options.ended(asker->options.context, error, line);
}

static void on_notices_changed(void *context, const char *election)
{
    struct bw_asker *asker = context;
    (void)election; /* each client has one election */
    if (asker->options.notices_changed)
        asker->options.notices_changed(asker->options.context);
}

static void close_timer(struct bw_asker *asker)
{
    uv_close((uv_handle_t *)&asker->timer, on_closed);
    uv_close((uv_handle_t *)&asker->prepare, on_closed);
}

int bw_asker_open(struct bw_asker **out, const char *url, struct uv_loop_s *loop,
                  const struct bw_asker_options *options, char *why)
{
    const struct bw_store_ops *ops = bw_store_find(url, why);
    if (!ops)
        return BW_EINVAL;
    struct bw_asker *asker = calloc(1, sizeof *asker);
    if (!asker)
        return bw_store_explain(why, BW_ENOMEM, "no memory left");
    asker->loop = loop;
    asker->ops = ops;
    asker->timer_fd = -1;
    asker->armed_at = -1;
    if (options)
        asker->options = *options;
    struct bw_store_options store_options = {.context = asker,
                                             .reply = on_reply,
                                             .event = on_event,
                                             .ended = on_ended,
                                             .notices_changed = on_notices_changed};
    int error = open_timer(asker);
    if (error) {
        free_self(asker);
        return bw_store_explain(why, BW_ENOMEM, "cannot create a timer: %s", strerror(-error));
    }
    error = ops->open(&asker->store, url, loop, &store_options, why);
    if (error)
        close_timer(asker);
    else
        *out = asker;
    return error;
}

void bw_asker_close(struct bw_asker *asker)
{
    BW_ASSERT(asker->count == 0);
    asker->ops->close(asker->store);
    close_timer(asker);
}

const struct bw_store_ops *bw_asker_store_ops(const struct bw_asker *asker)
{
    return asker->ops;
}

struct bw_store *bw_asker_store(struct bw_asker *asker)
{
    return asker->store;
}
