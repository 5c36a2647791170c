/* Opens, checks and closes the database; transactions; meaning of errors.
 *
 * WAL mode: a killed process leaves nothing half done, and readers do not block the writer. A
 * commit is synced to disk if a power failure could otherwise revoke a token (rules.h). Other
 * commits survive every crash except a power failure; after a reboot no process relies on them. */
#include "store/sqlite/db.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define APPLICATION_ID  0x42576c31 /* "BWl1" */
#define SCHEMA_VERSION  2
#define SCHEMA_OLDEST   1 /* upgraded when it is opened */
#define OPEN_TIMEOUT_NS (5 * BW_SEC)
/* How long a reader waits for a writer that just opens, changes or closes the database. */
#define COPY_TIMEOUT_NS (500 * BW_MS)
/* Databases up to this size are checked for damage on every open: that is as fast as opening
 * them. */
#define CHECKED_BYTES_MAX (16 << 20)
/* Checkpoint the write-ahead log when it has this many pages; SQLite's own default. */
#define LOG_PAGES_MAX 1000

static const char schema[] =
    "CREATE TABLE election(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
    " version INTEGER NOT NULL, held INTEGER NOT NULL, clean INTEGER NOT NULL,"
    " holder TEXT NOT NULL, request INTEGER NOT NULL, token INTEGER NOT NULL,"
    " reserved INTEGER NOT NULL, reserved_boot TEXT NOT NULL, ttl_ns INTEGER NOT NULL,"
    " deadline_ns INTEGER NOT NULL, boot TEXT NOT NULL, spaces TEXT NOT NULL, pid INTEGER NOT NULL,"
    " lock_dev INTEGER NOT NULL, lock_ino INTEGER NOT NULL, value TEXT NOT NULL,"
    " containment TEXT NOT NULL, owed TEXT NOT NULL, note_kind INTEGER NOT NULL,"
    " note_serial INTEGER NOT NULL, note_from TEXT NOT NULL, note_to TEXT NOT NULL,"
    " until_wall_ns INTEGER NOT NULL DEFAULT 0, until_token INTEGER NOT NULL DEFAULT 0);"
    "CREATE INDEX election_version ON election(version);"
    "CREATE TABLE candidate(election TEXT NOT NULL, id TEXT NOT NULL, serial INTEGER NOT NULL,"
    " value TEXT NOT NULL, priority INTEGER NOT NULL, boot TEXT NOT NULL, alive INTEGER NOT NULL,"
    " PRIMARY KEY(election, id)) WITHOUT ROWID;"
    "PRAGMA application_id=1113025585; PRAGMA user_version=2;";

/* Version 1 had no wall-clock ends. A program of version 1 that has the database open keeps
 * working: it names its columns, the new columns have defaults, and a token that it gives makes
 * them invalid. */
static const char upgrade[] =
    "ALTER TABLE election ADD COLUMN until_wall_ns INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE election ADD COLUMN until_token INTEGER NOT NULL DEFAULT 0;"
    "PRAGMA user_version=2;";

_Static_assert(APPLICATION_ID == 1113025585, "the schema says the same");

/* SQLite's busy handler, called while another process has the lock we need. It sleeps longer each
 * time. */
static int on_busy(void *context, int count)
{
    struct bw_sqlite_db *db = context;
    if (bw_clock_boot() >= db->busy_until || (db->stop && atomic_load(db->stop)))
        return 0;
    bw_time most = count < 10 ? ((bw_time)count + 1) * 100 * BW_US : 2 * BW_MS;
    bw_time pause = bw_rng_between(&db->rng, most / 2, most);
    nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
    return 1;
}

static int on_commit(void *context, sqlite3 *handle, const char *name, int pages)
{
    struct bw_sqlite_db *db = context;
    (void)handle;
    (void)name;
    db->log_pages = pages;
    return SQLITE_OK;
}

void bw_sqlite_db_tidy(struct bw_sqlite_db *db)
{
    if (!db->handle || db->log_pages < LOG_PAGES_MAX)
        return;
    db->log_pages = 0; /* if it fails, it is retried after another commit */
    sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

bool bw_sqlite_db_broken(int result)
{
    int kind = result & 0xff;
    return kind == SQLITE_IOERR || kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB ||
           kind == SQLITE_CANTOPEN || kind == SQLITE_READONLY || kind == SQLITE_MISUSE;
}

struct meaning {
    int result, error;
    const char *text;
};

static const struct meaning meanings[] = {
    {SQLITE_BUSY, BW_EBUSY, "is locked by another process"},
    {SQLITE_LOCKED, BW_EBUSY, "is locked by another process"},
    {SQLITE_NOMEM, BW_ENOMEM, "cannot be used: out of memory"},
    {SQLITE_READONLY, BW_EDENIED, "or its directory is read-only"},
    {SQLITE_PERM, BW_EDENIED, "is not accessible to this user"},
    {SQLITE_AUTH, BW_EDENIED, "is not accessible to this user"},
    {SQLITE_IOERR, BW_EIO, "cannot be read or written"},
    {SQLITE_CORRUPT, BW_EDAMAGED,
     "is damaged; not changed; restore it from a backup or move it away"},
    {SQLITE_NOTADB, BW_EDAMAGED, "is not a database; not changed"},
    {SQLITE_FULL, BW_EIO, "cannot grow: the disk is full"},
    {SQLITE_CANTOPEN, BW_EIO, "or its side files cannot be opened"},
    {SQLITE_SCHEMA, BW_EDAMAGED, "does not have the expected tables"},
    {SQLITE_ERROR, BW_EDAMAGED, "does not have the expected tables"},
};

/* Returns the errno behind a failure, or 0 if unknown. SQLite does not keep the errno of files it
 * opens inside a transaction. In that case this function tests for the likely cause, a lack of
 * descriptors. (It must not open the database itself: closing that descriptor would drop SQLite's
 * locks.) */
static int system_error(const struct bw_sqlite_db *db, int result)
{
    int error = db->handle ? sqlite3_system_errno(db->handle) : 0;
    if (error != 0 || (result & 0xff) != SQLITE_CANTOPEN)
        return error;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

int bw_sqlite_db_explain(const struct bw_sqlite_db *db, int result, char *why)
{
    const struct meaning *found = NULL;
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0] && !found; i++)
        if (meanings[i].result == (result & 0xff))
            found = &meanings[i];
    int system = system_error(db, result);
    bool known = system != 0 && (bw_sqlite_db_broken(result) || (result & 0xff) == SQLITE_FULL);
    int error = found ? found->error : BW_EIO;
    if (known && bw_sqlite_error_of(system) == BW_ENOMEM)
        error = BW_ENOMEM;
    return bw_store_explain(why, error, "%s %s (%s%s%s)", db->paths->shown,
                            found ? found->text : "cannot be used", sqlite3_errstr(result),
                            known ? ": " : "", known ? strerror(system) : "");
}

struct sqlite3_stmt *bw_sqlite_db_sql(struct bw_sqlite_db *db, enum bw_sqlite_sql which)
{
    return db->sql[which];
}

int bw_sqlite_db_run(struct bw_sqlite_db *db, enum bw_sqlite_sql which)
{
    int result = sqlite3_step(db->sql[which]);
    sqlite3_reset(db->sql[which]);
    return result == SQLITE_DONE || result == SQLITE_ROW ? 0 : result;
}

static int pragma_number(struct bw_sqlite_db *db, const char *sql, int64_t *out)
{
    sqlite3_stmt *stmt = NULL;
    int result = sqlite3_prepare_v2(db->handle, sql, -1, &stmt, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_step(stmt);
    if (result == SQLITE_ROW) {
        *out = sqlite3_column_int64(stmt, 0);
        result = SQLITE_OK;
    }
    sqlite3_finalize(stmt);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

static int pragma_text(struct bw_sqlite_db *db, const char *sql, char *out, size_t size)
{
    sqlite3_stmt *stmt = NULL;
    int result = sqlite3_prepare_v2(db->handle, sql, -1, &stmt, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_step(stmt);
    const char *text = result == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    snprintf(out, size, "%s", text ? text : "");
    sqlite3_finalize(stmt);
    return result == SQLITE_ROW || result == SQLITE_DONE ? SQLITE_OK : result;
}

struct identity {
    int64_t application, version, tables;
};

/* Reads all three from one snapshot, because another process may initialise the file in between. */
static int read_identity(struct bw_sqlite_db *db, struct identity *id)
{
    bool alone = sqlite3_get_autocommit(db->handle) != 0;
    memset(id, 0, sizeof *id);
    int result = alone ? sqlite3_exec(db->handle, "BEGIN", NULL, NULL, NULL) : SQLITE_OK;
    if (result == SQLITE_OK)
        result = pragma_number(db, "PRAGMA application_id", &id->application);
    if (result == SQLITE_OK)
        result = pragma_number(db, "PRAGMA user_version", &id->version);
    if (result == SQLITE_OK)
        result = pragma_number(db, "SELECT count(*) FROM sqlite_master", &id->tables);
    if (alone && !sqlite3_get_autocommit(db->handle))
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return result;
}

static bool is_new(const struct identity *id)
{
    return id->application == 0 && id->version == 0 && id->tables == 0;
}

static bool is_old(const struct identity *id)
{
    return id->application == APPLICATION_ID && id->version < SCHEMA_VERSION;
}

static int check_identity(const struct bw_sqlite_db *db, const struct identity *id, char *why)
{
    if (id->application != APPLICATION_ID)
        return bw_store_explain(
            why, BW_EDAMAGED, "%s is a database of another program; not changed", db->paths->shown);
    if (id->version < SCHEMA_OLDEST || id->version > SCHEMA_VERSION)
        return bw_store_explain(why, BW_EVERSION,
                                "%s has schema version %lld, this program supports up to %d; use a "
                                "matching program version",
                                db->paths->shown, (long long)id->version, SCHEMA_VERSION);
    return 0;
}

/* Several processes may find the file empty, or old, at the same time. The first one to lock it
 * changes it. */
static int make_schema(struct bw_sqlite_db *db)
{
    struct identity id;
    int result =
        sqlite3_exec(db->handle, "PRAGMA synchronous=FULL; BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (result == SQLITE_OK)
        result = read_identity(db, &id);
    if (result == SQLITE_OK && is_new(&id))
        result = sqlite3_exec(db->handle, schema, NULL, NULL, NULL);
    else if (result == SQLITE_OK && is_old(&id))
        result = sqlite3_exec(db->handle, upgrade, NULL, NULL, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_exec(db->handle, "COMMIT", NULL, NULL, NULL);
    if (result != SQLITE_OK && !sqlite3_get_autocommit(db->handle))
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return result;
}

/* Switching to WAL needs exclusive access and does not always call the busy handler. */
static int enter_wal(struct bw_sqlite_db *db, char *mode, size_t size)
{
    int result, tries = 0;
    do
        result = pragma_text(db, "PRAGMA journal_mode=WAL", mode, size);
    while ((result & 0xff) == SQLITE_BUSY && on_busy(db, tries++));
    return result;
}

/* A page that cannot be read for lack of memory or because of a disk error does not prove damage.
 * SQLite reports the error code only in the text of its verdict. */
static int judge_pages(const char *verdict)
{
    static const char code_label[] = "error code=";
    const char *found = strstr(verdict, code_label);
    int code = found ? (int)strtol(found + strlen(code_label), NULL, 10) & 0xff : 0;
    if (strcmp(verdict, "ok") == 0)
        return SQLITE_OK;
    return code == SQLITE_NOMEM || code == SQLITE_IOERR ? code : SQLITE_CORRUPT;
}

static int check_pages(struct bw_sqlite_db *db)
{
    struct stat st;
    char verdict[256];
    if (stat(db->paths->db, &st) != 0 || st.st_size > CHECKED_BYTES_MAX)
        return SQLITE_OK;
    int result = pragma_text(db, "PRAGMA quick_check(1)", verdict, sizeof verdict);
    return result == SQLITE_OK ? judge_pages(verdict) : result;
}

/* Returns an SQLite code. Returns 0 with *error set if we reject the database ourselves. */
static int set_up(struct bw_sqlite_db *db, int *error, char *why)
{
    struct identity id;
    char mode[16] = "";
    int result = read_identity(db, &id);
    if (result == SQLITE_OK && !is_new(&id))
        *error = check_identity(db, &id, why);
    if (result != SQLITE_OK || *error)
        return result;
    result = enter_wal(db, mode, sizeof mode);
    if (result == SQLITE_OK && strcmp(mode, "wal") != 0)
        return SQLITE_READONLY;
    if (result == SQLITE_OK && (is_new(&id) || is_old(&id)))
        result = make_schema(db);
    if (result == SQLITE_OK && (result = read_identity(db, &id)) == SQLITE_OK)
        *error = check_identity(db, &id, why);
    if (result == SQLITE_OK && !*error)
        result = check_pages(db);
    return result;
}

static int open_handle(struct bw_sqlite_db *db, const char *path, int flags)
{
    int result = sqlite3_open_v2(path, &db->handle, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (result != SQLITE_OK)
        return result;
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_handler(db->handle, on_busy, db);
    /* replaces SQLite's automatic checkpoint inside a commit */
    sqlite3_wal_hook(db->handle, on_commit, db);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return SQLITE_OK;
}

static int open_for_writing(struct bw_sqlite_db *db, int *error, char *why)
{
    db->busy_until = bw_clock_boot() + OPEN_TIMEOUT_NS;
    int result = open_handle(db, db->paths->db, SQLITE_OPEN_READWRITE);
    if (result == SQLITE_OK)
        result = set_up(db, error, why);
    if (result == SQLITE_OK && !*error && sqlite3_db_readonly(db->handle, "main") == 1)
        result = SQLITE_READONLY;
    return result;
}

/* Opens a copy in memory. Returns 0 or an error of bw_sqlite_snapshot_read. */
static int open_copy(struct bw_sqlite_db *db)
{
    unsigned char *bytes;
    size_t size;
    int error = bw_sqlite_snapshot_read(&db->snapshot, db->paths, &bytes, &size);
    if (error)
        return error;
    unsigned how = SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY;
    if (open_handle(db, ":memory:", SQLITE_OPEN_READWRITE) != SQLITE_OK) {
        sqlite3_free(bytes);
        return BW_ENOMEM;
    }
    db->snapshot.used = true;
    if (sqlite3_deserialize(db->handle, "main", bytes, (sqlite3_int64)size, (sqlite3_int64)size,
                            how) != SQLITE_OK)
        return BW_ENOMEM;
    return 0;
}

/* Opens the database and reads what it is. SQLite needs the side files PATH-wal and PATH-shm, and a
 * process that may not write cannot create them. So while no writer has the database open, this
 * opens a copy. A writer may open or close it at any instant: then both attempts fail, and are
 * repeated. */
static int open_for_reading(struct bw_sqlite_db *db, struct identity *id, int *error, char *why)
{
    db->busy_until = bw_clock_boot() + COPY_TIMEOUT_NS;
    for (int tries = 0;; tries++) {
        int result = open_handle(db, db->paths->db, SQLITE_OPEN_READONLY);
        if (result != SQLITE_OK)
            return result;
        result = read_identity(db, id);
        if ((result & 0xff) != SQLITE_CANTOPEN && (result & 0xff) != SQLITE_READONLY)
            return result;
        bw_sqlite_db_close(db);
        int failure = open_copy(db);
        if (failure == 0)
            return read_identity(db, id);
        bw_sqlite_db_close(db);
        if (failure == BW_EBUSY && on_busy(db, tries))
            continue;
        if (failure != BW_EBUSY && failure != BW_ELIMIT)
            return result;
        *error =
            bw_store_explain(why, BW_EDENIED,
                             "cannot read %s without write permission: %s; start a candidate, "
                             "or read it as a user who may write it",
                             db->paths->shown,
                             failure == BW_EBUSY ? "its write-ahead log cannot be read"
                                                 : "no candidate has it open, and it is large");
        return SQLITE_OK;
    }
}

/* Changes nothing. A database of an older schema must be opened by a writer first. */
static int open_readonly(struct bw_sqlite_db *db, int *error, char *why)
{
    struct identity id;
    int result = open_for_reading(db, &id, error, why);
    if (result == SQLITE_OK && !*error)
        *error = check_identity(db, &id, why);
    if (result == SQLITE_OK && !*error && is_old(&id))
        *error = bw_store_explain(why, BW_EVERSION,
                                  "cannot read %s without write permission: its schema is old; run "
                                  "a candidate of this version first",
                                  db->paths->shown);
    return result;
}

bool bw_sqlite_db_is_current(const struct bw_sqlite_db *db)
{
    return db->handle &&
           (!db->snapshot.used || bw_sqlite_snapshot_is_current(&db->snapshot, db->paths));
}

int bw_sqlite_db_open(struct bw_sqlite_db *db, char *why)
{
    int error = 0;
    memset(db->sql, 0, sizeof db->sql);
    db->snapshot.used = false;
    int result =
        db->paths->readonly ? open_readonly(db, &error, why) : open_for_writing(db, &error, why);
    if (result == SQLITE_OK && !error)
        result = sqlite3_exec(db->handle,
                              "PRAGMA synchronous=NORMAL; PRAGMA cache_size=-512;"
                              "PRAGMA trusted_schema=OFF; PRAGMA journal_size_limit=4194304",
                              NULL, NULL, NULL);
    if (result == SQLITE_OK && !error)
        result = bw_sqlite_db_prepare(db);
    db->full = false;
    if (result != SQLITE_OK)
        error = bw_sqlite_db_explain(db, result, why);
    if (error)
        bw_sqlite_db_close(db);
    return error;
}

void bw_sqlite_db_close(struct bw_sqlite_db *db)
{
    for (unsigned i = 0; i < BW_SQL_COUNT; i++)
        sqlite3_finalize(db->sql[i]);
    memset(db->sql, 0, sizeof db->sql);
    sqlite3_close(db->handle);
    db->handle = NULL;
    db->snapshot.used = false;
}

int bw_sqlite_db_begin(struct bw_sqlite_db *db, bool write)
{
    db->busy_until = bw_clock_boot() + db->busy_ns;
    db->version = 0;
    return bw_sqlite_db_run(db, write ? BW_SQL_BEGIN_WRITE : BW_SQL_BEGIN_READ);
}

int bw_sqlite_db_sync(struct bw_sqlite_db *db, bool sync)
{
    if (sync == db->full)
        return 0;
    db->full = sync;
    return sqlite3_exec(db->handle, sync ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL",
                        NULL, NULL, NULL);
}

int bw_sqlite_db_commit(struct bw_sqlite_db *db)
{
    return bw_sqlite_db_run(db, BW_SQL_COMMIT);
}

void bw_sqlite_db_rollback(struct bw_sqlite_db *db)
{
    if (!sqlite3_get_autocommit(db->handle))
        bw_sqlite_db_run(db, BW_SQL_ROLLBACK);
}
