/* Files that survive a crash: written whole, synced, renamed into place.
 *
 * Guarantee. After bw_file_replace or bw_file_publish returned true, the new content is durable
 * under its final name. After a crash at any point before that, the name shows the old content or
 * the new one, never a mixture; a temporary file may remain.
 *
 * A failed fsync is not retried: the kernel may already have dropped the pages that it could not
 * write, so a second fsync could report success for lost data. The caller decides what to do. */
#ifndef BW_OS_FILE_H
#define BW_OS_FILE_H

#include "os/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes all bytes at offset `at`. Returns false and sets errno if it fails. */
static inline bool bw_file_write(int fd, const void *bytes, size_t length, off_t at)
{
    const unsigned char *next = bytes;
    while (length > 0) {
        ssize_t wrote = pwrite(fd, next, length, at);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote == 0)
            errno = ENOSPC;
        if (wrote <= 0)
            return false;
        next += wrote;
        at += wrote;
        length -= (size_t)wrote;
    }
    return true;
}

/* Syncs `fd`, renames `from` to `to` in `directory` and syncs the directory. Returns false and sets
 * errno if it fails. `crash`: first part of the names of the crash points in this function, given
 * as BW_CRASH_FILE("name"), or NULL. */
static inline bool bw_file_publish(int directory, int fd, const char *from, const char *to,
                                   const char *crash)
{
    (void)crash;
    BW_CRASH_STEP(crash, "before-sync");
    bool good = fsync(fd) == 0;
    BW_CRASH_STEP(crash, "before-rename");
    good = good && renameat(directory, from, directory, to) == 0;
    BW_CRASH_STEP(crash, "after-rename");
    good = good && fsync(directory) == 0;
    BW_CRASH_STEP(crash, "after-sync-of-directory");
    return good;
}

/* Replaces the file `name` in `directory` by these bytes, by way of the file `temporary`. Returns
 * false and sets errno if it fails. `mode`: permissions of the new file, before the umask. */
static inline bool bw_file_replace(int directory, const char *temporary, const char *name,
                                   mode_t mode, const void *bytes, size_t length, const char *crash)
{
    BW_CRASH_STEP(crash, "before-create");
    int fd =
        openat(directory, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    BW_CRASH_STEP(crash, "after-create");
    bool good = fd >= 0 && bw_file_write(fd, bytes, length, 0) &&
                bw_file_publish(directory, fd, temporary, name, crash);
    if (fd >= 0) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return good;
}

#endif
