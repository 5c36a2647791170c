/* The etcd store: URL, opening and closing. Layout and rules: keys.h, view.h, campaign.c.
 *
 * Model: a cluster that answers linearizably. Its leader counts leases in whole seconds. A new
 * cluster leader gives every lease its whole TTL again.
 *
 * Guarantees: among Bellwether's candidates and those of Go's concurrency.Election, exactly one is
 * first in the queue. Its token is the create revision of its key. The token grows from leader to
 * leader, also across restarts and foreign leaders.
 *
 * Not guaranteed: that a foreign candidate stopped its work when its key disappeared. Its work
 * counts as not confirmed dead. */
#include "store/etcd/state.h"
#include "store/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT           2379u
#define TIMEOUT_MIN_MS 150u
#define TIMEOUT_MAX_MS 5000u

/* A call may take this fraction (1/7) of a TTL: two calls fit before a renewal is overdue. */
#define TIMEOUT_DIVISOR 7

static void set_timeout(struct bw_store *store, bw_time ttl_ns)
{
    store->ttl_most = bw_time_max(store->ttl_most, ttl_ns);
    if (ttl_ns <= 0 || (store->ttl_least && ttl_ns >= store->ttl_least))
        return;
    store->ttl_least = ttl_ns;
    bw_time ms = ttl_ns / BW_MS / TIMEOUT_DIVISOR;
    ms = bw_time_min(bw_time_max(ms, TIMEOUT_MIN_MS), TIMEOUT_MAX_MS);
    store->timeout_ms = (uint64_t)ms;
    etcd_client_set_timeout(store->client, store->timeout_ms);
}

/* ---- requests ---- */

static void forget(struct bw_job *job)
{
    struct etcd_task *task = job->context;
    if (!task)
        return;
    task->job = NULL;
    if (!task->in_flight && !task->queued)
        etcd_task_end(task);
}

static bool changes_campaign(enum bw_store_op op)
{
    return op == BW_STORE_ACQUIRE || op == BW_STORE_RENEW || op == BW_STORE_RELEASE ||
           op == BW_STORE_ENTER || op == BW_STORE_LEAVE;
}

static int request(struct bw_store *store, const struct bw_store_request *asked)
{
    if (!bw_store_asks_names(asked) && bw_store_request_check(asked, store->ops->ttl_min_ns) != 0)
        return BW_EINVAL;
    bool make = asked->op == BW_STORE_ACQUIRE || asked->op == BW_STORE_ENTER;
    struct etcd_campaign *campaign = NULL;
    /* a candidate's READ may be the only request that sees a foreign leader */
    bool read = asked->op == BW_STORE_READ && asked->ttl_ns > 0;
    if (asked->candidate)
        campaign = etcd_campaign_find(store, asked->election, asked->candidate, make || read);
    if (make && !campaign)
        return BW_ELIMIT;
    struct bw_job *job = bw_jobs_add(&store->jobs, asked);
    struct etcd_task *task = job ? etcd_task_new(store, job) : NULL;
    if (!task) {
        if (job)
            bw_jobs_cancel(&store->jobs, asked->id);
        return BW_ELIMIT;
    }
    if (make || asked->op == BW_STORE_RENEW)
        set_timeout(store, asked->ttl_ns);
    if (campaign && changes_campaign(asked->op)) {
        etcd_campaign_queue_task(campaign, task);
        return 0;
    }
    task->campaign = campaign;
    if (campaign)
        campaign->asked_ms = etcd_now_ms();
    etcd_begin(task);
    return 0;
}

static void cancel(struct bw_store *store, uint64_t id)
{
    bw_jobs_cancel(&store->jobs, id);
}

/* ---- the connection ---- */

static void on_status(void *context, const ProtobufCMessage *message,
                      const struct bw_grpc_result *result)
{
    struct bw_store *store = context;
    const Api__StatusResponse *status = (const Api__StatusResponse *)message;
    (void)result; /* a server that does not answer it is still usable */
    if (status)
        snprintf(store->version, sizeof store->version, "%s", status->version);
}

static void on_up(void *context)
{
    struct bw_store *store = context;
    Api__StatusRequest request = API__STATUS_REQUEST__INIT;
    char why[BW_GRPC_WHY_MAX + 1];
    if (!store->version[0])
        etcd_client_ask(store->client, &etcd_status_method, &request.base, false, on_status, store,
                        why);
    etcd_watches_restart(store);
}

static void on_down(void *context)
{
    (void)context; /* streams and calls have ended themselves */
}

static void on_timer(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    etcd_campaigns_tick(store);
    etcd_watches_restart(store);
    uv_timer_set_repeat(timer, store->timeout_ms / 4);
}

/* The timer runs only if there are candidates or lost watches. */
void etcd_start_timer(struct bw_store *store)
{
    if (!uv_is_active((uv_handle_t *)&store->timer))
        uv_timer_start(&store->timer, on_timer, store->timeout_ms / 4, store->timeout_ms / 4);
}

static bool about_server(struct bw_store *store, char *about)
{
    snprintf(about, BW_WHY_MAX + 1, "%s %s", store->ops->scheme, store->version);
    return store->version[0] != '\0';
}

/* ---- opening and closing ---- */

static const char *const settings[] = {"ca-file", "cert-file", "key-file", "password-file", NULL};

static bool is_tls(const struct bw_url *url)
{
    return url->scheme[strlen(url->scheme) - 1] == 's';
}

static int check_url(const struct bw_url *url, char *why)
{
    int error = bw_url_check_keys(url, settings, why);
    if (error)
        return error;
    if (url->hosts == 0)
        return bw_store_explain(why, BW_EINVAL, "invalid %s: URL: missing host; expected %s://HOST",
                                url->scheme, url->scheme);
    for (int i = 0; i < 3; i++)
        if (!is_tls(url) && bw_url_query(url, settings[i]))
            return bw_store_explain(why, BW_EINVAL, "%s needs TLS; use %ss://", settings[i],
                                    url->scheme);
    if (strlen(url->path) > ETCD_PREFIX_MAX)
        return bw_store_explain(why, BW_EINVAL,
                                "invalid %s: URL: the prefix is longer than %u bytes", url->scheme,
                                ETCD_PREFIX_MAX);
    if (url->path[0] == '/')
        return bw_store_explain(why, BW_EINVAL,
                                "invalid %s: URL: the prefix must not begin with '/'", url->scheme);
    return 0;
}

static int read_url(struct bw_store *store, const char *text, struct etcd_client_options *options,
                    char *why)
{
    struct bw_url url;
    int error = bw_url_parse(&url, text, why);
    if (error == 0)
        error = check_url(&url, why);
    if (error == 0)
        error = bw_url_secret(&url, "password", "ETCDCTL_PASSWORD", options->password,
                              sizeof options->password, why);
    memset(url.password, 0, sizeof url.password);
    if (error == 0 && url.user[0] && !options->password[0])
        error = bw_store_explain(why, BW_EINVAL,
                                 "missing password of user %.60s: use ?password-file=FILE or "
                                 "ETCDCTL_PASSWORD",
                                 url.user);
    if (error)
        return error;
    memcpy(options->user, url.user, sizeof options->user);
    snprintf(store->prefix, sizeof store->prefix, "%.255s", url.path);
    size_t length = strlen(store->prefix);
    while (length > 0 && store->prefix[length - 1] == '/')
        store->prefix[--length] = '\0';
    for (uint32_t i = 0; i < url.hosts; i++) {
        struct bw_grpc_endpoint *endpoint = &options->grpc.endpoints[options->grpc.count++];
        snprintf(endpoint->host, sizeof endpoint->host, "%s", url.host[i].name);
        endpoint->port = url.host[i].port ? url.host[i].port : PORT;
    }
    if (!is_tls(&url))
        return 0;
    struct bw_tls_files files = {.ca_file = bw_url_query(&url, "ca-file"),
                                 .cert_file = bw_url_query(&url, "cert-file"),
                                 .key_file = bw_url_query(&url, "key-file")};
    return bw_tls_config_new(&store->tls, &files, why);
}

static void free_store(struct bw_store *store)
{
    etcd_campaigns_free(store);
    bw_tls_config_free(store->tls);
    free(store);
}

static void handle_closed(struct bw_store *store)
{
    if (--store->handles == 0)
        free_store(store);
}

static void on_timer_closed(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

static void on_jobs_closed(struct bw_jobs *jobs)
{
    handle_closed(jobs->context);
}

static int open_client(struct bw_store *store, struct etcd_client_options *options, char *why)
{
    options->grpc.loop = store->loop;
    options->grpc.tls = store->tls;
    options->binds = store->ops->hold != NULL;
    options->context = store;
    options->up = on_up;
    options->down = on_down;
    store->timeout_ms = BW_GRPC_TIMEOUT_MS;
    if (etcd_client_open(&store->client, options) != 0)
        return bw_store_explain(why, BW_ENOMEM, "no memory left");
    return 0;
}

static int open_store(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                      const struct bw_store_options *options, char *why,
                      const struct bw_store_ops *ops)
{
    struct etcd_client_options client = {.user = ""};
    struct bw_store *store = calloc(1, sizeof *store);
    if (!store)
        return bw_store_explain(why, BW_ENOMEM, "no memory left");
    store->ops = ops;
    store->loop = loop;
    int error = read_url(store, url, &client, why);
    if (error == 0 && bw_jobs_open(&store->jobs, loop, options, forget, store) != 0)
        error = bw_store_explain(why, BW_ENOMEM, "no memory left");
    if (error) {
        free_store(store);
        return error;
    }
    store->handles = 2;
    uv_timer_init(loop, &store->timer);
    store->timer.data = store;
    error = open_client(store, &client, why);
    memset(client.password, 0, sizeof client.password);
    if (error) {
        bw_jobs_close(&store->jobs, on_jobs_closed);
        uv_close((uv_handle_t *)&store->timer, on_timer_closed);
        return error;
    }
    *out = store;
    return 0;
}

static void close_store(struct bw_store *store)
{
    store->closed = true;
    bw_jobs_close(&store->jobs, on_jobs_closed);
    etcd_client_close(store->client);
    store->keeper = store->watcher = NULL;
    while (store->tasks)
        etcd_task_end(store->tasks);
    etcd_watches_free(store);
    uv_close((uv_handle_t *)&store->timer, on_timer_closed);
}

/* A server with default settings grants at least two seconds and counts whole seconds. It may grant
 * more than requested; the holder counts what it requested. */
#define TRAITS                                                                                     \
    (BW_STORE_TOKEN | BW_STORE_NOTIFIES | BW_STORE_QUEUE | BW_STORE_LISTS | BW_STORE_NOTES |       \
     BW_STORE_NAMES | BW_STORE_LEASE_APART)

#define ETCD_OPS(variable, name, text, hold_function)                                              \
    static int open_##variable(struct bw_store **out, const char *url, struct uv_loop_s *loop,     \
                               const struct bw_store_options *options, char *why);                 \
    static const struct bw_store_ops variable = {.scheme = name,                                   \
                                                 .traits = TRAITS,                                 \
                                                 .ttl_min_ns = 2 * BW_SEC,                         \
                                                 .ttl_unit_ns = BW_SEC,                            \
                                                 .summary = text,                                  \
                                                 .open = open_##variable,                          \
                                                 .request = request,                               \
                                                 .cancel = cancel,                                 \
                                                 .close = close_store,                             \
                                                 .about = about_server,                            \
                                                 .hold = hold_function};                           \
    static int open_##variable(struct bw_store **out, const char *url, struct uv_loop_s *loop,     \
                               const struct bw_store_options *options, char *why)                  \
    {                                                                                              \
        return open_store(out, url, loop, options, why, &variable);                                \
    }

ETCD_OPS(etcd_ops, "etcd",
         "etcd: one leader while a majority of the cluster is up; candidates of Go's "
         "concurrency.Election and etcdctl elect take part; elected in order",
         NULL)
ETCD_OPS(bellwether_ops, "bellwether",
         "bellwether serve: one leader while a majority of the cluster is up; elected in order",
         etcd_campaigns_hold)

static const struct bw_store_ops *find(const char *url, char *why)
{
    why[0] = '\0';
    return strncmp(url, "bellwether", 10) == 0 ? &bellwether_ops : &etcd_ops;
}

BW_STORE_MODULE(find);
