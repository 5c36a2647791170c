/* Encoding of a change in the log (bytes.h):
 *
 *   entry   kind, its fields
 *           10, since, name, kind, its fields     requested by a user
 *           11, kind, its fields                  originated by a node
 *
 * Entries can be read by this version and newer ones. An entry with an unknown kind or surplus
 * fields is malformed. Entries that only newer versions understand are written once all nodes
 * understand them (BW_REGISTRY_LEVEL). */
#ifndef BW_CORE_REGISTRY_ENTRY_H
#define BW_CORE_REGISTRY_ENTRY_H

#include "core/registry/users.h"

enum bw_entry_kind {
    BW_ENTRY_NOTHING, /* the first entry of a leader */
    BW_ENTRY_PUT,
    BW_ENTRY_DELETE,
    BW_ENTRY_TXN,
    BW_ENTRY_GRANT,
    BW_ENTRY_REVOKE,
    BW_ENTRY_BIND,
    BW_ENTRY_COMPACT,
    BW_ENTRY_USERS,
    BW_ENTRY_LEVEL,
    /* 10 and 11 mark the requester */
    BW_ENTRY_ALARM = 12 /* level 3 */
};

struct bw_alarm_change { /* alarm.h */
    bool raised;
    uint64_t node;
};

struct bw_entry {
    enum bw_entry_kind kind;
    struct bw_requester by;
    union {
        struct bw_put put;
        struct bw_delete delete;
        struct bw_txn txn;
        struct {
            int64_t id;
            bw_time ttl_ns;   /* GRANT */
            uint64_t binding; /* GRANT, REVOKE, BIND */
        } lease;
        int64_t revision; /* COMPACT */
        struct bw_users_change users;
        uint32_t level;
        struct bw_alarm_change alarm;
    };
};

/* Scratch memory for the parts of a decoded transaction and its nested transactions. */
struct bw_entry_scratch {
    struct bw_compare compares[BW_TXN_ALL_MAX];
    struct bw_op ops[BW_TXN_ALL_MAX];
    uint32_t compare_count, op_count; /* used */
};

/* Take `count` adjacent elements; NULL: no space. */
struct bw_compare *bw_scratch_compares(struct bw_entry_scratch *scratch, uint64_t count);
struct bw_op *bw_scratch_ops(struct bw_entry_scratch *scratch, uint64_t count);

/* Returns the length, or BW_ELIMIT: longer than `size`, or too many operations. */
int bw_entry_encode(const struct bw_entry *entry, unsigned char *out, size_t size);
/* Slices point into `bytes`. Returns 0 or BW_EMALFORMED. */
int bw_entry_decode(struct bw_entry *entry, struct bw_entry_scratch *scratch,
                    const unsigned char *bytes, size_t length);
/* Refuses the entry if its requester lacks the permission at this point of the log. */
enum bw_refusal bw_registry_apply(struct bw_registry *registry, const struct bw_entry *entry,
                                  struct bw_results *results);

#endif
