/* Files of the embedded store, and the environment of this process.
 *
 *     PATH                 the database
 *     PATH-wal, PATH-shm   SQLite's own files
 *     PATH.locks/          side files:
 *       @bell              wake-up file: written to after every change
 *       @alive             one locked byte per process with candidates
 *       e-NAME, xHEX       lock file of an election */
#ifndef BW_STORE_SQLITE_FILES_H
#define BW_STORE_SQLITE_FILES_H

#include "store/sqlite/rules.h"

#include <limits.h>
#include <sys/types.h>

#define BW_SQLITE_WAKEUP   "@bell"
#define BW_SQLITE_ALIVE    "@alive"
#define BW_SQLITE_PATH_MAX (PATH_MAX + 8 + 1 + 256) /* longest path of a side file */
#define BW_SQLITE_FILE_MAX 255u                     /* NAME_MAX of every local file system */

/* READS: without write permission, the files are opened for reading only (paths.readonly). */
enum bw_sqlite_access { BW_SQLITE_WRITES, BW_SQLITE_READS };

struct bw_sqlite_paths {
    char db[PATH_MAX];
    char dir[PATH_MAX + 8]; /* PATH.locks */
    char shown[100];        /* the database's path for messages: the end of a long path */
    mode_t mode;            /* mode of the database; side files get the same */
    uid_t uid;              /* owner of the database; side files get the same if possible */
    gid_t gid;
    dev_t dev;
    ino_t ino;
    bool readonly; /* no write permission; only reads are carried out */
};

/* Returns the path in a URL, without "sqlite:" and without the "//" of an empty host. */
const char *bw_sqlite_path(const char *url);

/* Finds or creates the database file (empty; SQLite fills it) and the directory of side files.
 * Rejects file systems on which the store is not safe. */
int bw_sqlite_paths_open(struct bw_sqlite_paths *paths, const char *url,
                         enum bw_sqlite_access wanted, char *why);

/* Returns 0 if the file at the path is still the opened database; otherwise an error and a line. */
int bw_sqlite_paths_check(const struct bw_sqlite_paths *paths, char *why);

/* Returns the name of a file system that several hosts may share, or NULL. `type` is from statfs;
 * `kind` is the type in the mount table ("": unknown). */
const char *bw_sqlite_shared_fs(uint64_t type, const char *kind);

void bw_sqlite_place_read(struct bw_sqlite_place *out);

/* Convert the name of an election to its file name, and back. bw_sqlite_file_election returns false
 * if `file` is not the name of a lock file. */
void bw_sqlite_file_name(const char *election, char out[BW_SQLITE_FILE_MAX + 1]);
bool bw_sqlite_file_election(const char *file, char out[BW_ELECTION_NAME_MAX + 1]);

/* Opens a side file; creates it with the database's mode if it does not exist. Returns the
 * descriptor, or -1 with errno. */
int bw_sqlite_side_open(const struct bw_sqlite_paths *paths, const char *file);
/* Opens an existing file or directory. Raises the soft limit of descriptors if necessary. */
int bw_sqlite_open_path(const char *path, int flags);
/* Opens an existing side file read-only; closing it triggers no IN_CLOSE_WRITE. -1: does not
 * exist. */
int bw_sqlite_side_open_readonly(const struct bw_sqlite_paths *paths, const char *file);

/* Locks belong to the open file description: they last until its last copy is closed, in any
 * process. Returns 0, or -1 with errno (EAGAIN: held through another description). */
int bw_sqlite_lock_take(int fd, uint64_t at);
void bw_sqlite_lock_drop(int fd, uint64_t at);
/* Is the lock held through any other open file description? The test does not lock. */
bool bw_sqlite_lock_held(int fd, uint64_t at);

/* Converts an errno to an enum bw_error. */
int bw_sqlite_error_of(int system);

/* A claim shows processes that create another database at the same path that this process leads in
 * this one (claim.c). If the directory cannot be read, there is no claim. */
#define BW_SQLITE_CLAIM_LEVELS 2u

struct bw_sqlite_claims {
    int fd[BW_SQLITE_CLAIM_LEVELS]; /* locked directories; -1: none */
    int file_fd;                    /* keeps the claimed database's inode in use; -1: none */
    uint32_t count;                 /* leaderships whose work may still run */
};

void bw_sqlite_claims_init(struct bw_sqlite_claims *claims);
/* Releases the claim, unless leaderships are left: their work may still run. */
void bw_sqlite_claims_close(struct bw_sqlite_claims *claims);
/* Adds a leadership to the claim. Returns 0, or an errno without claiming. ESTALE: the database is
 * no longer at its path. Others: no descriptor left. */
int bw_sqlite_claim_take(struct bw_sqlite_claims *claims, const struct bw_sqlite_paths *paths);
void bw_sqlite_claim_drop(struct bw_sqlite_claims *claims);
/* Does any process, this one included, lead in another database at this path? Returns 0, or an
 * errno if no descriptor is left. */
int bw_sqlite_claims_check(const struct bw_sqlite_paths *paths, bool *claimed);

/* The mark at the start of a lock file. An unreadable or torn mark reads as none. */
void bw_sqlite_mark_read(int fd, struct bw_sqlite_mark *out);
int bw_sqlite_mark_write(int fd, const struct bw_sqlite_mark *mark);

/* Reads the lock file of a held row: its mark, and whether the row's lock is certainly free.
 * `lock_free` is true only for the very file that the holder locked, in the holder's boot and
 * namespaces. */
void bw_sqlite_inspect(const struct bw_sqlite_paths *paths, const struct bw_sqlite_row *row,
                       const char *election, const struct bw_sqlite_place *self,
                       struct bw_sqlite_mark *mark, bool *lock_free);

#endif
