/* Campaigns: candidates of this process, their leases and their positions in the queue.
 *
 * A campaign gets its lease when it first needs one, and keeps it across leaderships until the
 * lease expires. Its election key, and with it its position in the queue, comes and goes.
 *
 * While a candidate waits and its caller keeps sending requests, the store sends the keepalives of
 * its lease. For a leader only RENEW does that, so a leader that stops renewing loses its lease. */
#include "store/etcd/state.h"

#include "store/kit/record_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TTL_DEFAULT_S 10 /* s; for an ENTER without a TTL */
/* The store keeps a waiting candidate's lease alive for this many TTLs after its last request. */
#define IDLE_TTLS_MAX 3u

static struct etcd_campaign **bucket_of(struct bw_store *store, const char *election,
                                        const char *candidate)
{
    uint32_t hash = 2166136261u;
    for (const char *at = election; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    for (const char *at = candidate; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    return &store->buckets[hash % ETCD_CAMPAIGN_BUCKETS];
}

static struct etcd_campaign *make_campaign(struct bw_store *store, const char *election,
                                           const char *candidate)
{
    struct etcd_campaign *campaign =
        store->campaign_count < ETCD_CAMPAIGNS_MAX ? calloc(1, sizeof *campaign) : NULL;
    struct etcd_campaign **bucket = bucket_of(store, election, candidate);
    if (!campaign)
        return NULL;
    campaign->store = store;
    snprintf(campaign->election, sizeof campaign->election, "%s", election);
    snprintf(campaign->candidate, sizeof campaign->candidate, "%s", candidate);
    etcd_names_make(&campaign->names, store->prefix, election);
    campaign->chain = *bucket;
    *bucket = campaign;
    campaign->next = store->campaigns;
    store->campaigns = campaign;
    store->campaign_count++;
    etcd_start_timer(store);
    return campaign;
}

struct etcd_campaign *etcd_campaign_find(struct bw_store *store, const char *election,
                                         const char *candidate, bool make)
{
    struct etcd_campaign *campaign = *bucket_of(store, election, candidate);
    while (campaign && (strcmp(campaign->election, election) != 0 ||
                        strcmp(campaign->candidate, candidate) != 0))
        campaign = campaign->chain;
    return campaign || !make ? campaign : make_campaign(store, election, candidate);
}

void etcd_campaigns_free(struct bw_store *store)
{
    while (store->campaigns) {
        struct etcd_campaign *campaign = store->campaigns;
        store->campaigns = campaign->next;
        free(campaign);
    }
}

void etcd_campaigns_forget(struct bw_store *store)
{
    for (struct etcd_campaign *campaign = store->campaigns; campaign; campaign = campaign->next) {
        campaign->lease = campaign->create = campaign->revision = 0;
        campaign->taken = campaign->fresh = campaign->known.valid = false;
        campaign->foreign.create = 0;
    }
}

/* ---- one task at a time ---- */

void etcd_campaign_queue_task(struct etcd_campaign *campaign, struct etcd_task *task)
{
    bool alone = !campaign->first;
    task->campaign = campaign;
    task->queued = true;
    campaign->asked_ms = etcd_now_ms();
    *(campaign->last ? &campaign->last->behind : &campaign->first) = task;
    campaign->last = task;
    if (alone)
        etcd_begin(task);
}

void etcd_campaign_end_task(struct etcd_campaign *campaign, struct etcd_task *ended)
{
    bool was_first = campaign->first == ended;
    struct etcd_task **at = &campaign->first, *before = NULL;
    while (*at != ended) {
        before = *at;
        at = &(*at)->behind;
    }
    *at = ended->behind;
    if (campaign->last == ended)
        campaign->last = before;
    if (was_first && campaign->first && !campaign->store->closed)
        etcd_begin(campaign->first);
}

/* ---- the lease ---- */

static int64_t seconds_of(bw_time ttl_ns)
{
    return ttl_ns > 0 ? (ttl_ns + BW_SEC - 1) / BW_SEC : TTL_DEFAULT_S;
}

static void put_in_queue(struct etcd_task *task);

/* Chooses a lease id. If it is in use, the server rejects it, and the next attempt chooses
 * another. */
static int64_t new_lease_id(void)
{
    uint32_t chance = 0;
    if (getrandom(&chance, sizeof chance, 0) != sizeof chance)
        chance = (uint32_t)(uv_hrtime() * 2654435761u);
    return ETCD_LEASE_OURS << 32 | chance;
}

static void note_bound(struct etcd_campaign *campaign)
{
    const struct etcd_client *client = campaign->store->client;
    campaign->bound = etcd_client_bound(client) ? etcd_client_connection(client) : 0;
}

int etcd_campaigns_hold(struct bw_store *store, const char *election,
                        unsigned char proof[BW_HOLD_PROOF])
{
    uint64_t connection = etcd_client_connection(store->client);
    for (const struct etcd_campaign *campaign = store->campaigns; campaign;
         campaign = campaign->next)
        if (campaign->taken && connection && campaign->bound == connection &&
            strcmp(campaign->election, election) == 0) {
            etcd_client_proof(store->client, proof);
            return etcd_client_fd(store->client);
        }
    return -1;
}

static void on_granted(void *context, const ProtobufCMessage *message,
                       const struct bw_grpc_result *result)
{
    struct etcd_task *task = context;
    struct etcd_campaign *campaign = task->campaign;
    const Api__LeaseGrantResponse *reply = (const Api__LeaseGrantResponse *)message;
    task->in_flight = false;
    if (!reply) { /* a lease alone makes no leader: certainly not carried out */
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, etcd_error(result), result->why);
        return;
    }
    if (reply->id <= 0 || reply->ttl < seconds_of(task->job ? task->job->request.ttl_ns : 0)) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EMALFORMED,
                       "the server granted a shorter lease than requested");
        return;
    }
    campaign->lease = reply->id;
    campaign->granted_s = reply->ttl;
    campaign->kept_ms = etcd_now_ms();
    campaign->create = 0;
    note_bound(campaign);
    campaign->keeps_sent = campaign->keeps_received = 0;
    campaign->taken = campaign->fresh = false;
    if (task->job)
        put_in_queue(task);
    else
        etcd_task_end(task);
}

static void grant(struct etcd_task *task)
{
    Api__LeaseGrantRequest request = API__LEASE_GRANT_REQUEST__INIT;
    char why[BW_GRPC_WHY_MAX + 1];
    request.ttl = seconds_of(task->job->request.ttl_ns);
    request.id = new_lease_id();
    task->in_flight = etcd_client_ask(task->store->client, &etcd_grant_method, &request.base, false,
                                      on_granted, task, why) == 0;
    if (!task->in_flight)
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EIO, why);
}

/* ---- the position in the queue ---- */

static void on_queued(struct etcd_task *task, const Api__TxnResponse *response)
{
    task->failed = NULL;
    if (!etcd_task_view(task, response))
        return;
    if (!task->job)
        etcd_task_end(task);
    else if (!task->view.own.there)
        etcd_task_fail(task, BW_OUTCOME_UNKNOWN, BW_EMALFORMED,
                       "the server lost the key that it had stored");
    else
        task->then(task);
}

/* If the lease has expired, its key is gone too: starts again with a new lease, once. */
static void on_join_failed(struct etcd_task *task, const struct bw_grpc_result *result)
{
    struct etcd_campaign *campaign = task->campaign;
    task->failed = NULL;
    if (result->code != BW_GRPC_NOT_FOUND || task->tries++ > 0 || !task->job) {
        etcd_task_fail(task, etcd_outcome(result), etcd_error(result), result->why);
        return;
    }
    campaign->lease = campaign->create = 0;
    campaign->taken = false;
    grant(task);
}

static void put_in_queue(struct etcd_task *task)
{
    const struct bw_store_request *request = &task->job->request;
    struct etcd_campaign *campaign = task->campaign;
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    struct etcd_key campaign_key, candidate_key;
    struct bw_candidate candidate = {.priority = request->priority};
    char text[BW_RECORD_JSON_MAX];
    if (request->value)
        snprintf(campaign->value, sizeof campaign->value, "%s", request->value);
    snprintf(candidate.id, sizeof candidate.id, "%s", request->candidate);
    memcpy(candidate.value, campaign->value, sizeof candidate.value);
    const char *value = campaign->value[0] ? campaign->value : campaign->candidate;
    if (bw_candidate_pack(&candidate, text, sizeof text) < 0) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for a candidate");
        return;
    }
    etcd_key_campaign(&campaign_key, &campaign->names, campaign->lease);
    etcd_key_candidate(&candidate_key, &campaign->names, campaign->lease);
    etcd_txn_init(&txn);
    etcd_txn_if_create(&txn, campaign_key.text, 0);
    etcd_txn_put(&txn, ETCD_THEN, campaign_key.text, value, campaign->lease);
    bool entering = request->op == BW_STORE_ENTER;
    etcd_txn_put(&txn, entering ? ETCD_BOTH : ETCD_THEN, candidate_key.text, text, campaign->lease);
    etcd_task_add_view(task, &txn, &keys);
    campaign->wanted = true;
    task->failed = on_join_failed;
    etcd_task_ask(task, &txn, on_queued);
}

void etcd_campaign_join(struct etcd_task *task, void (*then)(struct etcd_task *task))
{
    struct etcd_campaign *campaign = task->campaign;
    task->then = then;
    task->tries = 0;
    if (campaign->lease && campaign->granted_s >= seconds_of(task->job->request.ttl_ns))
        put_in_queue(task);
    else
        grant(task);
}

void etcd_campaign_rejoin(struct etcd_campaign *campaign, struct etcd_task *task,
                          void (*then)(struct etcd_task *task))
{
    task->queued = true;
    campaign->first = campaign->last = task;
    etcd_campaign_join(task, then);
}

/* Remembers a foreign candidate before us, which leaves no record when it has led.
 *
 * It is forgotten once it certainly was not the last leader: another candidate stands between it
 * and us. The response that gives us our position cannot show our predecessor, only the head of the
 * queue; by the next read the head may be gone. It may be gone even before we have a position. */
static void update_foreign(struct etcd_campaign *campaign, const struct etcd_view *view)
{
    struct etcd_foreign *foreign = &campaign->foreign;
    bool waits = view->head.there && !etcd_view_is_first(view);
    const struct etcd_entry *last = view->before.there ? &view->before : waits ? &view->head : NULL;
    if (!last)
        return;
    *foreign = (struct etcd_foreign){.create = 0};
    if (view->before.there ? view->before_ours : view->head_ours)
        return;
    ProtobufCBinaryData name = {.len = strlen(last->text), .data = (uint8_t *)last->text};
    foreign->create = last->create;
    etcd_text(foreign->name, BW_CANDIDATE_ID_MAX, &name);
    if (!foreign->name[0])
        snprintf(foreign->name, sizeof foreign->name, "unknown");
}

void etcd_campaign_update(struct etcd_campaign *campaign, const struct etcd_view *view)
{
    if (view->revision < campaign->revision)
        return;
    bool first = etcd_view_is_first(view);
    campaign->revision = view->revision;
    campaign->create = view->own.there ? view->own.create : 0;
    campaign->taken = first && etcd_view_is_taken(view);
    campaign->fresh = first && !campaign->taken;
    campaign->known = (struct etcd_known){.valid = view->head.there,
                                          .own = campaign->create,
                                          .head = view->head,
                                          .before = view->before};
    campaign->known.valid =
        campaign->known.valid && (first || view->before.there || !view->own.there);
    update_foreign(campaign, view);
    if (campaign->taken)
        campaign->foreign.create = 0;
    if (first)
        campaign->view = *view;
}

/* ---- keepalives ---- */

static void on_kept(void *context, const ProtobufCMessage *message)
{
    struct bw_store *store = context;
    const Api__LeaseKeepAliveResponse *reply = (const Api__LeaseKeepAliveResponse *)message;
    struct etcd_campaign *campaign = store->campaigns;
    while (campaign && campaign->lease != reply->id)
        campaign = campaign->next;
    if (!campaign)
        return;
    struct etcd_task *task = campaign->first;
    bool kept = reply->ttl >= campaign->granted_s;
    campaign->keeps_received++;
    note_bound(campaign);
    if (reply->ttl <= 0) { /* expired on the server */
        campaign->lease = campaign->create = 0;
        campaign->taken = campaign->fresh = false;
    }
    if (task && task->keep == ETCD_KEEP_ASKED &&
        (!kept || campaign->keeps_received >= task->keep_number))
        etcd_keep_answered(task, kept ? ETCD_KEPT : ETCD_KEEP_GONE,
                           reply->header ? reply->header->raft_term : 0);
}

static void on_keeper_done(void *context, const ProtobufCMessage *message,
                           const struct bw_grpc_result *result)
{
    struct bw_store *store = context;
    (void)message;
    (void)result;
    store->keeper = NULL;
    for (struct etcd_campaign *campaign = store->campaigns; campaign; campaign = campaign->next) {
        struct etcd_task *task = campaign->first;
        campaign->keeps_sent = campaign->keeps_received = 0;
        if (task && task->keep == ETCD_KEEP_ASKED)
            etcd_keep_answered(task, ETCD_KEEP_TIMEOUT, 0);
    }
}

bool etcd_campaign_keep_alive(struct etcd_campaign *campaign)
{
    struct bw_store *store = campaign->store;
    Api__LeaseKeepAliveRequest request = API__LEASE_KEEP_ALIVE_REQUEST__INIT;
    if (!store->keeper)
        store->keeper = etcd_stream_open(store->client, &etcd_keep_alive_method, on_kept,
                                         on_keeper_done, store);
    request.id = campaign->lease;
    campaign->kept_ms = etcd_now_ms();
    if (!store->keeper || !etcd_stream_send(store->keeper, &request.base))
        return false;
    campaign->keeps_sent++;
    return true;
}

static void keep_queued(struct etcd_campaign *campaign, uint64_t now)
{
    uint64_t ttl_ms = (uint64_t)campaign->granted_s * 1000;
    bool asks = now - campaign->asked_ms < IDLE_TTLS_MAX * ttl_ms;
    if (campaign->wanted && !campaign->taken && campaign->lease && asks &&
        now - campaign->kept_ms >= ttl_ms / 3)
        etcd_campaign_keep_alive(campaign);
}

void etcd_campaigns_tick(struct bw_store *store)
{
    uint64_t now = etcd_now_ms();
    for (struct etcd_campaign *campaign = store->campaigns; campaign; campaign = campaign->next) {
        struct etcd_task *task = campaign->first;
        if (task && task->keep == ETCD_KEEP_ASKED && now >= task->keep_until_ms)
            etcd_keep_answered(task, ETCD_KEEP_TIMEOUT, 0);
        keep_queued(campaign, now);
    }
}
