/* The inside of the log. Fields above the line belong to the loop's thread, those below to whoever
 * holds the mutex, `fd` and `offset` to the writer's thread. The loop's thread never waits for the
 * disk: only the writer and the pool write, sync and remove. */
#ifndef BW_SERVE_WAL_STATE_H
#define BW_SERVE_WAL_STATE_H

#include "serve/wal/segment.h"

#include <uv.h>

#define WAL_SEGMENTS_MAX 65536u
/* The first segment is small: a node that starts with an empty directory serves at once. */
#define WAL_FIRST ((size_t)2 << 20)

struct wal_kept {
    uint64_t number;
    bw_index before; /* of the last entry before it */
};

struct wal_buffer { /* a batch being put together, room for its head included */
    unsigned char *at;
    size_t used, size;
    bw_index last_index; /* after it */
    uint64_t commit;
    struct bw_durable
        state; /* as it was when the batch was handed over: a new segment begins with it */
    bool has_state;
    bool names_file; /* a snapshot's: the directory is synced before the batch is written */
};

/* The next segment, while it is made ahead (ahead.c). TAKEN: the writer is making it the
 * present one, under the name that all are made under. */
enum wal_ahead_state {
    WAL_AHEAD_IDLE,
    WAL_AHEAD_QUEUED,
    WAL_AHEAD_WORKING,
    WAL_AHEAD_FAILED,
    WAL_AHEAD_TAKEN
};

struct bw_wal {
    struct bw_wal_options options;
    struct wal_segments segments;
    bw_index last_index;
    struct bw_durable state; /* the newest */
    bool has_state;
    bool dirty; /* collected since the last commit */
    uint64_t commits;
    struct wal_buffer collecting;
    enum bw_wal_core place;
    int writer_core; /* the one that the writer is bound to; -1: any of `cores` */
    cpu_set_t cores;
    uv_poll_t done; /* the writer has made a batch durable: reading end of done_pipe */
    uv_thread_t writer;
    uv_mutex_t mutex;
    /* Loop to writer, writer to loop: a byte means that there is something to see. Pipes, because
     * the kernel then lets the thread that is woken run on the core of the one that is about to
     * sleep. A condition variable wakes the other core, which costs more than the hand-over. */
    int wake[2], done_pipe[2];
    uv_work_t filler;
    bool filler_queued, closing, closed; /* closed: the handle is; the memory goes with the last */
    /* ── under the mutex ── */
    struct wal_buffer writing; /* used == 0: the writer has nothing to do */
    uint64_t durable;
    bool stop;
    /* The segments in the directory, oldest first; the last is being written. The writer adds a
     * new one once the batch that begins it is durable, and removes the oldest. */
    struct wal_kept *kept;
    uint32_t kept_count;
    bw_index unneeded;          /* segments that end at or before it are to be removed */
    size_t reached, reached_of; /* bytes of the segment that are written, and its size */
    enum wal_ahead_state ahead;
    int ahead_fd; /* -1: nothing is begun */
    size_t ahead_filled;
    uv_cond_t ahead_done;
    /* ── the writer ── */
    bw_index written_index; /* of the last entry written */
    int fd;
    uint64_t number;
    size_t offset, segment_size;
    bool torn; /* found when opening: what lies behind `offset` must be made zeros again */
};

static inline bw_index bw_wal_max(bw_index a, bw_index b)
{
    return a > b ? a : b;
}

/* read.c */
int wal_read_segment(struct bw_wal *wal, uint64_t number, bool last, size_t *end, char *why);
int wal_clear_tail(struct bw_wal *wal, char *why);

#define WAL_STATE_RECORD (WAL_RECORD_HEAD + WAL_STATE_BYTES)
/* wal.c: a state record into `at`. */
void wal_state_record(unsigned char *at, const struct bw_durable *state);
/* wal.c: the memory goes, once neither the handle nor the pool needs it. */
void wal_end(struct bw_wal *wal);

/* ahead.c, on the loop's thread: a piece of the next segment is filled, if it is time to. */
void wal_ahead_mind(struct bw_wal *wal);
/* The writer: what there is of the next segment, -1: nothing; it is the caller's then, and
 * no other is begun before `ahead` is IDLE again. */
int wal_ahead_take(struct bw_wal *wal, size_t *filled);

/* How many bytes of the next segment should be filled when `reached` of `size` are written in this
 * one: all of it when this one is half full. Whole pieces, so that the disk is left alone until
 * there is one to write. */
#define WAL_PIECE ((size_t)1 << 20)
static inline size_t wal_ahead_due(size_t reached, size_t size, size_t next)
{
    size_t piece = next < WAL_PIECE ? next : WAL_PIECE;
    uint64_t due = (uint64_t)2 * reached * next / size;
    return due >= next ? next : (size_t)(due / piece * piece);
}

/* write.c */
void wal_write_loop(void *argument);
void wal_fail(const struct bw_wal *wal, const char *what);
/* One byte into a pipe; nothing if the pipe is full, because then there is enough to be seen. */
void wal_signal(int fd);
/* Takes all signals there are; waits for one if `fd` blocks. */
void wal_await_signal(int fd);

#endif
