/* Many requests in one transaction, in one round trip: libpq's pipeline with one sync at its end.
 *
 * Requests that arrive while a batch is in progress go into the next one; renewals and releases
 * first. A batch commits as a whole, so no result is used before the sync has returned. If one
 * statement fails, the server executes nothing of the batch, and the store sends each task again
 * alone. A batch locks its rows in the order of their names, so that two processes cannot deadlock.
 */
#include "store/postgres/state.h"

#include <stdlib.h>
#include <string.h>

/* ---- tasks and queues ---- */

struct bw_pg_task *bw_pg_task_new(struct bw_job *job, struct bw_pg_row *row)
{
    struct bw_pg_task *task = calloc(1, sizeof *task);
    if (!task)
        return NULL;
    task->job = job;
    task->own = !job;
    task->row = row;
    bw_pg_row_use(row);
    if (job)
        job->context = task;
    return task;
}

void bw_pg_task_free(struct bw_store *store, struct bw_pg_task *task)
{
    bw_pg_row_leave(store, task->row);
    if (task->entered)
        bw_pg_entered_done(task->entered);
    PQclear(task->result);
    free(task);
}

static bool is_urgent(const struct bw_pg_task *task)
{
    return task->job &&
           (task->job->request.op == BW_STORE_RENEW || task->job->request.op == BW_STORE_RELEASE);
}

static struct bw_pg_queue *queue_of(struct bw_store *store, const struct bw_pg_task *task)
{
    return is_urgent(task) ? &store->urgent : &store->waiting;
}

void bw_pg_queue_add(struct bw_store *store, struct bw_pg_task *task)
{
    struct bw_pg_queue *queue = queue_of(store, task);
    task->next = NULL;
    *queue->end = task;
    queue->end = &task->next;
}

void bw_pg_queue_again(struct bw_store *store, struct bw_pg_task *task)
{
    struct bw_pg_queue *queue = queue_of(store, task);
    PQclear(task->result);
    task->result = NULL;
    task->next = queue->first;
    if (!queue->first)
        queue->end = &task->next;
    queue->first = task;
}

static struct bw_pg_task *take_first(struct bw_pg_queue *queue)
{
    struct bw_pg_task *task = queue->first;
    queue->first = task->next;
    if (!queue->first)
        queue->end = &queue->first;
    return task;
}

bool bw_pg_queue_remove(struct bw_store *store, struct bw_pg_task *task)
{
    struct bw_pg_queue *queue = queue_of(store, task);
    struct bw_pg_task **at = &queue->first;
    while (*at && *at != task)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = task->next;
    if (!*at)
        queue->end = at;
    return true;
}

/* ---- sending ---- */

static void insert_by_name(struct bw_pg_task **list, struct bw_pg_task *task)
{
    while (*list && strcmp((*list)->row->election, task->row->election) <= 0)
        list = &(*list)->next;
    task->next = *list;
    *list = task;
}

/* Takes the next batch, sorted by name. A task that must go alone forms its own batch. */
static struct bw_pg_task *take_batch(struct bw_store *store)
{
    struct bw_pg_task *list = NULL;
    for (unsigned i = 0; i < BW_PG_BATCH_MAX; i++) {
        struct bw_pg_queue *queue = store->urgent.first ? &store->urgent : &store->waiting;
        if (!queue->first || (list && queue->first->alone))
            break;
        struct bw_pg_task *task = take_first(queue);
        insert_by_name(&list, task);
        if (task->alone)
            break;
    }
    return list;
}

void bw_pg_batch_send(struct bw_store *store)
{
    if (store->link.state != BW_PG_READY || store->sent)
        return;
    store->sent = store->at = take_batch(store);
    store->failed = false;
    if (!store->sent)
        return;
    bool good = true;
    for (struct bw_pg_task *task = store->sent; task && good; task = task->next)
        good = bw_pg_task_send(store, task);
    if (good && PQpipelineSync(store->link.conn) == 1)
        bw_pg_link_flush(store);
    else
        bw_pg_link_drop(store, "%s", PQerrorMessage(store->link.conn));
}

/* ---- results ---- */

static bool is_cancelled(const struct bw_pg_task *task)
{
    return !task->job && !task->own;
}

/* Queues all tasks again, each alone, in the same order. Each task goes to the front of the queue,
 * so the last one is queued first. */
static void retry_alone(struct bw_store *store, struct bw_pg_task *task)
{
    struct bw_pg_task *reversed = NULL, *next;
    for (; task; task = next) {
        next = task->next;
        task->next = reversed;
        reversed = task;
    }
    for (task = reversed; task; task = next) {
        next = task->next;
        task->alone = true;
        if (is_cancelled(task))
            bw_pg_task_free(store, task);
        else
            bw_pg_queue_again(store, task);
    }
}

static void finish_batch(struct bw_store *store)
{
    struct bw_pg_task *task = store->sent, *next;
    bool failed = store->failed;
    store->sent = store->at = NULL;
    if (failed && task && task->next) {
        retry_alone(store, task);
        return;
    }
    for (; task; task = next) {
        next = task->next;
        if (is_cancelled(task))
            bw_pg_task_free(store, task);
        else if (failed)
            bw_pg_task_error(store, task);
        else
            bw_pg_task_result(store, task);
    }
}

void bw_pg_batch_result(struct bw_store *store, PGresult *result)
{
    ExecStatusType status = result ? PQresultStatus(result) : PGRES_EMPTY_QUERY;
    if (!result && !store->at) {
        bw_pg_link_drop(store, "the server sent an unexpected reply");
    } else if (!result) {
        store->at = store->at->next;
    } else if (status == PGRES_PIPELINE_SYNC) {
        PQclear(result);
        finish_batch(store);
    } else {
        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
            store->failed = true;
        if (store->at && !store->at->result)
            store->at->result = result;
        else
            PQclear(result);
    }
}

/* ---- the connection ended ---- */

static void fail_task(struct bw_store *store, struct bw_pg_task *task, bool sent, const char *why)
{
    bool unknown = sent && bw_pg_task_writes(task);
    if (task->own && !task->entered)
        task->row->reading = task->row->read_again = false;
    if (task->job)
        bw_job_fail(task->job, unknown ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE,
                    bw_pg_link_error(store), "%s", why);
    bw_pg_task_free(store, task);
}

void bw_pg_queue_fail(struct bw_store *store, const char *why)
{
    while (store->urgent.first)
        fail_task(store, take_first(&store->urgent), false, why);
    while (store->waiting.first)
        fail_task(store, take_first(&store->waiting), false, why);
}

void bw_pg_batch_lost(struct bw_store *store, const char *why)
{
    struct bw_pg_task *task = store->sent, *next;
    store->sent = store->at = NULL;
    for (; task; task = next) {
        next = task->next;
        fail_task(store, task, true, why);
    }
}
