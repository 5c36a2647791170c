/* Reads and writes rows. Unsigned 64-bit numbers are stored as the signed number with the same
 * bits. Text that is too long for its field (written by another program) is truncated. */
#include "store/sqlite/db.h"

#include "os/grow.h"

#include "core/base/bug.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define FIRST_VERSION_MASK ((UINT64_C(1) << 48) - 1)
#define STEP_MASK          ((UINT64_C(1) << 16) - 1)

#define ROW_COLUMNS                                                                                \
    "name, id, version, held, clean, holder, request, token, reserved, reserved_boot, ttl_ns,"     \
    " deadline_ns, boot, spaces, pid, lock_dev, lock_ino, value, containment, owed, note_kind,"    \
    " note_serial, note_from, note_to, until_wall_ns, until_token"

static const char *const texts[BW_SQL_COUNT] = {
    [BW_SQL_BEGIN_READ] = "BEGIN",
    [BW_SQL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [BW_SQL_COMMIT] = "COMMIT",
    [BW_SQL_ROLLBACK] = "ROLLBACK",
    [BW_SQL_LAST_VERSION] = "SELECT max(version) FROM election",
    [BW_SQL_LOAD] = "SELECT " ROW_COLUMNS " FROM election WHERE name = ?1",
    [BW_SQL_CHANGED] = "SELECT " ROW_COLUMNS " FROM election WHERE version > ?1 ORDER BY version",
    [BW_SQL_INSERT] = "INSERT INTO election(" ROW_COLUMNS ") VALUES(?1, NULL, ?3, ?4, ?5, ?6, ?7,"
                      " ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,"
                      " ?23, ?24, ?25, ?8)",
    [BW_SQL_UPDATE] =
        "UPDATE election SET version = ?3, held = ?4, clean = ?5, holder = ?6, request = ?7,"
        " token = ?8, reserved = ?9, reserved_boot = ?10, ttl_ns = ?11, deadline_ns = ?12,"
        " boot = ?13, spaces = ?14, pid = ?15, lock_dev = ?16, lock_ino = ?17, value = ?18,"
        " containment = ?19, owed = ?20, note_kind = ?21, note_serial = ?22, note_from = ?23,"
        " note_to = ?24, until_wall_ns = ?25, until_token = ?8 WHERE id = ?2",
    [BW_SQL_UPDATE_LEASE] =
        "UPDATE election SET version = ?3, ttl_ns = ?11, deadline_ns = ?12, until_wall_ns = ?25"
        " WHERE id = ?2",
    [BW_SQL_CANDIDATES] = "SELECT id, value, priority, boot, alive FROM candidate"
                          " WHERE election = ?1 ORDER BY serial",
    [BW_SQL_ENTER] = "INSERT INTO candidate(election, id, serial, value, priority, boot, alive)"
                     " SELECT ?1, ?2, ifnull(max(serial), 0) + 1, ?3, ?4, ?5, ?6 FROM candidate"
                     " WHERE election = ?1 ON CONFLICT(election, id) DO UPDATE SET"
                     " value = excluded.value, priority = excluded.priority, boot = excluded.boot,"
                     " alive = excluded.alive",
    [BW_SQL_LEAVE] = "DELETE FROM candidate WHERE election = ?1 AND id = ?2 AND alive = ?3",
    [BW_SQL_ELECTIONS] = "SELECT name FROM election ORDER BY name",
};

int bw_sqlite_db_prepare(struct bw_sqlite_db *db)
{
    for (unsigned i = 0; i < BW_SQL_COUNT; i++) {
        int result = sqlite3_prepare_v3(db->handle, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                        &db->sql[i], NULL);
        if (result != SQLITE_OK)
            return result;
    }
    return SQLITE_OK;
}

static void get_text(sqlite3_stmt *stmt, int column, char *out, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    snprintf(out, size, "%s", text ? text : "");
}

#define GET_TEXT(stmt, column, field) get_text(stmt, column, field, sizeof(field))

static uint64_t get_number(sqlite3_stmt *stmt, int column)
{
    return (uint64_t)sqlite3_column_int64(stmt, column);
}

static void get_row(sqlite3_stmt *stmt, struct bw_sqlite_row *row)
{
    struct bw_store_record *record = &row->record;
    int kind = sqlite3_column_int(stmt, 20);
    row->id = sqlite3_column_int64(stmt, 1);
    record->version = get_number(stmt, 2);
    record->held = sqlite3_column_int(stmt, 3) != 0;
    record->clean = sqlite3_column_int(stmt, 4) != 0;
    GET_TEXT(stmt, 5, record->holder);
    record->request = get_number(stmt, 6);
    record->token = get_number(stmt, 7);
    row->reserved = get_number(stmt, 8);
    GET_TEXT(stmt, 9, row->reserved_boot);
    record->ttl_ns = sqlite3_column_int64(stmt, 10);
    row->deadline = sqlite3_column_int64(stmt, 11);
    GET_TEXT(stmt, 12, row->place.boot);
    GET_TEXT(stmt, 13, row->place.spaces);
    row->pid = sqlite3_column_int64(stmt, 14);
    row->lock_dev = get_number(stmt, 15);
    row->lock_ino = get_number(stmt, 16);
    GET_TEXT(stmt, 17, record->value);
    GET_TEXT(stmt, 18, record->containment);
    GET_TEXT(stmt, 19, record->unconfirmed);
    record->note.kind =
        kind >= 0 && kind <= BW_NOTE_REFUSE ? (enum bw_note_kind)kind : BW_NOTE_NONE;
    record->note.serial = get_number(stmt, 21);
    GET_TEXT(stmt, 22, record->note.from);
    GET_TEXT(stmt, 23, record->note.to);
    /* A program of schema 1 that took over leaves the previous holder's value in this column. */
    bool declared = get_number(stmt, 25) == record->token;
    record->until_wall_ns = declared ? sqlite3_column_int64(stmt, 24) : 0;
}

static void put_number(sqlite3_stmt *stmt, int at, uint64_t number)
{
    sqlite3_bind_int64(stmt, at, (sqlite3_int64)number);
}

static void put_text(sqlite3_stmt *stmt, int at, const char *text)
{
    sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC);
}

static void put_lease(sqlite3_stmt *stmt, const struct bw_sqlite_row *row)
{
    sqlite3_bind_int64(stmt, 2, row->id);
    put_number(stmt, 3, row->record.version);
    sqlite3_bind_int64(stmt, 11, row->record.ttl_ns);
    sqlite3_bind_int64(stmt, 12, row->deadline);
    sqlite3_bind_int64(stmt, 25, row->record.until_wall_ns);
}

static void put_row(sqlite3_stmt *stmt, const struct bw_sqlite_row *row)
{
    const struct bw_store_record *record = &row->record;
    put_lease(stmt, row);
    sqlite3_bind_int(stmt, 4, record->held);
    sqlite3_bind_int(stmt, 5, record->clean);
    put_text(stmt, 6, record->holder);
    put_number(stmt, 7, record->request);
    put_number(stmt, 8, record->token);
    put_number(stmt, 9, row->reserved);
    put_text(stmt, 10, row->reserved_boot);
    put_text(stmt, 13, row->place.boot);
    put_text(stmt, 14, row->place.spaces);
    sqlite3_bind_int64(stmt, 15, row->pid);
    put_number(stmt, 16, row->lock_dev);
    put_number(stmt, 17, row->lock_ino);
    put_text(stmt, 18, record->value);
    put_text(stmt, 19, record->containment);
    put_text(stmt, 20, record->unconfirmed);
    sqlite3_bind_int(stmt, 21, (int)record->note.kind);
    put_number(stmt, 22, record->note.serial);
    put_text(stmt, 23, record->note.from);
    put_text(stmt, 24, record->note.to);
}

int bw_sqlite_db_load(struct bw_sqlite_db *db, const char *election, struct bw_sqlite_row *row)
{
    sqlite3_stmt *stmt = bw_sqlite_db_sql(db, BW_SQL_LOAD);
    memset(row, 0, sizeof *row);
    put_text(stmt, 1, election);
    int result = sqlite3_step(stmt);
    if (result == SQLITE_ROW) {
        get_row(stmt, row);
        result = SQLITE_DONE;
    }
    sqlite3_reset(stmt);
    return result == SQLITE_DONE ? 0 : result;
}

int bw_sqlite_db_last_version(struct bw_sqlite_db *db, uint64_t *version)
{
    sqlite3_stmt *stmt = bw_sqlite_db_sql(db, BW_SQL_LAST_VERSION);
    int result = sqlite3_step(stmt);
    if (result == SQLITE_ROW)
        *version = get_number(stmt, 0);
    sqlite3_reset(stmt);
    return result == SQLITE_ROW ? 0 : result;
}

/* Versions grow by random steps from a random start, so that a database that was created again, or
 * restored from a copy, does not repeat a version that a candidate remembers. With steps of 16
 * bits, versions last for 2^46 changes. */
static uint64_t next_version(struct bw_sqlite_db *db)
{
    uint64_t bits = BW_BUG(store_counts_versions_from_one) ? 0 : bw_rng_next(&db->rng);
    return db->version == 0 ? 1 + (bits & FIRST_VERSION_MASK)
                            : db->version + 1 + (bits & STEP_MASK);
}

int bw_sqlite_db_save(struct bw_sqlite_db *db, const char *election, struct bw_sqlite_row *row,
                      enum bw_sqlite_change change)
{
    if (db->version == 0) {
        int result = bw_sqlite_db_last_version(db, &db->version);
        if (result)
            return result;
    }
    row->record.version = db->version = next_version(db);
    enum bw_sqlite_sql which = row->id == 0                ? BW_SQL_INSERT
                               : change == BW_SQLITE_LEASE ? BW_SQL_UPDATE_LEASE
                                                           : BW_SQL_UPDATE;
    sqlite3_stmt *stmt = bw_sqlite_db_sql(db, which);
    if (which == BW_SQL_UPDATE_LEASE)
        put_lease(stmt, row);
    else
        put_row(stmt, row);
    if (which == BW_SQL_INSERT)
        put_text(stmt, 1, election);
    int result = bw_sqlite_db_run(db, which);
    sqlite3_clear_bindings(stmt);
    if (result == 0 && which == BW_SQL_INSERT)
        row->id = sqlite3_last_insert_rowid(db->handle);
    return result;
}

int bw_sqlite_db_changed(struct bw_sqlite_db *db, uint64_t since, void *context,
                         int (*each)(void *context, const char *election,
                                     struct bw_sqlite_row *row))
{
    sqlite3_stmt *stmt = bw_sqlite_db_sql(db, BW_SQL_CHANGED);
    put_number(stmt, 1, since);
    int result, stop = 0;
    while ((result = sqlite3_step(stmt)) == SQLITE_ROW && !stop) {
        struct bw_sqlite_row row = {0};
        char election[BW_ELECTION_NAME_MAX + 1];
        GET_TEXT(stmt, 0, election);
        get_row(stmt, &row);
        stop = each(context, election, &row);
    }
    sqlite3_reset(stmt);
    return stop ? stop : result == SQLITE_DONE ? 0 : result;
}

int bw_sqlite_db_enter(struct bw_sqlite_db *db, const char *election,
                       const struct bw_sqlite_candidate *candidate)
{
    sqlite3_stmt *stmt = bw_sqlite_db_sql(db, BW_SQL_ENTER);
    put_text(stmt, 1, election);
    put_text(stmt, 2, candidate->shown.id);
    put_text(stmt, 3, candidate->shown.value);
    sqlite3_bind_int(stmt, 4, candidate->shown.priority);
    put_text(stmt, 5, candidate->boot);
    put_number(stmt, 6, candidate->alive);
    int result = bw_sqlite_db_run(db, BW_SQL_ENTER);
    sqlite3_clear_bindings(stmt);
    return result;
}

int bw_sqlite_db_leave(struct bw_sqlite_db *db, const char *election, const char *candidate,
                       uint64_t alive)
{
    sqlite3_stmt *stmt = bw_sqlite_db_sql(db, BW_SQL_LEAVE);
    put_text(stmt, 1, election);
    put_text(stmt, 2, candidate);
    put_number(stmt, 3, alive);
    int result = bw_sqlite_db_run(db, BW_SQL_LEAVE);
    sqlite3_clear_bindings(stmt);
    return result;
}

int bw_sqlite_db_candidates(struct bw_sqlite_db *db, const char *election, void *context,
                            int (*each)(void *context, const struct bw_sqlite_candidate *candidate))
{
    sqlite3_stmt *stmt = bw_sqlite_db_sql(db, BW_SQL_CANDIDATES);
    put_text(stmt, 1, election);
    int result, stop = 0;
    while (!stop && (result = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct bw_sqlite_candidate candidate = {0};
        GET_TEXT(stmt, 0, candidate.shown.id);
        GET_TEXT(stmt, 1, candidate.shown.value);
        candidate.shown.priority = sqlite3_column_int(stmt, 2);
        GET_TEXT(stmt, 3, candidate.boot);
        candidate.alive = get_number(stmt, 4);
        stop = each(context, &candidate);
    }
    sqlite3_reset(stmt);
    return stop ? stop : result == SQLITE_DONE ? 0 : result;
}

int bw_sqlite_db_elections(struct bw_sqlite_db *db, struct bw_election_name **out, uint32_t *count)
{
    sqlite3_stmt *stmt = bw_sqlite_db_sql(db, BW_SQL_ELECTIONS);
    struct bw_election_name *names = NULL;
    size_t capacity = 0;
    int result = SQLITE_DONE;
    *count = 0;
    while (*count < BW_STORE_NAMES_MAX && (result = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (!bw_grow(&names, &capacity, *count + 1u, 64, sizeof *names)) {
            result = SQLITE_NOMEM;
            break;
        }
        GET_TEXT(stmt, 0, names[*count].text);
        ++*count;
    }
    sqlite3_reset(stmt);
    *out = names;
    return result == SQLITE_DONE || result == SQLITE_ROW ? 0 : result;
}
