/* What `serve` replicates: keys with revisions, leases, and what happened to them lately. The state
 * machine under etcd's v3 wire, as its clients see it (revisions, versions, leases, transactions).
 *
 * Model: changes are applied one at a time, in the order of the log, with no clock and no chance:
 * every node that applied the same log has the same state. Time enters only at the leader, which
 * keeps deadlines of leases beside the state (expiry.h) and turns an expiry into a logged REVOKE.
 * All memory is one piece, given at init; it need not be resident.
 *
 * Guarantees: one revision per change of keys, none for what changes nothing; a request is checked
 * whole before any of it is applied; what a result points to is valid until the next change.
 * Bounds are counted in bytes of content (`quota`), the same on every node whatever the memory
 * looks like, so that all nodes refuse the same request. */
#ifndef BW_REGISTRY_REGISTRY_H
#define BW_REGISTRY_REGISTRY_H

#include "core/base/error.h"
#include "core/base/types.h"

/* As etcd has them: operations of one transaction, bytes of one request. */
#define BW_TXN_OPS_MAX 128u
#define BW_REQUEST_MAX 1572864u
/* Ours: of a transaction with all those inside it. */
#define BW_TXN_ALL_MAX     512u
#define BW_TXN_DEPTH_MAX   8u
#define BW_LEASE_ID_NONE   ((int64_t)0)
#define BW_GRANT_TTL_MAX_S 9000000000ll /* etcd's; seconds */

/* What entries and snapshots may hold: raised by an entry of its own once every node understands
 * it, never lowered. 1: as it began. 2: users; who asked; transactions inside transactions. */
#define BW_REGISTRY_LEVEL 2u

struct bw_slice {
    const unsigned char *at;
    size_t length;
};

struct bw_kv { /* one version of a key, as long as anybody can see it */
    uint32_t refs, key_length, value_length, mark;
    int64_t create_revision, mod_revision, version, lease;
    unsigned char bytes[]; /* key, then value */
};

static inline struct bw_slice bw_kv_key(const struct bw_kv *kv)
{
    return (struct bw_slice){kv->bytes, kv->key_length};
}

static inline struct bw_slice bw_kv_value(const struct bw_kv *kv)
{
    return (struct bw_slice){kv->bytes + kv->key_length, kv->value_length};
}

/* Keys from `key` up to, without, `end`. An empty end: this key alone; end "\0": no upper end. */
struct bw_keys {
    struct bw_slice key, end;
};

/* The end is not behind the key: nothing can be there. */
bool bw_keys_are_empty(const struct bw_keys *keys);

enum bw_sort_order { BW_SORT_NONE, BW_SORT_ASCEND, BW_SORT_DESCEND };
enum bw_sort_target { BW_SORT_KEY, BW_SORT_VERSION, BW_SORT_CREATE, BW_SORT_MOD, BW_SORT_VALUE };

struct bw_range {
    struct bw_keys keys;
    int64_t limit;    /* 0: all */
    int64_t revision; /* 0: now; else as it was then */
    enum bw_sort_order order;
    enum bw_sort_target target;
    bool count_only, keys_only;
    int64_t mod_min, mod_max, create_min, create_max; /* 0: no bound */
};

struct bw_put {
    struct bw_slice key, value;
    int64_t lease;
    bool previous, ignore_value, ignore_lease;
};

struct bw_delete {
    struct bw_keys keys;
    bool previous;
};

enum bw_op_kind { BW_OP_RANGE, BW_OP_PUT, BW_OP_DELETE, BW_OP_TXN };

struct bw_op;
struct bw_compare;

/* Compares hold or not by what was before the outermost transaction, whatever it changes. */
struct bw_txn {
    const struct bw_compare *compares;
    const struct bw_op *then, *otherwise;
    uint32_t compare_count, then_count, otherwise_count;
};

struct bw_op {
    enum bw_op_kind kind;
    union {
        struct bw_range range;
        struct bw_put put;
        struct bw_delete delete;
        struct bw_txn txn;
    };
};

enum bw_compare_how { BW_COMPARE_EQUAL, BW_COMPARE_GREATER, BW_COMPARE_LESS, BW_COMPARE_NOT_EQUAL };
enum bw_compare_what {
    BW_COMPARE_VERSION,
    BW_COMPARE_CREATE,
    BW_COMPARE_MOD,
    BW_COMPARE_VALUE,
    BW_COMPARE_LEASE
};

struct bw_compare {
    enum bw_compare_how how;
    enum bw_compare_what what;
    struct bw_keys keys;
    int64_t number;
    struct bw_slice value;
};

/* What one operation found or replaced. `kvs` lie in the caller's room. Those of a transaction
 * inside one stand behind its own. */
struct bw_op_result {
    enum bw_op_kind kind;
    const struct bw_kv **kvs; /* RANGE: found; PUT, DELETE: previous ones, if asked for */
    uint32_t kv_count;
    int64_t count;  /* RANGE: in all, before filter and limit; DELETE: deleted */
    bool more;      /* RANGE: the limit cut */
    bool succeeded; /* TXN: its compares held */
};

/* Room for results, the caller's: operations and the versions they point to. */
struct bw_results {
    struct bw_op_result *ops;
    const struct bw_kv **kvs;
    uint32_t op_cap, kv_cap; /* of the arrays */
    uint32_t op_count, kv_count;
    bool succeeded; /* of a transaction: the compares held */
    bool truncated; /* what was done is right, but the room did not hold all there was to tell */
    int64_t revision;
};

struct bw_registry_config {
    uint64_t quota;      /* bytes of content: live keys, leases, history */
    uint32_t leases_max; /* held at one time */
    uint32_t history;    /* events kept for watchers that come late; at least one */
};

struct bw_registry_status {
    int64_t revision, floor; /* floor: the oldest revision whose events are all kept */
    uint32_t level;
    uint64_t keys, leases, bytes;
};

struct bw_registry;

/* Why a request was refused; the wire has its words for each. */
enum bw_refusal {
    BW_REFUSED_NOT = 0,
    BW_REFUSED_NO_KEY,      /* an empty key */
    BW_REFUSED_KEY_UNKNOWN, /* ignore_value or ignore_lease of a key that is not there */
    BW_REFUSED_VALUE_GIVEN, /* a value beside ignore_value */
    BW_REFUSED_LEASE_GIVEN, /* a lease beside ignore_lease */
    BW_REFUSED_DUPLICATE,   /* a key put twice, or put and deleted, in one branch */
    BW_REFUSED_TOO_MANY,    /* operations */
    BW_REFUSED_TOO_LARGE,   /* bytes, or results that have no room */
    BW_REFUSED_NO_LEASE,    /* lease unknown */
    BW_REFUSED_LEASE_EXISTS,
    BW_REFUSED_TTL,       /* too large */
    BW_REFUSED_NO_SPACE,  /* quota */
    BW_REFUSED_COMPACTED, /* revision below the floor */
    BW_REFUSED_FUTURE,    /* revision not there yet */
    /* of users (users.h) */
    BW_REFUSED_NOBODY, /* it was not said who asks */
    BW_REFUSED_TOKEN,  /* who asks is not the user of this name any more, or has a new password */
    BW_REFUSED_DENIED, /* no such user, or one with too small a role */
    BW_REFUSED_USER_EXISTS,
    BW_REFUSED_USER_UNKNOWN,
    BW_REFUSED_ROLE_NOT_GRANTED,
    BW_REFUSED_NO_ROOT,    /* enabling: nobody is admin */
    BW_REFUSED_ROOT_ROLE,  /* the same, but there is a user of that name */
    BW_REFUSED_LAST_ADMIN, /* nobody could administer any more */
    BW_REFUSED_USERS_FULL,
    BW_REFUSED_IMPORT /* there have been users, or the list is none */
};

/* Smallest piece of memory for a config, and how much of address space serves it well (blocks are
 * rounded up, and a full quota must still find room). */
size_t bw_registry_bytes(const struct bw_registry_config *config);
/* Returns 0, or BW_EINVAL / BW_ENOMEM. `memory` is zero and 16-byte aligned. */
int bw_registry_init(struct bw_registry **out, void *memory, size_t bytes,
                     const struct bw_registry_config *config);

void bw_registry_status(const struct bw_registry *registry, struct bw_registry_status *out);
/* From the log. What is not known here, or lower than it is, changes nothing. */
void bw_registry_raise(struct bw_registry *registry, uint32_t level);

/* Reads. `result` gets its kvs from `room`. */
enum bw_refusal bw_registry_range(struct bw_registry *registry, const struct bw_range *range,
                                  struct bw_results *room, struct bw_op_result *result);

/* Changes, from the log. Each fills `results` anew. A refused one changes nothing. */
enum bw_refusal bw_registry_put(struct bw_registry *registry, const struct bw_put *put,
                                struct bw_results *results);
enum bw_refusal bw_registry_delete(struct bw_registry *registry, const struct bw_delete *delete,
                                   struct bw_results *results);
/* Is it, with all those inside it, within the bounds, and has every compare a key? */
enum bw_refusal bw_txn_shape(const struct bw_txn *txn);
enum bw_refusal bw_registry_txn(struct bw_registry *registry, const struct bw_txn *txn,
                                struct bw_results *results);

/* A lease. `binding` is 0, or the connection it is bound to (a number the service gives). */
enum bw_refusal bw_registry_grant(struct bw_registry *registry, int64_t id, bw_time ttl_ns,
                                  uint64_t binding);
/* Ends a lease and deletes its keys in one revision. With a binding: only if it is still bound so,
 * else nothing happens (BW_REFUSED_NOT). */
enum bw_refusal bw_registry_revoke(struct bw_registry *registry, int64_t id, uint64_t binding);
enum bw_refusal bw_registry_bind(struct bw_registry *registry, int64_t id, uint64_t binding);

struct bw_lease_view {
    int64_t id;
    bw_time ttl_ns;
    uint64_t binding;
    uint32_t keys;
};

bool bw_registry_lease(const struct bw_registry *registry, int64_t id, struct bw_lease_view *out);
/* The keys of a lease into `out`; returns how many there are, which may be more than `cap`. */
uint32_t bw_registry_lease_keys(const struct bw_registry *registry, int64_t id,
                                struct bw_slice *out, uint32_t cap);
/* Leases one after the other in no order: `cursor` begins at 0 and is moved; false at the end. No
 * lease may be granted or go in between. */
bool bw_registry_next_lease(const struct bw_registry *registry, uint64_t *cursor,
                            struct bw_lease_view *out);

/* Events of the past. */
struct bw_happened {
    int64_t revision;
    bool deleted;
    const struct bw_kv *kv;       /* the new version; deleted: the one that was deleted */
    const struct bw_kv *previous; /* what a put replaced; NULL: nothing */
};

/* The events of revision >= *revision in order: the number of the first one, for bw_registry_event.
 */
uint64_t bw_registry_events_from(const struct bw_registry *registry, int64_t revision);
/* False past the last. */
bool bw_registry_event(const struct bw_registry *registry, uint64_t number,
                       struct bw_happened *out);
/* Forget events before this revision: reads and watches of what was earlier are refused. */
enum bw_refusal bw_registry_compact(struct bw_registry *registry, int64_t revision);

#endif
