/* Committed entries into the registry; leases that are over. */
#include "base/error.h"
#include "base/little.h"
#include "registry/expiry.h"
#include "serve/replica_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RESULT_KVS      65536u
#define EXPIRED_AT_ONCE 256u
/* A loop that stood still so long heard no keep-alives: what looks over may not be. */
#define STALL_NS (500 * BW_MS)

int replica_registry_make(struct bw_replica *r)
{
    if (r->memory)
        munmap(r->memory, r->memory_bytes);
    r->memory_bytes = bw_registry_bytes(&r->options.registry);
    r->memory = mmap(NULL, r->memory_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->memory == MAP_FAILED) {
        r->memory = NULL;
        return BW_ENOMEM;
    }
    if (!r->room) {
        r->room = malloc(sizeof *r->room);
        r->results.ops = malloc(BW_TXN_OPS_MAX * sizeof *r->results.ops);
        r->results.kvs = malloc(RESULT_KVS * sizeof(const struct bw_kv *));
        r->results.op_cap = BW_TXN_OPS_MAX;
        r->results.kv_cap = RESULT_KVS;
    }
    if (!r->room || !r->results.ops || !r->results.kvs)
        return BW_ENOMEM;
    return bw_registry_init(&r->registry, r->memory, r->memory_bytes, &r->options.registry);
}

/* Whoever waits for this entry hears of it; at the leader for others there is nothing to say. */
static void tell(struct bw_replica *r, uint64_t id, const struct bw_entry *entry,
                 enum bw_refusal refusal)
{
    struct request *request = request_find(r, id);
    if (!request)
        return;
    bool ours = request->origin == r->options.self;
    r->nudge |= !ours && request->origin != BW_NODE_NONE;
    request_end(r, request);
    if (ours)
        r->options.applied(r->options.context, id, entry, refusal, &r->results);
}

static void apply_entry(struct bw_replica *r, const struct bw_log_entry *logged)
{
    struct bw_entry entry;
    if (logged->length < REQUEST_HEAD ||
        bw_entry_decode(&entry, r->room, logged->bytes + REQUEST_HEAD,
                        logged->length - REQUEST_HEAD) != 0)
        return; /* Raft's own, or one that every node skips alike */
    enum bw_refusal refusal = bw_registry_apply(r->registry, &entry, &r->results);
    if (r->leading && entry.kind == BW_ENTRY_GRANT && refusal == BW_REFUSED_NOT)
        bw_registry_begin(r->registry, entry.lease.id, replica_now());
    r->changed = true;
    tell(r, bw_get64(logged->bytes), &entry, refusal);
}

void replica_apply(struct bw_replica *r, bw_index until)
{
    r->commit = until > r->commit ? until : r->commit;
    while (r->applied < until) {
        const struct bw_log_entry *entry = bw_log_at(&r->log, r->applied + 1);
        if (!entry)
            return; /* behind a snapshot that is being installed */
        r->applied++;
        r->applied_term = entry->term;
        if (entry->change)
            replica_membership(r);
        else
            apply_entry(r, entry);
    }
    replica_reads(r);
    replica_snapshot_consider(r);
}

void replica_expire(struct bw_replica *r, bw_time now)
{
    int64_t ids[EXPIRED_AT_ONCE];
    if (now - r->last_turn > STALL_NS) {
        bw_registry_lead(r->registry, now);
        return;
    }
    uint32_t count = bw_registry_expired(r->registry, now, ids, EXPIRED_AT_ONCE);
    for (uint32_t i = 0; i < count; i++)
        replica_revoke(r, ids[i]);
}
