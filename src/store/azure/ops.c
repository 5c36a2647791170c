/* The steps of each request, one REST call after another.
 *
 * ACQUIRE reads the blob, leases it under an id that no other request has, and writes the record
 * with the next token. The write requires that lease and, by If-Match, the ETag that was read.
 * Lease operations do not change the ETag, so no other write happened in between. Only the written
 * record makes a holder; a lease without a record is released.
 *
 * RENEW and RELEASE derive the lease's id from the record's request and the process's nonce, which
 * no other process has. RELEASE writes the release to the record before it releases the lease.
 *
 * The store repeats only steps that lost a race, up to TRIES_MAX times. No job lasts longer than
 * the lease it asks for. */
#include "store/azure/state.h"

#include "store/kit/record.h"
#include "store/kit/record_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 8u
#define UNDO_NS   (5 * BW_SEC)

static void lease_or_make(struct azure_work *work);
static void note_seen(struct azure_work *work);

static const struct bw_store_request *request_of(const struct azure_work *work)
{
    return &work->job->request;
}

static unsigned seconds_of(bw_time ttl_ns)
{
    return (unsigned)((ttl_ns + BW_SEC - 1) / BW_SEC);
}

static void mark_lost(struct azure_work *work)
{
    struct bw_store *store = bw_azure_store(work);
    store->lost[store->lost_next++ % AZURE_LOST_MAX] = work->kept.request;
}

/* Releases a lease without record, without waiting for the answer. If the call is lost, the lease
 * expires. */
static void release_unused(struct azure_work *work)
{
    struct azure_call call = {.verb = "PUT",
                              .blob = work->blob,
                              .query_name = "comp",
                              .query_value = "lease",
                              .lease_action = "release",
                              .lease_id = work->lease_id,
                              .within_ns = UNDO_NS};
    if (work->leased && !bw_azure_store(work)->closed)
        bw_azure_send(&bw_azure_store(work)->rest, &call);
}

void bw_azure_free(struct azure_work *work)
{
    if (work->call)
        bw_http_cancel(bw_azure_store(work)->rest.http, work->call);
    release_unused(work);
    bw_names_free(&work->names);
    free(work);
}

static void put_record(struct azure_work *work,
                       void (*answer)(void *context, const struct bw_http_answer *answer))
{
    char json[BW_RECORD_JSON_MAX], packed[AZURE_META_MAX + 1];
    int length = bw_record_pack(&work->kept, json, sizeof json);
    if (length <= 0 || !bw_azure_pack(json, packed, sizeof packed)) {
        bw_azure_fail_with(work, BW_OUTCOME_UNAVAILABLE, BW_ELIMIT,
                           "the record is too long for a blob's metadata (limit: %u bytes)",
                           AZURE_META_MAX);
        return;
    }
    struct azure_call call = {.verb = "PUT",
                              .blob = work->blob,
                              .query_name = "comp",
                              .query_value = "metadata",
                              .lease_id = work->lease_id,
                              .if_match = work->seen.etag,
                              .metadata = packed};
    if (bw_azure_ask(work, &call, answer))
        work->leased = false; /* from here on the record may have been written */
}

static void lease_call(struct azure_work *work, const char *action,
                       void (*answer)(void *context, const struct bw_http_answer *answer))
{
    bool acquires = strcmp(action, "acquire") == 0;
    struct azure_call call = {.verb = "PUT",
                              .blob = work->blob,
                              .query_name = "comp",
                              .query_value = "lease",
                              .lease_action = action,
                              .lease_id = acquires ? NULL : work->lease_id,
                              .proposed_lease_id = acquires ? work->lease_id : NULL,
                              .lease_seconds = acquires ? seconds_of(request_of(work)->ttl_ns) : 0};
    bw_azure_ask(work, &call, answer);
}

/* Takes the blob's new ETag from the answer of a write. */
static bool take_etag(struct azure_work *work, const struct bw_http_answer *answer)
{
    const char *etag = bw_http_header(answer, "ETag");
    if (!etag || strlen(etag) > AZURE_ETAG_MAX)
        return false;
    snprintf(work->seen.etag, sizeof work->seen.etag, "%s", etag);
    return true;
}

static bool is_refusal(const struct bw_http_answer *answer)
{
    return answer->status == 409 || answer->status == 412;
}

/* ---- ACQUIRE ---- */

static void held_by_another(struct azure_work *work)
{
    char why[BW_WHY_MAX + 1];
    if (!work->shown.held && ++work->tries < TRIES_MAX) { /* the blob has become free again */
        lease_or_make(work);
        return;
    }
    snprintf(why, sizeof why, "held by %s",
             work->shown.holder[0] ? work->shown.holder : "another client");
    bw_azure_refuse(work, BW_EBUSY, why);
}

static void write_holder(struct azure_work *work);

/* Another candidate led between our read and our lease, so our token is out of date. While we have
 * the lease, a new read stays valid; the write fails if the lease id is no longer ours. */
static void write_again(struct azure_work *work)
{
    if (work->exists && work->shown.held)
        write_holder(work);
    else
        held_by_another(work);
}

static void on_written(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    work->call = NULL;
    if (answer->status == 200 && take_etag(work, answer)) {
        work->seen.lease = AZURE_LEASED;
        bw_azure_done(work);
        return;
    }
    bool raced = answer->status == 412 && strcmp(bw_azure_code(answer), "ConditionNotMet") == 0;
    work->leased =
        /* the lease is certainly ours, and the record certainly not written */
        raced || (!answer->status && !answer->sent);
    if (raced && ++work->tries < TRIES_MAX)
        bw_azure_read(work, write_again);
    else if (is_refusal(answer) || answer->status == 404)
        bw_azure_read(work, held_by_another);
    else
        bw_azure_fail(work, answer, true);
}

static void write_holder(struct azure_work *work)
{
    bw_token last = work->kept.token;
    if (last == UINT64_MAX) {
        bw_azure_fail_with(work, BW_OUTCOME_UNAVAILABLE, BW_EDAMAGED,
                           "the token has reached its maximum");
        return;
    }
    /* If the last holder was a foreign client, which wrote no record, its work is listed as not
     * confirmed dead, like that of a recorded holder. */
    struct bw_store_record next = work->kept;
    if (!work->kept.held && strcmp(work->shown.holder, work->kept.holder) != 0 &&
        !work->shown.held) {
        memcpy(next.holder, work->shown.holder, sizeof next.holder);
        next.containment[0] = '\0';
        next.clean = false;
    }
    bw_record_acquire(&next, request_of(work));
    next.token = last + 1;
    work->kept = next;
    put_record(work, on_written);
}

static void on_leased(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    work->call = NULL;
    if (answer->status == 201) {
        write_holder(work);
        return;
    }
    work->leased = work->leased && !is_refusal(answer) && answer->status != 404;
    if (is_refusal(answer))
        bw_azure_read(work, held_by_another);
    else if (answer->status == 404 && ++work->tries < TRIES_MAX)
        bw_azure_read(work, lease_or_make);
    else
        bw_azure_fail(work, answer, true);
}

static void on_blob_made(void *context, const struct bw_http_answer *answer);

static void make_blob(struct azure_work *work)
{
    struct azure_call call = {
        .verb = "PUT", .blob = work->blob, .blob_type = "BlockBlob", .if_none_match = "*"};
    bw_azure_ask(work, &call, on_blob_made);
}

static void on_container_made(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    work->call = NULL;
    bool being_deleted = strcmp(bw_azure_code(answer), "ContainerBeingDeleted") == 0;
    if ((answer->status != 201 && answer->status != 409) || being_deleted)
        bw_azure_fail(work, answer, false);
    else if (request_of(work)->op == BW_STORE_NOTE)
        note_seen(work);
    else
        make_blob(work);
}

static void make_container(struct azure_work *work)
{
    struct azure_call call = {.verb = "PUT", .query_name = "restype", .query_value = "container"};
    bw_azure_ask(work, &call, on_container_made);
}

/* 409: another client created it, which is equally good. */
static void on_blob_made(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    work->call = NULL;
    if (answer->status == 201 && take_etag(work, answer)) {
        work->exists = true;
        work->kept.version = 1;
        bw_azure_show(work);
        lease_or_make(work);
    } else if (is_refusal(answer))
        bw_azure_read(work, lease_or_make);
    else if (answer->status == 404 && ++work->tries < TRIES_MAX)
        make_container(work);
    else
        bw_azure_fail(work, answer, false);
}

/* Continues an ACQUIRE after the read: leases the blob if it is free, or creates it first. */
static void lease_or_make(struct azure_work *work)
{
    if (work->shown.held) {
        if (bw_record_is_result_of(&work->shown, request_of(work)))
            bw_azure_done(work); /* the same request was sent twice */
        else
            held_by_another(work);
    } else if (!work->exists) {
        if (++work->tries < TRIES_MAX)
            make_blob(work);
        else
            bw_azure_fail_with(work, BW_OUTCOME_UNAVAILABLE, BW_EIO,
                               "blob %.150s disappears after each creation", work->blob);
    } else {
        work->leased = true;
        bw_azure_set_time(work, request_of(work)->ttl_ns);
        lease_call(work, "acquire", on_leased);
    }
}

/* ---- RENEW and RELEASE ---- */

/* Builds the call that writes the blob of the note: the note in `kept` and the lost request.
 * Returns false if the note does not fit. */
static bool note_call(const struct azure_work *work, struct azure_call *call, char *packed,
                      size_t size, char *lost)
{
    char json[1024];
    *call = (struct azure_call){.verb = "PUT", .blob = work->note_blob, .metadata = packed};
    packed[0] = lost[0] = '\0';
    if (work->kept.note.kind == BW_NOTE_NONE)
        call->metadata = NULL;
    else if (bw_note_pack(&work->kept.note, json, sizeof json) <= 0 ||
             !bw_azure_pack(json, packed, size))
        return false;
    if (work->lost) {
        snprintf(lost, AZURE_LOST_DIGITS + 1, "%" PRIx64, work->lost);
        call->lost = lost;
    }
    if (work->note_exists) {
        call->query_name = "comp";
        call->query_value = "metadata";
        call->if_match = work->note_etag;
    } else {
        call->blob_type = "BlockBlob";
        call->if_none_match = "*";
    }
    return true;
}

/* The record names this process, but another client has the lease. Other processes cannot know
 * that, so this call reports it in the note's blob. Its answer is not awaited; the next read of
 * this process shows whether it succeeded. */
static void report_lost(struct azure_work *work)
{
    char packed[AZURE_META_MAX + 1], lost[AZURE_LOST_DIGITS + 1];
    struct azure_call call;
    bool stale = work->exists && work->kept.held && work->seen.lease == AZURE_LEASED &&
                 work->lost != work->kept.request && bw_azure_is_lost(work);
    if (!stale)
        return;
    work->lost = work->kept.request;
    if (!note_call(work, &call, packed, sizeof packed, lost))
        return;
    call.within_ns = UNDO_NS;
    bw_azure_send(&bw_azure_store(work)->rest, &call);
}

static void not_ours(struct azure_work *work)
{
    report_lost(work);
    bw_azure_refuse(work, BW_ENOTLEADER, "this candidate does not hold the leadership");
}

static void lost(struct azure_work *work)
{
    mark_lost(work);
    bw_azure_read(work, not_ours);
}

static void on_renewal_written(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    work->call = NULL;
    if (answer->status == 200 && take_etag(work, answer)) {
        work->seen.lease = AZURE_LEASED;
        bw_azure_done(work);
    } else if (is_refusal(answer) || answer->status == 404) {
        lost(work);
    } else {
        bw_azure_fail(work, answer, true);
    }
}

static void on_renewed(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    work->call = NULL;
    if (answer->status != 200) {
        if (is_refusal(answer) || answer->status == 404)
            lost(work);
        else
            bw_azure_fail(work, answer, true);
        return;
    }
    bw_time ttl = work->kept.ttl_ns;
    work->seen.lease = AZURE_LEASED;
    if (bw_record_renew(&work->kept, request_of(work))) {
        work->kept.ttl_ns = ttl;
        work->written = true;
        put_record(work, on_renewal_written);
    } else {
        work->kept.ttl_ns = ttl; /* a lease keeps its original duration */
        bw_azure_done(work);
    }
}

static void on_released(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    work->call = NULL;
    if (answer->status == 200 || is_refusal(answer)) { /* refused: the lease has already ended */
        work->seen.lease = AZURE_FREE;
        bw_azure_done(work);
    } else {
        bw_azure_fail(work, answer, true);
    }
}

static void on_release_written(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    work->call = NULL;
    if (answer->status == 200 && take_etag(work, answer)) {
        work->written = true;
        lease_call(work, "release", on_released);
    } else if (is_refusal(answer) || answer->status == 404) {
        lost(work);
    } else {
        bw_azure_fail(work, answer, true);
    }
}

/* Continues a RENEW or RELEASE after the read. The record shows whether the request names the
 * current leadership; Azure checks by the lease id that it belongs to this process. */
static void keep_seen(struct azure_work *work)
{
    const struct bw_store_request *request = request_of(work);
    if (!work->exists || !work->kept.held || !bw_record_is_leadership(&work->kept, request)) {
        not_ours(work);
        return;
    }
    bw_azure_lease_id(bw_azure_store(work)->nonce, work->kept.request, work->lease_id);
    if (request->op == BW_STORE_RELEASE) {
        bw_record_release(&work->kept, request);
        put_record(work, on_release_written);
    } else if (seconds_of(request->ttl_ns) > seconds_of(work->kept.ttl_ns)) {
        bw_azure_fail_with(work, BW_OUTCOME_UNAVAILABLE, BW_EINVAL,
                           "a lease keeps its duration: to lengthen it, release and acquire it");
    } else {
        lease_call(work, "renew", on_renewed);
    }
}

/* ---- NOTE ---- */

static void on_noted(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    const char *etag = bw_http_header(answer, "ETag");
    work->call = NULL;
    if ((answer->status == 200 || answer->status == 201) && etag &&
        strlen(etag) <= AZURE_ETAG_MAX) {
        snprintf(work->note_etag, sizeof work->note_etag, "%s", etag);
        work->note_exists = true;
        bw_azure_done(work);
    } else if (answer->status == 404 && ++work->tries < TRIES_MAX) {
        make_container(work);
    } else if (is_refusal(answer) && ++work->tries < TRIES_MAX) {
        bw_azure_read(work, note_seen);
    } else {
        bw_azure_fail(work, answer, true);
    }
}

static void note_seen(struct azure_work *work)
{
    char packed[AZURE_META_MAX + 1], lost[AZURE_LOST_DIGITS + 1];
    struct azure_call call;
    bw_record_put_separate_note(&work->kept, &request_of(work)->note);
    if (note_call(work, &call, packed, sizeof packed, lost))
        bw_azure_ask(work, &call, on_noted);
    else
        bw_azure_fail_with(work, BW_OUTCOME_UNAVAILABLE, BW_ELIMIT, "the note is too long");
}

/* ---- READ and WATCH ---- */

#define POLL_MS 1000u

static void watch_seen(struct azure_work *work)
{
    if (work->shown.version != request_of(work)->version) {
        bw_azure_done(work);
        return;
    }
    struct bw_store *store = bw_azure_store(work);
    uint64_t jitter = bw_rng_below(&store->rng, POLL_MS / 2);
    work->poll_at_ms = uv_now(store->poll.loop) + POLL_MS / 2 + jitter;
}

void bw_azure_poll(struct azure_work *work)
{
    work->poll_at_ms = 0;
    work->begun = false; /* a poll is not urgent */
    bw_azure_read(work, watch_seen);
}

static void read_seen(struct azure_work *work)
{
    report_lost(work);
    bw_azure_done(work);
}

void bw_azure_start(struct azure_work *work)
{
    switch (request_of(work)->op) {
    case BW_STORE_ACQUIRE:
        bw_azure_lease_id(bw_azure_store(work)->nonce, request_of(work)->id, work->lease_id);
        bw_azure_read(work, lease_or_make);
        break;
    case BW_STORE_RENEW:
    case BW_STORE_RELEASE:
        bw_azure_read(work, keep_seen);
        break;
    case BW_STORE_NOTE:
        bw_azure_read(work, note_seen);
        break;
    case BW_STORE_WATCH:
        bw_azure_poll(work);
        break;
    case BW_STORE_ELECTIONS:
        bw_azure_elections(work);
        break;
    case BW_STORE_LIST:
        bw_azure_list(work);
        break;
    case BW_STORE_READ:
    case BW_STORE_ENTER:
    case BW_STORE_LEAVE:
        bw_azure_read(work, read_seen);
        break;
    }
}
