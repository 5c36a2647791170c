/* The inside of the registry; nobody outside src/core/registry includes this. */
#ifndef BW_REGISTRY_STATE_H
#define BW_REGISTRY_STATE_H

#include "core/base/heap.h"
#include "core/registry/registry.h"
#include "core/registry/users.h"

struct node { /* a live key in the tree by key, and in the list of its lease */
    bw_ref left, right, kv;
    bw_ref lease_next, lease_previous;
    uint32_t priority; /* of the treap: from the key alone */
};

struct lease {
    int64_t id;
    bw_time ttl_ns;
    uint64_t binding;
    bw_time deadline, queued; /* leader's: see expiry.c */
    bw_ref first, chain;      /* its keys; same bucket */
    bw_ref next, previous;    /* of all leases */
    uint32_t place;           /* in the queue of deadlines, 1 and up; 0: not there */
    uint32_t keys;
};

struct event {
    int64_t revision;
    bw_ref kv, previous;
    bool deleted;
};

struct bw_registry {
    struct bw_registry_config config;
    struct bw_heap heap;
    uint32_t level;
    int64_t revision;
    bw_ref root; /* of the tree */
    uint64_t keys, bytes;
    bw_ref *buckets; /* of leases; a power of two */
    uint32_t bucket_count;
    bw_ref lease_first;
    uint64_t leases;
    struct event *events; /* a ring: number n lies at n % config.history */
    uint64_t event_first, event_end;
    int64_t compacted; /* events before this revision are gone */
    bw_ref *queue;     /* leases by deadline, a binary heap from [1] on */
    uint32_t queued;
    bool leading;
    struct bw_user *users; /* by name; room for BW_USERS_MAX and one more */
    uint32_t user_count;
    uint64_t users_revision;
    bool users_enabled;
};

static inline struct node *node_at(const struct bw_registry *r, bw_ref ref)
{
    return bw_heap_at(&r->heap, ref);
}

static inline struct bw_kv *kv_at(const struct bw_registry *r, bw_ref ref)
{
    return bw_heap_at(&r->heap, ref);
}

static inline struct lease *lease_at(const struct bw_registry *r, bw_ref ref)
{
    return bw_heap_at(&r->heap, ref);
}

static inline struct event *event_at(const struct bw_registry *r, uint64_t number)
{
    return &r->events[number % r->config.history];
}

/* keys.c */
int slice_compare(struct bw_slice a, struct bw_slice b);
bool keys_are_one(const struct bw_keys *keys);
bool keys_hold(const struct bw_keys *keys, struct bw_slice key);
bool keys_overlap(const struct bw_keys *a, const struct bw_keys *b);

/* tree.c */
bw_ref tree_find(const struct bw_registry *r, struct bw_slice key);
void tree_insert(struct bw_registry *r, bw_ref new);
void tree_remove(struct bw_registry *r, bw_ref old);
/* The first live key at or after the one given, inside `keys`; 0: none. */
bw_ref tree_first(const struct bw_registry *r, const struct bw_keys *keys);
bw_ref tree_after(const struct bw_registry *r, const struct bw_keys *keys, struct bw_slice key);

/* kv.c */
struct bw_slice node_key(const struct bw_registry *r, bw_ref node);
bw_ref kv_new(struct bw_registry *r, struct bw_slice key, struct bw_slice value);
void kv_hold(struct bw_registry *r, bw_ref ref);
void kv_drop(struct bw_registry *r, bw_ref ref);
uint64_t kv_bytes(size_t key, size_t value);

/* change.c: certain to succeed; checked before. */
bw_ref change_put(struct bw_registry *r, const struct bw_put *put, int64_t revision);
void change_delete(struct bw_registry *r, bw_ref node, int64_t revision);
/* A version made elsewhere becomes what its key is; `event`: and part of the history. */
void change_set(struct bw_registry *r, bw_ref new, bool event);
bool room_for(const struct bw_registry *r, uint64_t bytes);
/* History makes room for so many bytes of content; false: not even all of it would do. */
bool make_room(struct bw_registry *r, uint64_t bytes);

/* history.c */
void history_add(struct bw_registry *r, const struct event *event);
/* Forgets the oldest event; false: there is none. */
bool history_drop(struct bw_registry *r);

/* lease.c */
bw_ref lease_find(const struct bw_registry *r, int64_t id);
void lease_attach(struct bw_registry *r, int64_t id, bw_ref node);
void lease_detach(struct bw_registry *r, bw_ref node);
void lease_give(struct bw_registry *r, bw_ref lease);
bw_ref lease_take(struct bw_registry *r, int64_t id);

/* users.c: one of a snapshot; there is room */
void users_load(struct bw_registry *r, const struct bw_user *user);

/* txn_shape.c */
bool txn_is_contradictory(const struct bw_txn *txn);

/* range.c */
enum bw_refusal range_check(const struct bw_registry *r, const struct bw_range *range);
/* False if the room did not hold all that was asked for. */
bool range_look(const struct bw_registry *r, const struct bw_range *range, struct bw_results *room,
                struct bw_op_result *result);

/* expiry.c */
void expiry_add(struct bw_registry *r, bw_ref ref);
void expiry_remove(struct bw_registry *r, bw_ref ref);

#define LEASE_COST 64u /* what a lease counts against the quota */
#define EVENT_COST 32u
#define NODE_COST  32u

#endif
