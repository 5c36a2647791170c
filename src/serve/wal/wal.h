/* The write-ahead log of a node: the durable state of Raft, on a disk that may lose power at any
 * byte.
 *
 * Model. Records are collected in memory on the loop's thread. One thread of the log writes
 * everything collected meanwhile with one write and one fdatasync (group commit), or at most
 * a few megabytes of it: then more follows. A write is a batch: a head with its length, then
 * the records. Segments are created and zero-filled before they
 * are used, so a write changes no file size. Every checksum covers the cluster, the node, the
 * segment and the offset, so a batch in a wrong place is not valid.
 *
 * Guarantees. A commit reported by `durable` survives a crash, and so does everything that opening
 * has found. A torn tail is truncated only if one of its sectors is still all zeros, which proves
 * that its sync never finished. Any other checksum mismatch is damage: it is reported with file and
 * offset, and the log does not open. A failed write or sync ends the process, because later results
 * of that disk cannot be trusted (fault 21 in docs/reference/faults.md). */
#ifndef BW_SERVE_WAL_WAL_H
#define BW_SERVE_WAL_WAL_H

#include "core/base/event.h"
#include "core/base/types.h"

#include <stdbool.h>

struct bw_wal;
struct uv_loop_s;

#define BW_WAL_WHY_MAX 511u
#define BW_WAL_SEGMENT ((size_t)16 << 20)
/* Minimum of `segment_bytes`. A batch that is larger than a segment gets a segment of its own
 * size. */
#define BW_WAL_SEGMENT_MIN ((size_t)64 << 10)

struct bw_wal_entry {
    bw_index index;
    bw_term term;
    uint8_t change; /* enum bw_change_op; 0: ordinary entry */
    bw_node node;   /* node of the change */
    const void *bytes;
    size_t length;
};

struct bw_wal_options {
    const char *directory; /* must exist */
    uint64_t cluster;
    bw_node node;
    size_t segment_bytes; /* 0: BW_WAL_SEGMENT */
    bw_index covered;     /* a durable snapshot covers everything up to here; 0: none */
    struct uv_loop_s *loop;
    void *context;
    /* Called while opening, in the order of writing. Bytes are valid during the call. */
    void (*found_entry)(void *context, const struct bw_wal_entry *entry);
    void (*found_state)(void *context, const struct bw_durable *state);
    void (*found_truncate)(void *context, bw_index from);
    void (*found_snapshot)(void *context, bw_index index, bw_term term);
    /* Called from the loop: everything up to this commit is durable. */
    void (*durable)(void *context, uint64_t commit);
};

/* Returns 0, BW_EDAMAGED, BW_EVERSION, BW_EIO or BW_ENOMEM, with the reason in why[BW_WAL_WHY_MAX +
 * 1]. */
int bw_wal_open(struct bw_wal **out, const struct bw_wal_options *options, char *why);
/* Writes the committed records and waits until they are durable. Records that no commit asked for
 * may be dropped. The loop must run once more to close the log. */
void bw_wal_close(struct bw_wal *wal);

/* Collect records. Nothing is written before the next commit. */
void bw_wal_entry(struct bw_wal *wal, const struct bw_wal_entry *entry);
void bw_wal_state(struct bw_wal *wal, const struct bw_durable *state);
void bw_wal_truncate(struct bw_wal *wal, bw_index from);
/* Records that a snapshot covers everything up to `index`. Earlier entries that do not agree with
 * the snapshot are void. The caller made the snapshot's content durable; the log makes its file
 * name durable before it writes this record. */
void bw_wal_snapshot(struct bw_wal *wal, bw_index index, bw_term term);

/* Where the writer of the next batches runs. If the loop sleeps meanwhile, a writer on the same
 * core starts faster than one on another core that must wake up. */
enum bw_wal_core { BW_WAL_ANY_CORE, BW_WAL_LOOP_CORE };
void bw_wal_place(struct bw_wal *wal, enum bw_wal_core core);
/* Makes everything collected durable. Returns a commit number: `durable` will report that number or
 * a higher one. Returns at once: the log's thread writes. */
uint64_t bw_wal_commit(struct bw_wal *wal);

/* The commit number under which the record that was collected last becomes durable. */
uint64_t bw_wal_next(const struct bw_wal *wal);

/* Segments that hold only entries up to `index` are not needed any more. The log's thread removes
 * them before it writes the next batch. */
void bw_wal_drop(struct bw_wal *wal, bw_index index);

/* The durations of all syncs so far. */
struct bw_histogram;
void bw_wal_syncs(struct bw_wal *wal, struct bw_histogram *out);

/* Size of the log on disk: of all its segments. */
uint64_t bw_wal_bytes(struct bw_wal *wal);

#endif
