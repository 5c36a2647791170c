/* The DynamoDB store, in the layout of AWS's lock client (amazon-dynamodb-lock-client). Bellwether
 * candidates and lock clients contend for the same item and exclude each other.
 *
 * Model: conditional writes and consistent reads of single items. No clock of the server is used. A
 * holder changes the item's version with every renewal. A candidate that sees it unchanged for a
 * whole TTL on its own clock may take the item by comparing that version. Answers may be late or
 * lost. DynamoDB cannot notify here, so waiting candidates poll.
 *
 * Guarantees: one holder at a time, within the limits of leases; a token that only grows while the
 * counter's item exists. See item.h for the layout, ops.c for the order of calls. */
#include "store/dynamodb/state.h"

#include "net/seed.h"
#include "store/module.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TTL_MIN      BW_SEC
#define WITHIN_MS    30000u /* for any request; the caller has its own timeout and cancels */
#define POLL_EACH_MS 250u
#define UNDO_NS      (5 * BW_SEC)

struct bw_store *bw_dynamodb_store(const struct dynamodb_work *work)
{
    return work->job->jobs->context;
}

/* ---- answers ---- */

/* Detaches the job from its work, ready to be answered. */
static struct bw_job *take_job(struct dynamodb_work *work)
{
    struct bw_job *job = work->job;
    job->context = NULL;
    bw_dynamodb_free(work);
    return job;
}

void bw_dynamodb_done(struct dynamodb_work *work)
{
    bw_dynamodb_show(&work->seen);
    struct bw_store_record record = work->seen.shown;
    bw_job_done(take_job(work), &record);
}

void bw_dynamodb_list(struct dynamodb_work *work)
{
    bw_job_list(take_job(work), NULL, 0);
}

void bw_dynamodb_answer_names(struct dynamodb_work *work)
{
    struct bw_names names = work->names;
    work->names = (struct bw_names){.rows = NULL};
    bw_names_answer(&names, take_job(work));
    bw_names_free(&names);
}

void bw_dynamodb_refuse(struct dynamodb_work *work, int error, const char *why)
{
    struct bw_store_record record = work->seen.shown;
    bw_job_refuse(take_job(work), &record, error, "%s", why);
}

void bw_dynamodb_fail_with(struct dynamodb_work *work, enum bw_outcome outcome, int error,
                           const char *format, ...)
{
    char why[BW_WHY_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    bw_job_fail(take_job(work), outcome, error, "%s", why);
}

enum dynamodb_end bw_dynamodb_end(const struct bw_http_answer *answer)
{
    char type[DYNAMODB_TYPE_MAX + 1];
    if (answer->status == 200)
        return DYNAMODB_GOOD;
    bw_dynamodb_type(answer->body, answer->length, type, sizeof type);
    return answer->status == 400 && strcmp(type, "ConditionalCheckFailedException") == 0
               ? DYNAMODB_CONDITION
               : DYNAMODB_BAD;
}

static bool is_denied(const char *type)
{
    static const char *const types[] = {"AccessDeniedException", "UnrecognizedClientException",
                                        "InvalidSignatureException", "ExpiredTokenException",
                                        "MissingAuthenticationTokenException"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

/* The table does not exist. If the URL allows it, the store creates the table, and a later attempt
 * finds it. */
static void no_table(struct dynamodb_work *work, enum bw_outcome outcome)
{
    struct bw_store *store = bw_dynamodb_store(work);
    if (store->settings.create)
        bw_dynamodb_send(store, "CreateTable", bw_dynamodb_create(store->settings.table));
    bw_dynamodb_fail_with(
        work, outcome, BW_EIO,
        store->settings.create
            ? "table %.120s is being created"
            : "table %.120s does not exist: see `bellwether store init --print`, or add "
              "?create=yes",
        store->settings.table);
}

void bw_dynamodb_fail(struct dynamodb_work *work, const struct bw_http_answer *answer, bool writes)
{
    char type[DYNAMODB_TYPE_MAX + 1];
    int status = answer->status;
    bool may_have_happened = work->written || (writes && (status ? status >= 500 : answer->sent));
    enum bw_outcome outcome = may_have_happened ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE;
    bw_dynamodb_type(answer->body, answer->length, type, sizeof type);
    if (status == 0)
        bw_dynamodb_fail_with(work, outcome, answer->error, "DynamoDB: %.200s", answer->why);
    else if (status == 400 && strcmp(type, "ResourceNotFoundException") == 0)
        no_table(work, outcome);
    else if (status == 403 || is_denied(type))
        bw_dynamodb_fail_with(work, outcome, BW_EDENIED, "DynamoDB denied access: HTTP %d %.120s",
                              status, type);
    else
        bw_dynamodb_fail_with(work, outcome, BW_EIO, "DynamoDB returned HTTP %d %.120s", status,
                              type);
}

/* ---- requests ---- */

static uint64_t now_ms(const struct bw_store *store)
{
    uv_update_time(store->poll.loop);
    return uv_now(store->poll.loop);
}

static struct bw_http_request *post(struct bw_store *store, const char *action, const char *body,
                                    struct bw_http_ask *ask)
{
    char target[80], token[DYNAMODB_TOKEN_MAX + 32];
    const struct dynamodb_keys *keys = &store->settings.keys;
    const char *headers[] = {target, "Content-Type: application/x-amz-json-1.0",
                             keys->token[0] ? token : NULL, NULL};
    if (!keys->user[0])
        return NULL;
    snprintf(target, sizeof target, "X-Amz-Target: DynamoDB_20120810.%s", action);
    snprintf(token, sizeof token, "X-Amz-Security-Token: %s", keys->token);
    ask->method = "POST";
    ask->url = store->settings.endpoint;
    ask->headers = headers;
    ask->body = body;
    ask->length = strlen(body);
    ask->sigv4 = store->settings.signing;
    ask->user = keys->user;
    return bw_http_send(store->http, ask);
}

/* Renewals and releases go before other requests. The next step of a job goes before new jobs, so
 * that the token follows its lock without delay. */
static bool is_holder_op(enum bw_store_op op)
{
    return op == BW_STORE_RENEW || op == BW_STORE_RELEASE;
}

bool bw_dynamodb_ask(struct dynamodb_work *work, const char *action, char *body,
                     void (*answer)(void *context, const struct bw_http_answer *answer))
{
    struct bw_store *store = bw_dynamodb_store(work);
    uint64_t now = now_ms(store);
    enum bw_outcome outcome = work->written ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE;
    struct bw_http_ask ask = {.answer = answer,
                              .context = work,
                              .urgent = work->begun || is_holder_op(work->job->request.op)};
    work->begun = true;
    bool late = now >= work->until_ms, sent = false;
    if (body && !late) {
        ask.within_ns = (bw_time)(work->until_ms - now) * BW_MS;
        work->call = post(store, action, body, &ask);
        sent = work->call != NULL;
    }
    free(body);
    if (sent)
        return true;
    bool keyless = !store->settings.keys.user[0];
    bw_dynamodb_fail_with(work, outcome, keyless ? BW_EIO : BW_ELIMIT, "%s",
                          late      ? "DynamoDB did not reply in time"
                          : keyless ? store->asker.why
                                    : "too many requests in progress, or the request is too long");
    return false;
}

void bw_dynamodb_send(struct bw_store *store, const char *action, char *body)
{
    struct bw_http_ask ask = {.within_ns = UNDO_NS};
    if (body)
        post(store, action, body, &ask);
    free(body);
}

void bw_dynamodb_set_time(struct dynamodb_work *work, bw_time within_ns)
{
    uint64_t ms = within_ns > 0 ? (uint64_t)(within_ns / BW_MS) : WITHIN_MS;
    work->until_ms = now_ms(bw_dynamodb_store(work)) + ms;
}

static int ask_store(struct bw_store *store, const struct bw_store_request *request)
{
    if (!bw_store_asks_names(request) && bw_store_request_check(request, TTL_MIN) != 0)
        return BW_EINVAL;
    struct dynamodb_work *work = calloc(1, sizeof *work);
    struct bw_job *job = work ? bw_jobs_add(&store->jobs, request) : NULL;
    if (!job) {
        free(work);
        return BW_ELIMIT;
    }
    job->context = work;
    work->job = job;
    bw_dynamodb_set_time(work, 0);
    bw_dynamodb_start(work);
    return 0;
}

static void forget(struct bw_job *job)
{
    if (job->context)
        bw_dynamodb_free(job->context);
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
        struct dynamodb_work *work = job->context;
        next = job->next;
        if (work && work->poll_at_ms && work->poll_at_ms <= now) {
            bw_dynamodb_set_time(work, 0);
            bw_dynamodb_poll(work);
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
    bw_dynamodb_asker_close(&store->asker);
    bw_http_close(store->http, on_http_closed, store);
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
    if (bw_http_open(&store->http, loop, &http, why) != 0) {
        store->handles = 1;
        bw_jobs_close(&store->jobs, on_jobs_closed);
        return BW_ENOMEM;
    }
    bw_net_seed(&store->rng);
    uv_timer_init(loop, &store->poll);
    store->poll.data = store;
    uv_timer_start(&store->poll, on_poll, POLL_EACH_MS, POLL_EACH_MS);
    if (bw_dynamodb_asker_open(&store->asker, loop, store->http, &store->settings) != 0) {
        close_store(store);
        return bw_store_explain(why, BW_ENOMEM, "no memory left");
    }
    return 0;
}

static int open_store(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                      const struct bw_store_options *options, char *why)
{
    uint64_t nonce[2];
    struct bw_store *store = calloc(1, sizeof *store);
    if (!store)
        return bw_store_explain(why, BW_ENOMEM, "no memory left");
    int error = bw_dynamodb_settings(&store->settings, url, why);
    if (error == 0 && getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
        error = bw_store_explain(why, BW_EIO, "cannot read random numbers from the kernel");
    if (error != 0) {
        explicit_bzero(store, sizeof *store);
        free(store);
        return error;
    }
    snprintf(store->session, sizeof store->session, "%016llx%016llx", (unsigned long long)nonce[0],
             (unsigned long long)nonce[1]);
    error = open_parts(store, loop, options, why);
    if (error == 0)
        *out = store;
    return error;
}

/* For users who create the table themselves. */
static char *schema(const char *url, char *why)
{
    struct dynamodb_settings settings;
    char *text = NULL;
    if (bw_dynamodb_settings(&settings, url, why) == 0 &&
        asprintf(&text,
                 "aws dynamodb create-table --region %s --table-name %s \\\n"
                 "    --attribute-definitions AttributeName=key,AttributeType=S \\\n"
                 "    --key-schema AttributeName=key,KeyType=HASH --billing-mode "
                 "PAY_PER_REQUEST\n",
                 settings.region, settings.table) < 0) {
        text = NULL;
        bw_store_explain(why, BW_ENOMEM, "no memory left");
    }
    explicit_bzero(&settings, sizeof settings);
    return text;
}

static const struct bw_store_ops ops = {
    .scheme = "dynamodb",
    .traits = BW_STORE_TOKEN | BW_STORE_OBSERVED | BW_STORE_NOTES | BW_STORE_NAMES,
    .ttl_min_ns = TTL_MIN,
    .ttl_unit_ns = BW_MS,
    .summary = "one holder per item by conditional writes; waiting candidates poll, and take over "
               "an item unchanged for a TTL",
    .open = open_store,
    .request = ask_store,
    .cancel = cancel,
    .close = close_store,
    .schema = schema};

static const struct bw_store_ops *find(const char *url, char *why)
{
    struct dynamodb_settings settings;
    int error = bw_dynamodb_settings(&settings, url, why);
    explicit_bzero(&settings, sizeof settings);
    return error == 0 ? &ops : NULL;
}

BW_STORE_MODULE(find);
