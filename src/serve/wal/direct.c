/* Writes to the current segment past the page cache (O_DIRECT).
 *
 * A write through the page cache copies every byte once more and allocates a page for each 4 KiB.
 * Nothing reads these pages: a node reads its log only when it starts. Measured: a sync of 8 KB
 * takes two thirds of the CPU time, and a write of 4 MB a fifth of it.
 *
 * The kernel accepts only whole blocks, so a batch is put together in a stage, a buffer at a block
 * boundary. Between two batches the stage begins with the bytes of the last, incomplete block. The
 * next write repeats them and ends with zeros, which the file has there already. The page cache
 * does the same with its pages, so the bytes on disk and what a crash can do to them are the same.
 *
 * A file system may not support this, or not for this write. Then the same bytes are written
 * through the page cache. */
#include "serve/wal/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define STAGE_FIRST ((size_t)64 << 10)

static size_t whole_blocks(size_t bytes)
{
    return (bytes + WAL_BLOCK - 1) / WAL_BLOCK * WAL_BLOCK;
}

static void set_direct(struct bw_wal *wal, bool direct)
{
    int flags = fcntl(wal->fd, F_GETFL);
    int wanted = direct ? flags | O_DIRECT : flags & ~O_DIRECT;
    wal->direct = flags >= 0 && fcntl(wal->fd, F_SETFL, wanted) == 0 && direct;
}

static void reserve(struct bw_wal *wal, size_t bytes)
{
    size_t size = wal->stage_size ? wal->stage_size : STAGE_FIRST;
    while (size < bytes)
        size *= 2;
    if (size == wal->stage_size)
        return;
    unsigned char *stage = aligned_alloc(WAL_BLOCK, size);
    if (!stage)
        wal_fail(wal, "out of memory for the log");
    if (wal->stage)
        memcpy(stage, wal->stage, wal->offset % WAL_BLOCK);
    free(wal->stage);
    wal->stage = stage;
    wal->stage_size = size;
}

void wal_stage_begin(struct bw_wal *wal)
{
    size_t kept = wal->offset % WAL_BLOCK;
    reserve(wal, WAL_BLOCK);
    /* if the block cannot be read, it must not be written again */
    bool known =
        kept == 0 || pread(wal->fd, wal->stage, kept, (off_t)(wal->offset - kept)) == (ssize_t)kept;
    set_direct(wal, known);
}

unsigned char *wal_stage_at(struct bw_wal *wal, size_t length)
{
    size_t kept = wal->offset % WAL_BLOCK;
    reserve(wal, whole_blocks(kept + length));
    return wal->stage + kept;
}

/* Writes whole blocks. Returns how many bytes of the stage are written; fewer than `end`: the page
 * cache must do the rest. */
static size_t write_direct(struct bw_wal *wal, size_t end)
{
    size_t done = 0, all = whole_blocks(end);
    off_t from = (off_t)(wal->offset - wal->offset % WAL_BLOCK);
    memset(wal->stage + end, 0, all - end);
    while (done < all) {
        ssize_t wrote = pwrite(wal->fd, wal->stage + done, all - done, from + (off_t)done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && errno != EINVAL)
            wal_fail(wal, "cannot write the log");
        if (wrote < (ssize_t)WAL_BLOCK)
            break;
        done += (size_t)wrote / WAL_BLOCK * WAL_BLOCK;
    }
    return done < end ? done : end;
}

static void write_cached(struct bw_wal *wal, size_t done, size_t end)
{
    off_t from = (off_t)(wal->offset - wal->offset % WAL_BLOCK);
    while (done < end) {
        ssize_t wrote = pwrite(wal->fd, wal->stage + done, end - done, from + (off_t)done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            wal_fail(wal, "cannot write the log");
        done += (size_t)wrote;
    }
}

void wal_stage_write(struct bw_wal *wal, size_t length)
{
    size_t kept = wal->offset % WAL_BLOCK, end = kept + length, done = kept;
    if (wal->direct && wal->offset - kept + whole_blocks(end) > wal->segment_size)
        set_direct(wal, false); /* the file would grow: the segment does not end with a block */
    if (wal->direct) {
        done = write_direct(wal, end);
        if (done < end)
            set_direct(wal, false);
    }
    write_cached(wal, done > kept ? done : kept, end);
    wal->offset += length;
    size_t left = wal->offset % WAL_BLOCK;
    memmove(wal->stage, wal->stage + end - left, left);
}
