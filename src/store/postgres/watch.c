/* Watches of rows.
 *
 * A watch is answered from a read that began after the watch, so no change is missed: the
 * connection listens before it reads anything, and a notification during a read causes another
 * read. A notification is only a hint, because any client of the database can send one. */
#include "store/postgres/state.h"

#include <stdlib.h>

/* With notifications: detects one that was lost with a silent connection. */
#define HEARTBEAT_NS (5 * BW_SEC)

void bw_pg_notify_watchers(struct bw_store *store, struct bw_pg_row *row)
{
    struct bw_job **at = &row->watchers;
    struct bw_store_record record;
    if (!row->watchers || bw_pg_row_record(row, &record) != 0)
        return;
    bw_pg_present(&record);
    while (*at) {
        struct bw_job *job = *at;
        if (job->request.version == bw_pg_shown_version(row)) {
            at = (struct bw_job **)&job->context;
            continue;
        }
        *at = job->context;
        job->context = NULL;
        bw_pg_row_leave(store, row);
        bw_job_done(job, &record);
    }
}

static void refresh_row(struct bw_store *store, struct bw_pg_row *row)
{
    if (row->reading) {
        row->read_again = true;
        return;
    }
    struct bw_pg_task *task = bw_pg_task_new(NULL, row);
    if (!task)
        return; /* the timer retries, or the watch times out */
    row->reading = true;
    bw_pg_queue_add(store, task);
}

void bw_pg_row_refreshed(struct bw_store *store, struct bw_pg_row *row)
{
    bool read_again = row->read_again && row->watchers;
    row->reading = row->read_again = false;
    if (read_again)
        refresh_row(store, row);
}

void bw_pg_watch(struct bw_store *store, struct bw_job *job)
{
    struct bw_pg_row *row = bw_pg_row_get(store, job->request.election);
    if (!row) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for a watch");
        return;
    }
    bw_pg_row_use(row);
    job->context = row->watchers;
    row->watchers = job;
    refresh_row(store, row);
}

void bw_pg_unwatch(struct bw_store *store, struct bw_job *job)
{
    struct bw_pg_row *row = bw_pg_row_get(store, job->request.election);
    struct bw_job **at = row ? &row->watchers : NULL;
    while (at && *at && *at != job)
        at = (struct bw_job **)&(*at)->context;
    if (!at || !*at)
        return;
    *at = job->context;
    bw_pg_row_leave(store, row);
}

/* "VERSION ELECTION" */
void bw_pg_notified(struct bw_store *store, const char *payload)
{
    char *end;
    uint64_t version = strtoull(payload, &end, 10);
    if (end == payload || *end != ' ')
        return;
    struct bw_pg_row *row = bw_pg_row_find(store, end + 1);
    if (row && row->watchers && (row->reading || row->version != version))
        refresh_row(store, row);
}

void bw_pg_watch_fail(struct bw_store *store, const char *why)
{
    for (struct bw_pg_row *row = store->newest, *next; row; row = next) {
        next = row->older;
        while (row->watchers) {
            struct bw_job *job = row->watchers;
            row->watchers = job->context;
            job->context = NULL;
            row->users--;
            bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EIO, "%s", why);
        }
    }
}

/* ---- polling ---- */

static void on_poll(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    for (struct bw_pg_row *row = store->newest; row; row = row->older)
        if (row->watchers && !row->reading)
            refresh_row(store, row);
    bw_pg_batch_send(store);
    bw_pg_poll_start(store);
}

void bw_pg_poll_start(struct bw_store *store)
{
    bw_time span = store->polled ? store->settings.poll_ns : HEARTBEAT_NS;
    span = span / 2 + (bw_time)bw_rng_below(&store->rng, (uint64_t)span / 2 + 1);
    uv_timer_start(&store->poll, on_poll, (uint64_t)(span / BW_MS), 0);
}
