/* The Azure Blob lease store, as in the Leader Election sample of the Azure Architecture Center:
 * the client that has the blob's lease leads, whatever program it is.
 *
 * Model: Azure's clock expires a lease 15 to 60 s after it was acquired or renewed. Answers may be
 * late or lost; connections break. Azure cannot notify, so waiting candidates poll. Bellwether
 * never breaks another client's lease: `resign` and `transfer` send a note.
 *
 * Guarantees: one holder per blob, by Azure's leases; a token that grows with every leadership,
 * written under the lease's id before the leadership is announced.
 *
 * Not guaranteed: that the holder's name is known if it is a foreign client. See read.c for the
 * layout, ops.c for the order of calls. */
#include "store/azure/state.h"

#include "net/seed.h"
#include "store/module.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TTL_MIN      (15 * BW_SEC)
#define TTL_MAX      (60 * BW_SEC)
#define WITHIN_MS    10000u /* timeout of a request without a TTL */
#define POLL_EACH_MS 250u

struct bw_store *bw_azure_store(const struct azure_work *work)
{
    return work->job->jobs->context;
}

/* ---- answers ---- */

/* Detaches the job from its work, ready to be answered. */
static struct bw_job *take_job(struct azure_work *work)
{
    struct bw_job *job = work->job;
    job->context = NULL;
    bw_azure_free(work);
    return job;
}

void bw_azure_done(struct azure_work *work)
{
    bw_azure_show(work);
    struct bw_store_record record = work->shown;
    bw_job_done(take_job(work), &record);
}

void bw_azure_list(struct azure_work *work)
{
    bw_job_list(take_job(work), NULL, 0);
}

void bw_azure_answer_names(struct azure_work *work)
{
    struct bw_names names = work->names;
    work->names = (struct bw_names){.rows = NULL};
    bw_names_answer(&names, take_job(work));
    bw_names_free(&names);
}

void bw_azure_refuse(struct azure_work *work, int error, const char *why)
{
    struct bw_store_record record = work->shown;
    bw_job_refuse(take_job(work), &record, error, "%s", why);
}

void bw_azure_fail_with(struct azure_work *work, enum bw_outcome outcome, int error,
                        const char *format, ...)
{
    char why[BW_WHY_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    bw_job_fail(take_job(work), outcome, error, "%s", why);
}

void bw_azure_fail(struct azure_work *work, const struct bw_http_answer *answer, bool writes)
{
    bool may_have_happened =
        work->written || (writes && (answer->status ? answer->status >= 500 : answer->sent));
    enum bw_outcome outcome = may_have_happened ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE;
    const char *code = bw_azure_code(answer);
    int status = answer->status;
    if (status == 401)
        bw_azure_identity_refused(&bw_azure_store(work)->identity);
    if (status == 0)
        bw_azure_fail_with(work, outcome, answer->error, "Azure: %.200s", answer->why);
    else if (status == 401 || status == 403)
        bw_azure_fail_with(work, outcome, BW_EDENIED, "Azure denied access: HTTP %d %.150s", status,
                           code);
    else
        bw_azure_fail_with(work, outcome, BW_EIO, "Azure returned HTTP %d %.150s", status, code);
}

/* ---- requests ---- */

static uint64_t now_ms(const struct bw_store *store)
{
    uv_update_time(store->poll.loop);
    return uv_now(store->poll.loop);
}

/* Renewals and releases go before other requests. */
static bool is_holder_op(enum bw_store_op op)
{
    return op == BW_STORE_RENEW || op == BW_STORE_RELEASE;
}

/* The next step of a job goes before new jobs, so that the record follows its lease without delay.
 */
bool bw_azure_ask(struct azure_work *work, struct azure_call *call,
                  void (*answer)(void *context, const struct bw_http_answer *answer))
{
    struct bw_store *store = bw_azure_store(work);
    uint64_t now = now_ms(store);
    enum bw_outcome outcome = work->written ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE;
    if (now >= work->until_ms) {
        bw_azure_fail_with(work, outcome, BW_ETIMEDOUT, "Azure did not reply in time");
        return false;
    }
    call->within_ns = (bw_time)(work->until_ms - now) * BW_MS;
    call->answer = answer;
    call->context = work;
    call->urgent = work->begun || is_holder_op(work->job->request.op);
    work->begun = true;
    work->call = bw_azure_send(&store->rest, call);
    if (work->call)
        return true;
    const struct azure_identity *identity = &store->identity;
    bool waits = store->settings.identity && !bw_azure_identity_token(identity);
    bw_azure_fail_with(work, outcome, waits ? BW_EIO : BW_ELIMIT, "%s",
                       waits ? identity->why : "too many requests in progress");
    return false;
}

/* Returns false if the URL names one blob and it serves another election. */
static bool name_blob(struct bw_store *store, struct azure_work *work, const char *election)
{
    const char *fixed = store->settings.blob;
    if (fixed[0] && !store->bound[0])
        snprintf(store->bound, sizeof store->bound, "%s", election);
    if (fixed[0])
        snprintf(work->blob, sizeof work->blob, "%s", fixed);
    else
        bw_azure_blob_name(election, work->blob);
    snprintf(work->note_blob, sizeof work->note_blob, "%s%%note", work->blob);
    return !fixed[0] || strcmp(store->bound, election) == 0;
}

void bw_azure_set_time(struct azure_work *work, bw_time within_ns)
{
    uint64_t ms = within_ns > 0 ? (uint64_t)(within_ns / BW_MS) : WITHIN_MS;
    work->until_ms = now_ms(bw_azure_store(work)) + ms;
}

static int ask(struct bw_store *store, const struct bw_store_request *request)
{
    bool lasts = request->op == BW_STORE_ACQUIRE || request->op == BW_STORE_RENEW;
    bool names = bw_store_asks_names(request);
    if ((!names && bw_store_request_check(request, TTL_MIN) != 0) ||
        (lasts && request->ttl_ns > TTL_MAX))
        return BW_EINVAL;
    struct azure_work *work = calloc(1, sizeof *work);
    struct bw_job *job = work ? bw_jobs_add(&store->jobs, request) : NULL;
    if (!job) {
        free(work);
        return BW_ELIMIT;
    }
    job->context = work;
    work->job = job;
    bw_azure_set_time(work, request->op == BW_STORE_ACQUIRE ? TTL_MAX : request->ttl_ns);
    if (names || name_blob(store, work, request->election))
        bw_azure_start(work);
    else
        bw_azure_fail_with(
            work, BW_OUTCOME_UNAVAILABLE, BW_EINVAL,
            "the store URL names one blob, which serves election '%s': omit the blob "
            "for several elections",
            store->bound);
    return 0;
}

static void forget(struct bw_job *job)
{
    if (job->context)
        bw_azure_free(job->context);
}

static void cancel(struct bw_store *store, uint64_t id)
{
    bw_jobs_cancel(&store->jobs, id);
}

static void on_poll(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    uint64_t now = uv_now(timer->loop);
    for (struct bw_job *job = store->jobs.first, *next; job; job = next) {
        struct azure_work *work = job->context;
        next = job->next;
        if (work && work->poll_at_ms && work->poll_at_ms <= now) {
            bw_azure_set_time(work, 0);
            bw_azure_poll(work);
        }
    }
}

/* ---- open and close ---- */

static void count_closed(struct bw_store *store)
{
    if (--store->handles == 0) {
        explicit_bzero(store, sizeof *store);
        free(store);
    }
}

static void on_jobs_closed(struct bw_jobs *jobs)
{
    count_closed(jobs->context);
}

static void on_http_closed(void *context)
{
    count_closed(context);
}

static void on_poll_closed(uv_handle_t *handle)
{
    count_closed(handle->data);
}

static void close_store(struct bw_store *store)
{
    store->closed = true;
    store->handles = 3;
    bw_jobs_close(&store->jobs, on_jobs_closed);
    bw_azure_identity_close(&store->identity);
    bw_http_close(store->rest.http, on_http_closed, store);
    uv_close((uv_handle_t *)&store->poll, on_poll_closed);
}

static int open_parts(struct bw_store *store, uv_loop_t *loop,
                      const struct bw_store_options *options, char *why)
{
    struct bw_http_options http = {.ca_file =
                                       store->settings.ca_file[0] ? store->settings.ca_file : NULL};
    if (bw_jobs_open(&store->jobs, loop, options, forget, store) != 0) {
        explicit_bzero(store, sizeof *store);
        free(store);
        return bw_store_explain(why, BW_ENOMEM, "no memory left");
    }
    if (bw_http_open(&store->rest.http, loop, &http, why) != 0) {
        store->handles = 1;
        bw_jobs_close(&store->jobs, on_jobs_closed);
        return BW_ENOMEM;
    }
    bw_net_seed(&store->rng);
    uv_timer_init(loop, &store->poll);
    store->poll.data = store;
    uv_timer_start(&store->poll, on_poll, POLL_EACH_MS, POLL_EACH_MS);
    store->rest.settings = &store->settings;
    store->rest.identity = &store->identity;
    if (store->settings.identity && bw_azure_identity_open(&store->identity, loop, store->rest.http,
                                                           store->settings.identity_url) != 0) {
        close_store(store);
        return bw_store_explain(why, BW_ENOMEM, "no memory left");
    }
    return 0;
}

static int open_store(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                      const struct bw_store_options *options, char *why)
{
    struct bw_store *store = calloc(1, sizeof *store);
    if (!store)
        return bw_store_explain(why, BW_ENOMEM, "no memory left");
    int error = bw_azure_settings(&store->settings, url, why);
    if (error == 0 && getrandom(store->nonce, sizeof store->nonce, 0) != sizeof store->nonce)
        error = bw_store_explain(why, BW_EIO, "cannot read random numbers from the kernel");
    if (error != 0) {
        explicit_bzero(store, sizeof *store);
        free(store);
        return error;
    }
    error = open_parts(store, loop, options, why);
    if (error == 0)
        *out = store;
    return error;
}

static bool about(struct bw_store *store, char *text)
{
    snprintf(text, BW_WHY_MAX + 1, "%s", store->server);
    return store->server[0] != '\0';
}

static const struct bw_store_ops ops = {
    .scheme = "azure",
    .traits = BW_STORE_TOKEN | BW_STORE_NOTES | BW_STORE_NAMES,
    .ttl_min_ns = TTL_MIN,
    .ttl_unit_ns = BW_SEC,
    .ttl_max_ns = TTL_MAX,
    .summary = "one holder per blob by Azure's lease of 15 to 60 s; cannot notify, so waiting "
               "candidates poll",
    .clock = "Azure's",
    .about = about,
    .open = open_store,
    .request = ask,
    .cancel = cancel,
    .close = close_store};

static const struct bw_store_ops *find(const char *url, char *why)
{
    struct azure_settings settings;
    int error = bw_azure_settings(&settings, url, why);
    explicit_bzero(&settings, sizeof settings);
    return error == 0 ? &ops : NULL;
}

BW_STORE_MODULE(find);
