/* ELECTIONS: the names of the elections whose Leases are in the namespace, also those of other
 * clients. A URL that names a Lease has the election of this Lease only.
 *
 * The list is read in pages, because the body of an answer is bounded. At most BW_STORE_NAMES_MAX
 * names are returned. */
#include "store/kubernetes/state.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_LEASES  100u /* with the longest texts, a page has half of BW_HTTP_BODY_MAX */
#define CONTINUE_MAX 1400u
#define WITHIN_NS    (15 * BW_SEC)

static void fail(struct bw_kube_call *call, int error, const char *why)
{
    struct bw_job *job = call->job;
    bw_kube_call_free(call);
    bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, error, "%s", why);
}

/* Writes the query of a page. `position`: what the server gave as `continue`; "": the first page.
 * Returns false if it does not fit. */
static bool write_query(char *out, size_t size, const struct bw_kube_store *store,
                        const char *position)
{
    size_t used = (size_t)snprintf(out, size, "limit=%u", PAGE_LEASES);
    if (store->lease[0])
        used += (size_t)snprintf(out + used, size - used, "&fieldSelector=metadata.name%%3D%s",
                                 store->lease);
    if (position[0])
        used += (size_t)snprintf(out + used, size - used, "&continue=");
    for (const unsigned char *at = (const unsigned char *)position; *at; at++) {
        if (used + 4 > size)
            return false;
        bool plain = isalnum(*at) || strchr("-_.~", *at);
        used += (size_t)snprintf(out + used, size - used, plain ? "%c" : "%%%02X", *at);
    }
    return true;
}

static void on_page(void *context, const struct bw_http_answer *answer);

static void read_page(struct bw_kube_call *call, const char *position)
{
    char query[CONTINUE_MAX + BW_KUBE_NAME_MAX + 64], why[BW_WHY_MAX + 1] = "";
    struct bw_kube_ask ask = {.method = "GET",
                              .query = query,
                              .within_ns = WITHIN_NS,
                              .answer = on_page,
                              .context = call};
    if (!write_query(query, sizeof query, call->store, position)) {
        fail(call, BW_EIO, "cannot list the Leases: the server's `continue` is too long");
        return;
    }
    call->http = bw_kube_api_send(&call->store->api, &ask, why);
    if (!call->http)
        fail(call, BW_EIO, why);
}

static void add_names(struct bw_kube_call *call, const json_t *items)
{
    const json_t *lease;
    size_t i;
    json_array_foreach(items, i, lease)
    {
        if (call->name_count == BW_STORE_NAMES_MAX)
            return;
        char *name = call->names[call->name_count].text;
        if (call->store->lease[0] ? bw_kube_lease_only_election(lease, name)
                                  : bw_kube_lease_election(lease, name))
            call->name_count++;
    }
}

static void finish(struct bw_kube_call *call)
{
    struct bw_job *job = call->job;
    struct bw_election_name *names = call->names;
    uint32_t count = call->name_count;
    call->store->api.answered = true;
    call->store->api.unreachable = false;
    call->names = NULL;
    bw_kube_call_free(call);
    bw_job_elections(job, names, count);
    free(names);
}

static void on_page(void *context, const struct bw_http_answer *answer)
{
    struct bw_kube_call *call = context;
    struct bw_kube_verdict verdict;
    json_t *page = NULL;
    call->http = NULL;
    if (answer->status == 200)
        page = json_loadb(answer->body, answer->length, JSON_REJECT_DUPLICATES, NULL);
    const json_t *items = json_object_get(page, "items");
    const char *position =
        json_string_value(json_object_get(json_object_get(page, "metadata"), "continue"));
    if (!json_is_array(items) && !json_is_null(items)) { /* Go encodes an empty list as null */
        bw_kube_judge(&call->store->api, answer, false, &verdict);
        fail(call, verdict.error, verdict.why);
    } else {
        add_names(call, items);
        if (position && position[0] && call->name_count < BW_STORE_NAMES_MAX)
            read_page(call, position);
        else
            finish(call);
    }
    json_decref(page);
}

void bw_kube_elections(struct bw_kube_store *store, struct bw_job *job)
{
    struct bw_kube_call *call = calloc(1, sizeof *call);
    if (call)
        call->names = calloc(BW_STORE_NAMES_MAX, sizeof *call->names);
    if (!call || !call->names) {
        free(call);
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for the elections");
        return;
    }
    call->store = store;
    call->job = job;
    job->context = call;
    if (bw_kube_api_must_wait(&store->api))
        fail(call, BW_EBUSY, "the API server asked clients to wait (Retry-After)");
    else
        read_page(call, "");
}
