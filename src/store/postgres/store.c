/* The PostgreSQL store: a lease is a row.
 *
 * Model: one primary that keeps what it has committed. Only the row decides who may lead, by
 * statements that compare its version. No session state is involved, so a pooler, a broken
 * connection or a failover without data loss changes nothing. The server's clock is not used: a
 * candidate takes over after it has watched the holder's row unchanged for a whole TTL.
 *
 * Guarantees: tokens come from a sequence, in the statement that takes the leadership. That
 * statement is on the server's disk before the store answers.
 *
 * Not guaranteed: anything about writes lost in a failover to an asynchronous standby or by
 * restoring a backup. Guards that remember the highest token reject the resulting stale writes. */
#include "store/postgres/state.h"

#include "store/module.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TTL_MIN_NS   (100 * BW_MS)
#define LIMIT_MIN_NS BW_SEC /* so that a server under load does not count as dead */
#define LIMIT_MAX_NS (5 * BW_SEC)

/* ---- requests ---- */

static void forget(struct bw_job *job)
{
    struct bw_store *store = job->jobs->context;
    if (job->request.op == BW_STORE_WATCH) {
        bw_pg_unwatch(store, job);
        return;
    }
    struct bw_pg_task *task = job->context;
    if (!task)
        return;
    if (bw_pg_queue_remove(store, task))
        bw_pg_task_free(store, task);
    else
        task->job = NULL;
}

static void start(struct bw_store *store, struct bw_job *job)
{
    if (store->link.state == BW_PG_DOWN) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, bw_pg_link_error(store), "%s", store->link.why);
        return;
    }
    if (job->request.op == BW_STORE_WATCH) {
        bw_pg_watch(store, job);
    } else {
        struct bw_pg_row *row = bw_pg_row_get(store, job->request.election);
        struct bw_pg_task *task = row ? bw_pg_task_new(job, row) : NULL;
        if (!task) {
            bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for a request");
            return;
        }
        bw_pg_queue_add(store, task);
    }
    bw_pg_batch_send(store);
}

static int pg_request(struct bw_store *store, const struct bw_store_request *request)
{
    int error = bw_store_asks_names(request) ? 0 : bw_store_request_check(request, TTL_MIN_NS);
    if (error != 0)
        return error;
    if (request->op == BW_STORE_ACQUIRE || request->op == BW_STORE_RENEW)
        store->limit_ns =
            bw_time_max(LIMIT_MIN_NS, bw_time_min(store->limit_ns, request->ttl_ns / 2));
    if (request->op == BW_STORE_ENTER)
        bw_pg_enter(store, request);
    else if (request->op == BW_STORE_LEAVE)
        bw_pg_leave(store, request);
    struct bw_job *job = bw_jobs_add(&store->jobs, request);
    if (!job)
        return BW_ELIMIT;
    start(store, job);
    return 0;
}

static void pg_cancel(struct bw_store *store, uint64_t id)
{
    bw_jobs_cancel(&store->jobs, id);
}

/* ---- opening and closing ---- */

static void free_store(struct bw_store *store)
{
    for (unsigned i = 0; i < BW_PG_STATEMENTS; i++)
        free(store->text[i]);
    explicit_bzero(&store->settings, sizeof store->settings);
    free(store);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct bw_store *store = handle->data;
    if (--store->handles == 0)
        free_store(store);
}

static void on_jobs_closed(struct bw_jobs *jobs)
{
    struct bw_store *store = jobs->context;
    if (--store->handles == 0)
        free_store(store);
}

static void pg_close(struct bw_store *store)
{
    uv_timer_t *const timers[] = {&store->link.limit, &store->link.retry, &store->poll,
                                  &store->refresh};
    bw_jobs_close(&store->jobs, on_jobs_closed);
    bw_pg_link_close(store);
    bw_pg_batch_lost(store, "");
    bw_pg_queue_fail(store, "");
    bw_pg_entered_free(store);
    bw_pg_rows_free(store);
    store->handles = 1 + sizeof timers / sizeof timers[0];
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++)
        uv_close((uv_handle_t *)timers[i], on_handle_closed);
}

static bool make_texts(struct bw_store *store)
{
    for (unsigned i = 0; i < BW_PG_STATEMENTS; i++)
        if (!(store->text[i] = bw_pg_statement_text((enum bw_pg_statement)i, &store->settings)))
            return false;
    return true;
}

static void seed(struct bw_store *store)
{
    uint64_t words[2] = {0};
    if (getrandom(words, sizeof words, 0) != sizeof words)
        words[0] = uv_hrtime() ^ (uint64_t)(uintptr_t)store;
    bw_rng_init(&store->rng, words[0]);
    store->process = (int64_t)(words[1] >> 1);
}

static int pg_open(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                   const struct bw_store_options *options, char *why)
{
    struct bw_store *store = calloc(1, sizeof *store);
    if (!store)
        return bw_store_explain(why, BW_ENOMEM, "no memory for a store");
    int error = bw_pg_settings_read(&store->settings, url, why);
    if (error == 0 &&
        (!make_texts(store) || bw_jobs_open(&store->jobs, loop, options, forget, store) != 0))
        error = bw_store_explain(why, BW_ENOMEM, "no memory for a store");
    if (error != 0) {
        free_store(store);
        return error;
    }
    store->loop = loop;
    store->limit_ns = LIMIT_MAX_NS;
    store->urgent.end = &store->urgent.first;
    store->waiting.end = &store->waiting.first;
    seed(store);
    uv_timer_init(loop, &store->poll);
    uv_timer_init(loop, &store->refresh);
    store->poll.data = store->refresh.data = store;
    bw_pg_link_open(store);
    bw_pg_link_start(store);
    *out = store;
    return 0;
}

/* ---- for `bellwether store` ---- */

static bool pg_about(struct bw_store *store, char *about)
{
    memcpy(about, store->about, sizeof store->about);
    return about[0] != '\0';
}

static char *pg_schema(const char *url, char *why)
{
    struct bw_pg_settings settings;
    char *text = NULL;
    if (bw_pg_settings_read(&settings, url, why) == 0 && !(text = bw_pg_schema_text(&settings)))
        bw_store_explain(why, 0, "no memory");
    explicit_bzero(&settings, sizeof settings);
    return text;
}

static const struct bw_store_ops ops = {
    .scheme = "postgres",
    .traits = BW_STORE_TOKEN | BW_STORE_OBSERVED | BW_STORE_NOTIFIES | BW_STORE_LISTS |
              BW_STORE_NOTES | BW_STORE_WALL | BW_STORE_NAMES,
    .ttl_min_ns = TTL_MIN_NS,
    .ttl_unit_ns = 1,
    .summary = "as durable as the database: one primary decides; a failover to an asynchronous "
               "standby may lose the newest leaderships; candidates race",
    .open = pg_open,
    .request = pg_request,
    .cancel = pg_cancel,
    .close = pg_close,
    .about = pg_about,
    .schema = pg_schema,
};

/* Rejects an invalid URL before anything is opened. */
static const struct bw_store_ops *find(const char *url, char *why)
{
    struct bw_pg_settings settings;
    int error = bw_pg_settings_read(&settings, url, why);
    explicit_bzero(&settings, sizeof settings);
    return error == 0 ? &ops : NULL;
}

BW_STORE_MODULE(find);
