/* The Redis store, on hiredis' protocol parser: one server, the master that sentinels name, or
 * Redlock over several servers.
 *
 * Model: each server runs scripts one after another and expires leases by its own wall clock.
 *
 * One server issues tokens from a counter beside the lock. The token only grows while the server
 * keeps its data, and it never falls below the highest token that the asking candidate has seen. A
 * failover or a restart can lose the newest writes. A candidate that saw the lost leadership waits
 * until its TTL expires. A candidate that did not see it may lead too early; guards reject the late
 * writes of the old leader. `wait` and min-replicas-to-write make such a loss less likely.
 *
 * Redlock survives the loss of a minority of the servers but issues no token.
 *
 * Redis Cluster is not supported. view.h describes the keys, state.h lists the files. */
#include "store/module.h"
#include "store/redis/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FIRST_TIMEOUT_MS 2000u
#define TTL_MIN_ONE      (10 * BW_MS)
#define TTL_MIN_SEVERAL  (100 * BW_MS) /* drift and expiry take 1 % and 2 ms of the TTL */

/* ---- links ---- */

static void on_link_up(struct redis_link *link)
{
    struct bw_store *store = link->events.context;
    redis_watch_ask_keyspace(store, &store->node[link->node]);
}

static void on_link_down(struct redis_link *link)
{
    redis_watch_fail(link->events.context, link->why);
}

static void open_link(struct bw_store *store, struct redis_link *link,
                      struct redis_sentinel *sentinel, unsigned node)
{
    const struct redis_settings *settings = &store->settings;
    link->loop = store->loop;
    link->node = node;
    link->host = settings->host[node];
    link->login = &settings->login;
    link->tls = store->tls;
    link->timeout_ms = FIRST_TIMEOUT_MS;
    if (settings->master[0]) {
        sentinel->loop = store->loop;
        memcpy(sentinel->host, settings->host, sizeof sentinel->host);
        sentinel->hosts = settings->hosts;
        sentinel->tls = store->tls;
        snprintf(sentinel->master, sizeof sentinel->master, "%s", settings->master);
        snprintf(sentinel->password, sizeof sentinel->password, "%s", settings->sentinel_password);
        redis_sentinel_open(sentinel);
        link->sentinel = sentinel;
        store->handles++;
    }
    store->handles++;
    redis_link_open(link, bw_rng_next(&store->rng));
}

static void open_node(struct bw_store *store, unsigned i)
{
    struct redis_node *node = &store->node[i];
    node->link.events =
        (struct redis_link_events){.context = store, .up = on_link_up, .down = on_link_down};
    node->subscriber.events = (struct redis_link_events){.context = store,
                                                         .up = redis_watch_up,
                                                         .down = redis_watch_down,
                                                         .message = redis_watch_message};
    open_link(store, &node->link, &node->find_link, i);
    open_link(store, &node->subscriber, &node->find_subscriber, i);
}

/* ---- opening and closing ---- */

static void free_store(struct bw_store *store)
{
    redis_tls_context_free(store->tls);
    redis_elections_free(store);
    redis_list_free(store);
    explicit_bzero(&store->settings, sizeof store->settings);
    free(store);
}

static void one_closed(struct bw_store *store)
{
    if (--store->handles == 0)
        free_store(store);
}

static void on_jobs_closed(struct bw_jobs *jobs)
{
    one_closed(jobs->context);
}

static void on_link_closed(struct redis_link *link)
{
    one_closed(link->events.context);
}

static void on_sentinel_closed(struct redis_sentinel *sentinel)
{
    struct redis_link *link = sentinel->context;
    one_closed(link->events.context);
}

static void on_timer_closed(uv_handle_t *handle)
{
    one_closed(handle->data);
}

static void open_timers(struct bw_store *store)
{
    uv_timer_t *timers[] = {&store->stragglers, &store->refreshes, &store->renews};
    for (unsigned i = 0; i < 3; i++) {
        uv_timer_init(store->loop, timers[i]);
        timers[i]->data = store;
        store->handles++;
    }
}

static int set_up(struct bw_store *store, const char *url, char *why)
{
    struct redis_settings *settings = &store->settings;
    uint64_t seed;
    int error = redis_settings_read(settings, url, why);
    if (error != 0)
        return error;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed ||
        getrandom(&store->nonce, sizeof store->nonce, 0) != sizeof store->nonce)
        return bw_store_explain(why, BW_EIO, "cannot read random numbers from the kernel");
    bw_rng_init(&store->rng, seed);
    store->nodes = settings->master[0] ? 1 : settings->hosts;
    store->majority = store->nodes / 2 + 1;
    for (unsigned i = 0; i < REDIS_SCRIPTS; i++)
        redis_script_digest((enum redis_script_name)i, store->digest[i]);
    if (!settings->tls)
        return 0;
    store->tls = redis_tls_context_new(settings->ca_file[0] ? settings->ca_file : NULL,
                                       settings->cert_file[0] ? settings->cert_file : NULL,
                                       settings->key_file[0] ? settings->key_file : NULL, why);
    return store->tls ? 0 : BW_EINVAL;
}

static int redis_open(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                      const struct bw_store_options *options, char *why)
{
    struct bw_store *store = calloc(1, sizeof *store);
    if (!store)
        return bw_store_explain(why, BW_ENOMEM, "no memory for the Redis store");
    store->loop = loop;
    int error = set_up(store, url, why);
    if (error == 0 && bw_jobs_open(&store->jobs, loop, options, redis_ask_forget, store) != 0)
        error = bw_store_explain(why, BW_ENOMEM, "no memory for the Redis store");
    if (error != 0) {
        free_store(store);
        return error;
    }
    store->handles = 1;
    open_timers(store);
    for (unsigned i = 0; i < store->nodes; i++)
        open_node(store, i);
    *out = store;
    return 0;
}

static void close_link(struct redis_link *link)
{
    struct redis_sentinel *sentinel = link->sentinel;
    if (sentinel) {
        sentinel->context = link;
        redis_sentinel_close(sentinel, on_sentinel_closed);
    }
    redis_link_close(link, on_link_closed);
}

static void redis_close(struct bw_store *store)
{
    bw_jobs_close(&store->jobs, on_jobs_closed);
    while (store->asks)
        redis_ask_free(store->asks);
    for (unsigned i = 0; i < store->nodes; i++) {
        close_link(&store->node[i].link);
        close_link(&store->node[i].subscriber);
    }
    uv_close((uv_handle_t *)&store->stragglers, on_timer_closed);
    uv_close((uv_handle_t *)&store->refreshes, on_timer_closed);
    uv_close((uv_handle_t *)&store->renews, on_timer_closed);
}

/* ---- requests ---- */

/* ELECTIONS has the election "", which no other request can have. */
static int take_request(struct bw_store *store, const struct bw_store_request *request,
                        bw_time ttl_min_ns)
{
    if (!bw_store_asks_names(request) && bw_store_request_check(request, ttl_min_ns) != 0)
        return BW_EINVAL;
    struct bw_job *job = bw_jobs_add(&store->jobs, request);
    if (!job)
        return BW_ELIMIT;
    if (redis_ask_start(store, job) == 0)
        return 0;
    bw_jobs_cancel(&store->jobs, request->id);
    return BW_ELIMIT;
}

static int request_one(struct bw_store *store, const struct bw_store_request *request)
{
    return take_request(store, request, TTL_MIN_ONE);
}

static int request_several(struct bw_store *store, const struct bw_store_request *request)
{
    return take_request(store, request, TTL_MIN_SEVERAL);
}

static void redis_cancel(struct bw_store *store, uint64_t id)
{
    bw_jobs_cancel(&store->jobs, id);
}

/* Describes the first instance that has reported its version; with several instances also how many
 * are connected. */
static bool redis_about(struct bw_store *store, char *about)
{
    const char *first = NULL;
    unsigned up = 0;
    for (unsigned i = 0; i < store->nodes; i++) {
        const struct redis_link *link = &store->node[i].link;
        up += link->up;
        if (!first && link->about[0])
            first = link->about;
    }
    if (!first)
        return false;
    if (store->nodes == 1)
        snprintf(about, BW_WHY_MAX + 1, "%s", first);
    else
        snprintf(about, BW_WHY_MAX + 1, "%u of %u instances; %.180s", up, store->nodes, first);
    return true;
}

static const char whose_clock[] =
    "the Redis server's wall clock: setting it expires leases early or "
    "late";

static const struct bw_store_ops one = {
    .scheme = "redis",
    .traits = BW_STORE_TOKEN | BW_STORE_NOTIFIES | BW_STORE_LISTS | BW_STORE_NOTES | BW_STORE_NAMES,
    .ttl_min_ns = TTL_MIN_ONE,
    .ttl_unit_ns = BW_MS,
    .summary =
        "one Redis master: a release names the next candidate, but new and foreign clients race; "
        "the token grows while the server keeps its data or a candidate that saw it runs; "
        "a candidate that did not see a leadership lost in a failover may lead too early",
    .open = redis_open,
    .request = request_one,
    .cancel = redis_cancel,
    .close = redis_close,
    .clock = whose_clock,
    .about = redis_about,
};

static const struct bw_store_ops several = {
    .scheme = "redis",
    .traits = BW_STORE_NOTIFIES | BW_STORE_NOTES | BW_STORE_NAMES,
    .ttl_min_ns = TTL_MIN_SEVERAL,
    .ttl_unit_ns = BW_MS,
    .summary =
        "Redlock: available while a majority of the instances is; their wall clocks expire leases; "
        "no token, so no guard can reject the late writes of a paused leader",
    .open = redis_open,
    .request = request_several,
    .cancel = redis_cancel,
    .close = redis_close,
    .clock = whose_clock,
    .about = redis_about,
};

static const struct bw_store_ops *find_ops(const char *url, char *why)
{
    struct redis_settings settings;
    bool bad = redis_settings_read(&settings, url, why) != 0;
    bool many = settings.hosts > 1 && !settings.master[0];
    explicit_bzero(&settings, sizeof settings);
    if (bad)
        return NULL;
    return many ? &several : &one;
}

BW_STORE_MODULE(find_ops);
