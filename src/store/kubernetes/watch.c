/* The store's single watch stream, which serves all elections with waiting requests. With one
 * election it watches only that Lease (by fieldSelector, so permission for this Lease is enough);
 * with more it watches all Leases of the namespace.
 *
 * The stream starts at the resourceVersion of a read of the Lease, so no change is missed. It ends:
 *   - by the server's timeout: it continues from where it was;
 *   - by 410 Gone: the waiting requests read again;
 *   - by a failure: the waiting requests fail, and the next request starts another stream.
 * If the stream does not report a change that was learned from another source, the store considers
 * it dead, whatever the state of its connection.
 *
 * If the Role permits no watch (403), or no list to start a watch from, there is no stream: one of
 * the waiting requests of each election reads the Lease again, several times per TTL. The store
 * tries to watch again after a minute, then less and less often: the Role may have been changed, or
 * the 403 was an error of the server. */
#include "store/kubernetes/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TICK_MS 500u
#define IDLE_MS 5000u /* the stream ends after this time without a waiting request */
/* time for the stream to report a change that was learned from another source */
#define REPORT_TIMEOUT_MS  3000u
#define SHORT_MS           1000u /* a stream that ends sooner has failed */
#define WITHIN_NS          (10 * BW_SEC)
#define TIMEOUT_S          290u
#define EXPIRED_CODE       410
#define DENIED_CODE        403
#define POLLS_PER_TTL      8
#define POLL_MIN_MS        200u
#define POLL_MAX_MS        2000u
#define WATCH_AGAIN_MIN_MS 60000u /* every attempt without permission is in the audit log */
#define WATCH_AGAIN_MAX_MS 900000u

static void start(struct bw_kube_store *store);

bool bw_kube_is_synced(const struct bw_kube_store *store, const struct bw_kube_entry *entry)
{
    return store->stream.http && entry->synced == store->stream.serial;
}

void bw_kube_expect(struct bw_kube_store *store, const struct bw_kube_entry *entry)
{
    struct bw_kube_stream *stream = &store->stream;
    if (!bw_kube_is_synced(store, entry) || entry->known <= stream->since)
        return;
    if (stream->expected == 0)
        stream->expected_ms = bw_kube_now_ms();
    if (stream->expected < entry->known)
        stream->expected = entry->known;
}

static struct bw_kube_call *any_waiting(struct bw_kube_store *store)
{
    for (size_t i = 0; i < BW_KUBE_BUCKETS; i++)
        for (struct bw_kube_entry *entry = store->buckets[i]; entry; entry = entry->chain)
            if (entry->waiting)
                return entry->waiting;
    return NULL;
}

static void unlink_waiting(struct bw_kube_call *call)
{
    *call->previous = call->next;
    if (call->next)
        call->next->previous = call->previous;
    call->previous = NULL;
    call->store->watches--;
}

/* The stream ended, and changes may have been missed. If the server no longer has the version, the
 * waiting requests read again; otherwise they fail. */
static void stream_broken(struct bw_kube_store *store, int error, const char *why)
{
    struct bw_kube_call *call;
    bool expired = store->stream.expired;
    store->stream = (struct bw_kube_stream){.serial = store->stream.serial + 1};
    uint32_t most = store->watches; /* bw_kube_read may add a call to the list again */
    for (uint32_t i = 0; i < most && (call = any_waiting(store)); i++) {
        struct bw_job *job = call->job;
        unlink_waiting(call);
        if (expired) {
            bw_kube_read(call);
            continue;
        }
        bw_kube_call_free(call);
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, error, "%s", why);
    }
}

static void drop_stream(struct bw_kube_store *store, int error, const char *why)
{
    if (store->stream.http)
        bw_http_cancel(store->api.http, store->stream.http);
    store->stream.http = NULL;
    stream_broken(store, error, why);
}

/* ---- events ---- */

static void seen(struct bw_kube_stream *stream, uint64_t version)
{
    if (version > stream->since)
        stream->since = version;
    if (stream->since >= stream->expected)
        stream->expected = 0;
}

static void on_event(struct bw_kube_store *store, const char *type, json_t *object)
{
    struct bw_kube_entry *entry = bw_kube_entry_find(store, bw_kube_lease_name(object));
    uint64_t version = bw_kube_version(object);
    seen(&store->stream, version);
    if (!entry || strcmp(type, "BOOKMARK") == 0)
        return;
    bool deleted = strcmp(type, "DELETED") == 0;
    bw_kube_learn(store, entry, deleted ? NULL : object, version, BW_KUBE_STREAMED);
}

/* Returns false to end the stream. */
static bool on_line(void *context, const char *line, size_t length)
{
    struct bw_kube_store *store = context;
    json_t *event = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    json_t *object = json_object_get(event, "object");
    const char *type = json_string_value(json_object_get(event, "type"));
    bool good = type && json_is_object(object) && strcmp(type, "ERROR") != 0;
    if (good && bw_kube_version(object) == 0)
        good = false;
    if (good) {
        store->reported_polling = false;
        store->watch_again_in_ms = 0;
        on_event(store, type, object);
    } else {
        store->stream.expired = json_integer_value(json_object_get(object, "code")) == EXPIRED_CODE;
    }
    json_decref(event);
    return good;
}

static void on_end(void *context, const struct bw_http_answer *answer)
{
    struct bw_kube_store *store = context;
    struct bw_kube_stream *stream = &store->stream;
    bool lasted = bw_kube_now_ms() - stream->started_ms >= SHORT_MS;
    struct bw_kube_verdict verdict;
    stream->http = NULL;
    if (answer->status == DENIED_CODE) {
        bw_kube_poll_instead(store);
        return;
    }
    if (answer->status == EXPIRED_CODE)
        stream->expired = true;
    if (answer->status == 200 && lasted && !stream->expired && store->watches) {
        start(store);
        return;
    }
    if (stream->expired || (answer->status == 200 && lasted)) {
        stream_broken(store, BW_EIO, "the watch ended");
        return;
    }
    bw_kube_judge(&store->api, answer, false, &verdict);
    stream_broken(store, verdict.error,
                  answer->status == 200 ? "the API server closes watches immediately"
                                        : verdict.why);
}

/* ---- starting the stream ---- */

static void start(struct bw_kube_store *store)
{
    struct bw_kube_stream *stream = &store->stream;
    char query[BW_KUBE_NAME_MAX + 160], why[BW_WHY_MAX + 1] = "";
    int used =
        snprintf(query, sizeof query,
                 "watch=1&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=%" PRIu64,
                 TIMEOUT_S, stream->since);
    if (stream->only)
        snprintf(query + used, sizeof query - (size_t)used, "&fieldSelector=metadata.name%%3D%s",
                 stream->only->name);
    struct bw_kube_ask ask = {.method = "GET",
                              .query = query,
                              .within_ns = WITHIN_NS,
                              .answer = on_end,
                              .line = on_line,
                              .context = store};
    stream->started_ms = stream->idle_ms = stream->expected_ms = bw_kube_now_ms();
    stream->http = bw_kube_api_send(&store->api, &ask, why);
    if (!stream->http)
        stream_broken(store, BW_EIO, why);
}

static void on_tick(uv_timer_t *ticker)
{
    struct bw_kube_store *store = ticker->data;
    struct bw_kube_stream *stream = &store->stream;
    uint64_t now = bw_kube_now_ms();
    if (store->watches)
        stream->idle_ms = now;
    if (stream->http && stream->expected && now - stream->expected_ms > REPORT_TIMEOUT_MS)
        drop_stream(store, BW_EIO, "the watch stopped reporting changes");
    else if (stream->http && now - stream->idle_ms > IDLE_MS)
        drop_stream(store, BW_EIO, "no request waits");
    if (!stream->http)
        uv_timer_stop(ticker);
}

/* ---- polling ---- */

static void report_polling(struct bw_kube_store *store)
{
    const struct bw_store_options *options = &store->jobs.options;
    char line[BW_WHY_MAX + 1];
    if (store->reported_polling)
        return;
    store->reported_polling = true;
    bw_store_explain(line, 0,
                     "the Role does not permit %s on Leases of namespace %s: polling instead of "
                     "watching; a change is noticed up to 2s later",
                     store->no_list ? "'list'" : "'watch'", store->api.namespace);
    if (options->event)
        options->event(options->context, "polling", line);
}

static void poll_waiting(struct bw_kube_store *store);

/* All waiting requests read again, and the first one that may wait starts a stream. If that is not
 * permitted either, bw_kube_poll_instead follows. */
static void watch_again(struct bw_kube_store *store)
{
    store->no_watch = store->no_list = false;
    store->stream.expired = true;
    stream_broken(store, 0, "");
}

/* One waiting request of each election reads again. If nothing has changed, it waits again. The
 * other ones must not depend on it: its read may fail. */
static void on_poll(uv_timer_t *ticker)
{
    struct bw_kube_store *store = ticker->data;
    if (bw_kube_now_ms() >= store->watch_again_ms) {
        watch_again(store);
        return;
    }
    for (size_t i = 0; i < BW_KUBE_BUCKETS; i++)
        for (struct bw_kube_entry *entry = store->buckets[i]; entry; entry = entry->chain) {
            struct bw_kube_call *call = entry->waiting;
            if (!call)
                continue;
            unlink_waiting(call);
            bw_kube_read(call);
        }
    poll_waiting(store);
}

/* A request without TTL has no leadership to lose, so it polls at the longest interval. */
static void poll_later(struct bw_kube_store *store, bw_time ttl_ns)
{
    uint64_t after_ms = (uint64_t)(ttl_ns / POLLS_PER_TTL / BW_MS);
    if (after_ms < POLL_MIN_MS)
        after_ms = POLL_MIN_MS;
    if (after_ms > POLL_MAX_MS || ttl_ns == 0)
        after_ms = POLL_MAX_MS;
    if (!uv_is_active((uv_handle_t *)&store->ticker) ||
        uv_timer_get_due_in(&store->ticker) > after_ms)
        uv_timer_start(&store->ticker, on_poll, after_ms, 0);
}

static void poll_waiting(struct bw_kube_store *store)
{
    for (size_t i = 0; i < BW_KUBE_BUCKETS; i++)
        for (struct bw_kube_entry *entry = store->buckets[i]; entry; entry = entry->chain)
            for (struct bw_kube_call *call = entry->waiting; call; call = call->next)
                poll_later(store, call->job->request.ttl_ns);
}

void bw_kube_poll_instead(struct bw_kube_store *store)
{
    if (store->no_watch)
        return;
    bw_kube_stream_close(store); /* stops the timer too, so that it can start again for polls */
    store->stream = (struct bw_kube_stream){.serial = store->stream.serial + 1};
    store->no_watch = true;
    uint64_t twice = 2 * store->watch_again_in_ms;
    store->watch_again_in_ms = twice < WATCH_AGAIN_MIN_MS   ? WATCH_AGAIN_MIN_MS
                               : twice > WATCH_AGAIN_MAX_MS ? WATCH_AGAIN_MAX_MS
                                                            : twice;
    store->watch_again_ms = bw_kube_now_ms() + store->watch_again_in_ms;
    report_polling(store);
    poll_waiting(store);
}

void bw_kube_wait(struct bw_kube_call *call, uint64_t version)
{
    struct bw_kube_store *store = call->store;
    struct bw_kube_stream *stream = &store->stream;
    struct bw_kube_entry *entry = call->entry;
    call->next = entry->waiting;
    if (call->next)
        call->next->previous = &call->next;
    call->previous = &entry->waiting;
    entry->waiting = call;
    store->watches++;
    if (store->no_watch) {
        poll_later(store, call->job->request.ttl_ns);
        return;
    }
    entry->synced = stream->serial;
    if (!stream->http) {
        stream->since = version;
        stream->only = entry;
        uv_timer_start(&store->ticker, on_tick, TICK_MS, TICK_MS);
        start(store);
    } else if (stream->only && stream->only != entry) {
        /* continue from the same version, for all Leases */
        bw_http_cancel(store->api.http, stream->http);
        stream->only = NULL;
        start(store);
    }
}

void bw_kube_stream_rewind(struct bw_kube_store *store, uint64_t version)
{
    if (store->stream.http && version < store->stream.since)
        drop_stream(store, BW_EIO, "the API server lost state that it had shown");
}

void bw_kube_stream_close(struct bw_kube_store *store)
{
    if (store->stream.http)
        bw_http_cancel(store->api.http, store->stream.http);
    store->stream.http = NULL;
    uv_timer_stop(&store->ticker);
}
