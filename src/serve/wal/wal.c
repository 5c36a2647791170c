/* The log as the loop sees it: collecting, committing, hearing what is durable; see wal.h. */
#include "serve/wal/wal.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "serve/crash.h"
#include "serve/wal/state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER_FIRST ((size_t)64 << 10)

/* Room for `bytes` more; without memory the log cannot keep its promises. */
static unsigned char *collect(struct bw_wal *wal, size_t bytes)
{
    struct wal_buffer *buffer = &wal->collecting;
    if (buffer->used == 0)
        buffer->used = WAL_BATCH_HEAD;
    if (buffer->size - buffer->used < bytes || !buffer->at) {
        size_t size = buffer->size ? buffer->size : BUFFER_FIRST;
        while (size - buffer->used < bytes)
            size *= 2;
        unsigned char *larger = realloc(buffer->at, size);
        if (!larger)
            wal_fail(wal, "no memory for the log");
        buffer->at = larger;
        buffer->size = size;
    }
    unsigned char *at = buffer->at + buffer->used;
    buffer->used += bytes;
    wal->dirty = true;
    return at;
}

/* A record's head, zeroed fields and padding; returns where the fields begin. */
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
    wal->state = *state;
    wal->has_state = true;
    wal_state_record(collect(wal, WAL_STATE_RECORD), state);
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

/* The scheduler may have moved the loop since the last batch: the writer follows. It is only a
 * matter of speed, so failures are ignored. */
static void place_writer(struct bw_wal *wal)
{
    int core = wal->place == BW_WAL_LOOP_CORE ? sched_getcpu() : -1;
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

/* Hands what was collected to the writer, if it is idle. */
static void hand_over(struct bw_wal *wal)
{
    uv_mutex_lock(&wal->mutex);
    bool free = wal->writing.used == 0 && wal->collecting.used > 0;
    if (free) {
        struct wal_buffer idle = wal->writing;
        wal->commits += wal->dirty; /* the writer is idle: no need to wait to be told */
        wal->dirty = false;
        wal->collecting.commit = wal->commits;
        wal->collecting.last_index = wal->last_index;
        wal->collecting.state = wal->state;
        wal->collecting.has_state = wal->has_state;
        wal->writing = wal->collecting;
        wal->collecting = idle;
        wal->collecting.names_file = false;
        BW_CRASH("wal.commit.before-handing-over");
    }
    uv_mutex_unlock(&wal->mutex);
    if (free) {
        place_writer(wal);
        wal_signal(wal->wake[1]);
    }
}

/* What the writer has done since the loop last heard of it. */
static void on_done(uv_poll_t *done, int status, int events)
{
    struct bw_wal *wal = done->data;
    (void)status, (void)events;
    wal_await_signal(wal->done_pipe[0]);
    uv_mutex_lock(&wal->mutex);
    uint64_t durable = wal->durable;
    uv_mutex_unlock(&wal->mutex);
    hand_over(wal);
    wal_ahead_mind(wal);
    BW_CRASH("wal.commit.durable-but-not-told");
    wal->options.durable(wal->options.context, durable);
    BW_CRASH("wal.commit.durable-and-told");
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
    uv_mutex_lock(&wal->mutex);
    uint32_t count = wal->kept_count;
    uv_mutex_unlock(&wal->mutex);
    return (uint64_t)count * wal->segments.bytes;
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
    wal->kept[wal->kept_count++] = (struct wal_kept){.number = 1};
    BW_CRASH("wal.open.after-first-segment");
    return 0;
}

static int missing(const struct bw_wal *wal, char *why)
{
    snprintf(why, BW_WAL_WHY_MAX + 1, "a segment of the log is missing in %s",
             wal->options.directory);
    return BW_EDAMAGED;
}

/* Segments are missing before number `run`, and older ones are still there. They are what a removal
 * left behind (power failed before the directory was durable; earlier versions forgot some) if the
 * snapshot covers every entry before `run`, and `run` has the state: then they are removed. */
static int close_gap(struct bw_wal *wal, uint64_t run, char *why)
{
    bool covered = wal->kept[0].before <= wal->options.covered && wal->has_state;
    if (!covered && !BW_BUG(wal_gap_ignored))
        return missing(wal, why);
    if (wal_segments_remove_below(&wal->segments, run) == 0)
        return 0;
    snprintf(why, BW_WAL_WHY_MAX + 1, "cannot remove old segments of the log in %s: %s",
             wal->options.directory, strerror(errno));
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
        return missing(wal, why);
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
    }
    return wal->torn ? wal_clear_tail(wal, why) : 0;
}

/* A full pipe does not block the sender, and libuv wants its end so. The writer waits at its end.
 */
static int open_pipes(struct bw_wal *wal)
{
    if (pipe2(wal->wake, O_CLOEXEC) != 0 || pipe2(wal->done_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return BW_ENOMEM;
    return fcntl(wal->wake[1], F_SETFL, O_NONBLOCK) == 0 ? 0 : BW_ENOMEM;
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
    if (open_pipes(wal) != 0 || uv_poll_init(wal->options.loop, &wal->done, wal->done_pipe[0]) != 0)
        return BW_ENOMEM;
    wal->done.data = wal;
    uv_poll_start(&wal->done, UV_READABLE, on_done);
    wal->written_index = wal->last_index;
    wal->reached = wal->offset;
    wal->reached_of = wal->segment_size;
    uv_mutex_init(&wal->mutex);
    uv_cond_init(&wal->ahead_done);
    wal->writer_core = -1;
    pthread_getaffinity_np(pthread_self(), sizeof wal->cores, &wal->cores);
    if (uv_thread_create(&wal->writer, wal_write_loop, wal) != 0)
        wal_fail(wal, "no thread for the log");
    return 0;
}

static void close_pipe(const int pipe[2])
{
    for (unsigned i = 0; i < 2; i++)
        if (pipe[i] >= 0)
            close(pipe[i]);
}

static void let_go(struct bw_wal *wal)
{
    close_pipe(wal->wake);
    close_pipe(wal->done_pipe);
    if (wal->fd >= 0)
        close(wal->fd);
    if (wal->segments.directory >= 0)
        close(wal->segments.directory);
    free(wal->collecting.at);
    free(wal->writing.at);
    free(wal->kept);
    free(wal);
}

int bw_wal_open(struct bw_wal **out, const struct bw_wal_options *options, char *why)
{
    size_t ordinary = BW_CRASH_OR(BW_WAL_SEGMENT, (size_t)256 << 10);
    size_t bytes = options->segment_bytes ? options->segment_bytes : ordinary;
    struct bw_wal *wal = calloc(1, sizeof *wal);
    if (!wal || bytes < BW_WAL_SEGMENT_MIN) {
        free(wal);
        return wal ? BW_EINVAL : BW_ENOMEM;
    }
    wal->options = *options;
    wal->segments = (struct wal_segments){
        .directory = -1, .cluster = options->cluster, .node = options->node, .bytes = bytes};
    wal->fd = wal->ahead_fd = -1;
    wal->wake[0] = wal->wake[1] = wal->done_pipe[0] = wal->done_pipe[1] = -1;
    int error = begin(wal, why);
    if (error)
        let_go(wal);
    else
        *out = wal;
    return error;
}

void wal_end(struct bw_wal *wal)
{
    if (!wal->closed || wal->filler_queued)
        return;
    uv_mutex_destroy(&wal->mutex);
    uv_cond_destroy(&wal->ahead_done);
    let_go(wal);
}

static void on_closed(uv_handle_t *handle)
{
    struct bw_wal *wal = handle->data;
    wal->closed = true;
    wal_end(wal);
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
    BW_CRASH("wal.close.after-the-last-write");
    wal->closing = true;
    int next = wal_ahead_take(wal, &filled);
    if (next >= 0) /* now: the directory may be somebody else's soon */
        wal_segment_abandon(&wal->segments, next);
    uv_close((uv_handle_t *)&wal->done, on_closed);
}
