/* The digest and the extents of a small registry; see digest.h. */
#include "core/registry/digest.h"

#include "core/registry/registry_state.h"

#define HEAP_BYTES   4096u
#define QUEUE_LENGTH 16u
#define EVENTS       64u

static void add_bytes(struct bw_digest *out, struct bw_slice bytes)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes.length; i++)
        hash = (hash ^ bytes.at[i]) * 0x100000001b3u;
    bw_digest_add(out, hash);
}

static void add_keys(const struct bw_registry *r, struct bw_digest *out)
{
    const struct bw_keys all = {.key = {(const unsigned char *)"", 0},
                                .end = {(const unsigned char *)"", 1}};
    bw_digest_add(out, r->keys);
    for (bw_ref at = tree_first(r, &all); at; at = tree_after(r, &all, node_key(r, at))) {
        const struct bw_kv *kv = kv_at(r, node_at(r, at)->kv);
        add_bytes(out, bw_kv_key(kv));
        add_bytes(out, bw_kv_value(kv));
        bw_digest_add(out, (uint64_t)kv->create_revision << 32 | (uint64_t)kv->mod_revision);
        bw_digest_add(out, (uint64_t)kv->version << 32 | (uint64_t)kv->lease);
    }
}

/* In the order of the list, which decides the order of equal deadlines. */
static void add_leases(const struct bw_registry *r, struct bw_digest *out)
{
    bw_digest_add(out, r->leases << 1 | r->leading);
    for (bw_ref at = r->lease_first; at; at = lease_at(r, at)->next) {
        const struct lease *lease = lease_at(r, at);
        bool queued = r->leading && lease->place != 0;
        bw_digest_add(out, (uint64_t)lease->id << 16 | (queued ? lease->place : 0));
        bw_digest_add(out, (uint64_t)lease->ttl_ns);
        bw_digest_add(out, lease->binding);
        bw_digest_time(out, queued ? lease->deadline : 0);
        bw_digest_time(out, queued ? lease->queued : 0);
    }
}

void bw_registry_digest(const struct bw_registry *r, struct bw_digest *out)
{
    BW_ASSERT(r->heap.used <= HEAP_BYTES && r->queued < QUEUE_LENGTH && r->event_end <= EVENTS);
    bw_digest_add(out, (uint64_t)r->revision << 32 | r->level);
    add_keys(r, out);
    add_leases(r, out);
    bw_digest_add(out, r->alarms.count);
    for (uint32_t i = 0; i < r->alarms.count; i++)
        bw_digest_add(out, r->alarms.nodes[i]);
}

void bw_registry_extents(struct bw_registry *r, struct bw_registry_extent *out)
{
    out[0] = (struct bw_registry_extent){r, sizeof *r};
    out[1] = (struct bw_registry_extent){r->buckets, BUCKETS_MIN * sizeof r->buckets[0]};
    out[2] = (struct bw_registry_extent){r->queue, QUEUE_LENGTH * sizeof r->queue[0]};
    out[3] = (struct bw_registry_extent){r->events, EVENTS * sizeof r->events[0]};
    out[4] = (struct bw_registry_extent){r->heap.base, HEAP_BYTES};
    BW_ASSERT(r->bucket_count == BUCKETS_MIN);
    BW_ASSERT(r->versions.used <= HEAP_BYTES); /* the first half, which small worlds never leave */
    out[5] = (struct bw_registry_extent){r->versions.base, HEAP_BYTES};
}

bool bw_registry_keys_have_leases(const struct bw_registry *r)
{
    const struct bw_keys all = {.key = {(const unsigned char *)"", 0},
                                .end = {(const unsigned char *)"", 1}};
    for (bw_ref at = tree_first(r, &all); at; at = tree_after(r, &all, node_key(r, at))) {
        int64_t lease = kv_at(r, node_at(r, at)->kv)->lease;
        if (lease != BW_LEASE_ID_NONE && !lease_find(r, lease))
            return false;
    }
    return true;
}

bool bw_registry_is_timed(const struct bw_registry *r, int64_t id)
{
    bw_ref ref = lease_find(r, id);
    return ref && lease_at(r, ref)->place != 0;
}
