/* Kubernetes Leases as a store: kubernetes://NAMESPACE and kubernetes://NAMESPACE/LEASE.
 *
 * Model: an API server whose reads without a resourceVersion are linearizable and whose updates
 * compare resourceVersions. These are etcd's revisions: one number that only grows, across
 * deletions and recreations. No other machine's clock is used. A Lease expires when a candidate has
 * seen its resourceVersion unchanged for a whole TTL on its own clock. This is the rule of
 * client-go's leaderelection. The layout is client-go's too, so both contend for the same
 * leadership.
 *
 * Guarantees: the token is the resourceVersion of the update that made the holder. A server whose
 * resourceVersions are not numbers is rejected.
 *
 * Not guaranteed: that a candidate which has never seen a Lease recognises that it was deleted
 * while held. Such a candidate treats it as new (docs/reference/stores/kubernetes.md). */
#include "store/kubernetes/state.h"

#include "store/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char *const settings[] = {"context", "kubeconfig", "service-account", NULL};

/* ---- open and close ---- */

static bool is_label(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length <= 63 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == length && text[0] != '-' &&
           text[length - 1] != '-';
}

static int take_names(struct bw_kube_store *store, const struct bw_url *url, char *why)
{
    const char *namespace = url->hosts ? url->host[0].name : store->api.config.namespace;
    if (url->hosts > 1 || (url->hosts && url->host[0].port) || url->user[0] || url->password[0])
        return bw_store_explain(
            why, BW_EINVAL,
            "kubernetes://NAMESPACE[/LEASE] must not name servers or users: use a kubeconfig "
            "or the pod's service account");
    if (!is_label(namespace))
        return bw_store_explain(
            why, BW_EINVAL, "invalid namespace '%.64s': expected lowercase letters, digits and '-'",
            namespace);
    snprintf(store->api.namespace, sizeof store->api.namespace, "%s", namespace);
    if (url->path[0] && !bw_kube_is_name(url->path))
        return bw_store_explain(
            why, BW_EINVAL,
            "invalid Lease name '%.64s': expected lowercase letters, digits, '-' and '.'",
            url->path);
    memcpy(store->lease, url->path, strnlen(url->path, BW_KUBE_NAME_MAX));
    return 0;
}

static int make_suffix(struct bw_kube_store *store, char *why)
{
    uint64_t word;
    if (getrandom(&word, sizeof word, 0) != (ssize_t)sizeof word)
        return bw_store_explain(why, BW_EIO, "cannot read random numbers from the kernel");
    snprintf(store->suffix, sizeof store->suffix, "%016llx", (unsigned long long)word);
    return 0;
}

static int configure(struct bw_kube_store *store, const char *text, char *why)
{
    struct bw_url url;
    int error = bw_url_parse(&url, text, why);
    if (error == 0)
        error = bw_url_check_keys(&url, settings, why);
    if (error == 0)
        error = bw_kube_config_load(&store->api.config, &url, why);
    if (error == 0)
        error = take_names(store, &url, why);
    return error ? error : make_suffix(store, why);
}

static void part_closed(struct bw_kube_store *store)
{
    if (--store->open_parts > 0)
        return;
    bw_kube_entries_free(store);
    free(store->only_election);
    free(store);
}

static void on_http_closed(void *context)
{
    part_closed(context);
}

static void on_jobs_closed(struct bw_jobs *jobs)
{
    part_closed(jobs->context);
}

static void on_ticker_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void forget(struct bw_job *job)
{
    if (job->context)
        bw_kube_call_free(job->context);
}

static int kube_open(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                     const struct bw_store_options *options, char *why)
{
    struct bw_kube_store *store = calloc(1, sizeof *store);
    if (!store)
        return bw_store_explain(why, BW_ENOMEM, "no memory");
    store->stream.serial = 1;
    int error = configure(store, url, why);
    if (error == 0 && (error = bw_jobs_open(&store->jobs, loop, options, forget, store)) == 0) {
        store->open_parts = 1;
        error = bw_kube_api_open(&store->api, loop, why);
    }
    if (error != 0) {
        bw_kube_config_clear(&store->api.config);
        if (store->open_parts)
            bw_jobs_close(&store->jobs, on_jobs_closed);
        else
            free(store);
        return error;
    }
    uv_timer_init(loop, &store->ticker);
    store->ticker.data = store;
    store->open_parts = 3;
    *out = (struct bw_store *)store;
    return 0;
}

static void kube_close(struct bw_store *opaque)
{
    struct bw_kube_store *store = (struct bw_kube_store *)opaque;
    bw_kube_stream_close(store);
    bw_jobs_close(&store->jobs, on_jobs_closed);
    bw_kube_api_close(&store->api, on_http_closed, store);
    uv_close((uv_handle_t *)&store->ticker, on_ticker_closed);
}

/* ---- requests ---- */

/* A URL that names a Lease serves one election: a second name would mean the same leadership. */
static bool is_other_election(struct bw_kube_store *store, const char *election)
{
    if (!store->lease[0])
        return false;
    if (!store->only_election)
        store->only_election = strdup(election);
    return !store->only_election || strcmp(store->only_election, election) != 0;
}

static void begin(struct bw_kube_store *store, struct bw_job *job)
{
    const struct bw_store_request *request = &job->request;
    static const struct bw_store_record none = {.clean = true};
    struct bw_kube_call *call = NULL;
    if (request->op == BW_STORE_LEAVE &&
        !store->api.unreachable) { /* no candidate is ever listed */
        bw_job_done(job, &none);
        return;
    }
    if (request->op == BW_STORE_LEAVE) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EIO, "the API server does not answer");
        return;
    }
    if (request->op == BW_STORE_ENTER || request->op == BW_STORE_LIST) {
        bw_job_refuse(job, &none, BW_EUNSUPPORTED, "the Kubernetes store does not list candidates");
        return;
    }
    if (is_other_election(store, request->election)) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EINVAL,
                    "the store URL names the Lease %s, which serves one election: it cannot serve "
                    "another election",
                    store->lease);
        return;
    }
    struct bw_kube_entry *entry = bw_kube_entry_get(store, request->election);
    if (entry)
        call = calloc(1, sizeof *call);
    if (!call) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "too many elections");
        return;
    }
    *call = (struct bw_kube_call){.store = store, .job = job, .entry = entry};
    job->context = call;
    bw_kube_start(call);
}

static int kube_request(struct bw_store *opaque, const struct bw_store_request *request)
{
    struct bw_kube_store *store = (struct bw_kube_store *)opaque;
    bool names = bw_store_asks_names(request);
    int error = names ? 0 : bw_store_request_check(request, BW_SEC);
    if (error != 0)
        return error;
    struct bw_job *job = bw_jobs_add(&store->jobs, request);
    if (!job)
        return BW_ELIMIT;
    if (names)
        bw_kube_elections(store, job);
    else
        begin(store, job);
    return 0;
}

static void kube_cancel(struct bw_store *opaque, uint64_t id)
{
    bw_jobs_cancel(&((struct bw_kube_store *)opaque)->jobs, id);
}

static bool kube_about(struct bw_store *opaque, char *about)
{
    const struct bw_kube_store *store = (const struct bw_kube_store *)opaque;
    bw_store_explain(about, 0, "the API server %.140s; namespace %s%s%.60s",
                     store->api.config.server, store->api.namespace,
                     store->lease[0] ? ", Lease " : "", store->lease);
    return store->api.answered;
}

static const struct bw_store_ops ops = {
    .scheme = "kubernetes",
    .traits =
        BW_STORE_TOKEN | BW_STORE_OBSERVED | BW_STORE_NOTIFIES | BW_STORE_NOTES | BW_STORE_NAMES,
    .ttl_min_ns = BW_SEC,
    .ttl_unit_ns = 1,
    .summary =
        "a Lease shared with client-go; it expires when unchanged for a TTL on the candidate's "
        "clock; tokens are etcd's revisions; the Role needs list (or get), watch, update and "
        "create",
    .open = kube_open,
    .request = kube_request,
    .cancel = kube_cancel,
    .close = kube_close,
    .about = kube_about,
};

static const struct bw_store_ops *find(const char *url, char *why)
{
    struct bw_url parts;
    return bw_url_parse(&parts, url, why) == 0 ? &ops : NULL;
}

BW_STORE_MODULE(find);
