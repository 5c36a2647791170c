/* Watch: many watchers on one stream. Events are read from the registry's history when the caller
 * can take them: a watcher that never drains costs nothing and is cancelled once the history has
 * moved on. */
#include "serve/service.h"

#include "base/error.h"
#include "serve/auth.h"
#include "serve/service_state.h"

#include <stdlib.h>

#define STREAM_WATCHES_MAX 10000u
#define EVENTS_MAX         1024u /* in one answer; more of a revision come as the next */

struct watch { /* one watcher of a stream */
    struct bw_watching watching;
    struct stream *stream;
    struct watch *next;
    bw_ref watcher;
    int64_t id;
    bool previous;
};

struct stream {
    struct bw_call *call;
    struct watch *first;
    uint32_t count;
    int64_t next_id;
};

bw_ref bw_service_watch(struct bw_service *service, struct bw_watching *watching,
                        const struct bw_watcher_spec *spec)
{
    struct bw_watcher_spec own = *spec;
    own.owner = watching;
    return bw_watcher_add(service->watches, bw_service_registry(service), &own);
}

/* Each ready watcher once: one whose owner cannot take more is back in the list for the next time.
 */
void bw_service_news(struct bw_service *service, bool restored)
{
    struct bw_registry *registry = bw_service_registry(service);
    if (restored)
        bw_watches_reset(service->watches, registry);
    else
        bw_watches_notice(service->watches, registry);
    for (uint32_t i = 0; i < WATCHERS_MAX; i++) {
        bw_ref ref = bw_watches_ready(service->watches);
        if (!ref)
            break;
        if (ref == service->stuck) { /* once round */
            bw_watcher_later(service->watches, ref);
            break;
        }
        struct bw_watching *watching = bw_watcher_owner(service->watches, ref);
        watching->news(watching, ref);
    }
    service->stuck = 0;
}

static void answer(struct watch *watch, Api__WatchResponse *out, int64_t revision)
{
    Api__Header header;
    bw_service_header(watch->stream->call->service, &header, revision);
    out->header = &header;
    out->watch_id = watch->id;
    bw_call_send(watch->stream->call, &out->base);
}

static void forget(struct stream *stream, struct watch *watch)
{
    struct watch **at = &stream->first;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    bw_watcher_remove(bw_service_watches(stream->call->service), watch->watcher);
    stream->count--;
    free(watch);
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
    if (!bw_auth_may(call)) { /* not any more: all of its watchers go with the call */
        while (bw_watcher_next(service->watches, bw_service_registry(service), ref, &happened) ==
               BW_WATCHER_EVENT)
            ;
        return;
    }
    for (;;) {
        if (count == 0 && call->is_full(call)) {
            bw_watcher_later(service->watches, ref);
            service->stuck = service->stuck ? service->stuck : ref;
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

static struct watch *find(const struct stream *stream, int64_t id)
{
    struct watch *watch = stream->first;
    while (watch && watch->id != id)
        watch = watch->next;
    return watch;
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
    struct watch *watch = calloc(1, sizeof *watch);
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
    watch->next = stream->first;
    stream->first = watch;
    stream->count++;
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

static void progress(struct stream *stream)
{
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    struct watch nobody = {.stream = stream, .id = -1};
    bw_service_news(stream->call->service, false); /* all earlier events first */
    answer(&nobody, &out, 0);
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
    while (stream && stream->first)
        forget(stream, stream->first);
    free(stream);
}
