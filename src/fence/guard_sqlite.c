/* The guard as a row of the user's database. SQLite's write lock makes check and raise one step.
 *
 * The upsert always comes first. It takes the write lock, so no other transaction can raise the row
 * between the check and the user's writes. A read transaction that cannot become a write
 * transaction fails before it has read anything. */
#include "fence/guard_sqlite.h"

#include "fence/guard_file.h"
#include "fence/guard_text.h"

#include <sqlite3.h>
#include <string.h>

#define TABLE "bellwether_guard"

static const char create_sql[] =
    "CREATE TABLE IF NOT EXISTS " TABLE " (\n"
    "    resource TEXT NOT NULL PRIMARY KEY,\n"
    "    token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0)\n"
    ") WITHOUT ROWID;\n"
    "CREATE TRIGGER IF NOT EXISTS " TABLE "_grows BEFORE UPDATE ON " TABLE "\n"
    "WHEN NEW.token < OLD.token OR NEW.resource <> OLD.resource BEGIN\n"
    "    SELECT RAISE(ABORT, 'ESTALE: a token older than the highest seen, in " TABLE "');\n"
    "END;\n"
    "CREATE TRIGGER IF NOT EXISTS " TABLE "_stays BEFORE DELETE ON " TABLE " BEGIN\n"
    "    SELECT RAISE(ABORT, 'EDENIED: the highest token must not be forgotten');\n"
    "END;\n";

static int database_error(struct sqlite3 *db, char *why)
{
    int code = sqlite3_errcode(db) & 0xff;
    int error = code == SQLITE_BUSY || code == SQLITE_LOCKED      ? BW_EBUSY
                : code == SQLITE_READONLY                         ? BW_EDENIED
                : code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? BW_EDAMAGED
                                                                  : BW_EIO;
    return bw_guard_error(why, error, "the guard's row: %s", sqlite3_errmsg(db));
}

int bw_guard_sqlite_create(struct sqlite3 *db, char *why)
{
    why[0] = '\0';
    return sqlite3_exec(db, create_sql, NULL, NULL, NULL) ? database_error(db, why) : 0;
}

/* Runs a statement with the resource and, if it has a second parameter, a token. `out` receives the
 * first column if there is a row. */
static int run(struct sqlite3 *db, const char *sql, const char *resource, bw_token token,
               bw_token *out, char *why)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        return database_error(db, why);
    sqlite3_bind_text(statement, 1, resource, -1, SQLITE_STATIC);
    if (sqlite3_bind_parameter_count(statement) > 1)
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)token);
    int result = sqlite3_step(statement);
    if (result == SQLITE_ROW && out)
        *out = (bw_token)sqlite3_column_int64(statement, 0);
    while (result == SQLITE_ROW)
        result = sqlite3_step(statement);
    int error = result == SQLITE_DONE ? 0 : database_error(db, why);
    sqlite3_finalize(statement);
    return error;
}

/* Raises the row, or leaves it unchanged; takes the write lock in both cases. */
static const char raise_sql[] =
    "INSERT INTO " TABLE " (resource, token) VALUES (?1, ?2) "
    "ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token > token";
static const char select_sql[] = "SELECT token FROM " TABLE " WHERE resource = ?1";

int bw_guard_sqlite(struct sqlite3 *db, const char *resource, bw_token token,
                    struct bw_guard_verdict *verdict, char *why)
{
    struct bw_guard_verdict own;
    bw_token highest = BW_TOKEN_NONE;
    if (!verdict)
        verdict = &own;
    *verdict = (struct bw_guard_verdict){.token = token};
    why[0] = '\0';
    if (token == BW_TOKEN_NONE) {
        *verdict = bw_guard_decide(&(struct bw_guard_state){0}, token);
        return bw_guard_explain(verdict, resource, why);
    }
    if (token > INT64_MAX)
        return bw_guard_error(why, BW_ELIMIT,
                              "the token is above 2^63-1, SQLite's largest integer");
    if (sqlite3_get_autocommit(db))
        return bw_guard_error(
            why, BW_EINVAL,
            "no transaction is open: the check must be part of the one that writes");
    int error = run(db, raise_sql, resource, token, NULL, why);
    if (error == 0)
        error = run(db, select_sql, resource, token, &highest, why);
    if (error)
        return error;
    *verdict = bw_guard_decide(&(struct bw_guard_state){.highest = highest}, token);
    return verdict->error ? bw_guard_explain(verdict, resource, why) : 0;
}

/* ---- triggers ---- */

/* Placeholders: %{resource}, %{trigger}, %{event}, %{table}, %{column}. The triggers use no
 * conflict clause, because the clause of the statement that fires the trigger would override it. */
static const char write_trigger[] =
    "\nDROP TRIGGER IF EXISTS %{trigger};\n"
    "CREATE TRIGGER %{trigger} BEFORE %{event} ON %{table} BEGIN\n"
    "    SELECT RAISE(ABORT, 'ENOTOKEN: a guarded row was written without a token')\n"
    "        WHERE typeof(NEW.%{column}) <> 'integer' OR NEW.%{column} <= 0;\n"
    "    SELECT RAISE(ABORT, 'ESTALE: a token older than the highest seen, in " TABLE "')\n"
    "        WHERE NEW.%{column} < (SELECT token FROM " TABLE " WHERE resource = %{resource});\n"
    "    UPDATE " TABLE " SET token = NEW.%{column}\n"
    "        WHERE resource = %{resource} AND token < NEW.%{column};\n"
    "    INSERT INTO " TABLE " (resource, token) SELECT %{resource}, NEW.%{column}\n"
    "        WHERE NOT EXISTS (SELECT 1 FROM " TABLE " WHERE resource = %{resource});\n"
    "END;\n";

static const char delete_trigger[] =
    "\nDROP TRIGGER IF EXISTS %{trigger};\n"
    "CREATE TRIGGER %{trigger} BEFORE %{event} ON %{table} BEGIN\n"
    "    SELECT RAISE(ABORT, 'ESTALE: put the newest token into a row before it is deleted')\n"
    "        WHERE OLD.%{column} IS NOT (SELECT token FROM " TABLE
    " WHERE resource = %{resource});\n"
    "END;\n";

static void print_trigger(FILE *out, const char *text, const char *table, const char *column,
                          const char *event)
{
    char resource[2 * BW_GUARD_NAME_MAX + 3], name[2 * BW_GUARD_NAME_MAX + 3],
        plain[BW_GUARD_NAME_MAX + 32];
    char trigger[2 * sizeof plain + 3], place[2 * BW_GUARD_NAME_MAX + 3];
    bw_guard_quote(table, '\'', resource);
    bw_guard_quote(table, '"', name);
    bw_guard_quote(column, '"', place);
    snprintf(plain, sizeof plain, "%s_guard_%s", table, event);
    bw_guard_quote(plain, '"', trigger);
    const struct bw_guard_mark marks[] = {{"resource", resource}, {"trigger", trigger},
                                          {"event", event},       {"table", name},
                                          {"column", place},      {NULL, NULL}};
    bw_guard_expand(out, text, marks);
}

int bw_guard_sqlite_print(FILE *out, const char *table, const char *column)
{
    if (table && (bw_guard_name_check(table) || bw_guard_name_check(column)))
        return BW_EINVAL;
    fputs("-- The highest fencing token each resource has seen; it only grows.\n", out);
    fputs(create_sql, out);
    if (!table) {
        fputs("\n-- First in every transaction that writes to a guarded resource:\n"
              "--   INSERT INTO " TABLE " VALUES ('resource', :token)\n"
              "--       ON CONFLICT (resource) DO UPDATE SET token = excluded.token;\n"
              "-- An older token aborts it with an ESTALE message: roll back.\n",
              out);
        return 0;
    }
    fprintf(out, "\n-- Every row of %s carries the token of the leadership that wrote it.\n",
            table);
    print_trigger(out, write_trigger, table, column, "INSERT");
    print_trigger(out, write_trigger, table, column, "UPDATE");
    print_trigger(out, delete_trigger, table, column, "DELETE");
    return 0;
}
