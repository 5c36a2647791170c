/* Segment files of the log; see segment.h. A segment is created under a temporary name and renamed
 * when it is complete, so a segment with its final name is always complete. */
#include "serve/wal/segment.h"

#include "core/base/error.h"
#include "os/crash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEMPORARY "wal-next.tmp"

static const unsigned char magic[8] = {'B', 'W', 'W', 'A',
                                       'L', 0,   0,   1}; /* the last byte is the version */

void wal_segment_name(char *name, uint64_t number)
{
    snprintf(name, WAL_NAME_MAX, "wal-%016" PRIx64 ".log", number);
}

static void head_write(const struct wal_segments *s, unsigned char *head, uint64_t number,
                       bw_index before)
{
    memset(head, 0, WAL_HEAD);
    memcpy(head, magic, sizeof magic);
    bw_put64(head + 8, s->cluster);
    bw_put32(head + 16, s->node);
    bw_put64(head + 24, number);
    bw_put64(head + 32, before);
    bw_put64(head + 40, XXH3_64bits(head, 40));
}

int wal_head_check(const struct wal_segments *s, const unsigned char *head, uint64_t number,
                   bw_index *before)
{
    if (memcmp(head, magic, 7) != 0)
        return BW_EDAMAGED;
    if (head[7] != magic[7])
        return BW_EVERSION;
    if (bw_get64(head + 40) != XXH3_64bits(head, 40) || bw_get64(head + 24) != number)
        return BW_EDAMAGED;
    if (bw_get64(head + 8) != s->cluster || bw_get32(head + 16) != s->node)
        return BW_EDENIED;
    *before = bw_get64(head + 32);
    return 0;
}

static int reserve(int fd, size_t size)
{
    int error = posix_fallocate(fd, 0, (off_t)size);
    if (error == EOPNOTSUPP || error == EINVAL)
        return ftruncate(fd, (off_t)size);
    errno = error;
    return error ? -1 : 0;
}

int wal_segment_begin(const struct wal_segments *s, size_t size)
{
    BW_CRASH("wal.segment.before-create");
    int fd = openat(s->directory, TEMPORARY, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    BW_CRASH("wal.segment.after-create");
    if (reserve(fd, size) == 0)
        return fd;
    wal_segment_abandon(s, fd);
    return -1;
}

/* Writes real zeros instead of only reserving space: later writes then change no metadata of the
 * file, which makes their sync cheaper. */
int wal_segment_fill(int fd, size_t from, size_t to)
{
    static const unsigned char zeros[65536];
    BW_CRASH("wal.segment.before-fill");
    while (from < to) {
        size_t part = to - from < sizeof zeros ? to - from : sizeof zeros;
        ssize_t wrote = pwrite(fd, zeros, part, (off_t)from);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return -1;
        from += (size_t)wrote;
    }
    BW_CRASH("wal.segment.after-fill");
    return fdatasync(fd);
}

static int write_head(const struct wal_segments *s, int fd, uint64_t number, bw_index before)
{
    unsigned char head[WAL_HEAD];
    head_write(s, head, number, before);
    BW_CRASH_TORN("wal.segment.torn-head", fd, head, sizeof head, 0);
    if (pwrite(fd, head, sizeof head, 0) != (ssize_t)sizeof head)
        return -1;
    BW_CRASH("wal.segment.before-sync");
    return fsync(fd);
}

static int give_name(const struct wal_segments *s, uint64_t number)
{
    char name[WAL_NAME_MAX];
    wal_segment_name(name, number);
    BW_CRASH("wal.segment.before-rename");
    if (renameat(s->directory, TEMPORARY, s->directory, name) != 0)
        return -1;
    BW_CRASH("wal.segment.after-rename");
    if (fsync(s->directory) != 0)
        return -1;
    BW_CRASH("wal.segment.after-sync-of-directory");
    return 0;
}

int wal_segment_finish(const struct wal_segments *s, int fd, size_t filled, uint64_t number,
                       bw_index before, size_t size)
{
    if ((size > s->bytes && reserve(fd, size) != 0) ||
        (filled < size && wal_segment_fill(fd, filled, size) != 0) ||
        write_head(s, fd, number, before) != 0 || give_name(s, number) != 0) {
        wal_segment_abandon(s, fd);
        return -1;
    }
    return 0;
}

void wal_segment_abandon(const struct wal_segments *s, int fd)
{
    int error = errno;
    close(fd);
    unlinkat(s->directory, TEMPORARY, 0);
    errno = error;
}

/* The number in a segment's name; 0: not a segment. */
static uint64_t number_of(const char *name)
{
    char again[WAL_NAME_MAX];
    if (strncmp(name, "wal-", 4) != 0)
        return 0;
    uint64_t number = strtoull(name + 4, NULL, 16);
    wal_segment_name(again, number);
    return strcmp(name, again) == 0 ? number : 0;
}

int wal_segments_list(const struct wal_segments *s, uint64_t *first, uint64_t *last,
                      uint64_t *count)
{
    int fd = openat(s->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    if (!directory)
        return -1;
    *first = *last = *count = 0;
    while ((entry = readdir(directory))) {
        uint64_t number = number_of(entry->d_name);
        if (!number)
            continue;
        *first = *count && *first < number ? *first : number;
        *last = *last > number ? *last : number;
        ++*count;
    }
    closedir(directory);
    return 0;
}

uint64_t wal_segments_run(const struct wal_segments *s, uint64_t last)
{
    char name[WAL_NAME_MAX];
    for (uint64_t first = last;; first--) {
        wal_segment_name(name, first - 1);
        if (first == 1 || faccessat(s->directory, name, F_OK, 0) != 0)
            return first;
    }
}

int wal_segments_remove_below(const struct wal_segments *s, uint64_t number)
{
    int fd = openat(s->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    int error = directory ? 0 : -1;
    while (error == 0 && (entry = readdir(directory))) {
        uint64_t found = number_of(entry->d_name);
        if (found && found < number)
            error = unlinkat(s->directory, entry->d_name, 0);
    }
    if (directory)
        closedir(directory);
    return error ? error : fsync(s->directory);
}
