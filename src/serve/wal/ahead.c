/* The next segment of the log, made before it is needed: a piece at a time, by a thread of the
 * loop's pool, in step with what is written into the present one. Taking it is then a head, two
 * syncs and a name. If a piece is not done in time, or cannot be done, who needs the segment does
 * it; so a disk that is full is told of when it matters, and as before. */
#include "serve/wal/state.h"

/* On a thread of the pool. The file is the pool's while it is WORKING. */
static void fill(uv_work_t *work)
{
    struct bw_wal *wal = work->data;
    size_t size = wal->segments.bytes, from, to;
    uv_mutex_lock(&wal->mutex);
    bool ours = wal->ahead == WAL_AHEAD_QUEUED; /* or it was taken meanwhile */
    if (ours)
        wal->ahead = WAL_AHEAD_WORKING;
    from = wal->ahead_filled;
    int fd = wal->ahead_fd;
    uv_mutex_unlock(&wal->mutex);
    if (!ours)
        return;
    to = size - from < WAL_PIECE ? size : from + WAL_PIECE;
    if (fd < 0)
        fd = wal_segment_begin(&wal->segments, size);
    bool filled = fd >= 0 && wal_segment_fill(fd, from, to) == 0;
    if (fd >= 0 && !filled) {
        wal_segment_abandon(&wal->segments, fd);
        fd = -1;
    }
    uv_mutex_lock(&wal->mutex);
    wal->ahead_fd = fd;
    wal->ahead_filled = filled ? to : 0;
    wal->ahead = filled ? WAL_AHEAD_IDLE : WAL_AHEAD_FAILED;
    uv_cond_signal(&wal->ahead_done);
    uv_mutex_unlock(&wal->mutex);
}

static void on_filled(uv_work_t *work, int status)
{
    struct bw_wal *wal = work->data;
    (void)status;
    wal->filler_queued = false;
    if (wal->closing)
        wal_end(wal);
    else
        wal_ahead_mind(wal);
}

void wal_ahead_mind(struct bw_wal *wal)
{
    if (wal->filler_queued)
        return;
    uv_mutex_lock(&wal->mutex);
    size_t due = wal_ahead_due(wal->reached, wal->reached_of, wal->segments.bytes);
    bool wanted = wal->ahead == WAL_AHEAD_IDLE && wal->ahead_filled < due;
    if (wanted)
        wal->ahead = WAL_AHEAD_QUEUED;
    uv_mutex_unlock(&wal->mutex);
    wal->filler.data = wal;
    if (wanted)
        wal->filler_queued = uv_queue_work(wal->options.loop, &wal->filler, fill, on_filled) == 0;
}

int wal_ahead_take(struct bw_wal *wal, size_t *filled)
{
    uv_mutex_lock(&wal->mutex);
    while (wal->ahead == WAL_AHEAD_WORKING)
        uv_cond_wait(&wal->ahead_done, &wal->mutex);
    int fd = wal->ahead_fd;
    *filled = wal->ahead_filled;
    wal->ahead = WAL_AHEAD_TAKEN;
    wal->ahead_fd = -1;
    wal->ahead_filled = 0;
    uv_mutex_unlock(&wal->mutex);
    return fd;
}
