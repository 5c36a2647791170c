/* The database of the embedded store: open and check it, transactions, rows. Calls block; one
 * thread uses it at a time. Functions return 0 or SQLite's result code, for
 * bw_sqlite_db_explain. */
#ifndef BW_STORE_SQLITE_DB_H
#define BW_STORE_SQLITE_DB_H

#include "core/base/rng.h"
#include "store/sqlite/files.h"
#include "store/sqlite/snapshot.h"

#include <stdatomic.h>

struct sqlite3;
struct sqlite3_stmt;

enum bw_sqlite_sql {
    BW_SQL_BEGIN_READ,
    BW_SQL_BEGIN_WRITE,
    BW_SQL_COMMIT,
    BW_SQL_ROLLBACK,
    BW_SQL_LAST_VERSION,
    BW_SQL_LOAD,
    BW_SQL_CHANGED,
    BW_SQL_INSERT,
    BW_SQL_UPDATE,
    BW_SQL_UPDATE_LEASE,
    BW_SQL_CANDIDATES,
    BW_SQL_ENTER,
    BW_SQL_LEAVE,
    BW_SQL_ELECTIONS,
    BW_SQL_COUNT
};

struct bw_sqlite_db {
    struct sqlite3 *handle; /* NULL: not open */
    struct sqlite3_stmt *sql[BW_SQL_COUNT];
    const struct bw_sqlite_paths *paths;
    struct bw_sqlite_snapshot snapshot; /* `used`: the handle is a copy in memory */
    struct bw_rng rng;
    atomic_bool *stop; /* set to stop waiting for other processes */
    bw_time busy_until, busy_ns;
    bool full;        /* commits are synced to disk */
    int log_pages;    /* write-ahead log size after the last commit */
    uint64_t version; /* last version given in this transaction; 0: not read yet */
};

/* Opens an existing file; an empty one is initialised. Rejects, without changing it, a file that is
 * not ours, damaged, read-only or of a newer schema. With paths->readonly, opens it for reading, or
 * a copy of it if no process has it open. Returns an enum bw_error and a line. */
int bw_sqlite_db_open(struct bw_sqlite_db *db, char *why);
/* True if the handle is open and does not show an outdated copy. */
bool bw_sqlite_db_is_current(const struct bw_sqlite_db *db);
void bw_sqlite_db_close(struct bw_sqlite_db *db);

int bw_sqlite_db_begin(struct bw_sqlite_db *db, bool write);
/* Chooses whether commits are on disk when bw_sqlite_db_commit returns. */
int bw_sqlite_db_sync(struct bw_sqlite_db *db, bool sync); /* outside of transactions */
int bw_sqlite_db_commit(struct bw_sqlite_db *db);
void bw_sqlite_db_rollback(struct bw_sqlite_db *db);

/* Checkpoints the write-ahead log if it has grown long. This takes a few syncs, so the worker does
 * it after all requests have been answered. */
void bw_sqlite_db_tidy(struct bw_sqlite_db *db);

/* A row that does not exist is loaded as all zero. */
int bw_sqlite_db_load(struct bw_sqlite_db *db, const char *election, struct bw_sqlite_row *row);
/* Gives the row a new version. */
int bw_sqlite_db_save(struct bw_sqlite_db *db, const char *election, struct bw_sqlite_row *row,
                      enum bw_sqlite_change change);
int bw_sqlite_db_last_version(struct bw_sqlite_db *db, uint64_t *version);
/* Calls `each` for the rows with a version above `since`, oldest change first. A nonzero return
 * stops. */
int bw_sqlite_db_changed(struct bw_sqlite_db *db, uint64_t since, void *context,
                         int (*each)(void *context, const char *election,
                                     struct bw_sqlite_row *row));

/* A candidate as stored. `alive` is the offset of its process's lock in the file `@alive`. */
struct bw_sqlite_candidate {
    struct bw_candidate shown;
    char boot[BW_SQLITE_BOOT_MAX + 1];
    uint64_t alive;
};

int bw_sqlite_db_enter(struct bw_sqlite_db *db, const char *election,
                       const struct bw_sqlite_candidate *candidate);
/* Deletes only the row that the process with this lock entered: another process may have the same
 * id. */
int bw_sqlite_db_leave(struct bw_sqlite_db *db, const char *election, const char *candidate,
                       uint64_t alive);
int bw_sqlite_db_candidates(struct bw_sqlite_db *db, const char *election, void *context,
                            int (*each)(void *context,
                                        const struct bw_sqlite_candidate *candidate));

/* Writes the names of at most BW_STORE_NAMES_MAX elections; the caller frees *out. */
int bw_sqlite_db_elections(struct bw_sqlite_db *db, struct bw_election_name **out, uint32_t *count);

/* Explains a result code: returns an enum bw_error and writes a line for the user. */
int bw_sqlite_db_explain(const struct bw_sqlite_db *db, int result, char *why);
/* True if the connection is unusable and must be opened again. */
bool bw_sqlite_db_broken(int result);

struct sqlite3_stmt *bw_sqlite_db_sql(struct bw_sqlite_db *db, enum bw_sqlite_sql which);
int bw_sqlite_db_run(struct bw_sqlite_db *db, enum bw_sqlite_sql which);
int bw_sqlite_db_prepare(struct bw_sqlite_db *db); /* rows.c */

#endif
