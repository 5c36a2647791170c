/* Elections and locks as services: the server runs the recipe of Go's concurrency package.
 *
 * A campaign puts the key NAME/LEASE (hexadecimal) with the lease. It then waits until no older key
 * below NAME/ is left, and watches only its direct predecessor. A lock is the same without a value.
 *
 * A request without a lease gets one of 60 s that is not renewed. A client that disconnects before
 * it is elected is removed from the queue; otherwise it would become leader without knowing it. */
#include "core/base/error.h"
#include "serve/api/service.h"
#include "serve/auth/auth.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 4096u
#define OWN_TTL        (60 * BW_SEC) /* as in Go's sessions */
/* Events that are searched for the predecessor of a new candidate, before the whole queue is. */
#define RECENT_EVENTS 256u

struct campaign { /* a waiting Campaign, Lock or Observe */
    struct bw_watching watching;
    struct bw_call *call;
    bw_ref watcher;            /* 0: none */
    int64_t lease, revision;   /* lease and create revision of the campaign's own key */
    int64_t reported_revision; /* Observe: last reported revision */
    size_t name_length, prefix_length, key_length;
    unsigned char *key; /* "NAME/LEASE" */
    unsigned char *end; /* end of the key range "NAME/..." */
    bool lock;
    bool own_lease;  /* made by us for this request; no other request has it */
    bool queued;     /* its key exists, and the client was not notified of its turn yet */
    int64_t version; /* of the key when this campaign entered */
    struct bw_slice value;
    unsigned char bytes[];
};

static struct bw_slice data(ProtobufCBinaryData binary)
{
    return (struct bw_slice){binary.data, binary.len};
}

/* In etcd these services are clients of the KV service, so a refusal reaches the caller as
 * UNKNOWN. */
static void refuse(struct bw_call *call, enum bw_refusal refusal)
{
    if (refusal == BW_REFUSED_NO_LEASE)
        bw_call_end(call, BW_CODE_UNKNOWN, "etcdserver: requested lease not found");
    else if (refusal == BW_REFUSED_NO_KEY)
        bw_call_end(call, BW_CODE_UNKNOWN, "etcdserver: key is not provided");
    else
        bw_service_refuse(call, refusal);
}

/* Returns NULL after ending the call if the name is too long or memory cannot be allocated. */
static struct campaign *campaign_new(struct bw_call *call, ProtobufCBinaryData name, int64_t lease,
                                     ProtobufCBinaryData value)
{
    char suffix[24];
    if (name.len > NAME_MAX_BYTES) {
        refuse(call, BW_REFUSED_TOO_LARGE);
        return NULL;
    }
    int suffix_length = snprintf(suffix, sizeof suffix, "%" PRIx64, (uint64_t)lease);
    struct campaign *c =
        calloc(1, sizeof *c + 2 * (name.len + 1) + (size_t)suffix_length + 1 + value.len);
    if (!c) {
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: no memory");
        return NULL;
    }
    c->call = call;
    c->lease = lease;
    c->name_length = name.len;
    c->prefix_length = name.len + 1;
    c->key_length = c->prefix_length + (size_t)suffix_length;
    c->key = c->bytes;
    c->end = c->bytes + c->key_length + 1;
    if (name.len)
        memcpy(c->key, name.data, name.len);
    c->key[name.len] = '/';
    memcpy(c->key + c->prefix_length, suffix, (size_t)suffix_length);
    memcpy(c->end, c->key, c->prefix_length);
    c->end[name.len] = '/' + 1;
    if (value.len)
        memcpy(c->end + c->prefix_length, value.data, value.len);
    c->value = (struct bw_slice){c->end + c->prefix_length, value.len};
    call->state = c;
    return c;
}

static void stop_watching(struct campaign *c)
{
    if (c->watcher)
        bw_watcher_remove(bw_service_watches(c->call->service), c->watcher);
    c->watcher = 0;
}

static struct bw_keys key_range(const struct campaign *c)
{
    return (struct bw_keys){.key = {c->key, c->prefix_length}, .end = {c->end, c->prefix_length}};
}

/* Returns false after ending the call. */
static bool may_use(const struct campaign *c, enum bw_perm_type needs)
{
    struct bw_keys keys = key_range(c);
    return bw_auth_permits(c->call, needs, &keys);
}

/* Removes the candidate from the queue, unless this node shuts down: then its clients reconnect to
 * another node and keep their place.
 *
 * This node may be behind: the client may have gone to another node with the same lease, and lead
 * there by now. So the key is removed only if it cannot be the leader's, that is, if another key is
 * older, and if no Campaign has put it again. Otherwise it stays until its lease ends. A lease that
 * we made for this request is unknown to all others. */
static void leave_queue(struct campaign *c)
{
    struct bw_slice key = {c->key, c->key_length};
    struct bw_compare same[] = {
        {.what = BW_COMPARE_CREATE, .keys = {.key = key}, .number = c->revision},
        {.what = BW_COMPARE_VERSION, .keys = {.key = key}, .number = c->version}};
    struct bw_compare first = {.what = BW_COMPARE_CREATE,
                               .how = BW_COMPARE_GREATER,
                               .keys = key_range(c),
                               .number = c->revision - 1};
    struct bw_op delete = {.kind = BW_OP_DELETE, .delete = {.keys = {.key = key}}};
    struct bw_txn leave = {.compares = same, .compare_count = 2, .then = &delete, .then_count = 1};
    struct bw_op behind = {.kind = BW_OP_TXN, .txn = leave};
    struct bw_entry entry = {.kind = BW_ENTRY_TXN, .by = bw_auth_by(c->call), .txn = leave};
    if (!c->own_lease)
        entry.txn = (struct bw_txn){
            .compares = &first, .compare_count = 1, .otherwise = &behind, .otherwise_count = 1};
    if (!bw_service_is_leaving(c->call->service))
        bw_replica_propose(bw_service_replica(c->call->service), &entry);
}

bool bw_election_may_wait(const struct bw_call *call)
{
    return call->method && (call->method->message == bw_election_campaign ||
                            call->method->message == bw_election_lock);
}

bool bw_election_is_queued(const struct bw_call *call)
{
    const struct campaign *c = call->state;
    return call->method && call->method->gone == bw_election_gone && c && c->queued;
}

void bw_election_gone(struct bw_call *call)
{
    struct campaign *c = call->state;
    if (c && c->queued)
        leave_queue(c);
    if (c)
        stop_watching(c);
    free(c);
    call->state = NULL;
}

/* Returns one key of the range, ordered by creation; NULL: none. It examines all keys of the range,
 * which counts as work of this turn. */
static const struct bw_kv *first_of(struct campaign *c, enum bw_sort_order order,
                                    int64_t create_max)
{
    struct bw_service *service = c->call->service;
    struct bw_op_result result;
    struct bw_range range = {.keys = key_range(c),
                             .limit = 1,
                             .order = order,
                             .target = BW_SORT_CREATE,
                             .create_max = create_max};
    if (bw_registry_range(bw_service_registry(service), &range, bw_service_results(service),
                          &result) != BW_REFUSED_NONE)
        return NULL;
    bw_watches_spend(bw_service_watches(service), (uint32_t)result.count);
    return result.kv_count ? result.kvs[0] : NULL;
}

static void won_lock(struct campaign *c)
{
    Api__LockResponse out = API__LOCK_RESPONSE__INIT;
    Api__Header header;
    bw_service_header(c->call->service, &header, 0);
    out.header = &header;
    out.key = (ProtobufCBinaryData){.data = c->key, .len = c->key_length};
    bw_call_send(c->call, &out.base);
    bw_call_end(c->call, BW_CODE_OK, NULL);
}

static void won(struct campaign *c)
{
    Api__CampaignResponse out = API__CAMPAIGN_RESPONSE__INIT;
    Api__LeaderKey leader = API__LEADER_KEY__INIT;
    Api__Header header;
    if (c->call->ended || !bw_auth_may(c->call)) /* its rights may have changed meanwhile */
        return;
    c->queued = false;
    if (c->lock) {
        won_lock(c);
        return;
    }
    bw_service_header(c->call->service, &header, 0);
    out.header = &header;
    leader.name = (ProtobufCBinaryData){.data = c->key, .len = c->name_length};
    leader.key = (ProtobufCBinaryData){.data = c->key, .len = c->key_length};
    leader.rev = c->revision;
    leader.lease = c->lease;
    out.leader = &leader;
    bw_call_send(c->call, &out.base);
    bw_call_end(c->call, BW_CODE_OK, NULL);
}

static const struct bw_kv *own_key(struct campaign *c)
{
    struct bw_service *service = c->call->service;
    struct bw_op_result result;
    struct bw_range range = {.keys = {.key = {c->key, c->key_length}}};
    if (bw_registry_range(bw_service_registry(service), &range, bw_service_results(service),
                          &result) != BW_REFUSED_NONE)
        return NULL;
    return result.kv_count ? result.kvs[0] : NULL;
}

/* Returns the key that was created last before the campaign's own; NULL: none. Candidates that come
 * one after the other find it among the last events. So the cost of a long queue does not grow with
 * the square of its length. */
static const struct bw_kv *predecessor(struct campaign *c)
{
    struct bw_keys keys = key_range(c);
    const struct bw_kv *recent = bw_registry_created_before(bw_service_registry(c->call->service),
                                                            &keys, c->revision, RECENT_EVENTS);
    return recent ? recent : first_of(c, BW_SORT_DESCEND, c->revision - 1);
}

/* Checks whether it is this campaign's turn. If not, waits for its predecessor. Fails if its own
 * key is gone. */
static void check_turn(struct campaign *c)
{
    const struct bw_kv *own = own_key(c);
    stop_watching(c);
    if (!own || own->create_revision != c->revision) {
        refuse(c->call, BW_REFUSED_NO_LEASE);
        return;
    }
    const struct bw_kv *before = predecessor(c);
    if (!before) {
        won(c);
        return;
    }
    struct bw_watcher_spec spec = {.keys = {.key = bw_kv_key(before)}, .no_put = true};
    c->watcher = bw_service_watch(c->call->service, &c->watching, &spec);
    if (!c->watcher)
        bw_call_end(c->call, BW_CODE_EXHAUSTED, "etcdserver: too many watchers");
}

/* Skips pending events: only the current state counts. */
static void skip_events(struct campaign *c, bw_ref ref)
{
    struct bw_service *service = c->call->service;
    bw_watcher_skip(bw_service_watches(service), bw_service_registry(service), ref);
}

static void on_predecessor_gone(struct bw_watching *watching, bw_ref ref)
{
    struct campaign *c = (struct campaign *)watching;
    skip_events(c, ref);
    check_turn(c);
}

/* The version of the key after our request; 0: unknown. */
static int64_t entered_version(const struct campaign *c, const struct bw_results *results)
{
    if (results->succeeded)
        return 1;
    if (results->op_count == 0 || results->ops[0].kv_count == 0)
        return 0;
    return results->ops[0].kvs[0]->version + (c->lock ? 0 : 1); /* a Lock only reads the key */
}

static void entered(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results)
{
    struct campaign *c = call->state;
    (void)number;
    (void)entry;
    if (refusal) {
        refuse(call, refusal);
        return;
    }
    const struct bw_kv *own = own_key(c);
    c->revision = own ? own->create_revision : 0;
    c->queued = own != NULL;
    c->version = entered_version(c, results);
    check_turn(c);
}

/* Puts the key if it does not exist. If it exists, a campaign replaces its value and keeps its
 * place. */
static void enter(struct campaign *c)
{
    struct bw_slice key = {c->key, c->key_length};
    struct bw_compare absent = {.what = BW_COMPARE_CREATE, .keys = {.key = key}};
    struct bw_op put = {
        .kind = BW_OP_PUT,
        .put = {.key = key, .value = c->value, .lease = c->lease, .previous = true}};
    struct bw_op get = {.kind = BW_OP_RANGE, .range = {.keys = {.key = key}}};
    struct bw_entry entry = {.kind = BW_ENTRY_TXN,
                             .txn = {.compares = &absent,
                                     .compare_count = 1,
                                     .then = &put,
                                     .then_count = 1,
                                     .otherwise = c->lock ? &get : &put,
                                     .otherwise_count = 1}};
    bw_service_propose(c->call, &entry, entered);
}

static void granted(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results)
{
    (void)number;
    (void)entry;
    (void)results;
    if (refusal)
        refuse(call, refusal);
    else
        enter(call->state);
}

static void begin(struct bw_call *call, ProtobufCBinaryData name, int64_t lease,
                  ProtobufCBinaryData value, bool lock)
{
    int64_t id = lease ? lease : bw_lease_new_id();
    struct campaign *c = campaign_new(call, name, id, value);
    if (!c)
        return;
    if (id <= 0) {
        refuse(call, BW_REFUSED_NO_LEASE);
        return;
    }
    c->own_lease = lease == 0;
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = id, .ttl_ns = OWN_TTL}};
    c->watching.notify = on_predecessor_gone;
    c->lock = lock;
    if (!may_use(c, BW_PERM_READWRITE))
        return;
    if (lease)
        enter(c);
    else
        bw_service_propose(call, &entry, granted);
}

void bw_election_campaign(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__CampaignRequest *in = (const Api__CampaignRequest *)message;
    begin(call, in->name, in->lease, in->value, false);
}

void bw_election_lock(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__LockRequest *in = (const Api__LockRequest *)message;
    begin(call, in->name, in->lease, (ProtobufCBinaryData){0}, true);
}

/* ---- operations of a leader on its key ---- */

static void end_with_header(struct bw_call *call, ProtobufCMessage *out, Api__Header **slot,
                            int64_t revision)
{
    Api__Header header;
    bw_service_header(call->service, &header, revision);
    *slot = &header;
    bw_call_send(call, out);
    bw_call_end(call, BW_CODE_OK, NULL);
}

static void proclaimed(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                       enum bw_refusal refusal, const struct bw_results *results)
{
    Api__ProclaimResponse out = API__PROCLAIM_RESPONSE__INIT;
    (void)number;
    (void)entry;
    if (refusal)
        refuse(call, refusal);
    else if (!results->succeeded)
        bw_call_end(call, BW_CODE_UNKNOWN, "election: not leader");
    else
        end_with_header(call, &out.base, &out.header, results->revision);
}

static void resigned(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                     enum bw_refusal refusal, const struct bw_results *results)
{
    Api__ResignResponse out = API__RESIGN_RESPONSE__INIT;
    (void)number;
    (void)entry;
    if (refusal)
        refuse(call, refusal);
    else
        end_with_header(call, &out.base, &out.header, results->revision);
}

/* Performs an operation if the key still has the given create revision. */
static void while_leading(struct bw_call *call, const Api__LeaderKey *leader,
                          const struct bw_op *op,
                          void (*applied)(struct bw_call *, int64_t, const struct bw_entry *,
                                          enum bw_refusal, const struct bw_results *))
{
    struct bw_compare same = {
        .what = BW_COMPARE_CREATE, .keys = {.key = data(leader->key)}, .number = leader->rev};
    struct bw_entry entry = {
        .kind = BW_ENTRY_TXN,
        .txn = {.compares = &same, .compare_count = 1, .then = op, .then_count = 1}};
    bw_service_propose(call, &entry, applied);
}

void bw_election_proclaim(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__ProclaimRequest *in = (const Api__ProclaimRequest *)message;
    if (!in->leader || in->leader->key.len == 0) {
        bw_call_end(call, BW_CODE_UNKNOWN, "\"leader\" field must be provided");
        return;
    }
    struct bw_op put = {.kind = BW_OP_PUT,
                        .put = {.key = data(in->leader->key),
                                .value = data(in->value),
                                .lease = in->leader->lease < 0 ? 0 : in->leader->lease}};
    while_leading(call, in->leader, &put, proclaimed);
}

void bw_election_resign(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__ResignRequest *in = (const Api__ResignRequest *)message;
    if (!in->leader || in->leader->key.len == 0) {
        bw_call_end(call, BW_CODE_UNKNOWN, "\"leader\" field must be provided");
        return;
    }
    struct bw_op delete = {.kind = BW_OP_DELETE,
                           .delete = {.keys = {.key = data(in->leader->key)}}};
    while_leading(call, in->leader, &delete, resigned);
}

static void unlocked(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                     enum bw_refusal refusal, const struct bw_results *results)
{
    Api__UnlockResponse out = API__UNLOCK_RESPONSE__INIT;
    (void)number;
    (void)entry;
    if (refusal)
        refuse(call, refusal);
    else
        end_with_header(call, &out.base, &out.header, results->revision);
}

void bw_election_unlock(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__UnlockRequest *in = (const Api__UnlockRequest *)message;
    struct bw_entry entry = {.kind = BW_ENTRY_DELETE, .delete = {.keys = {.key = data(in->key)}}};
    bw_service_propose(call, &entry, unlocked);
}

/* ---- queries for the leader ---- */

static void send_leader(struct bw_call *call, const struct bw_kv *kv)
{
    Api__LeaderResponse out = API__LEADER_RESPONSE__INIT;
    Api__Header header;
    bw_service_scratch_clear(call->service);
    bw_service_header(call->service, &header, 0);
    out.header = &header;
    out.kv = bw_service_kv(call->service, kv, false);
    bw_call_send(call, &out.base);
}

static void leader_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    const struct bw_kv *kv = first_of(call->state, BW_SORT_ASCEND, 0);
    (void)number;
    (void)ttl_ns;
    if (!may_use(call->state, BW_PERM_READ))
        return;
    if (!kv) {
        bw_call_end(call, BW_CODE_UNKNOWN, "election: no leader");
        return;
    }
    send_leader(call, kv);
    bw_call_end(call, BW_CODE_OK, NULL);
}

static void observe(struct campaign *c)
{
    const struct bw_kv *kv = first_of(c, BW_SORT_ASCEND, 0);
    if (!kv || kv->mod_revision == c->reported_revision || !bw_auth_may(c->call) ||
        !may_use(c, BW_PERM_READ) || bw_call_is_full(c->call))
        return; /* a slow reader gets the latest leader when it reads again */
    c->reported_revision = kv->mod_revision;
    send_leader(c->call, kv);
}

void bw_election_observe_writable(struct bw_call *call)
{
    struct campaign *c = call->state;
    if (c && c->watcher)
        observe(c);
}

static void on_observed(struct bw_watching *watching, bw_ref ref)
{
    struct campaign *c = (struct campaign *)watching;
    skip_events(c, ref);
    observe(c);
}

static void observe_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    struct campaign *c = call->state;
    struct bw_watcher_spec spec = {.keys = key_range(c)};
    (void)number;
    (void)ttl_ns;
    c->watching.notify = on_observed;
    c->watcher = bw_service_watch(call->service, &c->watching, &spec);
    if (!c->watcher)
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: too many watchers");
    else
        observe(c);
}

static void read_then(struct bw_call *call, const ProtobufCMessage *message,
                      void (*answered)(struct bw_call *, int64_t, bw_time))
{
    const Api__LeaderRequest *in = (const Api__LeaderRequest *)message;
    if (campaign_new(call, in->name, 0, (ProtobufCBinaryData){0}))
        bw_service_read(call, answered);
}

void bw_election_leader(struct bw_call *call, const ProtobufCMessage *message)
{
    read_then(call, message, leader_readable);
}

void bw_election_observe(struct bw_call *call, const ProtobufCMessage *message)
{
    read_then(call, message, observe_readable);
}
