/* Opening the embedded store: what it finds, creates, and rejects with a clear message. */
#include "store/sqlite/sqlite.h"
#include "system/kit/scratch.h"
#include "system/kit/shim.h"
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <uv.h>

static char dir[SCRATCH_MAX], path[SCRATCH_MAX + 32], why[BW_WHY_MAX + 1];

static int set_up(void **state)
{
    (void)state;
    shim_reset();
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/elections.db", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(dir);
    return 0;
}

static void ignore(void *context, const struct bw_store_reply *reply)
{
    (void)context;
    (void)reply;
}

/* Opens and closes the store. Returns the error, with its line in `why`. */
static int try_open(const char *url)
{
    uv_loop_t loop;
    struct bw_store *store;
    struct bw_store_options options = {.reply = ignore};
    why[0] = '\0';
    const struct bw_store_ops *ops = bw_store_find(url, why);
    if (!ops)
        return BW_EINVAL;
    assert_int_equal(uv_loop_init(&loop), 0);
    int error = ops->open(&store, url, &loop, &options, why);
    if (error == 0)
        ops->close(store);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    if (error)
        assert_true(why[0] != '\0');
    return error;
}

static void expect_message(const char *part)
{
    if (!strstr(why, part))
        fail_msg("'%s' does not say '%s'", why, part);
}

static void put(const char *file, const void *bytes, size_t size)
{
    FILE *out = fopen(file, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

static size_t get(const char *file, void *bytes, size_t size)
{
    FILE *in = fopen(file, "rb");
    assert_non_null(in);
    size_t got = fread(bytes, 1, size, in);
    fclose(in);
    return got;
}

static void sql(const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void a_path_with_or_without_scheme_is_the_same_store(void **state)
{
    (void)state;
    char url[SCRATCH_MAX + 64];
    assert_int_equal(try_open(path), 0);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(url, sizeof url, "sqlite:%s", path);
    assert_int_equal(try_open(url), 0);
    snprintf(url, sizeof url, "sqlite://%s", path);
    assert_int_equal(try_open(url), 0);
}

static void unknown_scheme_message_lists_known_schemes(void **state)
{
    (void)state;
    assert_null(bw_store_find("zookeper://h/p", why));
    expect_message("zookeper");
    expect_message("sqlite:");
    assert_null(bw_store_find("sqlit:/tmp/x", why));
    expect_message("did you mean 'sqlite:'");
    assert_null(bw_store_find("", why));
    assert_int_equal(try_open("sqlite:"), BW_EINVAL);
    assert_ptr_equal(bw_store_find("./odd:name.db", why), &bw_store_sqlite);
}

/* "x.db?ttl=3" would be another database, so that two candidates lead. */
static void setting_in_a_sqlite_url_is_refused(void **state)
{
    (void)state;
    assert_null(bw_store_find("sqlite:/tmp/x.db?ttl=3", why));
    expect_message("unknown setting 'ttl'");
    assert_null(bw_store_find("sqlite:x?", why));
    expect_message("unknown setting ''");
    assert_ptr_equal(bw_store_find("/tmp/really?.db", why), &bw_store_sqlite);
}

static void bare_word_as_store_url_creates_no_file(void **state)
{
    (void)state;
    assert_null(bw_store_find("db1", why));
    expect_message("sqlite:PATH");
    assert_null(bw_store_find("etcd:e1", why));
    expect_message("etcd://HOST");
}

static void a_missing_directory_is_named(void **state)
{
    (void)state;
    char url[SCRATCH_MAX + 64];
    snprintf(url, sizeof url, "%s/nowhere/elections.db", dir);
    assert_int_equal(try_open(url), BW_EINVAL);
    expect_message("directory does not exist");
    assert_int_equal(try_open(dir), BW_EINVAL);
    expect_message("is not a regular file");
}

static void file_that_is_not_a_database_is_rejected_unchanged(void **state)
{
    (void)state;
    char bytes[5000], after[6000];
    memset(bytes, 'r', sizeof bytes);
    put(path, bytes, sizeof bytes);
    assert_int_equal(try_open(path), BW_EDAMAGED);
    expect_message("not a database");
    assert_int_equal(get(path, after, sizeof after), sizeof bytes);
    assert_memory_equal(bytes, after, sizeof bytes);
}

static void damaged_database_is_rejected_unchanged(void **state)
{
    (void)state;
    static char before[1 << 20], after[1 << 20];
    assert_int_equal(try_open(path), 0);
    sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)"
        " INSERT INTO candidate SELECT 'e', 'c' || i, i, '', 0, '', 0 FROM n");
    sql("PRAGMA wal_checkpoint(TRUNCATE)");
    size_t size = get(path, before, sizeof before);
    assert_true(size > 4 * 4096);
    memset(before + 2 * 4096, 0xa5, size - 2 * 4096);
    put(path, before, size);
    assert_int_equal(try_open(path), BW_EDAMAGED);
    expect_message("damaged");
    assert_int_equal(get(path, after, sizeof after), size);
    assert_memory_equal(before, after, size);
}

static void database_of_another_program_is_rejected_unchanged(void **state)
{
    (void)state;
    sql("CREATE TABLE precious(x); INSERT INTO precious VALUES(1)");
    assert_int_equal(try_open(path), BW_EDAMAGED);
    expect_message("another program");
    sql("INSERT INTO precious VALUES(2)");
}

static void a_newer_schema_is_refused(void **state)
{
    (void)state;
    assert_int_equal(try_open(path), 0);
    sql("PRAGMA user_version=3");
    assert_int_equal(try_open(path), BW_EVERSION);
    expect_message("schema version 3");
}

static int64_t number(const char *query)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, query, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return value;
}

static void schema_1_database_is_upgraded_with_its_data(void **state)
{
    (void)state;
    assert_int_equal(try_open(path), 0);
    sql("ALTER TABLE election DROP COLUMN until_wall_ns;"
        "ALTER TABLE election DROP COLUMN until_token; PRAGMA user_version=1;"
        "INSERT INTO election VALUES(1, 'nightly', 7, 0, 1, 'ada', 5, 41, 64, '', 0, 0, '', '', 0,"
        " 0, 0, '', '', '', 0, 0, '', '')");
    assert_int_equal(try_open(path), 0);
    assert_int_equal(number("PRAGMA user_version"), 2);
    assert_int_equal(number("SELECT token FROM election WHERE until_wall_ns = 0"), 41);
    assert_int_equal(try_open(path), 0);
}

static void a_network_file_system_is_refused(void **state)
{
    (void)state;
    atomic_store(&shim.fs_type, 0x6969u);
    assert_int_equal(try_open(path), BW_EUNSUPPORTED);
    expect_message("network file system (NFS)");
    atomic_store(&shim.fs_type, 0xff534d42u);
    assert_int_equal(try_open(path), BW_EUNSUPPORTED);
    expect_message("CIFS");
    atomic_store(&shim.fs_type, 0x65735546u);
    assert_int_equal(try_open(path), BW_EUNSUPPORTED);
    expect_message("FUSE");
    atomic_store(&shim.fs_type, 0xef53u); /* ext4 */
    assert_int_equal(try_open(path), 0);
}

static void a_second_hard_link_is_refused(void **state)
{
    (void)state;
    char other[SCRATCH_MAX + 64];
    assert_int_equal(try_open(path), 0);
    snprintf(other, sizeof other, "%s/other.db", dir);
    assert_int_equal(link(path, other), 0);
    assert_int_equal(try_open(path), BW_EUNSUPPORTED);
    expect_message("hard links");
}

static void symbolic_link_uses_same_side_files(void **state)
{
    (void)state;
    char other[SCRATCH_MAX + 64];
    snprintf(other, sizeof other, "%s/other.db", dir);
    assert_int_equal(symlink(path, other), 0);
    assert_int_equal(try_open(path), 0);
    assert_int_equal(try_open(other), 0);
    strcat(other, ".locks");
    assert_int_not_equal(access(other, F_OK), 0);
}

/* Runs in a child process, which may change its user and its mounts. */
static void in_child(int (*part)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(part());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int open_as_nobody(void)
{
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 77;
    int error = try_open(path);
    return error == BW_EDENIED && strstr(why, path) ? 0 : 1;
}

static void unwritable_database_is_rejected(void **state)
{
    (void)state;
    assert_int_equal(try_open(path), 0);
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(chmod(path, 0444), 0);
    if (geteuid() == 0)
        in_child(open_as_nobody);
    else
        assert_int_equal(try_open(path), BW_EDENIED);
}

static void a_directory_without_permission_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(try_open(path), 0);
    in_child(open_as_nobody); /* the directory has mode 0700 and belongs to another user */
}

static int open_on_read_only_mount(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(dir, dir, NULL, MS_BIND, NULL) != 0 ||
        mount(NULL, dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) != 0)
        return 77;
    return try_open(path) == BW_EDENIED && strstr(why, "Read-only") ? 0 : 1;
}

static void a_read_only_file_system_is_refused(void **state)
{
    (void)state;
    assert_int_equal(try_open(path), 0);
    in_child(open_on_read_only_mount);
}

static int open_mounted_alone(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(path, path, NULL, MS_BIND, NULL) != 0)
        return 77;
    return try_open(path) == BW_EUNSUPPORTED && strstr(why, "mounted as a single file") ? 0 : 1;
}

static void database_mounted_as_single_file_is_rejected(void **state)
{
    (void)state;
    assert_int_equal(try_open(path), 0);
    in_child(open_mounted_alone);
}

static unsigned mode_of(const char *file)
{
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    return st.st_mode & 0777;
}

static void files_are_group_accessible_within_the_umask(void **state)
{
    (void)state;
    char side[SCRATCH_MAX + 64];
    mode_t before = umask(007);
    assert_int_equal(try_open(path), 0);
    assert_int_equal(mode_of(path), 0660);
    snprintf(side, sizeof side, "%s.locks", path);
    assert_int_equal(mode_of(side), 0770);
    snprintf(side, sizeof side, "%s.locks/@bell", path);
    assert_int_equal(mode_of(side), 0660);
    umask(077);
    snprintf(path, sizeof path, "%s/private.db", dir);
    assert_int_equal(try_open(path), 0);
    assert_int_equal(mode_of(path), 0600);
    snprintf(side, sizeof side, "%s.locks", path);
    assert_int_equal(mode_of(side), 0700);
    umask(before);
}

#define in_scratch(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(a_path_with_or_without_scheme_is_the_same_store),
        in_scratch(unknown_scheme_message_lists_known_schemes),
        in_scratch(setting_in_a_sqlite_url_is_refused),
        in_scratch(bare_word_as_store_url_creates_no_file),
        in_scratch(a_missing_directory_is_named),
        in_scratch(file_that_is_not_a_database_is_rejected_unchanged),
        in_scratch(damaged_database_is_rejected_unchanged),
        in_scratch(database_of_another_program_is_rejected_unchanged),
        in_scratch(a_newer_schema_is_refused),
        in_scratch(schema_1_database_is_upgraded_with_its_data),
        in_scratch(a_network_file_system_is_refused),
        in_scratch(a_second_hard_link_is_refused),
        in_scratch(symbolic_link_uses_same_side_files),
        in_scratch(unwritable_database_is_rejected),
        in_scratch(a_directory_without_permission_is_refused),
        in_scratch(a_read_only_file_system_is_refused),
        in_scratch(database_mounted_as_single_file_is_rejected),
        in_scratch(files_are_group_accessible_within_the_umask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
