/* The log's own thread. It writes one batch after the other, each with one write and one fdatasync,
 * and removes old segments in between. Any failure ends the process. */
#include "core/base/bug.h"
#include "os/clock.h"
#include "os/crash.h"
#include "os/journal.h"
#include "serve/wal/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void wal_fail(const struct bw_wal *wal, const char *what)
{
    bw_print_line(BW_PRIORITY_ERROR,
                  "bellwether: %s in %s: %s; exiting, because promised data may not be durable",
                  what, wal->options.directory, strerror(errno));
    abort();
}

void wal_signal(int fd)
{
    while (write(fd, "", 1) < 0 && errno == EINTR)
        ;
}

void wal_await_signal(int fd)
{
    char taken[64];
    while (read(fd, taken, sizeof taken) < 0 && errno == EINTR)
        ;
}

/* Puts a batch into the stage: masks its records and writes the head. Mask and checksums depend on
 * segment and offset. */
static void seal(struct bw_wal *wal, const unsigned char *batch, size_t used)
{
    size_t length = used - WAL_BATCH_HEAD;
    struct wal_place place = {wal->segments.cluster, wal->segments.node, wal->number, wal->offset};
    uint64_t seed = wal_seed(&place);
    unsigned char *head = wal_stage_at(wal, used), *records = head + WAL_BATCH_HEAD;
    wal_mask(seed, records, batch + WAL_BATCH_HEAD, length);
    bw_put32(head, (uint32_t)length);
    bw_put32(head + 4, wal_length_sum(seed, (uint32_t)length));
    bw_put64(head + 8, wal_records_sum(seed, records, length));
    BW_CRASH_TORN("wal.batch.torn-in-the-middle", wal->fd, head, used, (long long)wal->offset);
    BW_CRASH_HOLE("wal.batch.torn-at-its-head", wal->fd, head, used, (long long)wal->offset);
}

static void write_sealed(struct bw_wal *wal, const unsigned char *batch, size_t used)
{
    seal(wal, batch, used);
    wal_stage_write(wal, used);
}

#define STATE_BATCH (WAL_BATCH_HEAD + WAL_STATE_RECORD)

/* Called when a batch does not fit: continues in the next segment. It begins with the state, so
 * that older segments may be removed. The sync of the batch makes the state durable too. */
static void turn_over(struct bw_wal *wal, const struct wal_buffer *batch, bw_index before)
{
    unsigned char state[STATE_BATCH];
    size_t need = WAL_HEAD + STATE_BATCH + batch->used;
    size_t size = need > wal->segments.bytes ? (need + WAL_HEAD - 1) / WAL_HEAD * WAL_HEAD
                                             : wal->segments.bytes;
    size_t filled;
    BW_CRASH("wal.turn.before-segment");
    int fd = wal_ahead_take(wal, &filled);
    if (fd < 0)
        fd = wal_segment_begin(&wal->segments, size);
    if (fd < 0 ||
        wal_segment_finish(&wal->segments, fd, filled, wal->number + 1, before, size) != 0)
        wal_fail(wal, "cannot make a new segment");
    BW_CRASH("wal.turn.before-close-of-old");
    close(wal->fd);
    BW_CRASH("wal.turn.before-state");
    wal->fd = fd;
    wal->number++;
    wal->offset = WAL_HEAD;
    wal->segment_size = size;
    wal_stage_begin(wal);
    if (!batch->has_state)
        return;
    wal_state_record(state + WAL_BATCH_HEAD, &batch->state);
    write_sealed(wal, state, sizeof state);
    BW_CRASH("wal.turn.after-state");
}

static void sync_directory(const struct bw_wal *wal)
{
    if (fsync(wal->segments.directory) != 0)
        wal_fail(wal, "cannot sync the directory");
}

static void write_batch(struct bw_wal *wal, struct wal_buffer *batch, bw_index before)
{
    if (batch->names_file && !BW_BUG(wal_names_a_file_before_its_name_is_durable)) {
        BW_CRASH("wal.snapshot.before-sync-of-directory");
        sync_directory(wal);
        BW_CRASH("wal.snapshot.after-sync-of-directory");
    }
    if (wal->offset + batch->used > wal->segment_size)
        turn_over(wal, batch, before);
    BW_CRASH("wal.batch.before-write");
    write_sealed(wal, batch->at, batch->used);
    BW_CRASH("wal.batch.before-sync");
    bw_time begun = bw_clock_boot();
    if (fdatasync(wal->fd) != 0)
        wal_fail(wal, "cannot sync the log");
    wal->sync_ns = bw_clock_boot() - begun;
    BW_CRASH("wal.batch.after-sync");
}

/* Records a new segment. Call under the mutex. The list must name every segment in the directory: a
 * segment missing from it would never be removed, and would leave a gap in the log when its
 * neighbours are. */
static void record_segment(struct bw_wal *wal)
{
    if (wal->kept_count == WAL_SEGMENTS_MAX)
        wal_fail(wal, "too many segments");
    if (BW_BUG(wal_large_segment_not_recorded) && wal->segment_size > wal->segments.bytes)
        return;
    wal->kept[wal->kept_count++] = (struct wal_kept){.number = wal->number,
                                                     .before = wal->written_index,
                                                     .bytes = wal->segment_size,
                                                     .holds_state = true};
}

void wal_write_one(struct bw_wal *wal)
{
    uint64_t number = wal->number;
    write_batch(wal, &wal->writing, wal->written_index);
    uv_mutex_lock(&wal->mutex);
    if (wal->number != number) {
        record_segment(wal);
        wal->ahead = WAL_AHEAD_IDLE;
        wal->batches = 0;
    } else if (wal->writing.holds_state) {
        wal->kept[wal->kept_count - 1].holds_state = true;
    }
    bw_histogram_add(&wal->syncs, &bw_bounds_disk, wal->sync_ns);
    wal->written_index = wal->writing.last_index;
    wal->durable = wal->writing.commit;
    wal->reached = wal->offset;
    wal->reached_of = wal->segment_size;
    wal->batches++;
    wal->writing.used = 0;
    uv_mutex_unlock(&wal->mutex);
}

/* Returns true if the oldest segment is not needed any more. Call under the mutex. */
static bool is_unneeded(const struct bw_wal *wal)
{
    bool has_state =
        wal->kept_count > 1 && (wal->kept[1].holds_state || BW_BUG(wal_drops_the_only_state));
    return has_state && wal->kept[1].before <= wal->unneeded;
}

/* Removes segments, oldest first. Call under the mutex, which is released meanwhile; only this
 * thread changes the list. */
static void remove_unneeded(struct bw_wal *wal)
{
    char name[WAL_NAME_MAX];
    while (is_unneeded(wal)) {
        wal_segment_name(name, wal->kept[0].number);
        uv_mutex_unlock(&wal->mutex);
        BW_CRASH("wal.drop.before-unlink");
        bool gone = unlinkat(wal->segments.directory, name, 0) == 0 || errno == ENOENT;
        BW_CRASH("wal.drop.after-unlink");
        uv_mutex_lock(&wal->mutex);
        if (!gone) { /* retried with the next snapshot */
            wal->unneeded = 0;
            return;
        }
        wal->kept_count--;
        memmove(wal->kept, wal->kept + 1, wal->kept_count * sizeof *wal->kept);
    }
    uv_mutex_unlock(&wal->mutex);
    BW_CRASH("wal.drop.before-sync");
    sync_directory(wal);
    BW_CRASH("wal.drop.after-sync");
    uv_mutex_lock(&wal->mutex);
}

/* Call under the mutex. */
static void note_wake(struct bw_wal *wal)
{
    bw_time now = bw_clock_boot();
    if (wal->handed_at)
        wal_wakes_note(&wal->wakes, now - wal->handed_at, now);
}

void wal_write_loop(void *argument)
{
    struct bw_wal *wal = argument;
    uv_mutex_lock(&wal->mutex);
    for (;;) {
        while (wal->writing.used == 0 && !is_unneeded(wal) && !wal->stop) {
            uv_mutex_unlock(&wal->mutex);
            wal_await_signal(wal->wake[0]);
            uv_mutex_lock(&wal->mutex);
        }
        if (is_unneeded(wal)) {
            remove_unneeded(wal);
            wal->handed_at = 0; /* a batch waited for the removal, not for the core */
        }
        if (wal->writing.used == 0 && wal->stop)
            break;
        if (wal->writing.used == 0)
            continue;
        note_wake(wal);
        uv_mutex_unlock(&wal->mutex);
        wal_write_one(wal);
        BW_CRASH("wal.batch.before-telling");
        wal_signal(wal->done_pipe[1]);
        BW_CRASH("wal.batch.after-telling");
        uv_mutex_lock(&wal->mutex);
    }
    uv_mutex_unlock(&wal->mutex);
}
