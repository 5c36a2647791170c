/* Places in line. A seat gets its lease when it is first needed and keeps it over leaderships, as
 * long as it lives; its key, and with it its place, comes and goes.
 *
 * Who waits in line is kept there by us: its lease is renewed while somebody asks for it. Who leads
 * is not: only RENEW does that, so a holder that stops renewing loses its lease. */
#include "store/etcd/state.h"

#include "store/kit/record_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TTL_WITHOUT 10 /* s: who enters without a TTL */
/* One who has not asked for so many TTLs is no longer held in line by us. */
#define PATIENT_TTLS 3u

static struct etcd_seat **bucket_of(struct bw_store *store, const char *election,
                                    const char *candidate)
{
    uint32_t hash = 2166136261u;
    for (const char *at = election; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    for (const char *at = candidate; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    return &store->buckets[hash % ETCD_SEAT_BUCKETS];
}

static struct etcd_seat *make_seat(struct bw_store *store, const char *election,
                                   const char *candidate)
{
    struct etcd_seat *seat = store->seat_count < ETCD_SEATS_MAX ? calloc(1, sizeof *seat) : NULL;
    struct etcd_seat **bucket = bucket_of(store, election, candidate);
    if (!seat)
        return NULL;
    seat->store = store;
    snprintf(seat->election, sizeof seat->election, "%s", election);
    snprintf(seat->candidate, sizeof seat->candidate, "%s", candidate);
    etcd_names_make(&seat->names, store->prefix, election);
    seat->chain = *bucket;
    *bucket = seat;
    seat->next = store->seats;
    store->seats = seat;
    store->seat_count++;
    etcd_beat(store);
    return seat;
}

struct etcd_seat *etcd_seat_find(struct bw_store *store, const char *election,
                                 const char *candidate, bool make)
{
    struct etcd_seat *seat = *bucket_of(store, election, candidate);
    while (seat &&
           (strcmp(seat->election, election) != 0 || strcmp(seat->candidate, candidate) != 0))
        seat = seat->chain;
    return seat || !make ? seat : make_seat(store, election, candidate);
}

void etcd_seats_free(struct bw_store *store)
{
    while (store->seats) {
        struct etcd_seat *seat = store->seats;
        store->seats = seat->next;
        free(seat);
    }
}

void etcd_seats_forget(struct bw_store *store)
{
    for (struct etcd_seat *seat = store->seats; seat; seat = seat->next) {
        seat->lease = seat->create = seat->revision = 0;
        seat->taken = seat->fresh = seat->known.valid = false;
        seat->stranger.create = 0;
    }
}

/* ---- one task at a time ---- */

void etcd_seat_queue(struct etcd_seat *seat, struct etcd_task *task)
{
    bool alone = !seat->first;
    task->seat = seat;
    task->queued = true;
    seat->asked_ms = etcd_now_ms();
    *(seat->last ? &seat->last->behind : &seat->first) = task;
    seat->last = task;
    if (alone)
        etcd_begin(task);
}

void etcd_seat_next(struct etcd_seat *seat, struct etcd_task *ended)
{
    bool was_first = seat->first == ended;
    struct etcd_task **at = &seat->first, *before = NULL;
    while (*at != ended) {
        before = *at;
        at = &(*at)->behind;
    }
    *at = ended->behind;
    if (seat->last == ended)
        seat->last = before;
    if (was_first && seat->first && !seat->store->closed)
        etcd_begin(seat->first);
}

/* ---- the lease ---- */

static int64_t seconds_of(bw_time ttl_ns)
{
    return ttl_ns > 0 ? (ttl_ns + BW_SEC - 1) / BW_SEC : TTL_WITHOUT;
}

static void put_in_line(struct etcd_task *task);

/* One that is taken already is refused by the server, and tried again with another. */
static int64_t new_lease_id(void)
{
    uint32_t chance = 0;
    if (getrandom(&chance, sizeof chance, 0) != sizeof chance)
        chance = (uint32_t)(uv_hrtime() * 2654435761u);
    return ETCD_LEASE_OURS << 32 | chance;
}

static void note_bound(struct etcd_seat *seat)
{
    const struct etcd_client *client = seat->store->client;
    seat->bound = etcd_client_bound(client) ? etcd_client_connection(client) : 0;
}

int etcd_seats_hold(struct bw_store *store, const char *election,
                    unsigned char proof[BW_HOLD_PROOF])
{
    uint64_t connection = etcd_client_connection(store->client);
    for (const struct etcd_seat *seat = store->seats; seat; seat = seat->next)
        if (seat->taken && connection && seat->bound == connection &&
            strcmp(seat->election, election) == 0) {
            etcd_client_proof(store->client, proof);
            return etcd_client_fd(store->client);
        }
    return -1;
}

static void on_granted(void *context, const ProtobufCMessage *message,
                       const struct bw_grpc_result *result)
{
    struct etcd_task *task = context;
    struct etcd_seat *seat = task->seat;
    const Api__LeaseGrantResponse *reply = (const Api__LeaseGrantResponse *)message;
    task->asking = false;
    if (!reply) { /* nobody leads by a lease alone: certainly not carried out */
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EIO, result->why);
        return;
    }
    if (reply->id <= 0 || reply->ttl < seconds_of(task->job ? task->job->request.ttl_ns : 0)) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EMALFORMED,
                       "the server grants shorter leases than asked for");
        return;
    }
    seat->lease = reply->id;
    seat->granted_s = reply->ttl;
    seat->kept_ms = etcd_now_ms();
    seat->create = 0;
    note_bound(seat);
    seat->keeps_sent = seat->keeps_heard = 0;
    seat->taken = seat->fresh = false;
    if (task->job)
        put_in_line(task);
    else
        etcd_task_end(task);
}

static void grant(struct etcd_task *task)
{
    Api__LeaseGrantRequest request = API__LEASE_GRANT_REQUEST__INIT;
    char why[BW_GRPC_WHY_MAX + 1];
    request.ttl = seconds_of(task->job->request.ttl_ns);
    request.id = new_lease_id();
    task->asking = etcd_client_ask(task->store->client, &etcd_grant_method, &request.base, false,
                                   on_granted, task, why) == 0;
    if (!task->asking)
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_EIO, why);
}

/* ---- the place ---- */

static void on_in_line(struct etcd_task *task, const Api__TxnResponse *response)
{
    task->failed = NULL;
    if (!etcd_task_view(task, response))
        return;
    if (!task->job)
        etcd_task_end(task);
    else if (!task->view.own.there)
        etcd_task_fail(task, BW_OUTCOME_UNKNOWN, BW_EMALFORMED,
                       "the server lost the key it was given");
    else
        task->then(task);
}

/* A lease that ran out takes the place with it: once more from the start. */
static void on_no_place(struct etcd_task *task, const struct bw_grpc_result *result)
{
    struct etcd_seat *seat = task->seat;
    task->failed = NULL;
    if (result->code != BW_GRPC_NOT_FOUND || task->tries++ > 0 || !task->job) {
        etcd_task_fail(task, etcd_outcome(result), BW_EIO, result->why);
        return;
    }
    seat->lease = seat->create = 0;
    seat->taken = false;
    grant(task);
}

static void put_in_line(struct etcd_task *task)
{
    const struct bw_store_request *request = &task->job->request;
    struct etcd_seat *seat = task->seat;
    struct etcd_txn txn;
    struct etcd_view_keys keys;
    struct etcd_key seat_key, candidate_key;
    struct bw_candidate candidate = {.priority = request->priority};
    char text[BW_RECORD_JSON_MAX];
    if (request->value)
        snprintf(seat->value, sizeof seat->value, "%s", request->value);
    snprintf(candidate.id, sizeof candidate.id, "%s", request->candidate);
    memcpy(candidate.value, seat->value, sizeof candidate.value);
    const char *value = seat->value[0] ? seat->value : seat->candidate;
    if (bw_candidate_pack(&candidate, text, sizeof text) < 0) {
        etcd_task_fail(task, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for a candidate");
        return;
    }
    etcd_key_seat(&seat_key, &seat->names, seat->lease);
    etcd_key_candidate(&candidate_key, &seat->names, seat->lease);
    etcd_txn_init(&txn);
    etcd_txn_if_create(&txn, seat_key.text, 0);
    etcd_txn_put(&txn, ETCD_THEN, seat_key.text, value, seat->lease);
    bool entering = request->op == BW_STORE_ENTER;
    etcd_txn_put(&txn, entering ? ETCD_BOTH : ETCD_THEN, candidate_key.text, text, seat->lease);
    etcd_task_add_view(task, &txn, &keys);
    seat->wanted = true;
    task->failed = on_no_place;
    etcd_task_ask(task, &txn, on_in_line);
}

void etcd_seat_take_place(struct etcd_task *task, void (*then)(struct etcd_task *task))
{
    struct etcd_seat *seat = task->seat;
    task->then = then;
    task->tries = 0;
    if (seat->lease && seat->granted_s >= seconds_of(task->job->request.ttl_ns))
        put_in_line(task);
    else
        grant(task);
}

void etcd_seat_take_back(struct etcd_seat *seat, struct etcd_task *task,
                         void (*then)(struct etcd_task *task))
{
    task->queued = true;
    seat->first = seat->last = task;
    etcd_seat_take_place(task, then);
}

/* A stranger before us leaves no record of its own; it is remembered until it is known not to have
 * led: somebody else stands between it and us. The answer that gives us our place cannot show who
 * stands before it, only who leads: that one may be gone when we look again. */
static void note_stranger(struct etcd_seat *seat, const struct etcd_view *view)
{
    struct etcd_stranger *stranger = &seat->stranger;
    bool waits = view->own.there && view->head.there && !etcd_view_is_first(view);
    const struct etcd_entry *last = view->before.there ? &view->before : waits ? &view->head : NULL;
    if (!last)
        return;
    *stranger = (struct etcd_stranger){.create = 0};
    if (view->before.there ? view->before_ours : view->head_ours)
        return;
    ProtobufCBinaryData name = {.len = strlen(last->text), .data = (uint8_t *)last->text};
    stranger->create = last->create;
    etcd_text(stranger->name, BW_CANDIDATE_ID_MAX, &name);
    if (!stranger->name[0])
        snprintf(stranger->name, sizeof stranger->name, "unknown");
}

void etcd_seat_learn(struct etcd_seat *seat, const struct etcd_view *view)
{
    if (view->revision < seat->revision)
        return;
    bool first = etcd_view_is_first(view);
    seat->revision = view->revision;
    seat->create = view->own.there ? view->own.create : 0;
    seat->taken = first && etcd_view_is_taken(view);
    seat->fresh = first && !seat->taken;
    seat->known = (struct etcd_known){
        .valid = view->head.there, .own = seat->create, .head = view->head, .before = view->before};
    seat->known.valid = seat->known.valid && (first || view->before.there || !view->own.there);
    note_stranger(seat, view);
    if (seat->taken)
        seat->stranger.create = 0;
    if (first)
        seat->view = *view;
}

/* ---- signs of life ---- */

static void on_kept(void *context, const ProtobufCMessage *message)
{
    struct bw_store *store = context;
    const Api__LeaseKeepAliveResponse *reply = (const Api__LeaseKeepAliveResponse *)message;
    struct etcd_seat *seat = store->seats;
    while (seat && seat->lease != reply->id)
        seat = seat->next;
    if (!seat)
        return;
    struct etcd_task *task = seat->first;
    bool kept = reply->ttl >= seat->granted_s;
    seat->keeps_heard++;
    note_bound(seat);
    if (reply->ttl <= 0) { /* the server has forgotten it */
        seat->lease = seat->create = 0;
        seat->taken = seat->fresh = false;
    }
    if (task && task->keep == ETCD_KEEP_ASKED && (!kept || seat->keeps_heard >= task->keep_number))
        etcd_kept(task, kept ? ETCD_KEPT : ETCD_KEEP_GONE,
                  reply->header ? reply->header->raft_term : 0);
}

static void on_keeper_done(void *context, const ProtobufCMessage *message,
                           const struct bw_grpc_result *result)
{
    struct bw_store *store = context;
    (void)message;
    (void)result;
    store->keeper = NULL;
    for (struct etcd_seat *seat = store->seats; seat; seat = seat->next) {
        struct etcd_task *task = seat->first;
        seat->keeps_sent = seat->keeps_heard = 0;
        if (task && task->keep == ETCD_KEEP_ASKED)
            etcd_kept(task, ETCD_KEEP_SILENT, 0);
    }
}

bool etcd_seat_keep(struct etcd_seat *seat)
{
    struct bw_store *store = seat->store;
    Api__LeaseKeepAliveRequest request = API__LEASE_KEEP_ALIVE_REQUEST__INIT;
    if (!store->keeper)
        store->keeper = etcd_stream_open(store->client, &etcd_keep_alive_method, on_kept,
                                         on_keeper_done, store);
    request.id = seat->lease;
    seat->kept_ms = etcd_now_ms();
    if (!store->keeper || !etcd_stream_send(store->keeper, &request.base))
        return false;
    seat->keeps_sent++;
    return true;
}

static void keep_in_line(struct etcd_seat *seat, uint64_t now)
{
    uint64_t ttl_ms = (uint64_t)seat->granted_s * 1000;
    bool asks = now - seat->asked_ms < PATIENT_TTLS * ttl_ms;
    if (seat->wanted && !seat->taken && seat->lease && asks && now - seat->kept_ms >= ttl_ms / 3)
        etcd_seat_keep(seat);
}

void etcd_seats_beat(struct bw_store *store)
{
    uint64_t now = etcd_now_ms();
    for (struct etcd_seat *seat = store->seats; seat; seat = seat->next) {
        struct etcd_task *task = seat->first;
        if (task && task->keep == ETCD_KEEP_ASKED && now >= task->keep_until_ms)
            etcd_kept(task, ETCD_KEEP_SILENT, 0);
        keep_in_line(seat, now);
    }
}
