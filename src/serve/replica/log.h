/* A node's log in memory: the bytes of every entry above the last snapshot, by index. Raft itself
 * keeps none (raft.h); the disk's copy is the write-ahead log's. */
#ifndef BW_SERVE_LOG_H
#define BW_SERVE_LOG_H

#include "core/base/types.h"

struct bw_log_entry {
    bw_term term;
    uint8_t change; /* enum bw_change_op; 0: ordinary */
    bw_node node;   /* of the change */
    uint32_t length;
    unsigned char *bytes; /* the log's own; NULL when empty */
};

struct bw_log_store {
    bw_index base; /* entries begin at base + 1 */
    struct bw_log_entry *at;
    uint32_t first, count, cap; /* a ring of `cap`, a power of two */
    size_t bytes;               /* of all entries */
};

void bw_log_free(struct bw_log_store *log);
/* Entry base + count + 1; the bytes are copied. Returns 0 or BW_ENOMEM. */
int bw_log_append(struct bw_log_store *log, const struct bw_log_entry *entry);
/* NULL: not there. */
const struct bw_log_entry *bw_log_at(const struct bw_log_store *log, bw_index index);
/* Drops entries from `from` on; up to `index`; all, beginning anew behind `index`. */
void bw_log_truncate(struct bw_log_store *log, bw_index from);
void bw_log_compact(struct bw_log_store *log, bw_index index);
void bw_log_restart(struct bw_log_store *log, bw_index index);

static inline bw_index bw_log_last(const struct bw_log_store *log)
{
    return log->base + log->count;
}

#endif
