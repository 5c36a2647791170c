/* Watch: many watchers on one stream. Events are read from the registry's history when the client
 * can receive them. A watcher whose client does not read is parked: it costs nothing, and it is
 * cancelled when its position in the history is compacted.
 *
 * A progress request is answered once all watchers of the stream have received everything up to
 * then. One response answers all progress requests that arrive in the meantime.
 *
 * A watcher with progress_notify that received no event since the last tick of its stream gets a
 * response without events: everything up to the revision of its header was delivered.
 *
 * The events of one revision are one response, unless the watcher accepts fragments. */
#include "serve/api/service.h"

#include "core/base/error.h"
#include "serve/api/state.h"
#include "serve/auth/auth.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_WATCHES_MAX 10000u
#define FIRST_BUCKETS      8u
#define EVENTS_MAX         1024u /* per fragment; a response without fragments may have more */
#define FRAGMENT_BYTES     (BW_REQUEST_MAX + 524288u) /* as in etcd */
#define DENIED             "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
#define PROGRESS_NS        (600 * BW_SEC)

struct watch { /* one watcher of a stream */
    struct bw_watching watching;
    struct stream *stream;
    struct watch *chain;                         /* next in the same hash bucket */
    struct watch *parked_next, *parked_previous; /* list of the parked watchers */
    bw_ref watcher;
    int64_t id;
    bool previous, parked;
    bool fragment; /* the client accepts fragments */
    bool notified; /* the client wants progress notifications */
    bool quiet;    /* no event was sent since the last tick */
};

struct ticker { /* of a stream with watchers that want progress notifications */
    uv_timer_t timer;
    struct stream *stream;
};

struct stream {
    struct bw_catch_up catch_up; /* must be first; a waiting progress request */
    struct bw_call *call;
    /* hash table by watch id; bucket_count is a power of two; NULL: no watch yet */
    struct watch **buckets;
    uint32_t bucket_count, count;
    struct watch *parked_first, *parked_last;
    bool progress;         /* a progress response is due when the parked watchers have caught up */
    struct ticker *ticker; /* NULL: no watcher wanted notifications yet */
    struct bw_catch_up notices; /* a tick waits until the watchers have caught up */
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

/* ---- the watches of a stream, by id ---- */

static struct watch **bucket_of(const struct stream *stream, int64_t id)
{
    const struct bw_hash_key *key = &stream->call->service->options.registry.hash_key;
    uint64_t hash = bw_siphash_number(key, (uint64_t)id); /* clients choose the ids */
    return &stream->buckets[hash & (stream->bucket_count - 1)];
}

static struct watch *find(const struct stream *stream, int64_t id)
{
    struct watch *watch = stream->count ? *bucket_of(stream, id) : NULL;
    while (watch && watch->id != id)
        watch = watch->chain;
    return watch;
}

/* Makes sure that one more watch fits. Returns false if memory cannot be allocated. */
static bool reserve_one(struct stream *stream)
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

/* Frees a watch that was already removed from the hash table. */
static void watch_free(struct watch *watch)
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
    watch_free(watch);
}

static void cancel_compacted(struct watch *watch)
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

_Static_assert(EVENTS_MAX *(sizeof(Api__Event) + 2 * sizeof(Api__KeyValue) + 48) <= SCRATCH_BYTES,
               "one response of a watch needs no more scratch memory");

/* Deletions carry only the key and the revision. */
static Api__Event *to_event(struct bw_service *service, const struct bw_kv_event *happened,
                            bool previous)
{
    Api__Event *event = bw_service_scratch(service, sizeof *event);
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

struct batch { /* events of one revision that are sent together */
    Api__Event **at,
        **own; /* `own` has space for EVENTS_MAX; `at` is a larger array, or the same */
    size_t count, cap, bytes;
    int64_t revision;
};

static void send_events(struct watch *watch, struct batch *batch, bool fragment)
{
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    if (batch->count == 0)
        return;
    out.events = batch->at;
    out.n_events = batch->count;
    out.fragment = fragment;
    answer(watch, &out, batch->revision);
    watch->quiet = false;
    bw_service_scratch_clear(watch->stream->call->service);
    batch->count = batch->bytes = 0;
    batch->at = batch->own; /* a larger array was in the scratch memory */
    batch->cap = EVENTS_MAX;
}

/* Makes space for all events of a large revision. Returns false after ending the call. */
static bool enlarge(struct watch *watch, struct batch *batch)
{
    struct bw_call *call = watch->stream->call;
    const struct bw_registry *registry = bw_service_registry(call->service);
    size_t all = (size_t)(bw_registry_events_from(registry, batch->revision + 1) -
                          bw_registry_events_from(registry, batch->revision));
    if (!bw_service_extend(call, all, sizeof(Api__Event) + 2 * sizeof(Api__KeyValue) + 64,
                           BW_NO_MEMORY))
        return false;
    Api__Event **more = bw_service_scratch(call->service, all * sizeof(Api__Event *));
    memcpy(more, batch->at, batch->count * sizeof(Api__Event *));
    batch->at = more;
    batch->cap = all;
    return true;
}

static size_t bytes_of(const struct bw_kv_event *happened, bool previous)
{
    const struct bw_kv *kv = happened->kv, *before = happened->previous;
    size_t bytes = 64 + kv->key_length + (happened->deleted && !previous ? 0 : kv->value_length);
    return bytes + (previous && before ? 64 + before->key_length + before->value_length : 0);
}

/* Sends a revision when the next one begins. Returns true after parking the watcher: its client has
 * much to read already, and gets the event that begins the next revision later. */
static bool has_sent_enough(struct watch *watch, struct batch *batch,
                            const struct bw_kv_event *happened)
{
    struct bw_call *call = watch->stream->call;
    if (batch->count == 0 || happened->revision == batch->revision)
        return false;
    send_events(watch, batch, false);
    if (!bw_call_is_full(call))
        return false;
    bw_watcher_put_back(bw_service_watches(call->service), watch->watcher);
    park(watch);
    return true;
}

/* Adds an event of the same revision; sends first what does not belong to the same fragment.
 * Returns false after ending the call. */
static bool take_event(struct watch *watch, struct batch *batch, const struct bw_kv_event *happened)
{
    size_t bytes = bytes_of(happened, watch->previous);
    if (batch->count && watch->fragment &&
        (batch->count == EVENTS_MAX || batch->bytes + bytes > FRAGMENT_BYTES))
        send_events(watch, batch, true);
    else if (batch->count == batch->cap && !enlarge(watch, batch))
        return false;
    batch->revision = happened->revision;
    batch->bytes += bytes;
    batch->at[batch->count++] = to_event(watch->stream->call->service, happened, watch->previous);
    return true;
}

/* Returns false if the caller may no longer read; the call has ended. */
static bool may_read(struct watch *watch)
{
    struct bw_service *service = watch->stream->call->service;
    if (bw_auth_may(watch->stream->call))
        return true;
    bw_watcher_skip(bw_service_watches(service), bw_service_registry(service), watch->watcher);
    return false;
}

static bool is_permitted(struct bw_call *call, const struct bw_keys *keys)
{
    struct bw_requester by = bw_auth_by(call);
    return !bw_registry_permits(bw_service_registry(call->service), &by, BW_PERM_READ, keys);
}

/* Returns false after cancelling a watch whose user may no longer read its keys. */
static bool stays_permitted(struct watch *watch)
{
    struct bw_call *call = watch->stream->call;
    struct bw_keys keys = bw_watcher_keys(bw_service_watches(call->service), watch->watcher);
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    if (is_permitted(call, &keys))
        return true;
    out.canceled = true;
    out.cancel_reason = (char *)DENIED;
    answer(watch, &out, 0);
    forget(watch->stream, watch);
    return false;
}

static void on_events(struct bw_watching *watching, bw_ref ref)
{
    struct watch *watch = (struct watch *)watching;
    struct bw_call *call = watch->stream->call;
    struct bw_service *service = call->service;
    Api__Event *events[EVENTS_MAX];
    struct batch batch = {.at = events, .own = events, .cap = EVENTS_MAX};
    struct bw_kv_event happened;
    bw_service_scratch_clear(service);
    if (!may_read(watch) || !stays_permitted(watch))
        return;
    for (;;) {
        if (batch.count == 0 && bw_call_is_full(call)) {
            park(watch);
            return;
        }
        enum bw_watcher_result result =
            bw_watcher_next(service->watches, bw_service_registry(service), ref, &happened);
        if (result == BW_WATCHER_EVENT && !has_sent_enough(watch, &batch, &happened) &&
            take_event(watch, &batch, &happened))
            continue;
        if (result == BW_WATCHER_EVENT)
            return;
        send_events(watch, &batch, false);
        if (result == BW_WATCHER_COMPACTED)
            cancel_compacted(watch);
        return;
    }
}

static void refuse(struct stream *stream, const char *reason)
{
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    struct watch no_watch = {.stream = stream, .id = -1};
    out.created = out.canceled = true;
    out.cancel_reason = (char *)reason;
    answer(&no_watch, &out, 0);
}

/* An empty key means the smallest possible key, as in etcd. */
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
    struct watch *watch = reserve_one(stream) ? calloc(1, sizeof *watch) : NULL;
    if (!watch)
        return NULL;
    for (size_t i = 0; i < in->n_filters; i++) {
        spec.no_put |= in->filters[i] == API__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT;
        spec.no_delete |= in->filters[i] == API__WATCH_CREATE_REQUEST__FILTER_TYPE__NODELETE;
    }
    while (find(stream, stream->next_id))
        stream->next_id++;
    *watch = (struct watch){.watching = {on_events},
                            .stream = stream,
                            .id = in->watch_id ? in->watch_id : stream->next_id++,
                            .previous = in->prev_kv,
                            .fragment = in->fragment,
                            .notified = in->progress_notify,
                            .quiet = true};
    watch->watcher = bw_service_watch(stream->call->service, &watch->watching, &spec);
    if (!watch->watcher) {
        free(watch);
        return NULL;
    }
    return watch;
}

/* ---- progress notifications ---- */

static void notify(struct watch *watch)
{
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    if (watch->quiet && !watch->parked)
        answer(watch, &out, 0);
    watch->quiet = true;
}

/* Called when no watcher has events to send. */
static void on_notices(struct bw_catch_up *node)
{
    struct stream *stream =
        (struct stream *)(void *)((char *)node - offsetof(struct stream, notices));
    for (uint32_t i = 0; i < stream->bucket_count && !stream->call->ended; i++)
        for (struct watch *at = stream->buckets[i]; at; at = at->chain)
            if (at->notified && !bw_call_is_full(stream->call))
                notify(at);
}

static void on_tick(uv_timer_t *timer)
{
    struct stream *stream = ((struct ticker *)timer)->stream;
    if (bw_auth_may(stream->call))
        bw_service_catch_up(stream->call->service, &stream->notices);
}

static void on_ticker_closed(uv_handle_t *handle)
{
    free(handle);
}

/* Without memory for the timer, the watch works without notifications. */
static void start_ticker(struct stream *stream)
{
    struct bw_service *service = stream->call->service;
    bw_time every = service->options.progress_ns ? service->options.progress_ns : PROGRESS_NS;
    uint64_t ms = every < BW_MS ? 1 : (uint64_t)(every / BW_MS);
    if (stream->ticker)
        return;
    stream->ticker = calloc(1, sizeof *stream->ticker);
    if (!stream->ticker)
        return;
    stream->ticker->stream = stream;
    stream->notices.caught_up = on_notices;
    uv_timer_init(bw_service_loop(service), &stream->ticker->timer);
    uv_timer_start(&stream->ticker->timer, on_tick, ms, ms);
}

static void create(struct stream *stream, const Api__WatchCreateRequest *in)
{
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    struct bw_keys keys = keys_of(in);
    if (bw_keys_are_empty(&keys)) {
        refuse(stream, "mvcc: watcher range is empty");
        return;
    }
    if (!is_permitted(stream->call, &keys)) {
        refuse(stream, DENIED);
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
    if (watch->notified)
        start_ticker(stream);
    out.created = true;
    answer(watch, &out, 0);
    bw_service_notify_watchers(stream->call->service, false); /* changes since its start revision */
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

/* Called when no watcher has events to send. Parked watchers may still be behind. */
static void on_caught_up(struct bw_catch_up *node)
{
    struct stream *stream = (struct stream *)node;
    Api__WatchResponse out = API__WATCH_RESPONSE__INIT;
    struct watch no_watch = {.stream = stream, .id = -1};
    stream->progress = stream->parked_first || bw_call_is_full(stream->call);
    if (!stream->progress)
        answer(&no_watch, &out, 0);
}

static void progress(struct stream *stream)
{
    if (stream->progress || stream->catch_up.link)
        return; /* one response for all waiting requests */
    bw_service_notify_watchers(stream->call->service, false);
    bw_service_catch_up(stream->call->service, &stream->catch_up);
}

void bw_watch_writable(struct bw_call *call)
{
    struct stream *stream = call->state;
    if (!stream)
        return;
    while (!call->ended && stream->parked_first && !bw_call_is_full(call)) {
        struct watch *watch = stream->parked_first;
        unpark(watch);
        on_events(&watch->watching, watch->watcher);
    }
    bool wanted = stream->progress && !stream->parked_first;
    stream->progress = stream->progress && !wanted;
    bw_service_notify_watchers(call->service, false);
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
            watch_free(at);
        }
    bw_service_catch_up_cancel(&stream->catch_up);
    bw_service_catch_up_cancel(&stream->notices);
    if (stream->ticker)
        uv_close((uv_handle_t *)&stream->ticker->timer, on_ticker_closed);
    free(stream->buckets);
    free(stream);
}
