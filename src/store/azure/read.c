/* Reads an election's blobs and derives the record.
 *
 *   blob NAME         no content; x-ms-meta-bellwether: the record as JSON, percent-encoded.
 *                     Its lease is the leadership, whichever client has it
 *   blob NAME%note    no content; x-ms-meta-bellwether: the last note. A separate blob, because
 *                     only the holder can write to a leased blob. x-ms-meta-lost: the request id,
 *                     in hexadecimal, of a leadership that was lost to another client
 *
 * Azure shows whether a blob is leased, but not by which client. The record names the last holder
 * that wrote it. A holder writes the record under its own lease, and again when it releases. A
 * holder whose renewal Azure rejects can no longer write the record; it reports the loss in the
 * note's blob (`lost`).
 *
 * A lease that no record explains belongs to a foreign client: it is shown as held by an unknown
 * holder. Until the former holder notices the loss, its lease and a foreign client's look the same.
 */
#include "store/azure/state.h"

#include "store/kit/record.h"
#include "store/kit/record_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_HOLDER "unknown"

static bool is_lost(const struct bw_store *store, uint64_t request)
{
    for (uint32_t i = 0; i < AZURE_LOST_MAX; i++)
        if (store->lost[i] == request)
            return request != 0;
    return false;
}

bool bw_azure_is_lost(const struct azure_work *work)
{
    uint64_t request = work->kept.request;
    return request != 0 && (request == work->lost || is_lost(bw_azure_store(work), request));
}

/* Computes the version for readers. It changes with the record, the note, the state of the lease,
 * and a report that the leadership was lost. */
static uint64_t version_of(const struct azure_work *work)
{
    uint64_t hash = 0xcbf29ce484222325u;
    bool lost = bw_azure_is_lost(work);
    const char *parts[] = {work->seen.etag, work->seen.lease == AZURE_LEASED ? "+" : "-",
                           work->note_etag, lost ? "lost" : ""};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        for (const char *at = parts[i]; *at; at++)
            hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return hash ? hash : 1;
}

static void show_unknown(struct bw_store_record *shown)
{
    snprintf(shown->holder, sizeof shown->holder, UNKNOWN_HOLDER);
    shown->value[0] = shown->containment[0] = '\0';
    shown->request = 0;
    shown->ttl_ns = 0;
    shown->clean = false;
}

void bw_azure_show(struct azure_work *work)
{
    struct bw_store_record *shown = &work->shown;
    *shown = work->kept;
    shown->left_ns = BW_TIME_NEVER;
    if (!work->exists && !work->note_exists) {
        shown->clean = true;
        return;
    }
    bool leased = work->seen.lease == AZURE_LEASED;
    bool explained = shown->held && !bw_azure_is_lost(work);
    if (leased && !explained)
        show_unknown(shown);
    else if (work->seen.lease == AZURE_OVER && !shown->held)
        show_unknown(shown);
    shown->held = leased;
    shown->version = version_of(work);
    bw_record_present(shown);
}

static bool unpack(const struct azure_blob *blob, char *text, size_t size)
{
    text[0] = '\0';
    return !blob->metadata[0] || bw_azure_unpack(blob->metadata, text, size) > 0;
}

static void damaged(struct azure_work *work, const char *blob)
{
    bw_azure_fail_with(work, BW_OUTCOME_UNAVAILABLE, BW_EDAMAGED,
                       "the metadata of blob %.100s is not a record of an election; choose another "
                       "container or election, or remove the blob",
                       blob);
}

static bool parse_note(struct azure_work *work, const struct bw_http_answer *answer)
{
    struct azure_blob blob;
    char text[AZURE_META_MAX + 1];
    work->note_exists = true;
    if (!bw_azure_blob_of(answer, &blob) || !unpack(&blob, text, sizeof text) ||
        (text[0] && bw_note_unpack(text, strlen(text), &work->kept.note) != 0))
        return false;
    memcpy(work->note_etag, blob.etag, sizeof work->note_etag);
    work->lost = strtoull(blob.lost, NULL, 16); /* an invalid value matches no request */
    return true;
}

static void on_note(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    work->call = NULL;
    if (answer->status != 200 && answer->status != 404) {
        bw_azure_fail(work, answer, false);
        return;
    }
    if (answer->status == 200 && !parse_note(work, answer)) {
        damaged(work, work->note_blob);
        return;
    }
    bw_azure_show(work);
    work->then(work);
}

static bool parse_blob(struct azure_work *work, const struct bw_http_answer *answer)
{
    char text[AZURE_META_MAX + 1];
    work->exists = true;
    return bw_azure_blob_of(answer, &work->seen) && unpack(&work->seen, text, sizeof text) &&
           (!text[0] || bw_record_unpack(text, strlen(text), &work->kept) == 0);
}

static void keep_server(struct azure_work *work, const struct bw_http_answer *answer)
{
    const char *server = bw_http_header(answer, "Server");
    char *out = bw_azure_store(work)->server;
    if (server && !out[0])
        snprintf(out, sizeof bw_azure_store(work)->server, "%s", server);
}

static void on_blob(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    work->call = NULL;
    keep_server(work, answer);
    if (answer->status != 200 && answer->status != 404) {
        bw_azure_fail(work, answer, false);
        return;
    }
    if (answer->status == 200 && !parse_blob(work, answer)) {
        damaged(work, work->blob);
        return;
    }
    if (work->exists && (work->seen.foreign || work->seen.lost[0])) {
        bw_azure_fail_with(
            work, BW_OUTCOME_UNAVAILABLE, BW_EDAMAGED,
            "blob %.100s was not created by Bellwether (it has content or other metadata); choose "
            "another container or election, or remove the blob",
            work->blob);
        return;
    }
    if (work->exists)
        work->kept.version = 1; /* a record exists */
    if (!work->exists && work->job->request.op == BW_STORE_ACQUIRE) {
        bw_azure_show(work); /* ACQUIRE creates the blob; it does not need the note */
        work->then(work);
        return;
    }
    struct azure_call call = {.verb = "HEAD", .blob = work->note_blob};
    bw_azure_ask(work, &call, on_note);
}

void bw_azure_read(struct azure_work *work, void (*then)(struct azure_work *work))
{
    struct azure_call call = {.verb = "HEAD", .blob = work->blob};
    work->then = then;
    work->exists = work->note_exists = false;
    memset(&work->seen, 0, sizeof work->seen);
    memset(&work->kept, 0, sizeof work->kept);
    work->note_etag[0] = '\0';
    work->lost = 0;
    bw_azure_ask(work, &call, on_blob);
}
