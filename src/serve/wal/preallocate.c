/* Creates the next segment of the log before it is needed: a piece at a time, by a pool thread, in
 * step with what is written to the current segment. To take it, the writer then only writes a head,
 * syncs twice and renames. If a piece is late or fails, the writer does it itself. So a full disk
 * is reported only when the space is needed. Large batches need no zeros (wal_zeros_pay): then the
 * pool thread only creates the file and reserves its space. */
#include "serve/wal/state.h"

/* Runs on a pool thread, which owns the file while the state is WORKING. */
static void fill(uv_work_t *work)
{
    struct bw_wal *wal = work->data;
    size_t size = wal->segments.bytes, from, to;
    uv_mutex_lock(&wal->mutex);
    bool ours = wal->ahead == WAL_AHEAD_QUEUED; /* false: the writer has taken the file meanwhile */
    if (ours)
        wal->ahead = WAL_AHEAD_WORKING;
    from = wal->ahead_filled;
    bool zeros = wal_zeros_pay(wal->reached, wal->batches);
    int fd = wal->ahead_fd;
    uv_mutex_unlock(&wal->mutex);
    if (!ours)
        return;
    to = !zeros ? from : size - from < WAL_PIECE ? size : from + WAL_PIECE;
    if (fd < 0)
        fd = wal_segment_begin(&wal->segments, size);
    bool filled = fd >= 0 && (!zeros || wal_segment_fill(fd, from, to) == 0);
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
        wal_ahead_update(wal);
}

void wal_ahead_update(struct bw_wal *wal)
{
    if (wal->filler_queued)
        return;
    uv_mutex_lock(&wal->mutex);
    size_t due = wal_ahead_due(wal->reached, wal->reached_of, wal->segments.bytes);
    bool missing = wal->ahead_fd < 0 || wal_zeros_pay(wal->reached, wal->batches);
    bool wanted = wal->ahead == WAL_AHEAD_IDLE && wal->ahead_filled < due && missing;
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
    *filled = wal_zeros_pay(wal->reached, wal->batches) ? wal->ahead_filled : SIZE_MAX;
    wal->ahead = WAL_AHEAD_TAKEN;
    wal->ahead_fd = -1;
    wal->ahead_filled = 0;
    uv_mutex_unlock(&wal->mutex);
    return fd;
}
