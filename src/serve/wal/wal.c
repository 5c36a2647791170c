/* The loop's side of the log: collects, commits and reports what is durable; see wal.h. */
#include "serve/wal/wal.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "os/clock.h"
#include "os/crash.h"
#include "os/grow.h"
#include "serve/wal/state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER_FIRST ((size_t)64 << 10)

/* The collected records become a batch with a commit number of its own. */
static void seal_collecting(struct bw_wal *wal)
{
    wal->commits += wal->dirty;
    wal->dirty = false;
    wal->collecting.commit = wal->commits;
    wal->collecting.last_index = wal->last_index;
    wal->collecting.state = wal->state;
    wal->collecting.has_state = wal->has_state;
}

/* The batch is full: it waits for the writer, and the next one begins. */
static void begin_next(struct bw_wal *wal)
{
    struct wal_buffer *full = malloc(sizeof *full);
    if (!full)
        wal_fail(wal, "out of memory for the log");
    seal_collecting(wal);
    *full = wal->collecting;
    full->next = NULL;
    *(wal->full ? wal->full_end : &wal->full) = full;
    wal->full_end = &full->next;
    wal->collecting = wal->spare;
    wal->spare = (struct wal_buffer){0};
}

/* Reserves `bytes` more. If memory is exhausted, ends the process: the log could not store entries
 * that Raft relies on. */
static unsigned char *collect(struct bw_wal *wal, size_t bytes)
{
    struct wal_buffer *buffer = &wal->collecting;
    if (buffer->used > WAL_BATCH_HEAD && buffer->used + bytes > WAL_BATCH_MAX)
        begin_next(wal);
    if (buffer->used == 0)
        buffer->used = WAL_BATCH_HEAD;
    if (!bw_grow(&buffer->at, &buffer->size, buffer->used + bytes, BUFFER_FIRST, 1))
        wal_fail(wal, "out of memory for the log");
    unsigned char *at = buffer->at + buffer->used;
    buffer->used += bytes;
    wal->dirty = true;
    return at;
}

/* Writes a record's head and zeroes its padding. Returns where the fields begin. */
static unsigned char *record(struct bw_wal *wal, enum wal_record kind, uint8_t change,
                             size_t length)
{
    size_t padded = (length + 7) / 8 * 8;
    unsigned char *at = collect(wal, WAL_RECORD_HEAD + padded);
    memset(at, 0, WAL_RECORD_HEAD);
    memset(at + WAL_RECORD_HEAD + padded - 8, 0, padded ? 8 : 0);
    at[0] = (unsigned char)kind;
    at[1] = change;
    bw_put32(at + 4, (uint32_t)length);
    return at + WAL_RECORD_HEAD;
}

void bw_wal_entry(struct bw_wal *wal, const struct bw_wal_entry *entry)
{
    unsigned char *at = record(wal, WAL_ENTRY, entry->change, WAL_ENTRY_HEAD + entry->length);
    bw_put64(at, entry->index);
    bw_put64(at + 8, entry->term);
    bw_put64(at + 16, entry->node);
    if (entry->length)
        memcpy(at + WAL_ENTRY_HEAD, entry->bytes, entry->length);
    wal->last_index = entry->index;
}

void wal_state_record(unsigned char *at, const struct bw_durable *state)
{
    const uint64_t fields[] = {state->term,
                               state->vote,
                               state->starts,
                               state->token,
                               state->promise_epoch,
                               state->promised_to,
                               (uint64_t)state->promised_ns};
    memset(at, 0, WAL_RECORD_HEAD);
    at[0] = WAL_STATE;
    bw_put32(at + 4, WAL_STATE_BYTES);
    for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++)
        bw_put64(at + WAL_RECORD_HEAD + (size_t)8 * i, fields[i]);
}

void bw_wal_state(struct bw_wal *wal, const struct bw_durable *state)
{
    wal_state_record(collect(wal, WAL_STATE_RECORD), state);
    wal->state = *state;
    wal->has_state = true;
    wal->collecting.holds_state = true;
}

void bw_wal_truncate(struct bw_wal *wal, bw_index from)
{
    bw_put64(record(wal, WAL_TRUNCATE, 0, 8), from);
    wal->last_index = from - 1;
}

void bw_wal_snapshot(struct bw_wal *wal, bw_index index, bw_term term)
{
    unsigned char *at = record(wal, WAL_SNAPSHOT, 0, 16);
    bw_put64(at, index);
    bw_put64(at + 8, term);
    wal->last_index = bw_wal_max(wal->last_index, index);
    wal->collecting.names_file = true;
}

/* The scheduler may have moved the loop since the last batch, so the writer follows. This only
 * affects speed; failures are ignored. */
static void place_writer(struct bw_wal *wal, bool together)
{
    int core = together ? sched_getcpu() : -1;
    cpu_set_t one;
    if (core == wal->writer_core)
        return;
    CPU_ZERO(&one);
    if (core >= 0)
        CPU_SET((unsigned)core, &one);
    pthread_setaffinity_np(wal->writer, sizeof one, core >= 0 ? &one : &wal->cores);
    wal->writer_core = core;
}

void bw_wal_place(struct bw_wal *wal, enum bw_wal_core core)
{
    wal->place = core;
}

/* Keeps the memory of a written batch for a later one, unless there is enough already. */
static void recycle(struct bw_wal *wal, const struct wal_buffer *written)
{
    struct wal_buffer idle = {.at = written->at, .size = written->size};
    if (!wal->collecting.at)
        wal->collecting = idle;
    else if (!wal->spare.at)
        wal->spare = idle;
    else
        free(idle.at);
}

/* Chooses the batch to be written: the oldest one that waits, or the collected records. The writer
 * is idle, so it also takes records that no commit has asked for yet. Call under the mutex. */
static void make_batch(struct bw_wal *wal)
{
    struct wal_buffer written = wal->writing, *full = wal->full;
    if (full) {
        wal->writing = *full;
        wal->full = full->next;
        free(full);
    } else {
        seal_collecting(wal);
        wal->writing = wal->collecting;
        wal->collecting = wal->spare;
        wal->spare = (struct wal_buffer){0};
    }
    recycle(wal, &written);
    BW_CRASH("wal.commit.before-handing-over");
}

/* Hands the collected records to the writer if it is idle. */
static void hand_over(struct bw_wal *wal)
{
    uv_mutex_lock(&wal->mutex);
    bool idle_writer = wal->writing.used == 0 && (wal->full || wal->collecting.used > 0);
    bw_time now = idle_writer ? bw_clock_boot() : 0;
    bool together = wal->place == BW_WAL_LOOP_CORE && wal_wakes_together(&wal->wakes, now);
    if (idle_writer) {
        make_batch(wal);
        wal->handed_at = together ? now : 0;
    }
    uv_mutex_unlock(&wal->mutex);
    if (idle_writer) {
        place_writer(wal, together);
        wal_signal(wal->wake[1]);
    }
}

/* The writer made a batch durable. */
static void on_done(uv_poll_t *done, int status, int events)
{
    struct bw_wal *wal = done->data;
    (void)status, (void)events;
    wal_await_signal(wal->done_pipe[0]);
    uv_mutex_lock(&wal->mutex);
    uint64_t durable = wal->durable;
    uv_mutex_unlock(&wal->mutex);
    hand_over(wal);
    wal_ahead_update(wal);
    BW_CRASH("wal.commit.durable-but-not-notified");
    wal->options.durable(wal->options.context, durable);
    BW_CRASH("wal.commit.durable-and-notified");
}

uint64_t bw_wal_commit(struct bw_wal *wal)
{
    wal->commits += wal->dirty;
    wal->dirty = false;
    hand_over(wal);
    return wal->commits;
}

uint64_t bw_wal_next(const struct bw_wal *wal)
{
    return wal->commits + 1;
}

void bw_wal_drop(struct bw_wal *wal, bw_index index)
{
    uv_mutex_lock(&wal->mutex);
    wal->unneeded = bw_wal_max(wal->unneeded, index);
    uv_mutex_unlock(&wal->mutex);
    wal_signal(wal->wake[1]);
}

uint64_t bw_wal_bytes(struct bw_wal *wal)
{
    uint64_t bytes = 0;
    uv_mutex_lock(&wal->mutex);
    for (uint32_t i = 0; i < wal->kept_count; i++)
        bytes += wal->kept[i].bytes;
    uv_mutex_unlock(&wal->mutex);
    return bytes;
}

void bw_wal_syncs(struct bw_wal *wal, struct bw_histogram *out)
{
    uv_mutex_lock(&wal->mutex);
    *out = wal->syncs;
    uv_mutex_unlock(&wal->mutex);
}

static int first_segment(struct bw_wal *wal, char *why)
{
    bool ordinary = !wal->options.segment_bytes && wal->segments.bytes > WAL_FIRST;
    size_t size = ordinary ? WAL_FIRST : wal->segments.bytes;
    BW_CRASH("wal.open.before-first-segment");
    wal->fd = wal_segment_begin(&wal->segments, size);
    if (wal->fd < 0 || wal_segment_finish(&wal->segments, wal->fd, 0, 1, 0, size) != 0) {
        wal->fd = -1;
        snprintf(why, BW_WAL_WHY_MAX + 1, "cannot make a log in %s: %s", wal->options.directory,
                 strerror(errno));
        return BW_EIO;
    }
    wal->number = 1;
    wal->offset = WAL_HEAD;
    wal->segment_size = size;
    wal->kept[wal->kept_count++] =
        (struct wal_kept){.number = 1, .bytes = size, .holds_state = true};
    BW_CRASH("wal.open.after-first-segment");
    return 0;
}

static int missing(const struct bw_wal *wal, const char *which, char *why)
{
    snprintf(why, BW_WAL_WHY_MAX + 1, "%s segment of the log is missing in %s", which,
             wal->options.directory);
    return BW_EDAMAGED;
}

/* Whether the snapshot covers every entry before the segments that were read. */
static bool start_is_covered(const struct bw_wal *wal)
{
    return wal->kept[0].before <= wal->options.covered;
}

/* Handles missing segments before number `run` while older ones still exist. They are leftovers of
 * a removal (after a power failure before the directory was durable, or from earlier versions) if
 * two conditions hold: the snapshot covers every entry before `run`, and `run` has the state. Then
 * the older segments are removed. */
static int close_gap(struct bw_wal *wal, uint64_t run, char *why)
{
    bool covered = start_is_covered(wal) && wal->has_state;
    if (!covered && !BW_BUG(wal_gap_ignored))
        return missing(wal, "a", why);
    if (wal_segments_remove_below(&wal->segments, run) == 0)
        return 0;
    snprintf(why, BW_WAL_WHY_MAX + 1, "cannot remove old segments of the log in %s: %s",
             wal->options.directory, strerror(errno));
    return BW_EIO;
}

/* A process that was killed may have written what this one has read, without a sync. The node now
 * acts on it, so it must be durable: the last batch, and the names of segments and snapshots. */
static int make_found_durable(const struct bw_wal *wal, char *why)
{
    BW_CRASH("wal.open.before-sync");
    if (BW_BUG(wal_trusts_what_it_found) ||
        (fsync(wal->fd) == 0 && fsync(wal->segments.directory) == 0))
        return 0;
    snprintf(why, BW_WAL_WHY_MAX + 1, "cannot sync the log in %s: %s", wal->options.directory,
             strerror(errno));
    return BW_EIO;
}

static int find_log(struct bw_wal *wal, char *why)
{
    uint64_t first, last, count;
    if (wal_segments_list(&wal->segments, &first, &last, &count) != 0) {
        snprintf(why, BW_WAL_WHY_MAX + 1, "cannot list %s: %s", wal->options.directory,
                 strerror(errno));
        return BW_EIO;
    }
    if (count == 0)
        return first_segment(wal, why);
    uint64_t run = wal_segments_run(&wal->segments, last);
    size_t end = 0;
    if (last - run >= WAL_SEGMENTS_MAX)
        return missing(wal, "a", why);
    for (uint64_t number = run; number <= last; number++) {
        BW_CRASH("wal.open.before-reading");
        int error = wal_read_segment(wal, number, number == last, &end, why);
        if (error)
            return error;
    }
    wal->number = last;
    wal->offset = end;
    if (run != first) {
        int error = close_gap(wal, run, why);
        if (error)
            return error;
    } else if (!start_is_covered(wal)) { /* no gap shows that older segments existed */
        return missing(wal, "the oldest", why);
    }
    int error = wal->torn ? wal_clear_tail(wal, why) : 0;
    return error ? error : make_found_durable(wal, why);
}

/* A full pipe must not block the sender, and libuv needs a non-blocking end. The writer's end
 * blocks. */
static int open_pipes(struct bw_wal *wal)
{
    if (pipe2(wal->wake, O_CLOEXEC) != 0 || pipe2(wal->done_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return BW_ENOMEM;
    return fcntl(wal->wake[1], F_SETFL, O_NONBLOCK) == 0 ? 0 : BW_ENOMEM;
}

static void close_pipe(const int pipe[2])
{
    for (unsigned i = 0; i < 2; i++)
        if (pipe[i] >= 0)
            close(pipe[i]);
}

static void wal_free(struct bw_wal *wal)
{
    close_pipe(wal->wake);
    close_pipe(wal->done_pipe);
    if (wal->fd >= 0)
        close(wal->fd);
    if (wal->segments.directory >= 0)
        close(wal->segments.directory);
    while (wal->full) {
        struct wal_buffer *full = wal->full;
        wal->full = full->next;
        free(full->at);
        free(full);
    }
    free(wal->collecting.at);
    free(wal->writing.at);
    free(wal->spare.at);
    free(wal->stage);
    free(wal->kept);
    free(wal);
}

void wal_end(struct bw_wal *wal)
{
    if (!wal->closed || wal->filler_queued)
        return;
    uv_mutex_destroy(&wal->mutex);
    uv_cond_destroy(&wal->ahead_done);
    wal_free(wal);
}

static void on_closed(uv_handle_t *handle)
{
    struct bw_wal *wal = handle->data;
    wal->closed = true;
    wal_end(wal);
}

static int begin(struct bw_wal *wal, char *why)
{
    wal->kept = malloc(WAL_SEGMENTS_MAX * sizeof *wal->kept);
    wal->segments.directory = open(wal->options.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!wal->kept || wal->segments.directory < 0) {
        snprintf(why, BW_WAL_WHY_MAX + 1, "cannot open %s: %s", wal->options.directory,
                 strerror(errno));
        return wal->kept ? BW_EIO : BW_ENOMEM;
    }
    int error = find_log(wal, why);
    if (error)
        return error;
    BW_CRASH("wal.open.after-reading");
    if (open_pipes(wal) != 0 ||
        uv_poll_init(wal->options.loop, &wal->done, wal->done_pipe[0]) != 0) {
        snprintf(why, BW_WAL_WHY_MAX + 1, "cannot open a pipe for the log in %s: %s",
                 wal->options.directory, strerror(errno));
        return BW_ENOMEM;
    }
    wal->done.data = wal;
    uv_poll_start(&wal->done, UV_READABLE, on_done);
    wal->written_index = wal->last_index;
    wal->reached = wal->offset;
    wal->reached_of = wal->segment_size;
    wal->batches = wal->offset / WAL_ZEROS_BATCH; /* judge only batches that follow */
    uv_mutex_init(&wal->mutex);
    uv_cond_init(&wal->ahead_done);
    wal->writer_core = -1;
    wal_stage_begin(wal);
    pthread_getaffinity_np(pthread_self(), sizeof wal->cores, &wal->cores);
    error = uv_thread_create(&wal->writer, wal_write_loop, wal);
    if (!error)
        return 0;
    snprintf(why, BW_WAL_WHY_MAX + 1, "cannot start a thread for the log in %s: %s",
             wal->options.directory, strerror(-error));
    wal->closing = true;
    uv_close((uv_handle_t *)&wal->done, on_closed); /* frees the log */
    return BW_ENOMEM;
}

int bw_wal_open(struct bw_wal **out, const struct bw_wal_options *options, char *why)
{
    size_t ordinary = BW_CRASH_OR(BW_WAL_SEGMENT, (size_t)256 << 10);
    size_t bytes = options->segment_bytes ? options->segment_bytes : ordinary;
    struct bw_wal *wal = calloc(1, sizeof *wal);
    if (!wal || bytes < BW_WAL_SEGMENT_MIN) {
        snprintf(why, BW_WAL_WHY_MAX + 1, "cannot open the log in %s: %s", options->directory,
                 bw_error_text(wal ? BW_EINVAL : BW_ENOMEM));
        free(wal);
        return wal ? BW_EINVAL : BW_ENOMEM;
    }
    wal->options = *options;
    wal->segments = (struct wal_segments){
        .directory = -1, .cluster = options->cluster, .node = options->node, .bytes = bytes};
    wal->fd = wal->ahead_fd = -1;
    wal->wake[0] = wal->wake[1] = wal->done_pipe[0] = wal->done_pipe[1] = -1;
    int error = begin(wal, why);
    if (!error)
        *out = wal;
    else if (!wal->closing)
        wal_free(wal);
    return error; /* NOLINT(clang-analyzer-unix.Malloc): on_closed frees it */
}

void bw_wal_close(struct bw_wal *wal)
{
    size_t filled;
    uv_mutex_lock(&wal->mutex);
    wal->stop = true;
    BW_CRASH("wal.close.before-the-last-write");
    uv_mutex_unlock(&wal->mutex);
    wal_signal(wal->wake[1]);
    uv_thread_join(&wal->writer);
    while (wal->commits > wal->durable) { /* commits that came while the writer was busy */
        make_batch(wal);
        wal_write_one(wal);
    }
    BW_CRASH("wal.close.after-the-last-write");
    wal->closing = true;
    int next = wal_ahead_take(wal, &filled);
    if (next >= 0) /* now, because another process may use the directory soon */
        wal_segment_abandon(&wal->segments, next);
    uv_close((uv_handle_t *)&wal->done, on_closed);
}
