/* Requests in flight: one transaction at a time, its response, and the reply. A task whose request
 * was cancelled continues until the server has responded, so that its campaign stays correct. */
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
    struct etcd_campaign *campaign = task->queued ? task->campaign : NULL;
    etcd_watch_drop(task);
    if (task->job)
        task->job->context = NULL;
    *(task->previous ? &task->previous->next : &task->store->tasks) = task->next;
    if (task->next)
        task->next->previous = task->previous;
    if (campaign)
        etcd_campaign_end_task(campaign, task);
    free(task->list);
    free(task);
}

void etcd_task_done(struct etcd_task *task)
{
    struct bw_store_record record;
    if (task->job) {
        etcd_view_record(&task->view, task->campaign ? &task->campaign->foreign : NULL, &record);
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
        etcd_view_record(&task->view, task->campaign ? &task->campaign->foreign : NULL, &record);
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

int etcd_error(const struct bw_grpc_result *result)
{
    bool denied = result->code == BW_GRPC_DENIED || result->code == BW_GRPC_UNAUTHENTICATED;
    return denied ? BW_EDENIED : BW_EIO;
}

static void on_failed(struct etcd_task *task, const struct bw_grpc_result *result)
{
    etcd_task_fail(task, etcd_outcome(result), etcd_error(result), result->why);
}

static void on_answer(void *context, const ProtobufCMessage *message,
                      const struct bw_grpc_result *result)
{
    struct etcd_task *task = context;
    task->in_flight = false;
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
    task->in_flight = etcd_client_ask(task->store->client, &etcd_txn_method, &txn->request.base,
                                      urgent, on_answer, task, result.why) == 0;
    if (task->in_flight)
        return true;
    task->failed(task, &result);
    return false;
}

static void start_read(struct etcd_task *task);

/* Reads again, once: by search if known keys are gone, or directly if the search did not show a
 * name. */
static bool read_again(struct etcd_task *task)
{
    struct etcd_campaign *campaign = task->campaign;
    bool stale = task->light && etcd_view_is_stale(&task->view, &task->known);
    bool unnamed = !task->light && task->view.unnamed && task->looking;
    if (!stale && !unnamed)
        return false;
    if (campaign)
        campaign->known.valid = false;
    task->known = (struct etcd_known){.valid = unnamed,
                                      .own = task->view.own.create,
                                      .head = task->view.head,
                                      .before = task->view.before};
    task->looking = stale;
    start_read(task);
    return true;
}

/* The server's revision went backwards: a backup was restored, or its disk is new.
 *
 * A leader seen before may not have noticed yet. No candidate of ours acquires before that leader's
 * lease has expired. Tokens start over with the revisions. */
static int on_lost_data(struct bw_store *store, int64_t revision, char *why)
{
    long long seen = store->revision;
    store->revision = revision;
    store->quiet_until_ms = etcd_now_ms() + (uint64_t)(store->ttl_most / BW_MS);
    etcd_campaigns_forget(store);
    return bw_store_explain(
        why, BW_EDAMAGED,
        "the server has lost data: its revision is %lld, but %lld was seen before",
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
        return bw_store_explain(why, BW_EDENIED,
                                "invalid store URL: its hosts belong to different clusters");
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
    if (task->job && read_again(task))
        return false;
    if (task->campaign)
        etcd_campaign_update(task->campaign, &task->view);
    return true;
}

void etcd_task_add_view(struct etcd_task *task, struct etcd_txn *txn, struct etcd_view_keys *keys)
{
    task->light = task->looking = false;
    etcd_view_ask(txn, keys, &task->names, task->campaign ? task->campaign->lease : 0,
                  task->campaign ? task->campaign->create : 0, NULL);
}

static void start_read(struct etcd_task *task)
{
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    const struct etcd_campaign *campaign = task->campaign;
    etcd_txn_init(&txn);
    task->light = task->known.valid;
    etcd_view_ask(&txn, &keys, &task->names, campaign ? campaign->lease : 0,
                  campaign ? campaign->create : 0, task->light ? &task->known : NULL);
    etcd_task_ask(task, &txn, task->step);
}

void etcd_task_read(struct etcd_task *task,
                    void (*step)(struct etcd_task *task, const Api__TxnResponse *response))
{
    const struct etcd_campaign *campaign = task->campaign;
    task->step = step;
    task->looking = true;
    task->known.valid = false;
    if (campaign && campaign->known.valid && campaign->known.own == campaign->create)
        task->known = campaign->known;
    start_read(task);
}
