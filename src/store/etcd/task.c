/* Requests on their way: one transaction at a time, its answer, and the reply. A task whose job was
 * cancelled goes on until the server has answered what is out, so that its seat stays true. */
#include "store/etcd/state.h"

#include <stdlib.h>
#include <string.h>

struct etcd_task *etcd_task_new(struct bw_store *store, struct bw_job *job)
{
    struct etcd_task *task = calloc(1, sizeof *task);
    if (!task)
        return NULL;
    task->store = store;
    task->job = job;
    job->context = task;
    etcd_names_make(&task->names, store->prefix, job->request.election);
    if ((task->next = store->tasks))
        task->next->previous = task;
    store->tasks = task;
    return task;
}

void etcd_task_end(struct etcd_task *task)
{
    struct etcd_seat *seat = task->queued ? task->seat : NULL;
    etcd_watch_drop(task);
    if (task->job)
        task->job->context = NULL;
    *(task->previous ? &task->previous->next : &task->store->tasks) = task->next;
    if (task->next)
        task->next->previous = task->previous;
    if (seat)
        etcd_seat_next(seat, task);
    free(task->list);
    free(task);
}

void etcd_task_done(struct etcd_task *task)
{
    struct bw_store_record record;
    if (task->job) {
        etcd_view_record(&task->view, task->seat ? &task->seat->stranger : NULL, &record);
        task->job->context = NULL;
        bw_job_done(task->job, &record);
        task->job = NULL;
    }
    etcd_task_end(task);
}

void etcd_task_refuse(struct etcd_task *task, int error, const char *why)
{
    struct bw_store_record record;
    if (task->job) {
        etcd_view_record(&task->view, task->seat ? &task->seat->stranger : NULL, &record);
        task->job->context = NULL;
        bw_job_refuse(task->job, &record, error, "%s", why);
        task->job = NULL;
    }
    etcd_task_end(task);
}

void etcd_task_fail(struct etcd_task *task, enum bw_outcome outcome, int error, const char *why)
{
    if (task->job) {
        task->job->context = NULL;
        if (error == BW_EIO && etcd_client_denied(task->store->client))
            error = BW_EDENIED;
        bw_job_fail(task->job, outcome, error, "%s", why);
        task->job = NULL;
    }
    etcd_task_end(task);
}

static void on_failed(struct etcd_task *task, const struct bw_grpc_result *result)
{
    int error = result->code == BW_GRPC_DENIED || result->code == BW_GRPC_UNAUTHENTICATED
                    ? BW_EDENIED
                    : BW_EIO;
    etcd_task_fail(task, etcd_outcome(result), error, result->why);
}

static void on_answer(void *context, const ProtobufCMessage *message,
                      const struct bw_grpc_result *result)
{
    struct etcd_task *task = context;
    task->asking = false;
    if (message)
        task->step(task, (const Api__TxnResponse *)message);
    else
        task->failed(task, result);
}

bool etcd_task_ask(struct etcd_task *task, struct etcd_txn *txn,
                   void (*step)(struct etcd_task *task, const Api__TxnResponse *response))
{
    struct bw_grpc_result result = {.code = BW_GRPC_UNAVAILABLE};
    task->step = step;
    task->floor = task->store->revision;
    if (!task->failed)
        task->failed = on_failed;
    enum bw_store_op op = task->job ? task->job->request.op : BW_STORE_READ;
    bool urgent = op == BW_STORE_RENEW || op == BW_STORE_RELEASE;
    task->asking = etcd_client_ask(task->store->client, &etcd_txn_method, &txn->request.base,
                                   urgent, on_answer, task, result.why) == 0;
    if (task->asking)
        return true;
    task->failed(task, &result);
    return false;
}

static void look(struct etcd_task *task);

/* Searches for what turned out to be gone; asks for a name that a search cannot show. Once. */
static bool look_better(struct etcd_task *task)
{
    struct etcd_seat *seat = task->seat;
    bool stale = task->light && etcd_view_is_stale(&task->view, &task->known);
    bool unnamed = !task->light && task->view.unnamed && task->looking;
    if (!stale && !unnamed)
        return false;
    if (seat)
        seat->known.valid = false;
    task->known = (struct etcd_known){.valid = unnamed,
                                      .own = task->view.own.create,
                                      .head = task->view.head,
                                      .before = task->view.before};
    task->looking = stale;
    look(task);
    return true;
}

/* A backup was put back, or the disk is new. Whom we saw leading may not know it yet, so nobody of
 * ours leads before that one's time is over. Tokens begin anew with the revisions. */
static int on_lost_data(struct bw_store *store, int64_t revision, char *why)
{
    long long seen = store->revision;
    store->revision = revision;
    store->quiet_until_ms = etcd_now_ms() + (uint64_t)(store->ttl_most / BW_MS);
    etcd_seats_forget(store);
    return bw_store_say(why, BW_EDAMAGED,
                        "the server has lost data: it is at revision %lld, and %lld was seen",
                        (long long)revision, seen);
}

static int read_view(struct etcd_task *task, const Api__TxnResponse *response, char *why)
{
    struct bw_store *store = task->store;
    const struct etcd_view *view = &task->view;
    int error = etcd_view_read(&task->view, &task->names, response, why);
    if (error)
        return error;
    if (store->cluster == 0)
        store->cluster = view->cluster;
    if (store->cluster != view->cluster)
        return bw_store_say(why, BW_EDENIED,
                            "the hosts of the store URL belong to several clusters");
    if (view->revision < task->floor && view->revision < store->revision)
        return on_lost_data(store, view->revision, why);
    if (view->revision > store->revision)
        store->revision = view->revision;
    store->ttl_most = bw_time_max(store->ttl_most, view->kept.ttl_ns);
    return 0;
}

bool etcd_task_view(struct etcd_task *task, const Api__TxnResponse *response)
{
    char why[BW_WHY_MAX + 1];
    int error = read_view(task, response, why);
    if (error) {
        bool changed =
            response->succeeded && response->n_responses > 0 &&
            response->responses[0]->response_case != API__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
        if (error != BW_EDAMAGED)
            etcd_client_leave(task->store->client, why);
        etcd_task_fail(task, changed ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE, error, why);
        return false;
    }
    if (task->job && look_better(task))
        return false;
    if (task->seat)
        etcd_seat_learn(task->seat, &task->view);
    return true;
}

void etcd_task_add_view(struct etcd_task *task, struct etcd_txn *txn, struct etcd_view_keys *keys)
{
    task->light = task->looking = false;
    etcd_view_ask(txn, keys, &task->names, task->seat ? task->seat->lease : 0,
                  task->seat ? task->seat->create : 0, NULL);
}

static void look(struct etcd_task *task)
{
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    const struct etcd_seat *seat = task->seat;
    etcd_txn_init(&txn);
    task->light = task->known.valid;
    etcd_view_ask(&txn, &keys, &task->names, seat ? seat->lease : 0, seat ? seat->create : 0,
                  task->light ? &task->known : NULL);
    etcd_task_ask(task, &txn, task->step);
}

void etcd_task_look(struct etcd_task *task,
                    void (*step)(struct etcd_task *task, const Api__TxnResponse *response))
{
    const struct etcd_seat *seat = task->seat;
    task->step = step;
    task->looking = true;
    task->known.valid = false;
    if (seat && seat->known.valid && seat->known.own == seat->create)
        task->known = seat->known;
    look(task);
}
