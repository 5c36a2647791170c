/* See snapshot.h. */
#include "store/sqlite/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HEADER_BYTES 100 /* of a database; offsets as in SQLite's file format */
#define WRITE_FORMAT 18
#define READ_FORMAT  19
#define FORMAT_WAL   2
#define FORMAT_PLAIN 1

static bool has_content(const struct bw_sqlite_paths *paths, const char *suffix)
{
    char path[PATH_MAX + 16];
    struct stat side;
    snprintf(path, sizeof path, "%s%s", paths->db, suffix);
    return stat(path, &side) == 0 ? side.st_size > 0 : errno != ENOENT;
}

static bool is_complete(const struct bw_sqlite_paths *paths)
{
    return !has_content(paths, "-wal") && !has_content(paths, "-journal");
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           is_same_time(&a->st_mtim, &b->st_mtim) && is_same_time(&a->st_ctim, &b->st_ctim);
}

/* A write that follows in the same tick of the coarse clock would leave the times as they are. */
static bool is_just_changed(const struct stat *file)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return is_same_time(&file->st_mtim, &now) || is_same_time(&file->st_ctim, &now);
}

static bool read_whole(int fd, unsigned char *bytes, size_t size)
{
    size_t used = 0;
    while (used < size) {
        ssize_t got = pread(fd, bytes + used, size - used, (off_t)used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        used += (size_t)got;
    }
    return true;
}

static int copy(struct bw_sqlite_snapshot *snapshot, const struct bw_sqlite_paths *paths, int fd,
                unsigned char **bytes, size_t *size)
{
    struct stat after;
    if (fstat(fd, &snapshot->file) != 0 || is_just_changed(&snapshot->file) || !is_complete(paths))
        return BW_EBUSY;
    if (snapshot->file.st_size > BW_SQLITE_SNAPSHOT_MAX)
        return BW_ELIMIT;
    *size = (size_t)snapshot->file.st_size;
    *bytes = sqlite3_malloc64(*size + HEADER_BYTES);
    if (!*bytes)
        return BW_ENOMEM;
    bool whole = read_whole(fd, *bytes, *size);
    if (whole && is_complete(paths) && stat(paths->db, &after) == 0 &&
        is_same(&after, &snapshot->file))
        return 0;
    sqlite3_free(*bytes);
    *bytes = NULL;
    return BW_EBUSY;
}

/* A database in memory has no log, so its format must not say that it has one. */
static void clear_wal(unsigned char *bytes, size_t size)
{
    if (size < HEADER_BYTES || bytes[WRITE_FORMAT] != FORMAT_WAL ||
        bytes[READ_FORMAT] != FORMAT_WAL)
        return;
    bytes[WRITE_FORMAT] = bytes[READ_FORMAT] = FORMAT_PLAIN;
}

int bw_sqlite_snapshot_read(struct bw_sqlite_snapshot *snapshot,
                            const struct bw_sqlite_paths *paths, unsigned char **bytes,
                            size_t *size)
{
    *bytes = NULL;
    int fd = open(paths->db, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return bw_sqlite_error_of(errno);
    int error = copy(snapshot, paths, fd, bytes, size);
    close(fd);
    if (error == 0)
        clear_wal(*bytes, *size);
    return error;
}

bool bw_sqlite_snapshot_is_current(const struct bw_sqlite_snapshot *snapshot,
                                   const struct bw_sqlite_paths *paths)
{
    struct stat now;
    return is_complete(paths) && stat(paths->db, &now) == 0 && is_same(&now, &snapshot->file);
}
