/* A change as it stands in the log (bytes.h):
 *
 *   entry   kind, its fields
 *           10, since, name, kind, its fields     a user asked for it
 *           11, kind, its fields                  a node did, of its own accord
 *
 * Entries are written by this version for this version and newer ones; an unknown kind or a field
 * too many is malformed, never guessed at. What only newer versions understand is written when all
 * nodes do (BW_REGISTRY_LEVEL). */
#ifndef BW_REGISTRY_ENTRY_H
#define BW_REGISTRY_ENTRY_H

#include "core/registry/users.h"

enum bw_entry_kind {
    BW_ENTRY_NOTHING, /* a leader's first entry */
    BW_ENTRY_PUT,
    BW_ENTRY_DELETE,
    BW_ENTRY_TXN,
    BW_ENTRY_GRANT,
    BW_ENTRY_REVOKE,
    BW_ENTRY_BIND,
    BW_ENTRY_COMPACT,
    BW_ENTRY_USERS,
    BW_ENTRY_LEVEL
};

struct bw_entry {
    enum bw_entry_kind kind;
    struct bw_by by;
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
    };
};

/* Where a decoded transaction's parts lie, with those of all inside it. */
struct bw_entry_room {
    struct bw_compare compares[BW_TXN_ALL_MAX];
    struct bw_op ops[BW_TXN_ALL_MAX];
    uint32_t compare_count, op_count; /* taken */
};

/* So many more, side by side; NULL: there is no room. */
struct bw_compare *bw_room_compares(struct bw_entry_room *room, uint64_t count);
struct bw_op *bw_room_ops(struct bw_entry_room *room, uint64_t count);

/* Returns the length, or BW_ELIMIT: more than `size`, or too many operations. */
int bw_entry_encode(const struct bw_entry *entry, unsigned char *out, size_t size);
/* Slices are borrowed from `bytes`. Returns 0 or BW_EMALFORMED. */
int bw_entry_decode(struct bw_entry *entry, struct bw_entry_room *room, const unsigned char *bytes,
                    size_t length);
/* Refused if who asked may not, as of now. */
enum bw_refusal bw_registry_apply(struct bw_registry *registry, const struct bw_entry *entry,
                                  struct bw_results *results);

#endif
