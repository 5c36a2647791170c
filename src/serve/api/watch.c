/* Watch: many watchers on one stream. Events are read from the registry's history when the caller
 * can take them: a watcher that never drains is parked, costs nothing, and is cancelled once the
 * history has moved on.
 *
 * A progress request is answered once all watchers of the stream have been told of everything up to
 * then. Requests that come in between are answered by the same response. */
#include "serve/api/service.h"

#include "core/base/error.h"
#include "serve/api/auth.h"
#include "serve/api/state.h"

#include <stdlib.h>

#define STREAM_WATCHES_MAX 10000u
#define FIRST_BUCKETS      8u
#define EVENTS_MAX         1024u /* in one answer; more of a revision come as the next */

struct watch { /* one watcher of a stream */
    struct bw_watching watching;
    struct stream *stream;
    struct watch *chain;                         /* same bucket */
    struct watch *parked_next, *parked_previous; /* of those that could not be told more */
    bw_ref watcher;
    int64_t id;
    bool previous, parked;
};

struct stream {
    struct bw_catch_up catch_up; /* first: a progress request waits */
    struct bw_call *call;
    struct watch **buckets; /* by id; a power of two of them, NULL: no watch yet */
    uint32_t bucket_count, count;
    struct watch *parked_first, *parked_last;
    bool progress; /* wanted once those that are parked were told */
    int64_t next_id;
};

static void answer(struct watch *watch, Api__WatchResponse *out, int64_t revision)
{
    Api__Header header;
    bw_service_header(watch->stream->call->service, &header, revision);
    out->header = &header;
    out->watch_id = watch->id;
    bw_call_send(watch->stream->call, &out->base);
}

/* ---- the watches of a stream, by their ids ---- */

static struct watch **bucket_of(const struct stream *stream, int64_t id)
{
    uint64_t hash = (uint64_t)id * 0x9e3779b97f4a7c15u;
    return &stream->buckets[(hash >> 32) & (stream->bucket_count - 1)];
}

static struct watch *find(const struct stream *stream, int64_t id)
{
    struct watch *watch = stream->count ? *bucket_of(stream, id) : NULL;
    while (watch && watch->id != id)
        watch = watch->chain;
    return watch;
}

/* Room for one more; false: no memory. */
static bool make_room(struct stream *stream)
{
    struct stream grown = *stream;
    if (stream->count < stream->bucket_count)
        return true;
    grown.bucket_count = stream->bucket_count ? 2 * stream->bucket_count : FIRST_BUCKETS;
    grown.buckets = calloc(grown.bucket_count, sizeof(struct watch *));
    if (!grown.buckets)
        return false;
    for (uint32_t i = 0; i < stream->bucket_count; i++)
        for (struct watch *at = stream->buckets[i], *next; at; at = next) {
            struct watch **bucket = bucket_of(&grown, at->id);
            next = at->chain;
            at->chain = *bucket;
            *bucket = at;
        }
    free(stream->buckets);
    stream->buckets = grown.buckets;
    stream->bucket_count = grown.bucket_count;
    return true;
}

static void add(struct stream *stream, struct watch *watch)
{
    struct watch **bucket = bucket_of(stream, watch->id);
    watch->chain = *bucket;
    *bucket = watch;
    stream->count++;
}

static void park(struct watch *watch)
{
    struct stream *stream = watch->stream;
    bw_watcher_park(bw_service_watches(stream->call->service), watch->watcher);
    watch->parked = true;
    watch->parked_next = NULL;
    watch->parked_previous = stream->parked_last;
    if (stream->parked_last)
        stream->parked_last->parked_next = watch;
    else
        stream->parked_first = watch;
    stream->parked_last = watch;
}

static void unpark(struct watch *watch)
{
    struct stream *stream = watch->stream;
    if (watch->parked_previous)
        watch->parked_previous->parked_next = watch->parked_next;
    else
        stream->parked_first = watch->parked_next;
    if (watch->parked_next)
        watch->parked_next->parked_previous = watch->parked_previous;
    else
        stream->parked_last = watch->parked_previous;
    watch->parked = false;
}

/* It is in no bucket any more. */
static void let_go(struct watch *watch)
{
    if (watch->parked)
        unpark(watch);
    bw_watcher_remove(bw_service_watches(watch->stream->call->service), watch->watcher);
    free(watch);
}

static void forget(struct stream *stream, struct watch *watch)
{
    struct watch **at = bucket_of(stream, watch->id);
    while (*at != watch)
        at = &(*at)->chain;
    *at = watch->chain;
    stream->count--;
    let_go(watch);
}

static void too_late(struct watch *watch)
{
    struct bw_service *service = watch->stream->call->service;
    struct bw_registry_status status;
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    bw_registry_status(bw_service_registry(service), &status);
    out.canceled = true;
    out.compact_revision = status.floor;
    out.cancel_reason = (char *)"etcdserver: mvcc: required revision has been compacted";
    answer(watch, &out, 0);
    forget(watch->stream, watch);
}

/* Deletions carry key and revision only. */
static Api__Event *to_event(struct bw_service *service, const struct bw_happened *happened,
                            bool previous)
{
    Api__Event *event = bw_service_room(service, sizeof *event);
    api__event__init(event);
    event->kv = bw_service_kv(service, happened->kv, happened->deleted);
    const struct bw_kv *before = happened->deleted ? happened->kv : happened->previous;
    if (happened->deleted) {
        event->type = API__EVENT__EVENT_TYPE__DELETE;
        event->kv->create_revision = event->kv->version = event->kv->lease = 0;
        event->kv->mod_revision = happened->revision;
    }
    if (previous && before)
        event->prev_kv = bw_service_kv(service, before, false);
    return event;
}

/* The events of one revision, or a part of them, as one answer. */
static void tell(struct watch *watch, Api__Event **events, size_t count, int64_t revision)
{
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    if (count == 0)
        return;
    out.events = events;
    out.n_events = count;
    answer(watch, &out, revision);
    bw_service_room_clear(watch->stream->call->service);
}

/* False: the caller is not allowed to read any more, and the call has ended. */
static bool may_read(struct watch *watch)
{
    struct bw_service *service = watch->stream->call->service;
    if (bw_auth_may(watch->stream->call))
        return true;
    bw_watcher_skip(bw_service_watches(service), bw_service_registry(service), watch->watcher);
    return false;
}

static void on_news(struct bw_watching *watching, bw_ref ref)
{
    struct watch *watch = (struct watch *)watching;
    struct bw_call *call = watch->stream->call;
    struct bw_service *service = call->service;
    Api__Event *events[EVENTS_MAX];
    struct bw_happened happened;
    size_t count = 0;
    int64_t revision = 0;
    bw_service_room_clear(service);
    if (!may_read(watch))
        return;
    for (;;) {
        if (count == 0 && bw_call_is_full(call)) {
            park(watch);
            return;
        }
        enum bw_watcher_news news =
            bw_watcher_next(service->watches, bw_service_registry(service), ref, &happened);
        if (news == BW_WATCHER_EVENT && count &&
            (happened.revision != revision || count == EVENTS_MAX)) {
            tell(watch, events, count, revision);
            count = 0;
        }
        if (news == BW_WATCHER_EVENT) {
            revision = happened.revision;
            events[count++] = to_event(service, &happened, watch->previous);
            continue;
        }
        tell(watch, events, count, revision);
        if (news == BW_WATCHER_COMPACTED)
            too_late(watch);
        return;
    }
}

static void refuse(struct stream *stream, const char *reason)
{
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    struct watch nobody = {.stream = stream, .id = -1};
    out.created = out.canceled = true;
    out.cancel_reason = (char *)reason;
    answer(&nobody, &out, 0);
}

/* No key at all stands for the first one there can be, as in etcd. */
static struct bw_keys keys_of(const Api__WatchCreateRequest *in)
{
    static const unsigned char first = 0;
    struct bw_keys keys = {.key = {in->key.data, in->key.len},
                           .end = {in->range_end.data, in->range_end.len}};
    if (keys.key.length == 0)
        keys.key = (struct bw_slice){&first, 1};
    return keys;
}

static struct watch *new_watch(struct stream *stream, const Api__WatchCreateRequest *in)
{
    struct bw_watcher_spec spec = {.keys = keys_of(in),
                                   .start = in->start_revision < 0 ? 0 : in->start_revision};
    struct watch *watch = make_room(stream) ? calloc(1, sizeof *watch) : NULL;
    if (!watch)
        return NULL;
    for (size_t i = 0; i < in->n_filters; i++) {
        spec.no_put |= in->filters[i] == API__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT;
        spec.no_delete |= in->filters[i] == API__WATCH_CREATE_REQUEST__FILTER_TYPE__NODELETE;
    }
    while (find(stream, stream->next_id))
        stream->next_id++;
    *watch = (struct watch){.watching = {on_news},
                            .stream = stream,
                            .id = in->watch_id ? in->watch_id : stream->next_id++,
                            .previous = in->prev_kv};
    watch->watcher = bw_service_watch(stream->call->service, &watch->watching, &spec);
    if (!watch->watcher) {
        free(watch);
        return NULL;
    }
    return watch;
}

static void create(struct stream *stream, const Api__WatchCreateRequest *in)
{
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    struct bw_keys keys = keys_of(in);
    if (bw_keys_are_empty(&keys)) {
        refuse(stream, "mvcc: watcher range is empty");
        return;
    }
    if (in->watch_id && find(stream, in->watch_id)) {
        refuse(stream, "mvcc: duplicate watch ID provided on the WatchStream");
        return;
    }
    struct watch *watch = stream->count < STREAM_WATCHES_MAX ? new_watch(stream, in) : NULL;
    if (!watch) {
        refuse(stream, "etcdserver: too many watchers");
        return;
    }
    add(stream, watch);
    out.created = true;
    answer(watch, &out, 0);
    bw_service_news(stream->call->service, false); /* what happened since its start revision */
}

static void cancel(struct stream *stream, int64_t id)
{
    struct watch *watch = find(stream, id);
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    if (!watch)
        return;
    out.canceled = true;
    answer(watch, &out, 0);
    forget(stream, watch);
}

/* No watcher is ready; those that are parked may still be behind. */
static void on_caught_up(struct bw_catch_up *node)
{
    struct stream *stream = (struct stream *)node;
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    struct watch nobody = {.stream = stream, .id = -1};
    stream->progress = stream->parked_first || bw_call_is_full(stream->call);
    if (!stream->progress)
        answer(&nobody, &out, 0);
}

static void progress(struct stream *stream)
{
    if (stream->progress || stream->catch_up.link)
        return; /* one response for all requests that wait */
    bw_service_news(stream->call->service, false);
    bw_service_catch_up(stream->call->service, &stream->catch_up);
}

void bw_watch_room(struct bw_call *call)
{
    struct stream *stream = call->state;
    if (!stream)
        return;
    while (!call->ended && stream->parked_first && !bw_call_is_full(call)) {
        struct watch *watch = stream->parked_first;
        unpark(watch);
        on_news(&watch->watching, watch->watcher);
    }
    bool wanted = stream->progress && !stream->parked_first;
    stream->progress = stream->progress && !wanted;
    bw_service_news(call->service, false);
    if (wanted)
        bw_service_catch_up(call->service, &stream->catch_up);
}

void bw_watch_message(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__WatchRequest *in = (const Api__WatchRequest *)message;
    struct stream *stream = call->state ? call->state : calloc(1, sizeof *stream);
    if (!stream) {
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: no memory");
        return;
    }
    stream->call = call;
    stream->catch_up.caught_up = on_caught_up;
    call->state = stream;
    switch (in->request_union_case) {
    case API__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST:
        create(stream, in->create_request);
        break;
    case API__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST:
        cancel(stream, in->cancel_request->watch_id);
        break;
    case API__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST:
        progress(stream);
        break;
    default:
        break;
    }
}

void bw_watch_gone(struct bw_call *call)
{
    struct stream *stream = call->state;
    if (!stream)
        return;
    for (uint32_t i = 0; i < stream->bucket_count; i++)
        for (struct watch *at = stream->buckets[i], *next; at; at = next) {
            next = at->chain;
            let_go(at);
        }
    bw_service_catch_up_cancel(&stream->catch_up);
    free(stream->buckets);
    free(stream);
}
