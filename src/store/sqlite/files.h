/* The files of the embedded store beside SQLite's own, and where this process lives.
 *
 *     PATH                the database            PATH-wal, PATH-shm    SQLite's own
 *     PATH.locks/         side files              PATH.locks/@bell      written to after every
 * change PATH.locks/@alive   one lock per candidate  PATH.locks/NAME       one per election */
#ifndef BW_STORE_SQLITE_FILES_H
#define BW_STORE_SQLITE_FILES_H

#include "store/sqlite/rules.h"

#include <limits.h>
#include <sys/types.h>

#define BW_SQLITE_BELL     "@bell"
#define BW_SQLITE_ALIVE    "@alive"
#define BW_SQLITE_PATH_MAX (PATH_MAX + 8 + 1 + 256) /* a side file's */
#define BW_SQLITE_FILE_MAX 255u                     /* NAME_MAX of every local file system */

struct bw_sqlite_paths {
    char db[PATH_MAX];
    char dir[PATH_MAX + 8]; /* PATH.locks */
    char shown[100];        /* the database for people: the end of a long path */
    mode_t mode;            /* of the database: side files get the same */
    uid_t uid;              /* and of the same owner, if we may */
    gid_t gid;
    dev_t dev;
    ino_t ino;
};

/* The path in a URL: without "sqlite:" and without the "//" of an empty host. */
const char *bw_sqlite_path(const char *url);

/* Find or create the database file (empty: SQLite fills it) and the directory of side files, and
 * refuse places where the store would not be safe. */
int bw_sqlite_paths_open(struct bw_sqlite_paths *paths, const char *url, char *why);

/* 0 if the database at the path is still the file that was opened; else an error and a line. */
int bw_sqlite_paths_check(const struct bw_sqlite_paths *paths, char *why);

/* Name of a file system that several hosts may share, or NULL. `type` is statfs's; `kind` is what
 * the mount table calls it ("" when unknown). */
const char *bw_sqlite_shared_fs(uint64_t type, const char *kind);

void bw_sqlite_place_read(struct bw_sqlite_place *out);
bw_time bw_sqlite_now(void); /* CLOCK_BOOTTIME */

/* File name of an election, and back; false if it is no such name. */
void bw_sqlite_file_name(const char *election, char out[BW_SQLITE_FILE_MAX + 1]);
bool bw_sqlite_file_election(const char *file, char out[BW_ELECTION_NAME_MAX + 1]);

/* Open a side file, made with the database's mode if it is not there. Returns the descriptor or -1
 * with errno. */
int bw_sqlite_side_open(const struct bw_sqlite_paths *paths, const char *file);
/* Open a file or directory that is there; uses what the hard limit of descriptors allows. */
int bw_sqlite_open_path(const char *path, int flags);
/* Open it for looking only; -1 when it is not there. Closing it wakes nobody. */
int bw_sqlite_side_look(const struct bw_sqlite_paths *paths, const char *file);

/* Locks live on the open file description: they last until its last copy is closed, in whichever
 * process. Returns 0 or -1 with errno (EAGAIN: another has it). */
int bw_sqlite_lock_take(int fd, uint64_t at);
void bw_sqlite_lock_drop(int fd, uint64_t at);
/* Is the lock held by any description but this one? Looking takes nothing. */
bool bw_sqlite_lock_held(int fd, uint64_t at);

/* The enum bw_error for an errno. */
int bw_sqlite_error_of(int system);

/* That this process leads in a database, said to those who create another one in its place
 * (claim.c). Where the directory cannot be read there is no claim. */
#define BW_SQLITE_CLAIM_LEVELS 2u

struct bw_sqlite_claims {
    int fd[BW_SQLITE_CLAIM_LEVELS]; /* directories, with a lock; -1: none */
    int file_fd;                    /* keeps the inode of the claimed database; -1: none */
    uint32_t count;                 /* leaderships whose work may be alive */
};

void bw_sqlite_claims_init(struct bw_sqlite_claims *claims);
/* Does nothing while leaderships are left: their work may still run. */
void bw_sqlite_claims_close(struct bw_sqlite_claims *claims);
/* For one more leadership. Returns 0, or an errno and nothing is claimed: ESTALE: the database is
 * not at its path any more; or there is no descriptor left. */
int bw_sqlite_claim_take(struct bw_sqlite_claims *claims, const struct bw_sqlite_paths *paths);
void bw_sqlite_claim_drop(struct bw_sqlite_claims *claims);
/* Does any process, this one included, lead in another database at this path? Returns 0 or an
 * errno: there is no descriptor left to look. */
int bw_sqlite_claims_look(const struct bw_sqlite_paths *paths, bool *claimed);

/* The mark at the start of a lock file; an unreadable or torn one reads as none. */
void bw_sqlite_mark_read(int fd, struct bw_sqlite_mark *out);
int bw_sqlite_mark_write(int fd, const struct bw_sqlite_mark *mark);

/* What the lock file of a held row tells: its mark, and whether the row's lock is surely free (the
 * very file the holder locked, in the holder's boot and namespaces). */
void bw_sqlite_inspect(const struct bw_sqlite_paths *paths, const struct bw_sqlite_row *row,
                       const char *election, const struct bw_sqlite_place *self,
                       struct bw_sqlite_mark *mark, bool *lock_free);

#endif
