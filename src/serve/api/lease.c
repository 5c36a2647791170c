/* Grant, Revoke, KeepAlive, TimeToLive, Leases. Times on the wire are in seconds, as in etcd. */
#include "core/base/error.h"
#include "serve/api/binding.h"
#include "serve/api/service.h"
#include "serve/auth/auth.h"

#include <sys/random.h>

int64_t bw_lease_new_id(void)
{
    int64_t id = 0;
    while (id == 0) {
        if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
            return 0;
        id &= INT64_MAX;
    }
    return id;
}

static int64_t seconds(bw_time ns)
{
    return (ns + BW_SEC - 1) / BW_SEC;
}

/* Returns the connection number to bind a lease to; 0: do not bind. */
static uint64_t bind_to(struct bw_call *call)
{
    if (!call->binding)
        return 0;
    call->bound = true;
    return bw_binding_number(call->binding);
}

static void grant_applied(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                          enum bw_refusal refusal, const struct bw_results *results)
{
    Api__LeaseGrantResponse out = API__LEASE_GRANT_RESPONSE__INIT;
    Api__Header header;
    if (refusal) {
        bw_service_refuse(call, refusal);
        return;
    }
    if (call->binding)
        bw_binding_add(call->binding, &call->caller, number);
    bw_service_header(call->service, &header, results->revision);
    out.header = &header;
    out.id = entry->lease.id;
    out.ttl = seconds(entry->lease.ttl_ns);
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

void bw_lease_grant(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__LeaseGrantRequest *in = (const Api__LeaseGrantRequest *)message;
    int64_t id = in->id ? in->id : bw_lease_new_id();
    if (in->ttl > BW_GRANT_TTL_MAX_S) {
        bw_service_refuse(call, BW_REFUSED_TTL);
        return;
    }
    if (id <= 0) {
        bw_call_end(call, BW_CODE_INVALID, "etcdserver: the ID of a lease must be positive");
        return;
    }
    bw_time ttl = bw_time_max(bw_time_max(in->ttl, 0) * BW_SEC, bw_service_ttl_min(call->service));
    struct bw_entry entry = {.kind = BW_ENTRY_GRANT,
                             .lease = {.id = id, .ttl_ns = ttl, .binding = bind_to(call)}};
    struct bw_wait *wait = bw_service_propose(call, &entry, grant_applied);
    if (!wait)
        return;
    wait->number = id;
    wait->binds = call->binding != NULL;
}

static void revoke_applied(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                           enum bw_refusal refusal, const struct bw_results *results)
{
    Api__LeaseRevokeResponse out = API__LEASE_REVOKE_RESPONSE__INIT;
    Api__Header header;
    (void)number;
    (void)entry;
    if (refusal) {
        bw_service_refuse(call, refusal);
        return;
    }
    bw_service_header(call->service, &header, results->revision);
    out.header = &header;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

void bw_lease_revoke(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__LeaseRevokeRequest *in = (const Api__LeaseRevokeRequest *)message;
    if (in->id <= 0) {
        bw_service_refuse(call, BW_REFUSED_NO_LEASE);
        return;
    }
    struct bw_entry entry = {.kind = BW_ENTRY_REVOKE, .lease = {.id = in->id}};
    bw_service_propose(call, &entry, revoke_applied);
}

/* ---- KeepAlive: a stream of requests; each is answered after a quorum has confirmed the leader
 * ---- */

static void *const half_closed_mark = (void *)1;

static void kept_alive(struct bw_call *call, int64_t id, bw_time ttl_ns)
{
    Api__LeaseKeepAliveResponse out = API__LEASE_KEEP_ALIVE_RESPONSE__INIT;
    Api__Header header;
    bw_service_header(call->service, &header, 0);
    out.header = &header;
    out.id = id;
    out.ttl = seconds(ttl_ns); /* 0: no such lease */
    bw_call_send(call, &out.base);
    if (call->state == half_closed_mark && !call->waits)
        bw_call_end(call, BW_CODE_OK, NULL);
}

static void keep_alive(struct bw_call *call, int64_t id)
{
    uint64_t request = bw_replica_keep_alive(bw_service_replica(call->service), id);
    struct bw_wait *wait = bw_service_wait(call, request);
    if (!wait)
        return;
    wait->answered = kept_alive;
    wait->reads = true;
    wait->number = id;
}

static void bind_applied(struct bw_call *call, int64_t id, const struct bw_entry *entry,
                         enum bw_refusal refusal, const struct bw_results *results)
{
    (void)entry;
    (void)results;
    if (refusal == BW_REFUSED_NO_LEASE) {
        kept_alive(call, id, 0);
        return;
    }
    if (refusal) {
        bw_service_refuse(call, refusal);
        return;
    }
    bw_binding_add(call->binding, &call->caller, id);
    keep_alive(call, id);
}

/* A lease that is bound to another connection is bound to this one before it is renewed. So a
 * client that receives the renewal knows that its lease is bound here. */
static bool is_bound_here(struct bw_call *call, int64_t id)
{
    struct bw_lease_view lease;
    return bw_registry_lease(bw_service_registry(call->service), id, &lease) &&
           lease.binding == bw_binding_number(call->binding);
}

void bw_lease_keep_alive(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__LeaseKeepAliveRequest *in = (const Api__LeaseKeepAliveRequest *)message;
    bool here = call->binding && is_bound_here(call, in->id);
    call->bound = call->bound || here;
    struct bw_entry entry = {.kind = BW_ENTRY_BIND, .lease = {.id = in->id}};
    if (in->id > 0 && !here)
        entry.lease.binding = bind_to(call);
    if (!entry.lease.binding) {
        keep_alive(call, in->id);
        return;
    }
    struct bw_wait *wait = bw_service_propose(call, &entry, bind_applied);
    if (!wait)
        return;
    wait->number = in->id;
    wait->binds = true;
}

void bw_lease_keep_alive_half_closed(struct bw_call *call)
{
    call->state = half_closed_mark;
    if (!call->waits)
        bw_call_end(call, BW_CODE_OK, NULL);
}

/* ---- TimeToLive and Leases ---- */

enum left_detail { LEFT_WITHOUT_KEYS, LEFT_WITH_KEYS };

/* An unknown id, including a negative one, is answered with that id and a TTL of -1. */
static void send_left(struct bw_call *call, int64_t id, bw_time left_ns, enum left_detail detail)
{
    struct bw_service *service = call->service;
    Api__LeaseTimeToLiveResponse out = API__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    Api__Header header;
    struct bw_lease_view lease;
    bool found = left_ns >= 0 && bw_registry_lease(bw_service_registry(service), id, &lease);
    if (!bw_service_reserve(call, found ? lease.keys : 0,
                            sizeof(struct bw_slice) + sizeof(ProtobufCBinaryData), BW_NO_MEMORY))
        return;
    bw_service_header(service, &header, 0);
    out.header = &header;
    out.id = id;
    out.ttl = -1;
    if (found) {
        out.ttl = left_ns / BW_SEC;
        out.grantedttl = seconds(lease.ttl_ns);
        struct bw_slice *keys = bw_service_scratch(service, (lease.keys + 1) * sizeof *keys);
        bw_registry_lease_keys(bw_service_registry(service), id, keys, lease.keys);
        out.n_keys = detail == LEFT_WITH_KEYS ? lease.keys : 0;
        out.keys = bw_service_scratch(service, (lease.keys + 1) * sizeof *out.keys);
        for (uint32_t i = 0; i < lease.keys; i++)
            out.keys[i] =
                (ProtobufCBinaryData){.data = (uint8_t *)keys[i].at, .len = keys[i].length};
    }
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

static void left_known(struct bw_call *call, int64_t id, bw_time left_ns)
{
    send_left(call, id, left_ns, LEFT_WITHOUT_KEYS);
}

static void left_known_with_keys(struct bw_call *call, int64_t id, bw_time left_ns)
{
    struct bw_requester by = bw_auth_by(call);
    enum bw_refusal refusal =
        bw_registry_permits_lease(bw_service_registry(call->service), &by, BW_PERM_READ, id);
    if (refusal)
        bw_service_refuse(call, refusal);
    else
        send_left(call, id, left_ns, LEFT_WITH_KEYS);
}

void bw_lease_time_to_live(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__LeaseTimeToLiveRequest *in = (const Api__LeaseTimeToLiveRequest *)message;
    struct bw_wait *wait =
        bw_service_wait(call, bw_replica_left(bw_service_replica(call->service), in->id));
    if (!wait)
        return;
    wait->answered = in->keys ? left_known_with_keys : left_known;
    wait->reads = true;
    wait->large = in->keys;
    wait->number = in->id;
}

static void leases_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    struct bw_service *service = call->service;
    struct bw_registry *registry = bw_service_registry(service);
    Api__LeaseLeasesResponse out = API__LEASE_LEASES_RESPONSE__INIT;
    Api__Header header;
    struct bw_registry_status status;
    struct bw_lease_view lease;
    uint64_t cursor = 0;
    (void)number;
    (void)ttl_ns;
    bw_registry_status(registry, &status);
    if (!bw_service_reserve(call, status.leases, sizeof(Api__LeaseStatus), BW_NO_MEMORY))
        return;
    out.leases = bw_service_scratch(service, (status.leases + 1) * sizeof(Api__LeaseStatus *));
    while (out.n_leases < status.leases && bw_registry_next_lease(registry, &cursor, &lease)) {
        Api__LeaseStatus *one = bw_service_scratch(service, sizeof *one);
        api__lease_status__init(one);
        one->id = lease.id;
        out.leases[out.n_leases++] = one;
    }
    bw_service_header(service, &header, 0);
    out.header = &header;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

void bw_lease_leases(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)message;
    bw_service_read(call, leases_readable);
}
