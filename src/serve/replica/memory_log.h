/* The log of a node in memory: the bytes of every entry after the last snapshot, by index. The Raft
 * core itself keeps no entries (raft.h); the write-ahead log has the copy on disk. */
#ifndef BW_SERVE_REPLICA_MEMORY_LOG_H
#define BW_SERVE_REPLICA_MEMORY_LOG_H

#include "core/base/types.h"

struct bw_log_entry {
    bw_term term;
    uint8_t change; /* enum bw_change_op; 0: ordinary entry */
    bw_node node;   /* node of the change */
    uint32_t length;
    unsigned char *bytes; /* owned by the log; NULL when empty */
    uint64_t end; /* set by the log: bytes of all entries up to this one, with their heads */
};

struct bw_log_store {
    bw_index base; /* entries begin at base + 1 */
    struct bw_log_entry *at;
    uint32_t first, count, cap; /* ring buffer; cap is a power of two */
    size_t bytes;               /* size of all entries */
    uint64_t base_end;          /* `end` of the entry at `base` */
};

#define BW_LOG_ENTRY_HEAD 4u /* bytes that precede an entry in a frame */

void bw_log_free(struct bw_log_store *log);
/* Appends entry base + count + 1 and copies its bytes. Returns 0 or BW_ENOMEM. */
int bw_log_append(struct bw_log_store *log, const struct bw_log_entry *entry);
/* Returns the entry at `index`; NULL: it is not in memory. */
const struct bw_log_entry *bw_log_at(const struct bw_log_store *log, bw_index index);
/* The number of bytes in a frame that contains the entries after `from` up to `to`. Entries that
 * are not in memory count as 0. */
uint64_t bw_log_bytes_between(const struct bw_log_store *log, bw_index from, bw_index to);
/* The bytes of all entries that were ever appended, with their heads. */
uint64_t bw_log_end(const struct bw_log_store *log);
/* Drops the entries from `from` on. */
void bw_log_truncate(struct bw_log_store *log, bw_index from);
/* Drops the entries up to `index`. */
void bw_log_compact(struct bw_log_store *log, bw_index index);
/* Drops all entries; the next one appended is `index` + 1. */
void bw_log_restart(struct bw_log_store *log, bw_index index);

static inline bw_index bw_log_last(const struct bw_log_store *log)
{
    return log->base + log->count;
}

#endif
