/* The replicated state machine of `serve`: keys with revisions, leases, and recent events, with the
 * semantics of etcd's v3 API (revisions, versions, leases, transactions).
 *
 * Model. Changes are applied one at a time, in log order, without clock or randomness. Every node
 * that applied the same log has the same state. Only the leader uses time: it keeps the deadlines
 * of leases beside the state (expiry.h) and proposes a REVOKE entry when a lease expires. All
 * memory is one block given at init; it need not be resident.
 *
 * Guarantees:
 * - A change of keys has exactly one revision; a request that changes nothing has none.
 * - A request is checked completely before any part is applied.
 * - Pointers in a result stay valid until the next change.
 * - The quota counts bytes of content, not of memory, so all nodes refuse the same requests. */
#ifndef BW_CORE_REGISTRY_REGISTRY_H
#define BW_CORE_REGISTRY_REGISTRY_H

#include "core/base/error.h"
#include "core/base/types.h"
#include "core/hash/siphash.h"

/* etcd's limits: operations of one transaction, bytes of one request. */
#define BW_TXN_OPS_MAX 128u
#define BW_REQUEST_MAX 1572864u
/* Our limits: a transaction including its nested transactions. */
#define BW_TXN_ALL_MAX     512u
#define BW_TXN_DEPTH_MAX   8u
#define BW_LEASE_ID_NONE   ((int64_t)0)
#define BW_GRANT_TTL_MAX_S 9000000000ll /* etcd's limit, in seconds */

/* Feature level of entries and snapshots. An entry of its own raises it once every node supports
 * it; it never falls. What a level changes takes effect at the same entry on every node.
 *
 *   1   the first version
 *   2   users, requesters, nested transactions
 *   3   a bound on the bytes of the history; alarms (alarm.h); the quota `ceiling`
 *   4   roles with permissions on ranges of keys */
#define BW_REGISTRY_LEVEL         4u
#define BW_REGISTRY_LEVEL_ROLES   4u
#define BW_REGISTRY_LEVEL_USERS   2u
#define BW_REGISTRY_LEVEL_HISTORY 3u
#define BW_REGISTRY_LEVEL_ALARMS  3u

struct bw_slice {
    const unsigned char *at;
    size_t length;
};

struct bw_kv { /* one version of a key, kept while the tree or the history refers to it */
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

/* Keys from `key` up to, but excluding, `end`. Empty end: only `key`. End "\0": no upper end. */
struct bw_keys {
    struct bw_slice key, end;
};

/* Whether the range is empty: `end` is not after `key`. */
bool bw_keys_are_empty(const struct bw_keys *keys);

enum bw_sort_order { BW_SORT_NONE, BW_SORT_ASCEND, BW_SORT_DESCEND };
enum bw_sort_target { BW_SORT_KEY, BW_SORT_VERSION, BW_SORT_CREATE, BW_SORT_MOD, BW_SORT_VALUE };

struct bw_range {
    struct bw_keys keys;
    int64_t limit;    /* 0: unlimited */
    int64_t revision; /* 0: the current revision */
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

/* A transaction. All comparisons, including those of nested transactions, use the state before the
 * outermost transaction. */
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

/* The result of one operation. `kvs` points into the caller's array. The results of a nested
 * transaction follow its own result. */
struct bw_op_result {
    enum bw_op_kind kind;
    const struct bw_kv **kvs; /* RANGE: found; PUT, DELETE: previous versions, if requested */
    uint32_t kv_count;
    int64_t count;  /* RANGE: keys in the range, before filters and limit; DELETE: deleted keys */
    bool more;      /* RANGE: the limit cut the result */
    bool succeeded; /* TXN: all its comparisons were true */
};

/* The caller's memory for results: operations, and the versions they point to. */
struct bw_results {
    struct bw_op_result *ops;
    const struct bw_kv **kvs;
    uint32_t op_cap, kv_cap; /* capacity */
    uint32_t op_count, kv_count;
    bool succeeded; /* TXN: all comparisons were true */
    bool truncated; /* the request was executed, but the arrays could not hold all results */
    int64_t revision;
};

struct bw_registry_config {
    /* Bytes of content: live keys, leases, history. All nodes must have the same quota and ceiling.
     * Operators limit the content below it, see alarm.h. */
    uint64_t quota;
    uint64_t ceiling;    /* the same from level 3 on; 0: as `quota` */
    uint32_t leases_max; /* at the same time */
    uint32_t history;    /* events kept for late watchers; at least 1,024 */
    /* From level 3 on: bytes of content that only the history keeps; 0: unlimited. Each change
     * drops the oldest events beyond the bound before it is executed, so that results of the
     * change before stay valid. All nodes must have the same bound. */
    uint64_t history_bytes;
    /* Of the hashes of lease ids and keys, which clients choose. It decides how fast the registry
     * finds them and nothing else: nodes with different keys have the same state and snapshots. */
    struct bw_hash_key hash_key;
};

struct bw_registry_status {
    int64_t revision, floor; /* floor: the oldest revision whose events are all kept */
    uint32_t level;
    uint64_t keys, leases, bytes;
    uint64_t history_bytes; /* of `bytes`, what only the history keeps */
};

struct bw_registry;

/* Why a request was refused. The API maps each value to etcd's error. */
enum bw_refusal {
    BW_REFUSED_NONE = 0,
    BW_REFUSED_NO_KEY,      /* an empty key */
    BW_REFUSED_KEY_UNKNOWN, /* ignore_value or ignore_lease for a key that does not exist */
    BW_REFUSED_VALUE_GIVEN, /* a value together with ignore_value */
    BW_REFUSED_LEASE_GIVEN, /* a lease together with ignore_lease */
    BW_REFUSED_DUPLICATE,   /* a key put twice, or put and deleted, in one branch */
    BW_REFUSED_TOO_MANY,    /* operations */
    BW_REFUSED_TOO_LARGE,   /* too many bytes, or results that do not fit */
    BW_REFUSED_NO_LEASE,    /* lease unknown */
    BW_REFUSED_LEASE_EXISTS,
    BW_REFUSED_TTL,       /* too large */
    BW_REFUSED_NO_SPACE,  /* quota exceeded */
    BW_REFUSED_COMPACTED, /* revision below the floor */
    BW_REFUSED_FUTURE,    /* revision does not exist yet */
    /* errors of users (users.h) */
    BW_REFUSED_NOT_AUTHENTICATED, /* the requester is not authenticated */
    BW_REFUSED_TOKEN,  /* the user was replaced or got a new password since the request */
    BW_REFUSED_DENIED, /* unknown user, or role too low */
    BW_REFUSED_USER_EXISTS,
    BW_REFUSED_USER_UNKNOWN,
    BW_REFUSED_ROLE_NOT_GRANTED,
    BW_REFUSED_NO_ROOT,    /* enabling: no user is admin */
    BW_REFUSED_ROOT_ROLE,  /* the same, but the user `root` exists */
    BW_REFUSED_LAST_ADMIN, /* the last admin must stay */
    BW_REFUSED_USERS_FULL,
    BW_REFUSED_IMPORT, /* users existed before, or the list is invalid */
    BW_REFUSED_ROLE_EXISTS,
    BW_REFUSED_ROLE_UNKNOWN,
    BW_REFUSED_PERM_NOT_GRANTED,
    BW_REFUSED_ROLES_FULL /* too many roles, permissions, or roles of a user */
};

/* Memory for a config. Blocks are rounded up, and a full quota must still fit; most of it is only
 * address space. */
size_t bw_registry_bytes(const struct bw_registry_config *config);
/* Returns 0, BW_EINVAL or BW_ENOMEM. `memory` must be zeroed and 16-byte aligned. */
int bw_registry_init(struct bw_registry **out, void *memory, size_t bytes,
                     const struct bw_registry_config *config);

/* Memory of dropped versions that the system can have back. Returns false if it is not worth the
 * work, else the pages of one dropped version; the caller discards their content. */
bool bw_registry_release(struct bw_registry *registry, void **at, size_t *length);

/* Goes on with a move of versions to other memory (kv.c), about this many bytes. Returns true if
 * more is left. Memory is returned to the system only after a move. Pointers to versions become
 * invalid. */
bool bw_registry_move(struct bw_registry *registry, uint64_t bytes);

void bw_registry_status(const struct bw_registry *registry, struct bw_registry_status *out);
/* From the log. An unknown or lower level has no effect. */
void bw_registry_raise(struct bw_registry *registry, uint32_t level);

/* Reads. `result` takes its kvs from `results`. */
enum bw_refusal bw_registry_range(struct bw_registry *registry, const struct bw_range *range,
                                  struct bw_results *results, struct bw_op_result *result);

/* A hash of all keys at a revision (0: the current one), in steps between which the registry may
 * change; see hash.c. The same content has the same hash on every node. */
struct bw_hashing {
    int64_t revision;
    uint64_t next_event; /* the changes before this event are taken into account */
    uint64_t sum;
};
enum bw_hash_result {
    BW_HASH_MORE,
    BW_HASH_DONE,
    BW_HASH_LOST /* changes since the last step were dropped from the history */
};
enum bw_refusal bw_registry_hash_begin(const struct bw_registry *registry, int64_t revision,
                                       struct bw_hashing *hashing);
/* One step of about `budget` bytes. `visited` starts empty. The step sets it to the last key that
 * it visited; its bytes belong to the registry, so the caller copies them until the next step. */
enum bw_hash_result bw_registry_hash(const struct bw_registry *registry, struct bw_hashing *hashing,
                                     struct bw_slice *visited, uint64_t budget);
uint32_t bw_hashing_result(const struct bw_hashing *hashing);

/* Changes, from the log. Each resets `results`. A refused change has no effect. */
enum bw_refusal bw_registry_put(struct bw_registry *registry, const struct bw_put *put,
                                struct bw_results *results);
enum bw_refusal bw_registry_delete(struct bw_registry *registry, const struct bw_delete *delete,
                                   struct bw_results *results);
/* Checks the limits of a transaction with its nested ones, and that every compare has a key. */
enum bw_refusal bw_txn_shape(const struct bw_txn *txn);
enum bw_refusal bw_registry_txn(struct bw_registry *registry, const struct bw_txn *txn,
                                struct bw_results *results);

/* A lease. `binding`: the connection it is bound to (a number given by the service), or 0. */
enum bw_refusal bw_registry_grant(struct bw_registry *registry, int64_t id, bw_time ttl_ns,
                                  uint64_t binding);
/* Revokes a lease and deletes its keys in one revision. With a binding, the call has no effect if
 * the lease is bound to another connection (BW_REFUSED_NONE). */
enum bw_refusal bw_registry_revoke(struct bw_registry *registry, int64_t id, uint64_t binding);
enum bw_refusal bw_registry_bind(struct bw_registry *registry, int64_t id, uint64_t binding);

struct bw_lease_view {
    int64_t id;
    bw_time ttl_ns;
    uint64_t binding;
    uint32_t keys;
};

bool bw_registry_lease(const struct bw_registry *registry, int64_t id, struct bw_lease_view *out);
/* Copies the keys of a lease to `out`. Returns their number, which may exceed `cap`. */
uint32_t bw_registry_lease_keys(const struct bw_registry *registry, int64_t id,
                                struct bw_slice *out, uint32_t cap);
/* Iterates over the leases in no particular order. `cursor` starts at 0. Returns false at the end.
 * Leases must not be granted or revoked during the iteration. */
bool bw_registry_next_lease(const struct bw_registry *registry, uint64_t *cursor,
                            struct bw_lease_view *out);

/* A past event. */
struct bw_kv_event {
    int64_t revision;
    bool deleted;
    const struct bw_kv *kv;       /* the new version; deleted: the deleted version */
    const struct bw_kv *previous; /* the version that a put replaced, or NULL */
};

/* The number of the first event at or after `revision`, for bw_registry_event. */
uint64_t bw_registry_events_from(const struct bw_registry *registry, int64_t revision);
/* Returns false after the last event. */
bool bw_registry_event(const struct bw_registry *registry, uint64_t number,
                       struct bw_kv_event *out);
/* The key of a range that was created last before `revision` and still exists, if one of the `most`
 * events before `revision` created it. NULL: not found among them; an older key may exist. */
const struct bw_kv *bw_registry_created_before(const struct bw_registry *registry,
                                               const struct bw_keys *keys, int64_t revision,
                                               uint32_t most);
/* Drops events before `revision`. Reads and watches of older revisions are refused. */
enum bw_refusal bw_registry_compact(struct bw_registry *registry, int64_t revision);

#endif
