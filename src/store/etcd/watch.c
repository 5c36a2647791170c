/* WATCH: reads the election. If nothing has changed, waits for events after the revision of that
 * read, so that no change is missed.
 *
 * - A candidate that waits in the queue watches its predecessor, as Go's concurrency.Election does,
 *   so that of a thousand waiting candidates only one wakes up. It also watches its own mail/ key.
 *   If the predecessor goes and there is another one, it watches that one without answering.
 * - All others, the leader included, watch the head of the queue (or all keys while the queue is
 *   empty), the record and the note.
 *
 * All watches share one stream. If the connection is lost, they start again on the next one, with a
 * new read. */
#include "store/etcd/state.h"

#include <stdlib.h>
#include <string.h>

static void on_watch_read(struct etcd_task *task, const Api__TxnResponse *response);

/* ---- the stream ---- */

static void unlink_watch(struct bw_store *store, struct etcd_watch *watch)
{
    *(watch->previous ? &watch->previous->next : &store->watches) = watch->next;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the list is whole */
    *(watch->next ? &watch->next->previous : &store->watches_last) = watch->previous;
    free(watch);
}

static void send_cancel(struct bw_store *store, int64_t id)
{
    Api__WatchCancelRequest cancel = API__WATCH_CANCEL_REQUEST__INIT;
    Api__WatchRequest request = API__WATCH_REQUEST__INIT;
    cancel.watch_id = id;
    request.request_union_case = API__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
    request.cancel_request = &cancel;
    if (store->watcher)
        etcd_stream_send(store->watcher, &request.base);
}

/* A watch that is not yet created is cancelled when it has been created. */
static void drop_watch(struct etcd_task *task, unsigned which)
{
    struct etcd_watch *watch = task->watch[which];
    if (!watch)
        return;
    task->watch[which] = NULL;
    watch->task = NULL;
    if (watch->id < 0)
        return;
    send_cancel(task->store, watch->id);
    unlink_watch(task->store, watch);
}

void etcd_watch_drop(struct etcd_task *task)
{
    drop_watch(task, 0);
    drop_watch(task, 1);
}

static void start_read(struct etcd_task *task)
{
    etcd_watch_drop(task);
    task->lost = false;
    etcd_task_read(task, on_watch_read);
}

/* The server confirms watches in the order of the requests. */
static void on_created(struct bw_store *store, int64_t id)
{
    struct etcd_watch *watch = store->watches;
    while (watch && watch->id >= 0)
        watch = watch->next;
    if (!watch)
        return;
    watch->id = id;
    if (watch->task)
        return;
    send_cancel(store, id);
    unlink_watch(store, watch);
}

static void on_watched(void *context, const ProtobufCMessage *message)
{
    struct bw_store *store = context;
    const Api__WatchResponse *response = (const Api__WatchResponse *)message;
    if (response->created)
        on_created(store, response->watch_id);
    if (!response->canceled && response->n_events == 0)
        return;
    struct etcd_watch *watch = store->watches;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    while (watch && (watch->id != response->watch_id || watch->id < 0))
        watch = watch->next;
    struct etcd_task *task = watch ? watch->task : NULL;
    bool place = watch && watch->which == 0;
    if (response->canceled && watch) { /* compacted or rejected: start with a new read */
        if (task)
            task->watch[watch->which] = NULL;
        unlink_watch(store, watch);
    }
    if (task && task->campaign && place)
        task->campaign->known.valid = false; /* search immediately */
    if (task)
        start_read(task);
}

static void on_watcher_done(void *context, const ProtobufCMessage *message,
                            const struct bw_grpc_result *result)
{
    struct bw_store *store = context;
    (void)message;
    (void)result;
    store->watcher = NULL;
    while (store->watches) {
        struct etcd_watch *watch = store->watches;
        if (watch->task) { /* NOLINT(clang-analyzer-unix.Malloc) */
            watch->task->watch[watch->which] = NULL;
            watch->task->lost = true;
        }
        unlink_watch(store, watch);
    }
    etcd_watches_restart(store);
}

static bool add_watch(struct etcd_task *task, unsigned which, const char *key, const char *end,
                      int64_t revision)
{
    struct bw_store *store = task->store;
    Api__WatchCreateRequest create = API__WATCH_CREATE_REQUEST__INIT;
    Api__WatchRequest request = API__WATCH_REQUEST__INIT;
    create.key = (ProtobufCBinaryData){.len = strlen(key), .data = (uint8_t *)key};
    if (end)
        create.range_end = (ProtobufCBinaryData){.len = strlen(end), .data = (uint8_t *)end};
    create.start_revision = revision;
    request.request_union_case = API__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    if (!store->watcher)
        store->watcher =
            etcd_stream_open(store->client, &etcd_watch_method, on_watched, on_watcher_done, store);
    struct etcd_watch *watch = store->watcher ? calloc(1, sizeof *watch) : NULL;
    if (!watch || !etcd_stream_send(store->watcher, &request.base)) {
        free(watch);
        return false;
    }
    *watch = (struct etcd_watch){.task = task, .which = which, .id = -1};
    watch->previous = store->watches_last;
    *(store->watches_last ? &store->watches_last->next : &store->watches) = watch;
    store->watches_last = watch;
    task->watch[which] = watch;
    return true;
}

/* ---- the request ---- */

static bool watch_predecessor(struct etcd_task *task)
{
    struct etcd_key mail;
    etcd_key_mail(&mail, &task->names, task->job->request.candidate);
    int64_t from = task->view.revision + 1;
    return add_watch(task, 0, task->view.before.key, NULL, from) &&
           add_watch(task, 1, mail.text, NULL, from);
}

static bool watch_head(struct etcd_task *task)
{
    struct etcd_key end, note, after_record;
    const struct etcd_view *view = &task->view;
    int64_t from = view->revision + 1;
    etcd_key_after(&end, task->names.election);
    etcd_key_side(&note, &task->names, "note");
    etcd_key_side(&after_record, &task->names, "recore"); /* the key after "record" */
    bool head = view->head.there;
    return add_watch(task, 0, head ? view->head.key : task->names.election, head ? NULL : end.text,
                     from) &&
           add_watch(task, 1, note.text, after_record.text, from);
}

/* A waiting candidate that is not first reports changes of others only on its first read. */
static bool has_changed(const struct etcd_task *task)
{
    struct bw_store_record record;
    const struct etcd_view *view = &task->view;
    const struct bw_store_request *request = &task->job->request;
    etcd_view_record(view, task->campaign ? &task->campaign->foreign : NULL, &record);
    if (record.version == request->version)
        return false;
    return !task->watched || !view->before.there || strcmp(view->note.to, request->candidate) == 0;
}

/* The connection was lost after a successful start, or the server refused the read because its
 * leader was replaced: reads again silently, on the next connection or when the timer fires. A
 * server that refuses a read keeps the connection, so only the timer follows then. */
static void on_read_failed(struct etcd_task *task, const struct bw_grpc_result *result)
{
    if (task->watched && task->job && result->code == BW_GRPC_UNAVAILABLE) {
        task->lost = true;
        etcd_start_timer(task->store);
    } else {
        etcd_task_fail(task, etcd_outcome(result), etcd_error(result), result->why);
    }
}

static void on_rejoined(struct etcd_task *task)
{
    task->queued = false;
    etcd_campaign_end_task(task->campaign, task);
    task->failed = on_read_failed;
    etcd_task_read(task, on_watch_read);
}

static void on_watch_read(struct etcd_task *task, const Api__TxnResponse *response)
{
    if (!etcd_task_view(task, response))
        return;
    if (!task->job) {
        etcd_task_end(task);
        return;
    }
    struct etcd_campaign *campaign = task->campaign;
    bool placed = campaign && task->view.own.there;
    if (campaign && campaign->wanted && !placed && !campaign->first) {
        etcd_campaign_rejoin(campaign, task,
                             on_rejoined); /* our lease expired: join the end of the queue */
        return;
    }
    if (has_changed(task)) {
        etcd_task_done(task);
        return;
    }
    if (placed && !etcd_view_is_first(&task->view) && !task->view.before.there &&
        task->tries++ == 0) { /* our position was not known before this read */
        etcd_task_read(task, on_watch_read);
        return;
    }
    task->watched = true;
    if (!(task->view.before.there ? watch_predecessor(task) : watch_head(task))) {
        etcd_watch_drop(task);
        task->lost = true; /* wait for the next connection */
        etcd_start_timer(task->store);
    }
}

void etcd_watch_begin(struct etcd_task *task)
{
    task->failed = on_read_failed;
    start_read(task);
}

static struct etcd_task *next_lost(struct bw_store *store)
{
    struct etcd_task *task = store->tasks;
    while (task && !task->lost)
        task = task->next;
    return task;
}

/* Restarts each lost watch at most once. Those that are lost again wait for the next connection. */
void etcd_watches_restart(struct bw_store *store)
{
    uint32_t bound = BW_JOBS_MAX;
    struct etcd_task *task;
    while (bound-- > 0 && (task = next_lost(store))) {
        start_read(task);
        if (store->tasks && task == next_lost(store))
            return; /* still not connected */
    }
}

void etcd_watches_free(struct bw_store *store)
{
    while (store->watches)
        unlink_watch(store, store->watches); /* NOLINT(clang-analyzer-unix.Malloc) */
}
