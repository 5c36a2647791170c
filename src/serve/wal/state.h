/* Internal state of the log.
 *
 * Three owners: the first fields belong to the loop's thread, the next ones are protected by the
 * mutex, and the last ones belong to the writer's thread. The loop's thread never waits for the
 * disk: only the writer and pool threads write, sync and remove. */
#ifndef BW_SERVE_WAL_STATE_H
#define BW_SERVE_WAL_STATE_H

#include "os/crash.h"
#include "os/histogram.h"
#include "serve/wal/segment.h"

#include <uv.h>

#define WAL_SEGMENTS_MAX 65536u
/* The first segment is small, so that a node with an empty directory serves at once. */
#define WAL_FIRST ((size_t)2 << 20)

struct wal_kept {
    uint64_t number;
    bw_index before; /* index of the last entry before it */
    size_t bytes;    /* size of its file */
    /* It has a state record, or none was written before it: older segments may be removed without
     * losing the state. A crash can leave a new segment without one. */
    bool holds_state;
};

struct wal_buffer { /* a batch being collected, including space for its head */
    unsigned char *at;
    size_t used, size;
    bw_index last_index; /* index of the last entry in the batch */
    uint64_t commit;
    struct bw_durable state; /* state at hand-over; a new segment begins with it */
    bool has_state;
    bool holds_state; /* a record of the batch is a state */
    bool names_file;  /* records a snapshot: sync the directory before the batch is written */
    struct wal_buffer *next; /* waits for the writer: the next batch */
};

/* Size of a batch, unless one record is larger. What is durable is reported after each batch, so a
 * small record never waits for more than two batches. */
#define WAL_BATCH_MAX BW_CRASH_OR((size_t)4 << 20, (size_t)64 << 10)

/* State of the next segment while it is created ahead (preallocate.c). TAKEN: the writer is turning
 * it into the current one; its temporary name is in use. */
enum wal_ahead_state {
    WAL_AHEAD_IDLE,
    WAL_AHEAD_QUEUED,
    WAL_AHEAD_WORKING,
    WAL_AHEAD_FAILED,
    WAL_AHEAD_TAKEN
};

/* Decides whether the writer stays on the core of the loop. That saves a wake-up of the other core
 * while the machine is idle. On a busy core the writer waits for its turn, although another core
 * may be free: then it may run anywhere for a while. */
#define WAL_WAKE_SLOW (200 * BW_US)
#define WAL_APART     (10 * BW_SEC)
struct wal_wakes {
    bw_time average; /* time from hand-over to the start of the writer, while on the loop's core */
    bw_time apart_until;
};

static inline void wal_wakes_note(struct wal_wakes *wakes, bw_time delay, bw_time now)
{
    wakes->average += (delay - wakes->average) / 8;
    if (wakes->average <= WAL_WAKE_SLOW)
        return;
    wakes->average = 0;
    wakes->apart_until = now + WAL_APART;
}

static inline bool wal_wakes_together(const struct wal_wakes *wakes, bw_time now)
{
    return now >= wakes->apart_until;
}

struct bw_wal {
    struct bw_wal_options options;
    struct wal_segments segments;
    bw_index last_index;
    struct bw_durable state; /* the newest state */
    bool has_state;
    bool dirty; /* records were collected since the last commit */
    uint64_t commits;
    struct wal_buffer collecting;
    struct wal_buffer *full, **full_end; /* batches that wait for the writer, oldest first */
    struct wal_buffer spare;             /* memory for a later batch */
    enum bw_wal_core place;
    int writer_core; /* core that the writer is bound to; -1: any of `cores` */
    cpu_set_t cores;
    uv_poll_t done; /* polls done_pipe, by which the writer reports that a batch is durable */
    uv_thread_t writer;
    uv_mutex_t mutex;
    /* Loop to writer, and writer to loop: a byte signals new work. Pipes are used because the
     * kernel then runs the woken thread on the core of the thread that is about to sleep. A
     * condition variable wakes the other core, which costs more than the hand-over. */
    int wake[2], done_pipe[2];
    uv_work_t filler;
    bool filler_queued, closing, closed; /* closed: the handle is closed */
    /* ---- protected by the mutex ---- */
    struct wal_buffer writing; /* used == 0: the writer is idle */
    uint64_t durable;
    bool stop;
    bw_time handed_at; /* when `writing` was handed over; 0: its delay does not count */
    struct wal_wakes wakes;
    /* The segments in the directory, oldest first; the last one is being written. The writer adds a
     * segment once its first batch is durable, and removes the oldest. */
    struct wal_kept *kept;
    uint32_t kept_count;
    bw_index unneeded;          /* remove segments that end at or before this index */
    size_t reached, reached_of; /* bytes written to the current segment, and its size */
    uint64_t batches;           /* batches written to the current segment */
    enum wal_ahead_state ahead;
    int ahead_fd; /* -1: not begun */
    size_t ahead_filled;
    uv_cond_t ahead_done;
    struct bw_histogram syncs;
    /* ---- owned by the writer ---- */
    bw_index written_index; /* index of the last entry written */
    int fd;
    uint64_t number;
    size_t offset, segment_size;
    /* What is written next (direct.c). It begins with the bytes of the last, incomplete block. */
    unsigned char *stage;
    size_t stage_size;
    bool direct;     /* writes to `fd` bypass the page cache */
    bw_time sync_ns; /* duration of the last sync */
    bool torn; /* a torn tail was found when opening: the bytes after `offset` must be zeroed */
};

static inline bw_index bw_wal_max(bw_index a, bw_index b)
{
    return a > b ? a : b;
}

/* read.c */
int wal_read_segment(struct bw_wal *wal, uint64_t number, bool last, size_t *end, char *why);
int wal_clear_tail(struct bw_wal *wal, char *why);

#define WAL_STATE_RECORD (WAL_RECORD_HEAD + WAL_STATE_BYTES)
/* wal.c: writes a state record to `at`. */
void wal_state_record(unsigned char *at, const struct bw_durable *state);
/* wal.c: frees the memory once neither the handle nor the pool uses it. */
void wal_end(struct bw_wal *wal);

/* preallocate.c, on the loop's thread: queues the next piece to fill, if it is due. */
void wal_ahead_update(struct bw_wal *wal);
/* For the writer: takes over the file of the next segment, of which *filled bytes need no zeros any
 * more. Returns -1 if it was not begun. No other segment is begun before `ahead` is IDLE again. */
int wal_ahead_take(struct bw_wal *wal, size_t *filled);

/* Returns how many bytes of the next segment should be filled when `reached` of `size` bytes are
 * written in this one. The next segment is filled completely when this one is half full. The result
 * counts whole pieces, so that the disk is not disturbed for less. */
#define WAL_PIECE ((size_t)1 << 20)
static inline size_t wal_ahead_due(size_t reached, size_t size, size_t next)
{
    size_t piece = next < WAL_PIECE ? next : WAL_PIECE;
    uint64_t due = (uint64_t)2 * reached * next / size;
    return due >= next ? next : (size_t)(due / piece * piece);
}

/* Whether to fill the next segment with zeros, judged by the batches in this one. Zeros make each
 * sync cheaper, by about the time that the disk takes for WAL_ZEROS_BATCH bytes. For larger batches
 * the zeros cost more than they save: every byte would be written twice. Then the space of the
 * segment is only reserved. */
#define WAL_ZEROS_BATCH ((size_t)64 << 10)
static inline bool wal_zeros_pay(size_t reached, uint64_t batches)
{
    return reached <= batches * WAL_ZEROS_BATCH + WAL_HEAD;
}

/* direct.c, for the writer. Call when `fd` has become the current segment, and `offset` is set. */
#define WAL_BLOCK 4096u /* no disk has larger blocks */
void wal_stage_begin(struct bw_wal *wal);
/* Where the next `length` bytes of the segment belong. */
unsigned char *wal_stage_at(struct bw_wal *wal, size_t length);
/* Writes these bytes and advances `offset`. */
void wal_stage_write(struct bw_wal *wal, size_t length);

/* write.c */
void wal_write_loop(void *argument);
/* Writes the batch in `writing`, which belongs to the calling thread until `used` is 0 again. */
void wal_write_one(struct bw_wal *wal);
_Noreturn void wal_fail(const struct bw_wal *wal, const char *what);
/* Writes one byte into a pipe. A full pipe is fine: it already signals. */
void wal_signal(int fd);
/* Reads all pending signals; waits for one if `fd` blocks. */
void wal_await_signal(int fd);

#endif
