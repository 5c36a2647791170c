/* Internal state of the registry. Only src/core/registry includes this header. */
#ifndef BW_CORE_REGISTRY_REGISTRY_STATE_H
#define BW_CORE_REGISTRY_REGISTRY_STATE_H

#include "core/base/heap.h"
#include "core/registry/alarm.h"
#include "core/registry/registry.h"
#include "core/registry/users.h"

struct node { /* a live key, in the tree and in the list of its lease */
    bw_ref left, right, kv;
    bw_ref lease_next, lease_previous;
    uint32_t priority; /* treap priority: a keyed hash of the key (tree.c) */
    uint64_t attached; /* with a lease: grows with every key that is attached to any lease */
};

struct lease {
    int64_t id;
    bw_time ttl_ns;
    uint64_t binding;
    bw_time deadline, queued; /* at the leader only: see expiry.c */
    bw_ref first, chain;      /* list of keys; next in the same bucket */
    bw_ref next, previous;    /* list of all leases */
    uint32_t place;           /* index in the queue of deadlines, from 1; 0: not queued */
    uint32_t keys;
    /* The last user whose right to write all keys was checked (roles.c): its place in the list of
     * users, from 1; the rights at that time; the keys that were checked; a key it may not write,
     * by its `attached`, or 0. The list has the newest key first. */
    uint32_t checked_for;
    uint64_t checked_rights, checked_until, denied;
};

struct event {
    int64_t revision;
    bw_ref kv, previous;
    bool deleted;
};

/* Invariants between two entries:
 *   the tree has `keys` nodes, ordered by key; each refers to the current version of its key
 *   a node with a lease is in the list of that lease, and in no other list
 *   the tables of leases have `leases` entries; no two have the same id
 *   bucket_count is `leases`, or BUCKETS_MIN if that is more
 *   events [event_first, event_end) are in the order of their revisions, at most config.history
 *   no event has a revision below `compacted`; compacted <= revision + 1
 *   bytes = current + permissions + NODE_COST per key + LEASE_COST per lease + history_size()
 *   a lease with `place` > 0 is queue[place]; the queue is empty while not `leading`
 *   nodes that have applied the same entries have the same revision, keys, leases, users, roles */
struct bw_registry {
    struct bw_registry_config config;
    struct bw_heap heap;     /* nodes and leases */
    struct bw_heap versions; /* versions and permissions, in one half of their memory (kv.c) */
    size_t versions_half;    /* bytes of a half */
    size_t left, left_end;   /* the part of the other half that was not returned to the system */
    /* during a move (kv.c): the other half, in units of the heap; 0 units: no move */
    bw_ref left_first, left_units;
    bw_ref move_node;    /* the next node to update; 0: all are */
    uint64_t move_event; /* then the next event to update */
    uint32_t level;
    int64_t revision;
    bw_ref root; /* of the tree of keys */
    uint64_t keys, bytes;
    uint64_t current;      /* bytes of the versions in the tree */
    uint64_t permissions;  /* bytes of the permissions of roles */
    bw_ref *buckets;       /* hash table of leases (lease.c); space for config.leases_max */
    uint32_t bucket_count; /* in use: one per lease, at least BUCKETS_MIN */
    bw_ref lease_first;
    uint64_t leases;
    struct event *events; /* a ring: event n is at n % config.history */
    uint64_t event_first, event_end;
    int64_t compacted; /* events before this revision were dropped */
    bw_ref *queue;     /* binary heap of leases by deadline, from [1] on */
    uint32_t queued;
    bool leading;
    struct bw_user *users; /* sorted by name; space for BW_USERS_MAX and one more */
    uint32_t user_count;
    struct bw_key_role *roles; /* BW_KEY_ROLES_MAX slots */
    uint64_t users_revision;
    uint64_t rights;   /* grows with every change of users and roles; differs between nodes */
    uint64_t attached; /* the last number of node.attached */
    bool users_enabled;
    struct bw_alarms alarms;
};

static inline struct node *node_at(const struct bw_registry *r, bw_ref ref)
{
    return bw_heap_at(&r->heap, ref);
}

/* Whether this place is in the half that a move leaves. */
static inline bool is_left(const struct bw_registry *r, bw_ref ref)
{
    return ref - r->left_first < r->left_units;
}

/* Where a version is now. */
static inline bw_ref version_place(const struct bw_registry *r, bw_ref ref)
{
    const struct bw_kv *kv = bw_heap_at(&r->versions, ref);
    return is_left(r, ref) && kv->refs == 0 ? kv->mark : ref;
}

static inline struct bw_kv *kv_at(const struct bw_registry *r, bw_ref ref)
{
    return bw_heap_at(&r->versions, version_place(r, ref));
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
/* The first live key in `keys`, or the first one after `key`; 0: none. */
bw_ref tree_first(const struct bw_registry *r, const struct bw_keys *keys);
bw_ref tree_after(const struct bw_registry *r, const struct bw_keys *keys, struct bw_slice key);

/* kv.c */
struct bw_slice node_key(const struct bw_registry *r, bw_ref node);
bw_ref kv_new(struct bw_registry *r, struct bw_slice key, struct bw_slice value);
void kv_hold(struct bw_registry *r, bw_ref ref);
void kv_drop(struct bw_registry *r, bw_ref ref);
uint64_t kv_bytes(size_t key, size_t value);
uint64_t kv_size(const struct bw_registry *r, bw_ref ref);
/* Call before versions or permissions with `bytes` of content are made. May move versions and
 * permissions: pointers to them become invalid. */
void versions_reserve(struct bw_registry *r, uint64_t bytes);
/* Call before a node is removed from the tree. */
void move_skips(struct bw_registry *r, bw_ref node);

/* change.c: these functions cannot fail; the caller has checked the request. */
bw_ref change_put(struct bw_registry *r, const struct bw_put *put, int64_t revision);
void change_delete(struct bw_registry *r, bw_ref node, int64_t revision);
/* Makes `new` the current version of its key; with `event` also adds it to the history. */
void change_set(struct bw_registry *r, bw_ref new, bool event);
bool fits_quota(const struct bw_registry *r, uint64_t bytes);
/* Drops history until `bytes` of content fit into the quota, and reserves memory for them
 * (versions_reserve). Returns false if they never fit. */
bool make_space(struct bw_registry *r, uint64_t bytes);

/* history.c */
void history_add(struct bw_registry *r, const struct event *event);
/* Drops the oldest event. Returns false if there is no event. */
bool history_drop(struct bw_registry *r);
/* Bytes that only the history keeps. */
uint64_t history_size(const struct bw_registry *r);
/* Drops the oldest events beyond the bound of bytes. */
void history_trim(struct bw_registry *r);

/* lease.c */
bw_ref lease_find(const struct bw_registry *r, int64_t id);
void lease_attach(struct bw_registry *r, int64_t id, bw_ref node);
void lease_detach(struct bw_registry *r, bw_ref node);
void lease_free(struct bw_registry *r, bw_ref lease);
bw_ref lease_new(struct bw_registry *r, int64_t id);

/* users.c: loads one user from a snapshot; the caller has checked the capacity */
void users_load(struct bw_registry *r, const struct bw_user *user);

/* roles.c */
enum bw_refusal roles_change(struct bw_registry *r, struct bw_user *user,
                             const struct bw_users_change *change);
struct bw_entry;
/* Checks the keys of an entry; bw_registry_authorize has checked the role of its requester. */
enum bw_refusal roles_permit(const struct bw_registry *r, const struct bw_entry *entry);
/* Moves all permissions to another heap. */
void roles_move(struct bw_registry *r, struct bw_heap *to);
/* For snapshots. */
enum bw_refusal roles_add(struct bw_registry *r, const char *name);
enum bw_refusal roles_grant(struct bw_registry *r, struct bw_user *user, const char *name);
enum bw_refusal roles_load_perm(struct bw_registry *r, const char *name,
                                const struct bw_perm *perm);

/* txn_shape.c */
bool txn_is_contradictory(const struct bw_txn *txn);

/* range.c */
enum bw_refusal range_check(const struct bw_registry *r, const struct bw_range *range);
/* Returns false if the results did not fit. */
bool range_read(const struct bw_registry *r, const struct bw_range *range,
                struct bw_results *results, struct bw_op_result *result);

/* expiry.c */
void expiry_add(struct bw_registry *r, bw_ref ref);
void expiry_remove(struct bw_registry *r, bw_ref ref);

#define BUCKETS_MIN 1024u /* of leases: one page */

#define LEASE_COST 64u /* what a lease counts against the quota */
#define EVENT_COST 32u
#define NODE_COST  32u

#endif
