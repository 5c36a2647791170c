/* The ZooKeeper store: zookeeper://[USER@]HOST[:PORT],.../PATH
 *
 * Model: an ensemble orders all writes by a transaction id (zxid). It expires a session from which
 * it has received nothing for the session's timeout. A candidate is an ephemeral sequential node
 * below the election's path, named as Curator's LeaderLatch or kazoo's Election names it. The first
 * node leads, so Bellwether and those clients exclude each other.
 *
 * The token is the czxid of the leader's node: the id of the transaction that created it. It grows
 * from leader to leader:
 *   - The server numbers the nodes of one path in the order of their creating transactions. So of
 *     two existing nodes, the one in front has the lower czxid and leads first.
 *   - A node created after some node has led has a higher czxid than that node.
 *   - A candidate that waited long keeps its czxid, but every leader before it was in front of it
 *     and so had a lower one. A candidate that lost its place gets a new node at the end.
 * The store still compares the token with the record and with the highest token in memory. It
 * refuses to lead on an ensemble that was wiped and restarted its transaction ids.
 *
 * The servers expire leases. The holder's deadline is the elector's own and counts from when it
 * sent its renewal; the session timeout is 1.5 times the TTL (client.h explains why). A session has
 * one timeout, so each lease length has its own session, up to eight per process. Further lengths
 * use a session that is longer.
 *
 * Guarantees:
 *   - Two leaders never have valid leases at the same time while clock rates keep to the declared
 *     bound.
 *   - Tokens grow.
 *   - Waiting candidates are served in order, and the end of a leadership wakes one of them.
 *
 * Not guaranteed: that a leader's work is dead when its node is gone. The work is listed in
 * `unconfirmed` until its end is confirmed. */
#include "store/module.h"
#include "store/zookeeper/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_MIN_NS     BW_SEC
#define TTL_DEFAULT_NS (10 * BW_SEC) /* for requests without a TTL */

/* ---- sessions ---- */

static void on_ready(struct bw_zk_client *client)
{
    struct bw_zk_session *session = client->hooks.context;
    bw_zk_entries_replace(session);
    bw_zk_waiting_start(session);
    bw_zk_end_old_session(session);
}

static void on_lost(struct bw_zk_client *client)
{
    bw_zk_watches_renew(client->hooks.context);
}

static void on_expired(struct bw_zk_client *client)
{
    bw_zk_entries_expired(client->hooks.context);
}

static bool on_tick(struct bw_zk_client *client)
{
    struct bw_zk_session *session = client->hooks.context;
    bw_zk_waiting_expire(session);
    return client->ready && bw_zk_entries_lapse(session);
}

static void on_changed(struct bw_zk_client *client, uint64_t number)
{
    struct bw_zk_session *session = client->hooks.context;
    bw_zk_watches_fire(session->store, number);
}

static struct bw_zk_session *open_session(struct bw_store *store, bw_time ttl_ns)
{
    struct bw_zk_session *session = calloc(1, sizeof *session);
    struct bw_zk_hooks hooks = {.context = session,
                                .ready = on_ready,
                                .lost = on_lost,
                                .expired = on_expired,
                                .tick = on_tick,
                                .changed = on_changed};
    if (!session)
        return NULL;
    session->store = store;
    if (bw_zk_client_open(&session->client, &store->url, store->loop, ttl_ns, &hooks) != 0) {
        free(session);
        return NULL;
    }
    session->client.auth = store->auth[0] ? store->auth : NULL;
    session->client.acl = store->acl;
    store->sessions[store->session_count++] = session;
    return session;
}

/* Returns the session of that length; otherwise a new one; otherwise the shortest longer one. */
static struct bw_zk_session *session_for(struct bw_store *store, bw_time ttl_ns)
{
    struct bw_zk_session *longer = NULL;
    if (ttl_ns <= 0 && store->session_count > 0)
        return store->sessions[0];
    bw_time wanted = ttl_ns > 0 ? bw_time_max(ttl_ns, TTL_MIN_NS) : TTL_DEFAULT_NS;
    for (unsigned i = 0; i < store->session_count; i++) {
        struct bw_zk_session *at = store->sessions[i];
        if (at->client.ttl_ns == wanted)
            return at;
        bool fits = at->client.ttl_ns > wanted;
        if (fits && (!longer || at->client.ttl_ns < longer->client.ttl_ns))
            longer = at;
    }
    return store->session_count < BW_ZK_SESSIONS_MAX ? open_session(store, wanted) : longer;
}

/* ---- requests ---- */

static void (*const starts[])(struct bw_zk_op *op) = {
    [BW_STORE_ACQUIRE] = bw_zk_acquire, [BW_STORE_RENEW] = bw_zk_renew,
    [BW_STORE_RELEASE] = bw_zk_release, [BW_STORE_READ] = bw_zk_read,
    [BW_STORE_WATCH] = bw_zk_watch,     [BW_STORE_ENTER] = bw_zk_enter,
    [BW_STORE_LEAVE] = bw_zk_leave,     [BW_STORE_LIST] = bw_zk_list,
    [BW_STORE_NOTE] = bw_zk_note,       [BW_STORE_ELECTIONS] = bw_zk_elections,
};

/* ELECTIONS has the election "", whose path is the parent of all elections. */
static int zk_request(struct bw_store *store, const struct bw_store_request *request)
{
    int error = bw_store_asks_names(request) ? 0 : bw_store_request_check(request, TTL_MIN_NS);
    struct bw_zk_election *election = error ? NULL : bw_zk_election(store, request->election);
    if (!election)
        return error ? error : BW_ELIMIT;
    struct bw_zk_entry *entry = bw_zk_entry_find(election, request->candidate);
    struct bw_zk_session *session = entry ? entry->session : session_for(store, request->ttl_ns);
    struct bw_job *job = session ? bw_jobs_add(&store->jobs, request) : NULL;
    if (!job)
        return BW_ELIMIT;
    struct bw_zk_op *op = bw_zk_op_new(session, election, job);
    if (!op) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory left");
        return 0;
    }
    /* any request shows that a candidate is alive; a leader must renew */
    if (entry && !entry->leads)
        entry->requested_at = uv_now(store->loop);
    op->start = starts[request->op];
    bw_zk_op_start(op);
    bw_zk_client_flush(&session->client);
    return 0;
}

static void zk_cancel(struct bw_store *store, uint64_t id)
{
    bw_jobs_cancel(&store->jobs, id);
}

/* ---- open and close ---- */

static int read_auth(struct bw_store *store, char *why)
{
    char password[512];
    int error = bw_url_secret(&store->url, "password", "BELLWETHER_ZOOKEEPER_PASSWORD", password,
                              sizeof password, why);
    if (error)
        return error;
    if (!store->url.user[0] != !password[0])
        error = bw_store_explain(why, BW_EINVAL,
                                 "user and password must be given together: "
                                 "zookeeper://USER@HOST/PATH?password-file=FILE");
    else if (password[0])
        snprintf(store->auth, sizeof store->auth, "%s:%s", store->url.user, password);
    explicit_bzero(password, sizeof password);
    return error;
}

static int read_acl(struct bw_store *store, char *why)
{
    const char *acl = bw_url_query(&store->url, "acl");
    if (!acl)
        acl = store->auth[0] ? "creator" : "open";
    bool open = strcmp(acl, "open") == 0, creator = strcmp(acl, "creator") == 0;
    if (!open && !creator && strcmp(acl, "read") != 0)
        return bw_store_explain(why, BW_EINVAL,
                                "invalid acl '%.40s': expected open, creator or read", acl);
    if (!open && !store->auth[0])
        return bw_store_explain(why, BW_EINVAL, "acl=%s needs a user and a password", acl);
    store->acls[0] = ZOO_CREATOR_ALL_ACL.data[0];
    store->acls[1] = ZOO_READ_ACL_UNSAFE.data[0];
    store->own_acl = (struct ACL_vector){.count = 2, .data = store->acls};
    store->acl = open ? &ZOO_OPEN_ACL_UNSAFE : creator ? &ZOO_CREATOR_ALL_ACL : &store->own_acl;
    return 0;
}

static int read_url(struct bw_store *store, const char *text, char *why)
{
    static const char *const keys[] = {"recipe", "acl", "password-file", NULL};
    int error = bw_url_parse(&store->url, text, why);
    if (!error)
        error = bw_url_check_keys(&store->url, keys, why);
    if (error)
        return error;
    const char *recipe = bw_url_query(&store->url, "recipe");
    if (recipe && strcmp(recipe, "kazoo") != 0 && strcmp(recipe, "curator") != 0)
        return bw_store_explain(why, BW_EINVAL, "invalid recipe '%.40s': expected curator or kazoo",
                                recipe);
    store->recipe = recipe && strcmp(recipe, "kazoo") == 0 ? BW_ZK_KAZOO : BW_ZK_CURATOR;
    if (store->url.hosts == 0 || !store->url.host[0].name[0])
        return bw_store_explain(why, BW_EINVAL, "no host in the zookeeper: URL");
    size_t length = strlen(store->url.path);
    while (length > 0 && store->url.path[length - 1] == '/')
        length--;
    if (length >= BW_ZK_BASE_MAX)
        return bw_store_explain(why, BW_EINVAL, "invalid path: longer than %u bytes",
                                BW_ZK_BASE_MAX - 1);
    if (length > 0)
        snprintf(store->base, sizeof store->base, "/%.*s", (int)length, store->url.path);
    if (!bw_zk_base_check(store->base, why))
        return BW_EINVAL;
    error = read_auth(store, why);
    return error ? error : read_acl(store, why);
}

static int zk_open(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                   const struct bw_store_options *options, char *why)
{
    struct bw_store *store = calloc(1, sizeof *store);
    if (!store)
        return bw_store_explain(why, BW_ENOMEM, "no memory left");
    store->loop = loop;
    int error = read_url(store, url, why);
    if (!error)
        error = bw_jobs_open(&store->jobs, loop, options, bw_zk_forget, store);
    if (error) {
        explicit_bzero(store->auth, sizeof store->auth);
        free(store);
        return error;
    }
    *out = store;
    return 0;
}

static void part_closed(struct bw_store *store)
{
    if (--store->closing > 0)
        return;
    for (unsigned i = 0; i < store->session_count; i++)
        free(store->sessions[i]);
    explicit_bzero(store->auth, sizeof store->auth);
    free(store);
}

static void on_jobs_closed(struct bw_jobs *jobs)
{
    part_closed(jobs->context);
}

static void on_client_closed(struct bw_zk_client *client)
{
    part_closed(((struct bw_zk_session *)client->hooks.context)->store);
}

static bool leads(const struct bw_zk_session *session)
{
    for (const struct bw_zk_entry *entry = session->entries; entry; entry = entry->next_in_session)
        if (entry->leads)
            return true;
    return false;
}

/* A leadership that was not released keeps its session until the session expires: the work may
 * still run. */
static void zk_close(struct bw_store *store)
{
    store->closing = 1 + store->session_count;
    bw_jobs_close(&store->jobs, on_jobs_closed);
    for (unsigned i = 0; i < store->session_count; i++) {
        struct bw_zk_session *session = store->sessions[i];
        bw_zk_client_close(&session->client, !leads(session), on_client_closed);
        if (session->ending_old) {
            store->closing++;
            bw_zk_end_old_session_stop(session, on_client_closed);
        }
        bw_zk_entries_free(session);
    }
    bw_zk_elections_free(store);
}

/* The protocol does not report a version. The granted session timeout shows which TTLs are
 * possible. */
static bool zk_about(struct bw_store *store, char *about)
{
    for (unsigned i = 0; i < store->session_count; i++) {
        const struct bw_zk_client *client = &store->sessions[i]->client;
        if (client->granted_ms <= 0)
            continue;
        snprintf(about, BW_WHY_MAX + 1,
                 "ZooKeeper (version unknown); granted a session of %d ms, requested %d ms",
                 client->granted_ms, client->wanted_ms);
        return true;
    }
    return false;
}

static const struct bw_store_ops ops = {
    .scheme = "zookeeper",
    .traits = BW_STORE_TOKEN | BW_STORE_NOTIFIES | BW_STORE_QUEUE | BW_STORE_LISTS |
              BW_STORE_NOTES | BW_STORE_NAMES,
    .ttl_min_ns = TTL_MIN_NS,
    .ttl_unit_ns = BW_MS,
    .summary = "ZooKeeper: a lease expires with its session, after the holder's own "
               "deadline; candidates are served in order; the token is a czxid",
    .open = zk_open,
    .request = zk_request,
    .cancel = zk_cancel,
    .close = zk_close,
    .about = zk_about};

static const struct bw_store_ops *find(const char *url, char *why)
{
    struct bw_url parts;
    return bw_url_parse(&parts, url, why) == 0 ? &ops : NULL;
}

BW_STORE_MODULE(find);
