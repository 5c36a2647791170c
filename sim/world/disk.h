/* A node's disk: one durable record per election and, for Raft, a log each.
 *
 * Writes become durable in the order in which they were begun, several under way at once. A crash
 * loses those under way, but not cleanly: a random number of them may have got through, the last of
 * these in part if it is an append (its entries carry checksums, so a torn one is as good as
 * absent). A write that fails is never reported as done: the process dies of it. */
#ifndef BW_SIM_DISK_H
#define BW_SIM_DISK_H

#include "core/base/event.h"
#include "core/base/rng.h"
#include "sim/world/log.h"
#include "sim/world/queue.h"

enum bw_sim_disk_op {
    BW_DISK_RECORD,
    BW_DISK_APPEND,   /* the slot's block: entries */
    BW_DISK_TRUNCATE, /* from first on */
    BW_DISK_RESTORE,  /* the slot's block: a snapshot that replaces all */
    BW_DISK_SNAPSHOT  /* the slot's block: a snapshot of the own state; entries up to it go */
};

struct bw_sim_disk_write { /* in a slot's body */
    enum bw_sim_disk_op op;
    uint32_t count;
    bw_index first;
    bw_term term; /* of the last entry */
    struct bw_durable record;
};

struct bw_sim_disk {
    struct bw_durable *records; /* [election] */
    struct bw_sim_log *logs;    /* [election], or NULL */
    struct bw_sim_fifo writes;  /* under way, scheduled in the queue too */
    bw_time last;               /* when the last of them will be durable */
    bw_time slow_ns;            /* each takes so long; 0 = as drawn */
    bool fails;                 /* the next one does */
};

void bw_sim_disk_init(struct bw_sim_disk *disk, struct bw_durable *records, struct bw_sim_log *logs,
                      uint32_t elections);

/* When a write begun now will be durable. */
bw_time bw_sim_disk_due(struct bw_sim_disk *disk, bw_time now, bw_time drawn);
/* A write is durable. Returns 0 or the log's error. */
int bw_sim_disk_apply(struct bw_sim_disk *disk, const struct bw_sim_slot *slot);
/* The machine stops with writes under way; their slots stay scheduled and are void. */
int bw_sim_disk_crash(struct bw_sim_disk *disk, struct bw_sim_queue *queue, struct bw_rng *rng);

static inline struct bw_sim_disk_write *bw_sim_disk_write_of(struct bw_sim_slot *slot)
{
    return (struct bw_sim_disk_write *)(void *)slot->body;
}

#endif
