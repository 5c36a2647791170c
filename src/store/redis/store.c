/* The Redis store, on hiredis' protocol: one server, the master that sentinels name, or Redlock
 * over several.
 *
 * Model: each server runs scripts one after the other and ends leases by its own wall clock. One
 * server gives a token from a counter beside the lock; it only grows as long as the server keeps
 * its data, and never falls below what any candidate that asks has seen. A failover or a restart
 * can forget the newest writes: a candidate that saw the forgotten leadership waits it out; for one
 * that did not there are guards, and `wait` and min-replicas-to-write make it rarer.
 * Redlock survives the loss of a minority but gives no token. Not for a Redis Cluster.
 *
 * The layout is in view.h; the parts are named in state.h. */
#include "store/module.h"
#include "store/redis/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FIRST_PATIENCE_MS 2000u
#define TTL_MIN_ONE       (10 * BW_MS)
#define TTL_MIN_SEVERAL   (100 * BW_MS) /* drift and expiry take 1 % and 2 ms of it */

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
    link->patience_ms = FIRST_PATIENCE_MS;
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
    node->ear.events = (struct redis_link_events){.context = store,
                                                  .up = redis_watch_up,
                                                  .down = redis_watch_down,
                                                  .message = redis_watch_message};
    open_link(store, &node->link, &node->find_link, i);
    open_link(store, &node->ear, &node->find_ear, i);
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
    uv_timer_t *timers[] = {&store->stragglers, &store->looks, &store->renews};
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
        return bw_store_say(why, BW_EIO, "no random numbers");
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
        return bw_store_say(why, BW_ENOMEM, "no memory for the Redis store");
    store->loop = loop;
    int error = set_up(store, url, why);
    if (error == 0 && bw_jobs_open(&store->jobs, loop, options, redis_ask_forget, store) != 0)
        error = bw_store_say(why, BW_ENOMEM, "no memory for the Redis store");
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
        close_link(&store->node[i].ear);
    }
    uv_close((uv_handle_t *)&store->stragglers, on_timer_closed);
    uv_close((uv_handle_t *)&store->looks, on_timer_closed);
    uv_close((uv_handle_t *)&store->renews, on_timer_closed);
}

/* ---- requests ---- */

static int take_request(struct bw_store *store, const struct bw_store_request *request,
                        bw_time ttl_min_ns)
{
    if (bw_store_request_check(request, ttl_min_ns) != 0)
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

/* Of several instances: the first that has said anything, and how many are there. */
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

static const char whose_clock[] = "the Redis server's wall clock: setting it ends leases early or "
                                  "late";

static const struct bw_store_ops one = {
    .scheme = "redis",
    .traits = BW_STORE_TOKEN | BW_STORE_NOTIFIES | BW_STORE_LISTS | BW_STORE_NOTES,
    .ttl_min_ns = TTL_MIN_ONE,
    .ttl_unit_ns = BW_MS,
    .summary =
        "one Redis master: a release names who is next, though newcomers and strangers race; "
        "the token grows while the server keeps its data, or some candidate that saw it "
        "lives; one that knows nothing of what a failover forgot may lead too early",
    .open = redis_open,
    .request = request_one,
    .cancel = redis_cancel,
    .close = redis_close,
    .clock = whose_clock,
    .about = redis_about,
};

static const struct bw_store_ops several = {
    .scheme = "redis",
    .traits = BW_STORE_NOTIFIES | BW_STORE_NOTES,
    .ttl_min_ns = TTL_MIN_SEVERAL,
    .ttl_unit_ns = BW_MS,
    .summary =
        "Redlock: works while a majority of the instances does; their wall clocks end leases; "
        "it gives no token, so nothing can reject the late writes of a leader that paused",
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
