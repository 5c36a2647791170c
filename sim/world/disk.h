/* A node's disk: one durable record per election and, for Raft, one log per election.
 *
 * Writes become durable in the order in which they started; several can be in progress. A crash
 * loses the writes in progress, but not cleanly: a random number of them may have reached the disk.
 * If the last of these is an append, it may be torn. Entries have checksums, so a torn entry counts
 * as absent. A failed write is never reported as done: the process exits. */
#ifndef BW_SIM_WORLD_DISK_H
#define BW_SIM_WORLD_DISK_H

#include "core/base/event.h"
#include "core/base/rng.h"
#include "sim/world/queue.h"
#include "sim/world/raft_log.h"

enum bw_sim_disk_op {
    BW_DISK_RECORD,
    BW_DISK_APPEND,   /* the slot's block holds the entries */
    BW_DISK_TRUNCATE, /* from entry `first` on */
    BW_DISK_RESTORE,  /* the slot's block holds a snapshot that replaces the whole log */
    /* the slot's block holds a snapshot of the node's own state; older entries are dropped */
    BW_DISK_SNAPSHOT
};

struct bw_sim_disk_write { /* the body of a slot */
    enum bw_sim_disk_op op;
    uint32_t count;
    bw_index first;
    bw_term term; /* of the last entry */
    struct bw_durable record;
};

struct bw_sim_disk {
    struct bw_durable *records; /* [election] */
    struct bw_sim_log *logs;    /* [election], or NULL */
    struct bw_sim_fifo writes;  /* in progress; also scheduled in the queue */
    bw_time last;               /* when the last of them becomes durable */
    bw_time slow_ns;            /* duration of each write; 0 = drawn */
    bool fails;                 /* the next write fails */
};

void bw_sim_disk_init(struct bw_sim_disk *disk, struct bw_durable *records, struct bw_sim_log *logs,
                      uint32_t elections);

/* Returns when a write that starts now becomes durable. */
bw_time bw_sim_disk_due(struct bw_sim_disk *disk, bw_time now, bw_time drawn);
/* Makes a write durable. Returns 0 or an error of the log. */
int bw_sim_disk_apply(struct bw_sim_disk *disk, const struct bw_sim_slot *slot);
/* The machine stops with writes in progress. Their slots stay scheduled, but are void. */
int bw_sim_disk_crash(struct bw_sim_disk *disk, struct bw_sim_queue *queue, struct bw_rng *rng);

static inline struct bw_sim_disk_write *bw_sim_disk_write_of(struct bw_sim_slot *slot)
{
    return (struct bw_sim_disk_write *)(void *)slot->body;
}

#endif
