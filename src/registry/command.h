/* A change as it stands in the log: one byte of kind, then its fields (bytes.h). Entries are
 * written by this version for this version and newer ones; an unknown kind or a field too many is
 * malformed, never guessed at. */
#ifndef BW_REGISTRY_COMMAND_H
#define BW_REGISTRY_COMMAND_H

#include "registry/registry.h"

enum bw_command_kind {
    BW_COMMAND_NOTHING, /* a leader's first entry */
    BW_COMMAND_PUT,
    BW_COMMAND_DELETE,
    BW_COMMAND_TXN,
    BW_COMMAND_GRANT,
    BW_COMMAND_REVOKE,
    BW_COMMAND_BIND,
    BW_COMMAND_COMPACT
};

struct bw_command {
    enum bw_command_kind kind;
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
    };
};

/* Where a decoded transaction's parts lie. */
struct bw_command_room {
    struct bw_compare compares[BW_TXN_OPS_MAX];
    struct bw_op then[BW_TXN_OPS_MAX], otherwise[BW_TXN_OPS_MAX];
};

/* Returns the length, or BW_ELIMIT: more than `size`, or too many operations. */
int bw_command_encode(const struct bw_command *command, unsigned char *out, size_t size);
/* Slices are borrowed from `bytes`. Returns 0 or BW_EMALFORMED. */
int bw_command_decode(struct bw_command *command, struct bw_command_room *room,
                      const unsigned char *bytes, size_t length);
enum bw_refusal bw_registry_apply(struct bw_registry *registry, const struct bw_command *command,
                                  struct bw_results *results);

#endif
