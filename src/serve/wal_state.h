/* The inside of the log. Fields above the line belong to the loop's thread, those below to whoever
 * holds the mutex, `fd` and `offset` to whoever writes. */
#ifndef BW_SERVE_WAL_STATE_H
#define BW_SERVE_WAL_STATE_H

#include "serve/wal_segment.h"

#include <uv.h>

#define WAL_SEGMENTS_MAX 65536u
/* A disk that took longer is not waited for on the loop's thread for the next batches. */
#define WAL_QUICK_NS 2000000u
#define WAL_DISTRUST 256u

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
};

struct bw_wal {
    struct bw_wal_options options;
    struct wal_segments segments;
    struct wal_kept *kept; /* oldest first; the last is being written */
    uint32_t kept_count;
    bw_index last_index;
    struct bw_durable state; /* the newest */
    bool has_state;
    bool dirty; /* collected since the last commit */
    uint64_t commits;
    struct wal_buffer collecting;
    uv_async_t done;
    uv_thread_t writer;
    uv_mutex_t mutex;
    uv_cond_t wake;
    /* ── under the mutex ── */
    struct wal_buffer writing; /* used == 0: the writer has nothing to do */
    uint64_t durable;
    bool stop;
    struct wal_kept made; /* a new segment that the loop has not heard of; number 0: none */
    bool here;            /* the loop's thread writes */
    uint32_t distrust;    /* so many batches are not written on the loop's thread */
    /* ── whoever writes ── */
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

/* wal_read.c */
int wal_read_segment(struct bw_wal *wal, uint64_t number, bool last, size_t *end, char *why);
int wal_clear_tail(struct bw_wal *wal, char *why);

#define WAL_STATE_RECORD (WAL_RECORD_HEAD + WAL_STATE_BYTES)
/* wal.c: a state record into `at`. */
void wal_state_record(unsigned char *at, const struct bw_durable *state);

/* wal_write.c */
void wal_write_loop(void *argument);
void wal_write_one(struct bw_wal *wal);
void wal_fail(const struct bw_wal *wal, const char *what);

#endif
