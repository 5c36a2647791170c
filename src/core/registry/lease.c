/* Leases by id, each with the list of its keys.
 *
 * The table of ids is a linear hash table (Litwin, "Linear Hashing: A New Tool for File and Table
 * Addressing", 1980). It has a bucket per live lease, so that ids that are spread over all numbers
 * use no more memory than there are leases. Each new lease splits at most one bucket, and each
 * removed one joins at most two, so the cost of a change does not depend on the number of
 * leases. Clients choose the ids, so the hash has a key that they do not know: otherwise one client
 * could fill a single bucket, and every client would wait for the walks through it. */
#include "core/base/bug.h"
#include "core/registry/registry_state.h"

/* With 2^n <= bucket_count < 2^(n+1): buckets that were split are chosen by n + 1 bits of the hash,
 * the others by n. */
static bw_ref *bucket_of(const struct bw_registry *r, int64_t id)
{
    uint32_t hash = (uint32_t)bw_siphash_number(&r->config.hash_key, (uint64_t)id);
    uint32_t half = 1u << (31 - (uint32_t)__builtin_clz(r->bucket_count));
    uint32_t at = hash & (2 * half - 1);
    return &r->buckets[at < r->bucket_count ? at : at & (half - 1)];
}

/* Puts the leases of a list into the buckets of their ids. */
static void distribute(struct bw_registry *r, bw_ref list)
{
    while (list) {
        struct lease *lease = lease_at(r, list);
        bw_ref next = lease->chain, *bucket = bucket_of(r, lease->id);
        lease->chain = *bucket;
        *bucket = list;
        list = next;
    }
}

/* Splits a bucket in two. */
static void add_bucket(struct bw_registry *r)
{
    uint32_t half = 1u << (31 - (uint32_t)__builtin_clz(r->bucket_count));
    bw_ref *from = &r->buckets[r->bucket_count & (half - 1)], list = *from;
    *from = 0;
    r->buckets[r->bucket_count++] = 0;
    distribute(r, list);
}

/* Joins the last bucket with the one it was split from. */
static void remove_bucket(struct bw_registry *r)
{
    bw_ref list = r->buckets[--r->bucket_count];
    distribute(r, list);
}

bw_ref lease_find(const struct bw_registry *r, int64_t id)
{
    bw_ref at = *bucket_of(r, id);
    while (at && lease_at(r, at)->id != id)
        at = lease_at(r, at)->chain;
    return at;
}

bw_ref lease_new(struct bw_registry *r, int64_t id)
{
    bw_ref ref = bw_heap_take(&r->heap, sizeof(struct lease));
    BW_ASSERT(ref); /* all leases that the quota allows fit */
    if (r->leases >= r->bucket_count)
        add_bucket(r);
    bw_ref *bucket = bucket_of(r, id);
    *lease_at(r, ref) = (struct lease){
        .id = id, .chain = *bucket, .next = r->lease_first, .deadline = BW_TIME_NEVER};
    *bucket = ref;
    if (r->lease_first)
        lease_at(r, r->lease_first)->previous = ref;
    r->lease_first = ref;
    r->leases++;
    r->bytes += LEASE_COST;
    return ref;
}

void lease_free(struct bw_registry *r, bw_ref lease)
{
    bw_ref *at = bucket_of(r, lease_at(r, lease)->id);
    while (*at != lease)
        at = &lease_at(r, *at)->chain;
    *at = lease_at(r, lease)->chain;
    bw_ref next = lease_at(r, lease)->next, previous = lease_at(r, lease)->previous;
    *(previous ? &lease_at(r, previous)->next : &r->lease_first) = next;
    if (next)
        lease_at(r, next)->previous = previous;
    expiry_remove(r, lease);
    bw_heap_give(&r->heap, lease, sizeof(struct lease));
    r->leases--;
    r->bytes -= LEASE_COST;
    if (r->bucket_count > BUCKETS_MIN)
        remove_bucket(r);
}

void lease_attach(struct bw_registry *r, int64_t id, bw_ref node)
{
    struct node *n = node_at(r, node);
    bw_ref ref = id == BW_LEASE_ID_NONE ? 0 : lease_find(r, id);
    n->lease_next = n->lease_previous = 0;
    if (!ref)
        return;
    struct lease *lease = lease_at(r, ref);
    n->lease_next = lease->first;
    if (lease->first)
        node_at(r, lease->first)->lease_previous = node;
    lease->first = node;
    lease->keys++;
    n->attached = ++r->attached;
}

void lease_detach(struct bw_registry *r, bw_ref node)
{
    struct node *n = node_at(r, node);
    int64_t id = kv_at(r, n->kv)->lease;
    bw_ref ref = id == BW_LEASE_ID_NONE ? 0 : lease_find(r, id);
    if (!ref)
        return;
    struct lease *lease = lease_at(r, ref);
    if (lease->denied == n->attached && !BW_BUG(roles_remember_a_deleted_key))
        lease->denied = 0;
    if (n->lease_previous)
        node_at(r, n->lease_previous)->lease_next = n->lease_next;
    else
        lease->first = n->lease_next;
    if (n->lease_next)
        node_at(r, n->lease_next)->lease_previous = n->lease_previous;
    lease->keys--;
}

enum bw_refusal bw_registry_grant(struct bw_registry *r, int64_t id, bw_time ttl_ns,
                                  uint64_t binding)
{
    if (ttl_ns <= 0 || ttl_ns / BW_SEC > BW_GRANT_TTL_MAX_S)
        return BW_REFUSED_TTL;
    if (lease_find(r, id))
        return BW_REFUSED_LEASE_EXISTS;
    if (r->leases >= r->config.leases_max || !make_space(r, LEASE_COST))
        return BW_REFUSED_NO_SPACE;
    bw_ref ref = lease_new(r, id);
    struct lease *lease = lease_at(r, ref);
    lease->ttl_ns = ttl_ns;
    lease->binding = binding;
    return BW_REFUSED_NONE;
}

/* Merges two sorted lists of keys; sets forward links only. */
static bw_ref merge(struct bw_registry *r, bw_ref a, bw_ref b)
{
    bw_ref first = 0, *end = &first;
    while (a && b) {
        bw_ref *less = slice_compare(node_key(r, a), node_key(r, b)) < 0 ? &a : &b;
        *end = *less;
        end = &node_at(r, *less)->lease_next;
        *less = *end;
    }
    *end = a ? a : b;
    return first;
}

/* Sorts the keys of a lease, so that every node deletes them in the same order. Bottom-up merge
 * sort: run i holds 2^i keys or none. */
static void sort_keys(struct bw_registry *r, struct lease *lease)
{
    bw_ref runs[32] = {0}, all = 0, previous = 0;
    for (bw_ref at = lease->first, next; at; at = next) {
        next = node_at(r, at)->lease_next;
        node_at(r, at)->lease_next = 0;
        unsigned i = 0;
        for (bw_ref run = at; run; i++) {
            bw_ref other = runs[i];
            runs[i] = other ? 0 : run;
            run = other ? merge(r, other, run) : 0;
        }
    }
    for (unsigned i = 0; i < 32; i++)
        all = merge(r, runs[i], all);
    lease->first = all;
    for (bw_ref at = all; at; previous = at, at = node_at(r, at)->lease_next)
        node_at(r, at)->lease_previous = previous;
}

enum bw_refusal bw_registry_revoke(struct bw_registry *r, int64_t id, uint64_t binding)
{
    bw_ref ref = lease_find(r, id);
    if (!ref)
        return BW_REFUSED_NO_LEASE;
    if (binding && lease_at(r, ref)->binding != binding && !BW_BUG(registry_revokes_the_rebound))
        return BW_REFUSED_NONE; /* bound to another connection since */
    bool keys = lease_at(r, ref)->first != 0;
    if (lease_at(r, ref)->keys > 1)
        sort_keys(r, lease_at(r, ref));
    while (lease_at(r, ref)->first && !(BW_BUG(revoke_leaves_keys) && lease_at(r, ref)->keys < 2))
        change_delete(r, lease_at(r, ref)->first, r->revision + 1);
    lease_free(r, ref);
    r->revision += keys;
    return BW_REFUSED_NONE;
}

enum bw_refusal bw_registry_bind(struct bw_registry *r, int64_t id, uint64_t binding)
{
    bw_ref ref = lease_find(r, id);
    if (!ref)
        return BW_REFUSED_NO_LEASE;
    lease_at(r, ref)->binding = binding;
    return BW_REFUSED_NONE;
}

static void view(const struct lease *lease, struct bw_lease_view *out)
{
    *out = (struct bw_lease_view){
        .id = lease->id, .ttl_ns = lease->ttl_ns, .binding = lease->binding, .keys = lease->keys};
}

bool bw_registry_lease(const struct bw_registry *r, int64_t id, struct bw_lease_view *out)
{
    bw_ref ref = lease_find(r, id);
    if (ref)
        view(lease_at(r, ref), out);
    return ref != 0;
}

uint32_t bw_registry_lease_keys(const struct bw_registry *r, int64_t id, struct bw_slice *out,
                                uint32_t cap)
{
    bw_ref ref = lease_find(r, id);
    uint32_t count = 0;
    if (!ref)
        return 0;
    for (bw_ref at = lease_at(r, ref)->first; at && count < cap; at = node_at(r, at)->lease_next)
        out[count++] = node_key(r, at);
    return lease_at(r, ref)->keys;
}

/* The cursor is the lease returned last. */
bool bw_registry_next_lease(const struct bw_registry *r, uint64_t *cursor,
                            struct bw_lease_view *out)
{
    bw_ref at = *cursor ? lease_at(r, (bw_ref)*cursor)->next : r->lease_first;
    if (!at)
        return false;
    view(lease_at(r, at), out);
    *cursor = at;
    return true;
}
