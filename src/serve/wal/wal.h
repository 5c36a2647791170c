/* The write-ahead log of a node: what Raft must never forget, on a disk that may be cut off at any
 * byte.
 *
 * Model: records are collected in memory on the loop's thread and written by one thread of the
 * log's own, all that came meanwhile in one write and one fdatasync (group commit). A write is a
 * batch: a head that names its length, then the records. Segments are made and filled with zeros
 * ahead of their use, so a write changes no size. Every checksum is bound to the cluster, the node,
 * the segment and the place in it: a batch found anywhere else is not one.
 *
 * Guarantees: what `durable` was called for survives; a tail is cut only where a sector of it is
 * still all zeros, which proves that its sync never ended; anything else that does not fit its
 * checksum is damage, told with file and place, and the log does not open. A write or sync that
 * fails ends the process: what a disk says after that means nothing (fault 21). */
#ifndef BW_SERVE_WAL_H
#define BW_SERVE_WAL_H

#include "core/base/event.h"
#include "core/base/types.h"

#include <stdbool.h>

struct bw_wal;
struct uv_loop_s;

#define BW_WAL_WHY_MAX 511u
#define BW_WAL_SEGMENT ((size_t)16 << 20)
/* The minimum. A batch that is larger than a segment gets a segment of its own size. */
#define BW_WAL_SEGMENT_MIN ((size_t)64 << 10)

struct bw_wal_entry {
    bw_index index;
    bw_term term;
    uint8_t change; /* enum bw_change_op; 0: ordinary */
    bw_node node;   /* of the change */
    const void *bytes;
    size_t length;
};

struct bw_wal_options {
    const char *directory; /* exists */
    uint64_t cluster;
    bw_node node;
    size_t segment_bytes; /* 0: BW_WAL_SEGMENT */
    bw_index covered;     /* a durable snapshot has everything up to here; 0: there is none */
    struct uv_loop_s *loop;
    void *context;
    /* While opening, in the order they were written. Bytes are borrowed for the call. */
    void (*found_entry)(void *context, const struct bw_wal_entry *entry);
    void (*found_state)(void *context, const struct bw_durable *state);
    void (*found_truncate)(void *context, bw_index from);
    void (*found_snapshot)(void *context, bw_index index, bw_term term);
    /* From the loop: everything up to this commit is durable. */
    void (*durable)(void *context, uint64_t commit);
};

/* Returns 0, BW_EDAMAGED, BW_EVERSION, BW_EIO or BW_ENOMEM with a line in why[BW_WAL_WHY_MAX + 1]
 * that says what to do. */
int bw_wal_open(struct bw_wal **out, const struct bw_wal_options *options, char *why);
/* Waits for what was committed, then forgets the rest; the loop must run once more to close it. */
void bw_wal_close(struct bw_wal *wal);

/* Collect. Nothing is written before the next commit. */
void bw_wal_entry(struct bw_wal *wal, const struct bw_wal_entry *entry);
void bw_wal_state(struct bw_wal *wal, const struct bw_durable *state);
void bw_wal_truncate(struct bw_wal *wal, bw_index from);
/* A snapshot covers everything up to index; what follows an earlier log is void. Its bytes are
 * durable; its name in the directory is made durable before this record is. */
void bw_wal_snapshot(struct bw_wal *wal, bw_index index, bw_term term);

/* Where the writer of the next batches runs. A loop that sleeps while they are written hands them
 * over more quickly to a thread on its own core than to one on another core that must wake up. */
enum bw_wal_core { BW_WAL_ANY_CORE, BW_WAL_LOOP_CORE };
void bw_wal_place(struct bw_wal *wal, enum bw_wal_core core);
/* Everything collected is to become durable; returns the number `durable` will be called with, or
 * a later one. Returns at once: a thread of the log's own writes. */
uint64_t bw_wal_commit(struct bw_wal *wal);

/* The number under which what is collected now will be durable. */
uint64_t bw_wal_next(const struct bw_wal *wal);

/* Segments that hold nothing but entries up to `index` are not needed any more: the log's thread
 * removes them, before it writes the next batch. */
void bw_wal_drop(struct bw_wal *wal, bw_index index);

/* Bytes in segments that are kept. */
uint64_t bw_wal_bytes(struct bw_wal *wal);

#endif
