/* The guard inside a user's own database: by function call and by trigger, with two real
 * connections. */
#include "fence/guard_sqlite.h"
#include "system/kit/scratch.h"
#include "unit/unit.h"

#include <sqlite3.h>

static char dir[SCRATCH_MAX], why[BW_GUARD_WHY_MAX + 1];
static sqlite3 *db, *other;

static int run(sqlite3 *on, const char *sql)
{
    return sqlite3_exec(on, sql, NULL, NULL, NULL);
}

static sqlite3 *connect_to(const char *name)
{
    char path[SCRATCH_MAX + 16];
    sqlite3 *made;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(sqlite3_open(path, &made), SQLITE_OK);
    return made;
}

static int setup(void **state)
{
    (void)state;
    scratch_make(dir);
    db = connect_to("app.db");
    other = connect_to("app.db");
    assert_int_equal(bw_guard_sqlite_create(db, why), 0);
    assert_int_equal(bw_guard_sqlite_create(db, why), 0); /* may be repeated */
    assert_int_equal(run(db, "CREATE TABLE ledger (id INTEGER PRIMARY KEY, what TEXT)"), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sqlite3_close(db);
    sqlite3_close(other);
    scratch_remove(dir);
    return 0;
}

static int64_t number(const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    int64_t value = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
    sqlite3_finalize(statement);
    return value;
}

static int guarded_write(sqlite3 *on, bw_token token)
{
    assert_int_equal(run(on, "BEGIN"), 0);
    int error = bw_guard_sqlite(on, "ledger", token, NULL, why);
    if (error == 0)
        assert_int_equal(run(on, "INSERT INTO ledger (what) VALUES ('x')"), 0);
    assert_int_equal(run(on, error ? "ROLLBACK" : "COMMIT"), 0);
    return error;
}

/* A paused leader: it stops, another one leads and writes, then the first one wakes up and
 * writes. */
static void write_of_a_paused_leader_is_rejected(void **state)
{
    struct bw_guard_verdict verdict;
    (void)state;
    assert_int_equal(guarded_write(db, 41), 0);
    assert_int_equal(guarded_write(other, 42), 0);
    assert_int_equal(guarded_write(other, 42), 0);
    assert_int_equal(guarded_write(db, 41), BW_ESTALE);
    assert_non_null(strstr(why, "token 41 is older than 42"));
    assert_int_equal(number("SELECT count(*) FROM ledger"), 3);
    assert_int_equal(run(db, "BEGIN"), 0);
    assert_int_equal(bw_guard_sqlite(db, "ledger", 40, &verdict, why), BW_ESTALE);
    assert_int_equal(verdict.highest, 42);
    assert_int_equal(bw_guard_sqlite(db, "elsewhere", 1, NULL, why),
                     0); /* another resource has its own tokens */
    assert_int_equal(run(db, "ROLLBACK"), 0);
}

static void rolled_back_write_leaves_the_register_unchanged(void **state)
{
    (void)state;
    assert_int_equal(guarded_write(db, 41), 0);
    assert_int_equal(run(db, "BEGIN"), 0);
    assert_int_equal(bw_guard_sqlite(db, "ledger", 50, NULL, why), 0);
    assert_int_equal(run(db, "ROLLBACK"), 0);
    assert_int_equal(guarded_write(db, 41), 0);
}

/* No other connection can raise the row between the check and the commit. */
static void check_locks_out_other_writers_until_the_commit(void **state)
{
    (void)state;
    assert_int_equal(guarded_write(db, 41), 0);
    assert_int_equal(run(db, "BEGIN"), 0);
    assert_int_equal(bw_guard_sqlite(db, "ledger", 41, NULL, why), 0);
    assert_int_equal(run(other, "BEGIN"), 0);
    assert_int_equal(bw_guard_sqlite(other, "ledger", 42, NULL, why), BW_EBUSY);
    assert_int_equal(run(other, "ROLLBACK"), 0);
    assert_int_equal(run(db, "COMMIT"), 0);
    assert_int_equal(guarded_write(other, 42), 0);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    /* no transaction is open */
    assert_int_equal(bw_guard_sqlite(db, "ledger", 5, NULL, why), BW_EINVAL);
    assert_int_equal(guarded_write(db, 0), BW_ENOTOKEN);
    assert_int_equal(guarded_write(db, UINT64_C(1) << 63), BW_ELIMIT);
    assert_int_equal(guarded_write(db, 5), 0);
    assert_int_not_equal(run(db, "DELETE FROM bellwether_guard"), 0);
    assert_int_not_equal(run(db, "UPDATE bellwether_guard SET token = 4"), 0);
    assert_int_not_equal(run(db, "UPDATE bellwether_guard SET resource = 'x', token = 9"), 0);
    assert_int_equal(number("SELECT token FROM bellwether_guard"), 5);
}

/* ---- triggers ---- */

static void install(const char *table, const char *column)
{
    char sql[16384] = "";
    FILE *out = fmemopen(sql, sizeof sql, "w");
    assert_int_equal(bw_guard_sqlite_print(out, table, column), 0);
    fclose(out);
    for (int i = 0; i < 2; i++) /* may be repeated */
        if (run(db, sql) != 0)
            fail_msg("%s\n%s", sqlite3_errmsg(db), sql);
}

static void refused(const char *sql, const char *code)
{
    assert_int_not_equal(run(db, sql), 0);
    if (!strstr(sqlite3_errmsg(db), code))
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static void triggers_guard_writers_in_any_language(void **state)
{
    (void)state;
    run(db, "CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT, bw_token INTEGER)");
    install("orders", "bw_token");
    assert_int_equal(run(db, "INSERT INTO orders VALUES (1, 'a', 41)"), 0);
    assert_int_equal(run(db, "INSERT INTO orders VALUES (2, 'b', 42)"), 0);
    refused("INSERT INTO orders VALUES (3, 'c', 41)", "ESTALE");
    refused("INSERT OR IGNORE INTO orders VALUES (3, 'c', 41)", "ESTALE");
    refused("INSERT OR REPLACE INTO orders VALUES (2, 'c', 41)", "ESTALE");
    refused("UPDATE orders SET what = 'c', bw_token = 41", "ESTALE");
    refused("UPDATE orders SET what = 'c' WHERE id = 1", "ESTALE");
    refused("INSERT INTO orders (id, what) VALUES (3, 'c')", "ENOTOKEN");
    refused("INSERT INTO orders VALUES (3, 'c', 'many')", "ENOTOKEN");
    refused("INSERT INTO orders VALUES (3, 'c', 0)", "ENOTOKEN");
    refused("DELETE FROM orders WHERE id = 1", "ESTALE");
    assert_int_equal(run(db, "UPDATE orders SET bw_token = 43 WHERE id = 1"), 0);
    assert_int_equal(run(db, "DELETE FROM orders WHERE id = 1"), 0);
    refused("DELETE FROM orders WHERE id = 2", "ESTALE"); /* token 42 is stale by now */
    assert_int_equal(run(db, "INSERT OR REPLACE INTO orders VALUES (2, 'd', 44)"), 0);
    assert_int_equal(number("SELECT token FROM bellwether_guard WHERE resource = 'orders'"), 44);
}

static void calls_and_triggers_share_the_row(void **state)
{
    (void)state;
    run(db, "CREATE TABLE \"odd 'name\"\"\" (\"a \"\"token\" INTEGER)");
    install("odd 'name\"", "a \"token");
    assert_int_equal(run(db, "BEGIN"), 0);
    assert_int_equal(bw_guard_sqlite(db, "odd 'name\"", 42, NULL, why), 0);
    assert_int_equal(run(db, "COMMIT"), 0);
    refused("INSERT INTO \"odd 'name\"\"\" VALUES (41)", "ESTALE");
    assert_int_equal(run(db, "INSERT INTO \"odd 'name\"\"\" VALUES (42)"), 0);
}

static void invalid_names_are_rejected(void **state)
{
    char long_name[300];
    (void)state;
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(bw_guard_sqlite_print(stderr, "", "token"), BW_EINVAL);
    assert_int_equal(bw_guard_sqlite_print(stderr, "orders", ""), BW_EINVAL);
    assert_int_equal(bw_guard_sqlite_print(stderr, "a\nDROP TABLE b;", "token"), BW_EINVAL);
    assert_int_equal(bw_guard_sqlite_print(stderr, long_name, "token"), BW_EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(write_of_a_paused_leader_is_rejected),
        TEST(rolled_back_write_leaves_the_register_unchanged),
        TEST(check_locks_out_other_writers_until_the_commit),
        TEST(misuse_is_refused),
        TEST(triggers_guard_writers_in_any_language),
        TEST(calls_and_triggers_share_the_row),
        TEST(invalid_names_are_rejected),
    };
    return cmocka_run_group_tests_name("fence sqlite", tests, NULL, NULL);
}
