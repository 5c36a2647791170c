/* Elections and locks as services: the recipe of Go's concurrency package, carried out here.
 *
 * A campaign puts NAME/LEASE (hexadecimal) with the lease, then waits until no older key of NAME/
 * is left, looking at the one just before its own only. A lock is the same without a value.
 *
 * Who names no lease gets one of a minute, which nobody renews. Who goes before it was told that
 * its turn has come leaves the line, or it would lead one day without knowing. */
#include "core/base/error.h"
#include "serve/api/auth.h"
#include "serve/api/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 4096u
#define OWN_TTL        (60 * BW_SEC) /* as Go's sessions have it */

struct campaign { /* Campaign, Lock, Observe while they wait */
    struct bw_watching watching;
    struct bw_call *call;
    bw_ref watcher;          /* 0: none */
    int64_t lease, revision; /* of the own key */
    int64_t told;            /* Observe: the version last told */
    size_t name_length, prefix_length, key_length;
    unsigned char *key; /* "NAME/LEASE" */
    unsigned char *end; /* of the range of all keys "NAME/..." */
    bool lock;
    bool in_line; /* its key is there, and nobody was told that it is its turn */
    struct bw_slice value;
    unsigned char bytes[];
};

static struct bw_slice data(ProtobufCBinaryData binary)
{
    return (struct bw_slice){binary.data, binary.len};
}

/* Here etcd's services are clients of their own: what they are refused comes out as an unknown
 * error. */
static void refuse(struct bw_call *call, enum bw_refusal refusal)
{
    if (refusal == BW_REFUSED_NO_LEASE)
        bw_call_end(call, BW_CODE_UNKNOWN, "etcdserver: requested lease not found");
    else if (refusal == BW_REFUSED_NO_KEY)
        bw_call_end(call, BW_CODE_UNKNOWN, "etcdserver: key is not provided");
    else
        bw_service_refuse(call, refusal);
}

static struct campaign *campaign_new(struct bw_call *call, ProtobufCBinaryData name, int64_t lease,
                                     ProtobufCBinaryData value)
{
    char suffix[24];
    int suffix_length = snprintf(suffix, sizeof suffix, "%" PRIx64, (uint64_t)lease);
    struct campaign *c =
        calloc(1, sizeof *c + 2 * (name.len + 1) + (size_t)suffix_length + 1 + value.len);
    if (!c)
        return NULL;
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

/* Not if this node is going: its callers come back to another one, and to their place. */
static void leave_line(struct campaign *c)
{
    struct bw_slice key = {c->key, c->key_length};
    struct bw_compare same = {
        .what = BW_COMPARE_CREATE, .keys = {.key = key}, .number = c->revision};
    struct bw_op delete = {.kind = BW_OP_DELETE, .delete = {.keys = {.key = key}}};
    struct bw_entry entry = {
        .kind = BW_ENTRY_TXN,
        .by = bw_auth_by(c->call),
        .txn = {.compares = &same, .compare_count = 1, .then = &delete, .then_count = 1}};
    if (!bw_service_is_leaving(c->call->service))
        bw_replica_propose(bw_service_replica(c->call->service), &entry);
}

bool bw_election_is_in_line(const struct bw_call *call)
{
    const struct campaign *c = call->state;
    return call->method && call->method->gone == bw_election_gone && c && c->in_line;
}

void bw_election_gone(struct bw_call *call)
{
    struct campaign *c = call->state;
    if (c && c->in_line)
        leave_line(c);
    if (c)
        stop_watching(c);
    free(c);
    call->state = NULL;
}

static struct bw_keys all_of(const struct campaign *c)
{
    return (struct bw_keys){.key = {c->key, c->prefix_length}, .end = {c->end, c->prefix_length}};
}

/* One version of the range, by creation; NULL: none. */
static const struct bw_kv *first_of(struct campaign *c, enum bw_sort_order order,
                                    int64_t create_max)
{
    struct bw_service *service = c->call->service;
    struct bw_op_result result;
    struct bw_range range = {.keys = all_of(c),
                             .limit = 1,
                             .order = order,
                             .target = BW_SORT_CREATE,
                             .create_max = create_max};
    if (bw_registry_range(bw_service_registry(service), &range, bw_service_results(service),
                          &result) != BW_REFUSED_NOT)
        return NULL;
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
    if (c->call->ended || !bw_auth_may(c->call)) /* it may have waited for long */
        return;
    c->in_line = false;
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
                          &result) != BW_REFUSED_NOT)
        return NULL;
    return result.kv_count ? result.kvs[0] : NULL;
}

/* Is it our turn? Else wait for the one before us, and notice if our own key goes. */
static void look(struct campaign *c)
{
    const struct bw_kv *own = own_key(c);
    stop_watching(c);
    if (!own || own->create_revision != c->revision) {
        refuse(c->call, BW_REFUSED_NO_LEASE);
        return;
    }
    const struct bw_kv *before = first_of(c, BW_SORT_DESCEND, c->revision - 1);
    if (!before) {
        won(c);
        return;
    }
    struct bw_watcher_spec spec = {.keys = {.key = bw_kv_key(before)}, .no_put = true};
    c->watcher = bw_service_watch(c->call->service, &c->watching, &spec);
    if (!c->watcher)
        bw_call_end(c->call, BW_CODE_EXHAUSTED, "etcdserver: too many watchers");
}

/* Only the present state counts, not what led to it. */
static void drain(struct campaign *c, bw_ref ref)
{
    struct bw_service *service = c->call->service;
    bw_watcher_skip(bw_service_watches(service), bw_service_registry(service), ref);
}

static void on_turn(struct bw_watching *watching, bw_ref ref)
{
    struct campaign *c = (struct campaign *)watching;
    drain(c, ref);
    look(c);
}

static void entered(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results)
{
    struct campaign *c = call->state;
    (void)number;
    (void)entry;
    (void)results;
    if (refusal) {
        refuse(call, refusal);
        return;
    }
    const struct bw_kv *own = own_key(c);
    c->revision = own ? own->create_revision : 0;
    c->in_line = own != NULL;
    look(c);
}

/* Put it unless it is there; if it is, a new value replaces the old one and the place stays. */
static void enter(struct campaign *c)
{
    struct bw_slice key = {c->key, c->key_length};
    struct bw_compare absent = {.what = BW_COMPARE_CREATE, .keys = {.key = key}};
    struct bw_op put = {.kind = BW_OP_PUT,
                        .put = {.key = key, .value = c->value, .lease = c->lease}};
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
    struct campaign *c = name.len <= NAME_MAX_BYTES ? campaign_new(call, name, id, value) : NULL;
    if (!c || id <= 0) {
        refuse(call, c ? BW_REFUSED_NO_LEASE : BW_REFUSED_TOO_LARGE);
        return;
    }
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT, .lease = {.id = id, .ttl_ns = OWN_TTL}};
    c->watching.news = on_turn;
    c->lock = lock;
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

/* ── what a leader does with its key ── */

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

/* An operation on the leader's key while it is the one that was created then. */
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

/* ── who leads ── */

static void send_leader(struct bw_call *call, const struct bw_kv *kv)
{
    Api__LeaderResponse out = API__LEADER_RESPONSE__INIT;
    Api__Header header;
    bw_service_room_clear(call->service);
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
    if (!kv || kv->mod_revision == c->told || !bw_auth_may(c->call) || bw_call_is_full(c->call))
        return; /* a caller that does not read hears of the latest leader when it does */
    c->told = kv->mod_revision;
    send_leader(c->call, kv);
}

void bw_election_observe_room(struct bw_call *call)
{
    struct campaign *c = call->state;
    if (c && c->watcher)
        observe(c);
}

static void on_observed(struct bw_watching *watching, bw_ref ref)
{
    struct campaign *c = (struct campaign *)watching;
    drain(c, ref);
    observe(c);
}

static void observe_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    struct campaign *c = call->state;
    struct bw_watcher_spec spec = {.keys = all_of(c)};
    (void)number;
    (void)ttl_ns;
    c->watching.news = on_observed;
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
    if (call->state || in->name.len > NAME_MAX_BYTES ||
        !campaign_new(call, in->name, 0, (ProtobufCBinaryData){0})) {
        refuse(call, BW_REFUSED_TOO_LARGE);
        return;
    }
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
