/* Durable writes, in order, and torn writes after a crash. */
#include "sim/world/disk.h"

#include "core/base/assert.h"

#include <string.h>

_Static_assert(sizeof(struct bw_sim_disk_write) <= BW_SIM_SLOT_BODY, "a write fits into a slot");

void bw_sim_disk_init(struct bw_sim_disk *disk, struct bw_durable *records, struct bw_sim_log *logs,
                      uint32_t elections)
{
    memset(disk, 0, sizeof *disk);
    memset(records, 0, elections * sizeof *records);
    disk->records = records;
    disk->logs = logs;
    for (uint32_t e = 0; logs && e < elections; e++)
        bw_sim_log_clear(&logs[e]);
    bw_sim_fifo_init(&disk->writes);
}

bw_time bw_sim_disk_due(struct bw_sim_disk *disk, bw_time now, bw_time drawn)
{
    bw_time due = now + (disk->slow_ns ? disk->slow_ns : drawn);
    disk->last = bw_time_max(due, disk->last);
    return disk->last;
}

/* Installs a snapshot of the node's own state: drops only the entries that it covers. */
static void take_snapshot(struct bw_sim_log *log, const struct bw_sim_snapshot *snapshot)
{
    if (snapshot->index <= log->snapshot.index)
        return;
    log->snapshot = *snapshot;
    bw_sim_log_compact(log, snapshot->index);
}

static int apply(struct bw_sim_disk *disk, const struct bw_sim_slot *slot, uint32_t count)
{
    const struct bw_sim_disk_write *write =
        (const struct bw_sim_disk_write *)(const void *)slot->body;
    if (write->op == BW_DISK_RECORD) {
        disk->records[slot->election] = write->record;
        return 0;
    }
    BW_ASSERT(disk->logs);
    struct bw_sim_log *log = &disk->logs[slot->election];
    switch (write->op) {
    case BW_DISK_RECORD:
        break;
    case BW_DISK_APPEND:
        return bw_sim_log_append(log, write->first, slot->block, count);
    case BW_DISK_TRUNCATE:
        bw_sim_log_truncate(log, write->first);
        return 0;
    case BW_DISK_RESTORE:
        bw_sim_log_restore(log, slot->block);
        return 0;
    case BW_DISK_SNAPSHOT:
        take_snapshot(log, slot->block);
        return 0;
    }
    return 0;
}

int bw_sim_disk_apply(struct bw_sim_disk *disk, const struct bw_sim_slot *slot)
{
    return apply(disk, slot, ((const struct bw_sim_disk_write *)(const void *)slot->body)->count);
}

int bw_sim_disk_crash(struct bw_sim_disk *disk, struct bw_sim_queue *queue, struct bw_rng *rng)
{
    uint64_t through = disk->writes.count ? bw_rng_below(rng, disk->writes.count + 1) : 0;
    int error = 0;
    struct bw_sim_slot *slot;
    while ((slot = bw_sim_fifo_get(queue, &disk->writes)) && !error) {
        struct bw_sim_disk_write *write = bw_sim_disk_write_of(slot);
        if (through > 0) {
            error = apply(disk, slot, write->count);
            through--;
        } else {
            if (write->op == BW_DISK_APPEND && write->count)
                error = apply(disk, slot, (uint32_t)bw_rng_below(rng, write->count));
            break;
        }
    }
    bw_sim_fifo_init(&disk->writes);
    disk->last = 0;
    disk->fails = false;
    return error;
}
