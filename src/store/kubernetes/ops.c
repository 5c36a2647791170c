/* One request of the store, from start to answer; see state.h.
 *
 * A write updates the Lease as last seen, with its resourceVersion and uid as preconditions. This
 * takes one round trip if nothing has changed. On a conflict the store reads the Lease and decides
 * again. So the server itself rejects a write that arrives late, twice, or after a deletion. */
#include "store/kubernetes/state.h"

#include "os/clock.h"
#include "store/kit/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX     6u /* attempts of a write that conflicts with writes of other clients */
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
    free(call->names);
    free(call);
}

static void done(struct bw_kube_call *call)
{
    call->store->api.answered = true;
    call->store->api.unreachable = false;
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

static void fail_with_answer(struct bw_kube_call *call, const struct bw_http_answer *answer,
                             bool wrote)
{
    struct bw_kube_verdict verdict;
    bw_kube_judge(&call->store->api, answer, wrote, &verdict);
    fail(call, verdict.outcome, verdict.error, verdict.why);
}

/* Timeout of a request: half of its TTL, within limits. A request without TTL gets the maximum; its
 * caller has its own timeout. */
static bw_time within(const struct bw_kube_call *call)
{
    bw_time ttl = call->job->request.ttl_ns;
    if (ttl <= 0)
        return WITHIN_MAX_NS;
    return bw_time_min(bw_time_max(ttl / 2, WITHIN_MIN_NS), WITHIN_MAX_NS);
}

/* True if the call goes before others in the HTTP queue: renewals, releases, and later steps of a
 * request. A watch is never urgent, because it sends many calls. */
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
    call->by_name = call->by_name || call->store->no_list;
    struct bw_kube_ask ask = {.method = "GET",
                              .name = call->by_name ? call->entry->name : NULL,
                              .query = call->by_name ? NULL : query,
                              .answer = on_read};
    ask_server(call, &ask);
}

/* ---- writing ---- */

static int64_t wall_us(void)
{
    return bw_clock_wall() / BW_US;
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
        bw_record_acquire(record, request);
        record->token = 0; /* not known before it is written */
        break;
    case BW_STORE_RENEW:
        bw_record_renew(record, request);
        break;
    case BW_STORE_RELEASE:
        bw_record_release(record, request);
        break;
    default:
        bw_record_put_note(record, &request->note);
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
                                  .namespace = call->store->api.namespace,
                                  .name = entry->name,
                                  .election = entry->election,
                                  .identity = identity,
                                  .record = &record,
                                  .now_us = wall_us(),
                                  .renewed_long_ago =
                                      bw_kube_now_ms() - entry->lead_renewed_ms > 1000};
    json_t *lease = bw_kube_lease_make(&draft);
    if (!lease) {
        fail(call, BW_OUTCOME_UNAVAILABLE, BW_EINVAL,
             "out of memory, or a text is not valid UTF-8");
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
    bool ours = entry->lead_token != 0 && bw_record_is_result_of(&entry->record, request);
    if (ours)
        done(call);
    else if (bw_record_may_acquire(&entry->record, request))
        write_lease(call);
    else if (entry->gone)
        refuse(call, BW_EBUSY, "the Lease was deleted; its holder may still be working");
    else
        refuse(call, BW_EBUSY, "held by another candidate");
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
        refuse(call, BW_EINVAL, "the Lease does not exist, so no holder would read the note");
    else if (bw_kube_leads(call->store, entry, &call->job->request))
        write_lease(call);
    else
        refuse(call, BW_ENOTLEADER,
               entry->gone ? "the Lease was deleted" : "this candidate does not hold the Lease");
}

/* `version`: resourceVersion of the collection, up to which the read has seen everything. */
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
        fail(call, BW_OUTCOME_UNAVAILABLE, BW_EBUSY,
             "other clients changed the Lease during every attempt");
}

/* ---- answers ---- */

/* Finds the single item of a list; NULL if the list is empty. Returns false if it is not a list of
 * this Lease. */
static bool item_of(const json_t *list, const struct bw_kube_entry *entry, json_t **item)
{
    const json_t *items = json_object_get(list, "items");
    *item = json_array_get(items, 0);
    if (json_is_null(items)) /* Go encodes an empty list so */
        return true;
    return json_is_array(items) && json_array_size(items) <= 1 &&
           (!*item || strcmp(bw_kube_lease_name(*item), entry->name) == 0);
}

static void refuse_versions(struct bw_kube_call *call, enum bw_outcome outcome)
{
    fail(call, outcome, BW_EUNSUPPORTED,
         "the API server's resourceVersions are not numbers: no fencing token is possible");
}

static void on_list(struct bw_kube_call *call, const struct bw_http_answer *answer,
                    uint64_t version, json_t *item)
{
    if (version < call->floor) /* the server lost state, or a backup was restored */
        bw_kube_rewind(call->store, call->entry, version);
    if (version == 0)
        refuse_versions(call, BW_OUTCOME_UNAVAILABLE);
    else if (bw_kube_learn(call->store, call->entry, item, version, BW_KUBE_ASKED) != 0)
        fail_with_answer(call, answer, false);
    else
        decide(call, version);
}

/* Returns true if the API server itself says that the object does not exist. A proxy in front of it
 * may return 404 too, which says nothing about the Lease. */
static bool is_missing(const struct bw_http_answer *answer)
{
    if (answer->status != 404)
        return false;
    json_t *status = json_loadb(answer->body, answer->length, JSON_REJECT_DUPLICATES, NULL);
    const char *reason = json_string_value(json_object_get(status, "reason"));
    bool missing = reason && strcmp(reason, "NotFound") == 0;
    json_decref(status);
    return missing;
}

/* Handles the answer to a read by name. A missing Lease has no version: the read is then as new as
 * what this process knows. */
static void on_named(struct bw_kube_call *call, const struct bw_http_answer *answer)
{
    struct bw_kube_store *store = call->store;
    json_t *lease = NULL;
    if (answer->status == 200)
        lease = json_loadb(answer->body, answer->length, JSON_REJECT_DUPLICATES, NULL);
    bool whole = lease && strcmp(bw_kube_lease_name(lease), call->entry->name) == 0;
    if (!whole && !is_missing(answer)) {
        if (answer->status == 403)
            store->no_list = false; /* neither is permitted: the next request tries both again */
        fail_with_answer(call, answer, false);
    } else {
        store->no_list = true;
        bw_kube_poll_instead(store);
        on_list(call, answer, whole ? bw_kube_version(lease) : call->floor + !call->floor, lease);
    }
    json_decref(lease);
}

static void on_read(void *context, const struct bw_http_answer *answer)
{
    struct bw_kube_call *call = context;
    json_t *list = NULL, *item = NULL;
    call->http = NULL;
    if (call->by_name) {
        on_named(call, answer);
        return;
    }
    if (answer->status == 403) { /* perhaps the Role permits `get`, but not `list` */
        call->by_name = true;
        bw_kube_read(call);
        return;
    }
    if (answer->status == 200)
        list = json_loadb(answer->body, answer->length, JSON_REJECT_DUPLICATES, NULL);
    if (!list || !item_of(list, call->entry, &item))
        fail_with_answer(call, answer, false);
    else
        on_list(call, answer, bw_kube_version(list), item);
    json_decref(list);
}

/* Answers a request whose write succeeded. The stream may already have reported a later change by
 * another candidate; then the request is refused. */
static void confirm_write(struct bw_kube_call *call)
{
    const struct bw_store_request *request = &call->job->request;
    const struct bw_kube_entry *entry = call->entry;
    bool acquired = entry->lead_token != 0 && bw_record_is_result_of(&entry->record, request);
    if ((request->op == BW_STORE_ACQUIRE && !acquired) ||
        (request->op == BW_STORE_RENEW && !bw_kube_leads(call->store, entry, request)))
        refuse(call, BW_ENOTLEADER, "another candidate acquired the Lease meanwhile");
    else
        done(call);
}

/* Handles the answer to a write, which contains the Lease as written. */
static void on_new_lease(struct bw_kube_call *call, const struct bw_http_answer *answer)
{
    struct bw_kube_entry *entry = call->entry;
    json_t *lease = json_loadb(answer->body, answer->length, JSON_REJECT_DUPLICATES, NULL);
    bool whole = lease && strcmp(bw_kube_lease_name(lease), entry->name) == 0;
    if (whole && bw_kube_version(lease) == 0) {
        refuse_versions(call, BW_OUTCOME_UNKNOWN);
    } else if (!whole || bw_kube_learn(call->store, entry, lease, bw_kube_version(lease),
                                       BW_KUBE_ASKED) != 0) {
        fail_with_answer(call, answer, true);
    } else {
        entry->lead_renewed_ms = bw_kube_now_ms();
        confirm_write(call);
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
        bw_kube_read(call); /* conflict with a write of another client: read again */
    else
        fail_with_answer(call, answer, true);
}

/* ---- starting a request ---- */

/* Renewals and releases ignore a Retry-After. */
static bool must_wait(const struct bw_kube_call *call)
{
    enum bw_store_op op = call->job->request.op;
    return op != BW_STORE_RENEW && op != BW_STORE_RELEASE &&
           bw_kube_api_must_wait(&call->store->api);
}

/* True if the request can write without a read first: the known state must allow the write. */
static bool may_try(const struct bw_kube_call *call)
{
    const struct bw_store_request *request = &call->job->request;
    const struct bw_kube_entry *entry = call->entry;
    if (!entry->lease && !entry->gone)
        return false;
    if (request->op == BW_STORE_ACQUIRE)
        return bw_record_may_acquire(&entry->record, request);
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
    else if (must_wait(call))
        fail(call, BW_OUTCOME_UNAVAILABLE, BW_EBUSY,
             "the API server asked clients to wait (Retry-After)");
    else if (may_try(call))
        decide_write(call);
    else
        bw_kube_read(call);
}
