/* One request of the store from its start to its answer; see state.h.
 *
 * A write is an update of the Lease as last seen, with its resourceVersion and uid as
 * preconditions: one round trip where nothing has changed. On a conflict the Lease is read and
 * everything is decided anew. So whatever arrives late, twice, or after a deletion is refused by
 * the server itself. */
#include "store/kubernetes/state.h"

#include "store/kit/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRIES_MAX     6u /* of a write, each lost to somebody else's */
#define WITHIN_MIN_NS (500 * BW_MS)
#define WITHIN_MAX_NS (15 * BW_SEC)

static void on_read(void *context, const struct bw_http_answer *answer);
static void on_written(void *context, const struct bw_http_answer *answer);

void bw_kube_call_free(struct bw_kube_call *call)
{
    if (call->http)
        bw_http_cancel(call->store->api.http, call->http);
    if (call->previous) {
        *call->previous = call->next;
        if (call->next)
            call->next->previous = call->previous;
        call->store->watches--;
    }
    call->job->context = NULL;
    free(call);
}

static void done(struct bw_kube_call *call)
{
    call->store->api.answered = true;
    call->store->api.away = false;
    struct bw_store_record record = bw_kube_show(call->entry);
    struct bw_job *job = call->job;
    bw_kube_call_free(call);
    bw_job_done(job, &record);
}

static void refuse(struct bw_kube_call *call, int error, const char *why)
{
    struct bw_store_record record = bw_kube_show(call->entry);
    struct bw_job *job = call->job;
    bw_kube_call_free(call);
    bw_job_refuse(job, &record, error, "%s", why);
}

static void fail(struct bw_kube_call *call, enum bw_outcome outcome, int error, const char *why)
{
    struct bw_job *job = call->job;
    bw_kube_call_free(call);
    bw_job_fail(job, outcome, error, "%s", why);
}

static void fail_by(struct bw_kube_call *call, const struct bw_http_answer *answer, bool wrote)
{
    struct bw_kube_verdict verdict;
    bw_kube_judge(&call->store->api, answer, wrote, &verdict);
    fail(call, verdict.outcome, verdict.error, verdict.why);
}

/* Nobody waits longer than a part of its TTL; who asks only once has its own patience. */
static bw_time within(const struct bw_kube_call *call)
{
    bw_time ttl = call->job->request.ttl_ns;
    if (ttl <= 0)
        return WITHIN_MAX_NS;
    return bw_time_min(bw_time_max(ttl / 2, WITHIN_MIN_NS), WITHIN_MAX_NS);
}

/* What a holder asks goes ahead of what others ask, and a request that has begun ahead of new ones,
 * unless it is a watch, which begins again and again. */
static bool is_urgent(struct bw_kube_call *call)
{
    enum bw_store_op op = call->job->request.op;
    bool begun = call->begun && op != BW_STORE_WATCH;
    call->begun = true;
    return begun || op == BW_STORE_RENEW || op == BW_STORE_RELEASE;
}

static void ask_server(struct bw_kube_call *call, struct bw_kube_ask *ask)
{
    char why[BW_WHY_MAX + 1] = "";
    ask->within_ns = within(call);
    ask->urgent = is_urgent(call);
    ask->context = call;
    call->http = bw_kube_api_send(&call->store->api, ask, why);
    if (!call->http)
        fail(call, BW_OUTCOME_UNAVAILABLE, BW_EIO, why);
}

/* ---- reading ---- */

void bw_kube_read(struct bw_kube_call *call)
{
    char query[BW_KUBE_NAME_MAX + 40];
    snprintf(query, sizeof query, "fieldSelector=metadata.name%%3D%s", call->entry->name);
    call->floor = call->entry->known;
    struct bw_kube_ask ask = {.method = "GET", .query = query, .answer = on_read};
    ask_server(call, &ask);
}

/* ---- writing ---- */

static int64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static enum bw_kube_change change_of(enum bw_store_op op)
{
    return op == BW_STORE_ACQUIRE   ? BW_KUBE_TAKE
           : op == BW_STORE_RENEW   ? BW_KUBE_RENEW
           : op == BW_STORE_RELEASE ? BW_KUBE_RELEASE
                                    : BW_KUBE_NOTE;
}

static void change_record(struct bw_store_record *record, const struct bw_store_request *request)
{
    switch (request->op) {
    case BW_STORE_ACQUIRE:
        bw_record_take(record, request);
        record->token = 0; /* not known before it is written */
        break;
    case BW_STORE_RENEW:
        bw_record_renew(record, request);
        break;
    case BW_STORE_RELEASE:
        bw_record_release(record, request->clean);
        break;
    default:
        bw_record_note(record, &request->note);
    }
}

static void write_lease(struct bw_kube_call *call)
{
    const struct bw_store_request *request = &call->job->request;
    struct bw_kube_entry *entry = call->entry;
    struct bw_store_record record = entry->record;
    char identity[BW_KUBE_IDENTITY_MAX + 1] = "";
    change_record(&record, request);
    if (request->candidate)
        bw_kube_identity(call->store, identity, request->candidate);
    struct bw_kube_draft draft = {.change = change_of(request->op),
                                  .before = entry->lease,
                                  .space = call->store->api.space,
                                  .name = entry->name,
                                  .election = entry->election,
                                  .identity = identity,
                                  .record = &record,
                                  .now_us = wall_us(),
                                  .renewed_long_ago =
                                      bw_kube_now_ms() - entry->lead_renewed_ms > 1000};
    json_t *lease = bw_kube_lease_make(&draft);
    if (!lease) {
        fail(call, BW_OUTCOME_UNAVAILABLE, BW_EINVAL, "no memory, or a text that is not UTF-8");
        return;
    }
    call->creates = !entry->lease;
    call->tries++;
    struct bw_kube_ask ask = {.method = call->creates ? "POST" : "PUT",
                              .name = call->creates ? NULL : entry->name,
                              .body = lease,
                              .answer = on_written};
    ask_server(call, &ask);
    json_decref(lease);
}

/* ---- deciding ---- */

static void decide_acquire(struct bw_kube_call *call)
{
    const struct bw_store_request *request = &call->job->request;
    const struct bw_kube_entry *entry = call->entry;
    bool ours = entry->lead_token != 0 && bw_record_is_answer(&entry->record, request);
    if (ours)
        done(call);
    else if (bw_record_may_take(&entry->record, request))
        write_lease(call);
    else if (entry->gone)
        refuse(call, BW_EBUSY, "its Lease was deleted; its holder may still work");
    else
        refuse(call, BW_EBUSY, "somebody else holds it");
}

static void decide_write(struct bw_kube_call *call)
{
    struct bw_kube_entry *entry = call->entry;
    enum bw_store_op op = call->job->request.op;
    if (op == BW_STORE_ACQUIRE)
        decide_acquire(call);
    else if (op == BW_STORE_NOTE && entry->lease)
        write_lease(call);
    else if (op == BW_STORE_NOTE)
        refuse(call, BW_EINVAL, "there is no such Lease: nobody reads notes of it");
    else if (bw_kube_leads(call->store, entry, &call->job->request))
        write_lease(call);
    else
        refuse(call, BW_ENOTLEADER,
               entry->gone ? "the Lease was deleted" : "it is not ours (any more)");
}

/* `version` of the whole: what the read has seen everything up to. */
static void decide(struct bw_kube_call *call, uint64_t version)
{
    const struct bw_store_request *request = &call->job->request;
    if (request->op == BW_STORE_READ ||
        (request->op == BW_STORE_WATCH && request->version != call->entry->record.version))
        done(call);
    else if (request->op == BW_STORE_WATCH)
        bw_kube_wait(call, version);
    else if (call->tries < TRIES_MAX)
        decide_write(call);
    else
        fail(call, BW_OUTCOME_UNAVAILABLE, BW_EBUSY, "others change the Lease all the time");
}

/* ---- answers ---- */

/* The one item of a list, NULL if it is empty. False: it is no such list. */
static bool item_of(const json_t *list, const struct bw_kube_entry *entry, json_t **item)
{
    const json_t *items = json_object_get(list, "items");
    *item = json_array_get(items, 0);
    if (json_is_null(items)) /* Go's way to write an empty one */
        return true;
    return json_is_array(items) && json_array_size(items) <= 1 &&
           (!*item || strcmp(bw_kube_lease_name(*item), entry->name) == 0);
}

static void refuse_versions(struct bw_kube_call *call, enum bw_outcome outcome)
{
    fail(call, outcome, BW_EUNSUPPORTED,
         "the API server's resourceVersions are no numbers: there can be no fencing token");
}

static void on_list(struct bw_kube_call *call, const struct bw_http_answer *answer,
                    uint64_t version, json_t *item)
{
    if (version < call->floor) /* lost state, or a backup was put back */
        bw_kube_rewind(call->store, call->entry, version);
    if (version == 0)
        refuse_versions(call, BW_OUTCOME_UNAVAILABLE);
    else if (bw_kube_learn(call->store, call->entry, item, version, BW_KUBE_ASKED) != 0)
        fail_by(call, answer, false);
    else
        decide(call, version);
}

static void on_read(void *context, const struct bw_http_answer *answer)
{
    struct bw_kube_call *call = context;
    json_t *list = NULL, *item = NULL;
    call->http = NULL;
    if (answer->status == 200)
        list = json_loadb(answer->body, answer->length, JSON_REJECT_DUPLICATES, NULL);
    if (!list || !item_of(list, call->entry, &item))
        fail_by(call, answer, false);
    else
        on_list(call, answer, bw_kube_version(list), item);
    json_decref(list);
}

/* The write was done; but the stream may have told by now that it is over again. */
static void told_of_write(struct bw_kube_call *call)
{
    const struct bw_store_request *request = &call->job->request;
    const struct bw_kube_entry *entry = call->entry;
    bool acquired = entry->lead_token != 0 && bw_record_is_answer(&entry->record, request);
    if ((request->op == BW_STORE_ACQUIRE && !acquired) ||
        (request->op == BW_STORE_RENEW && !bw_kube_leads(call->store, entry, request)))
        refuse(call, BW_ENOTLEADER, "it was taken meanwhile");
    else
        done(call);
}

/* A Lease as we wrote it. */
static void on_new_lease(struct bw_kube_call *call, const struct bw_http_answer *answer)
{
    struct bw_kube_entry *entry = call->entry;
    json_t *lease = json_loadb(answer->body, answer->length, JSON_REJECT_DUPLICATES, NULL);
    bool whole = lease && strcmp(bw_kube_lease_name(lease), entry->name) == 0;
    if (whole && bw_kube_version(lease) == 0) {
        refuse_versions(call, BW_OUTCOME_UNKNOWN);
    } else if (!whole || bw_kube_learn(call->store, entry, lease, bw_kube_version(lease),
                                       BW_KUBE_ASKED) != 0) {
        fail_by(call, answer, true);
    } else {
        entry->lead_renewed_ms = bw_kube_now_ms();
        told_of_write(call);
    }
    json_decref(lease);
}

static void on_written(void *context, const struct bw_http_answer *answer)
{
    struct bw_kube_call *call = context;
    int status = answer->status;
    call->http = NULL;
    if (status == (call->creates ? 201 : 200))
        on_new_lease(call, answer);
    else if (status == 409 || (status == 404 && !call->creates))
        bw_kube_read(call); /* somebody was quicker: look again */
    else
        fail_by(call, answer, true);
}

/* ---- the start ---- */

/* Whoever holds a lease or gives one back may ask a server that wants to be left alone. */
static bool must_keep_quiet(const struct bw_kube_call *call)
{
    enum bw_store_op op = call->job->request.op;
    return op != BW_STORE_RENEW && op != BW_STORE_RELEASE &&
           bw_kube_api_is_quiet(&call->store->api);
}

/* Can a write be tried on what is known, without a look? Only if what is known would allow it. */
static bool may_try(const struct bw_kube_call *call)
{
    const struct bw_store_request *request = &call->job->request;
    const struct bw_kube_entry *entry = call->entry;
    if (!entry->lease && !entry->gone)
        return false;
    if (request->op == BW_STORE_ACQUIRE)
        return bw_record_may_take(&entry->record, request);
    if (request->op == BW_STORE_NOTE)
        return entry->lease && bw_kube_is_synced(call->store, entry);
    return (request->op == BW_STORE_RENEW || request->op == BW_STORE_RELEASE) &&
           bw_kube_leads(call->store, entry, request);
}

void bw_kube_start(struct bw_kube_call *call)
{
    const struct bw_store_request *request = &call->job->request;
    bool knows = request->op == BW_STORE_WATCH && bw_kube_is_synced(call->store, call->entry);
    if (knows)
        decide(call, call->store->stream.since);
    else if (must_keep_quiet(call))
        fail(call, BW_OUTCOME_UNAVAILABLE, BW_EBUSY,
             "the API server asked to be left alone a while");
    else if (may_try(call))
        decide_write(call);
    else
        bw_kube_read(call);
}
