/* A private copy of a database that no process has open, for a reader without write permission.
 *
 * SQLite reads a database in WAL mode only with the side files PATH-wal and PATH-shm. The last
 * process that closes the database writes the log into it and removes both. A reader that may not
 * create them cannot open it then, although the file is complete. So it reads a copy in memory.
 *
 * The copy is one state of the database:
 *   - Before and after it is read, there is no log with content and no rollback journal. So all
 *     commits are in the file.
 *   - The file's inode, size, modification and change times are equal before and after. A writer
 *     that opened, wrote and closed meanwhile has changed them: the times are those of the kernel's
 *     coarse clock, and the copy begins only when that clock is past them.
 *
 * bw_sqlite_snapshot_is_current compares the same before each transaction. The copy does not change
 * within a transaction. Assumption: the wall clock is not set back to a file time at the moment of
 * a write. */
#ifndef BW_STORE_SQLITE_SNAPSHOT_H
#define BW_STORE_SQLITE_SNAPSHOT_H

#include "store/sqlite/files.h"

#include <stddef.h>
#include <sys/stat.h>

#define BW_SQLITE_SNAPSHOT_MAX ((off_t)64 << 20) /* bytes; the copy is in memory */

struct bw_sqlite_snapshot {
    bool used;
    struct stat file; /* when the copy was made */
};

/* Reads the database into *bytes, from sqlite3_malloc64; the caller frees it. Returns 0, BW_EBUSY
 * if a writer has it open or has just changed it, BW_ELIMIT if it is too large, or another
 * error. */
int bw_sqlite_snapshot_read(struct bw_sqlite_snapshot *snapshot,
                            const struct bw_sqlite_paths *paths, unsigned char **bytes,
                            size_t *size);
/* True if the database has not changed since, and no writer has opened it. */
bool bw_sqlite_snapshot_is_current(const struct bw_sqlite_snapshot *snapshot,
                                   const struct bw_sqlite_paths *paths);

#endif
