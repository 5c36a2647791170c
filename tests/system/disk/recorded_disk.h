/* A disk that can lose power: the file operations of this program replace those of the C library,
 * and every change to one directory is recorded.
 *
 * Model. Files live in a real directory; reads go there. For each file the recorder keeps the
 * content as of its last sync, and every change since then. For the directory it keeps the names as
 * of its last sync, and every creation, rename and removal since then. After a power failure:
 *   - each sector of 512 bytes of a file has one of its contents since the last sync;
 *   - a file has one of its sizes since the last sync;
 *   - any creation, rename or removal since the last sync may be missing, but of two that concern
 *     the same name the later one is not there without the earlier one. A rename is atomic.
 *   - after a sync that failed, half of the writes before it are lost, even if a later sync
 *     succeeds: the kernel may drop the pages that it could not write.
 * After a crash of the process alone, everything that was written can be read, but it is not
 * durable before the next sync.
 *
 * Not modelled: sectors that are written partly, and flipped bits (serve_wal and peer_disk try
 * those). */
#ifndef BW_TESTS_SYSTEM_DISK_RECORDED_DISK_H
#define BW_TESTS_SYSTEM_DISK_RECORDED_DISK_H

#include "core/base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DISK_SECTOR 512u

enum disk_op { DISK_CREATE, DISK_WRITE, DISK_RESIZE, DISK_SYNC, DISK_RENAME, DISK_UNLINK };

/* Which of the changes that are not durable are lost. */
enum disk_loss {
    DISK_NONE_LOST,
    DISK_ALL_LOST,
    DISK_LATEST_LOST, /* changes reached the disk in order, up to one of them */
    DISK_ANY_LOST,
    DISK_ONE_SECTOR_LOST,
    DISK_LOSSES
};

#define DISK_SHORT (-1) /* result of `before`: write only a part */

/* Starts recording the directory. Everything in it counts as durable. */
void disk_use(const char *directory);
/* Called before each change, on the thread that makes it. Returns 0, an errno with which the
 * operation fails, or DISK_SHORT. */
void disk_hook(int (*before)(enum disk_op op, const char *name));

/* From now on, a file whose name begins with `name` cannot be opened for reading. Sets errno to
 * `error`. */
void disk_refuse(const char *name, int error);

/* The power fails. Builds what is left in the empty directory `to` and continues there. Open
 * descriptors are closed. */
void disk_power_failure(const char *to, enum disk_loss data, enum disk_loss names,
                        struct bw_rng *rng);
/* The process is killed. Builds everything in the empty directory `to` and continues there; what
 * was not durable is still not durable. */
void disk_kill(const char *to);

/* Records the first part of a write during which the process is killed. The file keeps its content:
 * the caller is a copy of the process that uses the file. `at` < 0: at the current offset. */
void disk_tear(int fd, const void *bytes, size_t length, long long at);

/* The file operations of a forked copy of the program, which another process carries out
 * (forked_writer.h). */
struct disk_calls {
    int (*open)(int at, const char *path, int flags, mode_t mode);
    int (*close)(int fd);
    ssize_t (*write)(int fd, const void *bytes, size_t length);
    int (*sync)(int fd);
    int (*rename)(int from_at, const char *from, int to_at, const char *to);
    int (*unlink)(int at, const char *path);
};
/* From now on these functions replace the recorder in this process. */
void disk_replace(const struct disk_calls *calls);

const char *disk_directory(void);
/* Number of changes so far; each is a place to crash at. */
uint64_t disk_changes(void);
const char *disk_op_name(enum disk_op op);

#endif
