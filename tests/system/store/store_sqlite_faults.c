/* The embedded store while its disk, files, clock or neighbour processes fail. */
#include "conformance/client.h"
#include "store/sqlite/sqlite.h"
#include "system/kit/scratch.h"
#include "system/kit/shim.h"
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define E       "nightly"
#define HANG_MS 60000u /* no result depends on it */

static char dir[SCRATCH_MAX], path[SCRATCH_MAX + 32];
static struct client a, b;

static int set_up(void **state)
{
    (void)state;
    shim_reset();
    atomic_store(&shim.error, 0);
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/elections.db", dir);
    client_open(&a, path, "ada");
    client_open(&b, path, "ben");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    shim_reset();
    client_close(&a);
    client_close(&b);
    scratch_remove(dir);
    return 0;
}

/* Changes the database behind the store's back. */
static void sql(const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void leadership_survives_full_disk(void **state)
{
    (void)state;
    struct bw_store_reply held = client_acquire(&a, E, 0);
    atomic_store(&shim.error, ENOSPC);
    atomic_store(&shim.fail_from, 1);
    struct bw_store_reply renewed = client_renew(&a, E, held.record.token);
    assert_int_equal(renewed.outcome, BW_OUTCOME_UNAVAILABLE);
    assert_non_null(strstr(renewed.why, "full"));
    assert_int_equal(client_acquire(&b, "other", 0).outcome, BW_OUTCOME_UNAVAILABLE);
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, E); /* reading still works */
    assert_int_equal(seen.outcome, BW_OUTCOME_DONE);
    assert_int_equal(seen.record.version, held.record.version);
    shim_reset();
    atomic_store(&shim.error, 0);
    assert_int_equal(client_renew(&a, E, held.record.token).outcome, BW_OUTCOME_DONE);
    assert_int_equal(client_acquire(&b, "other", 0).outcome, BW_OUTCOME_DONE);
}

/* The database was restored from a copy without tokens. The lock file has one, but cannot be read.
 * An election at that moment would give the same token again. */
static void tokens_never_fall_when_the_lock_file_cannot_be_read(void **state)
{
    (void)state;
    bw_token token = client_acquire(&a, E, 0).record.token;
    assert_int_equal(client_release(&a, E, token, true).outcome, BW_OUTCOME_DONE);
    sql("DELETE FROM election");
    atomic_store(&shim.blind, true);
    struct bw_store_reply refused = client_acquire(&b, E, 0);
    assert_int_equal(refused.outcome, BW_OUTCOME_UNAVAILABLE);
    assert_int_equal(refused.error, BW_ELIMIT);
    assert_non_null(strstr(refused.why, strerror(EMFILE)));
    atomic_store(&shim.blind, false);
    struct bw_store_reply taken = client_acquire(&b, E, 0);
    assert_int_equal(taken.outcome, BW_OUTCOME_DONE);
    assert_true(taken.record.token > token);
}

static void acquire_is_unknown_when_sync_fails(void **state)
{
    (void)state;
    atomic_store(&shim.sync_error, EIO);
    struct bw_store_reply reply = client_acquire(&a, E, 0);
    assert_int_equal(reply.outcome, BW_OUTCOME_UNKNOWN);
    assert_true(reply.why[0] != '\0');
    shim_reset();
    /* A read shows whether the ACQUIRE took effect; either way the next token is higher. */
    struct bw_store_reply seen = client_do(&a, BW_STORE_READ, E);
    assert_int_equal(seen.outcome, BW_OUTCOME_DONE);
    struct bw_store_reply next = client_acquire(&b, E, seen.record.held ? seen.record.version : 0);
    assert_int_equal(next.outcome, BW_OUTCOME_DONE);
    assert_true(next.record.token > seen.record.token);
}

static unsigned failures;

static bool worked(struct bw_store_reply reply)
{
    assert_int_not_equal(reply.outcome, BW_OUTCOME_REFUSED);
    failures += reply.outcome != BW_OUTCOME_DONE;
    return reply.outcome == BW_OUTCOME_DONE;
}

/* One leadership from ACQUIRE to RELEASE. Every answer must be true once the disk works
 * again. */
static bw_token lead_once(bw_token floor)
{
    bw_token token = 0;
    struct bw_store_reply seen = client_do(&a, BW_STORE_READ, E);
    uint64_t steal = worked(seen) && seen.record.held ? seen.record.version : 0;
    struct bw_store_reply held = client_acquire(&a, E, steal);
    if (worked(held)) {
        token = held.record.token;
        assert_true(token > floor);
        worked(client_renew(&a, E, token));
        worked(client_note(&b, E, BW_NOTE_RESIGN, ""));
    }
    atomic_store(&shim.error, 0);
    seen = client_do(&b, BW_STORE_READ, E);
    assert_int_equal(seen.outcome, BW_OUTCOME_DONE);
    assert_true(seen.record.token >= floor);
    if (token) {
        assert_true(seen.record.held);
        assert_int_equal(seen.record.token, token);
        assert_int_equal(client_release(&a, E, token, true).outcome, BW_OUTCOME_DONE);
    }
    return seen.record.token;
}

static void no_answered_change_is_lost_when_any_write_fails(void **state)
{
    (void)state;
    const int errors[] = {EIO, ENOSPC};
    bw_token floor = 0;
    for (size_t kind = 0; kind < 2; kind++)
        for (int n = 1; n <= 25; n++) {
            sql("UPDATE election SET reserved_boot = ''"); /* so that every acquisition syncs */
            atomic_store(&shim.calls, 0);
            atomic_store(&shim.fail_at, n);
            atomic_store(&shim.error, errors[kind]);
            floor = lead_once(floor);
            atomic_store(&shim.error, 0);
        }
    assert_true(floor >= 40);
    assert_true(failures >= 10);
    sqlite3 *db;
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(stmt, 0), "ok");
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

static int ticks;

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
    ticks++;
}

static void slow_disk_does_not_block_the_loop(void **state)
{
    (void)state;
    uv_timer_t timer;
    uv_timer_init(&a.loop, &timer);
    uv_timer_start(&timer, on_tick, 5, 5);
    ticks = 0;
    atomic_store(&shim.sync_delay_ms, 400);
    assert_int_equal(client_acquire(&a, E, 0).outcome, BW_OUTCOME_DONE);
    assert_true(ticks >= 40);
    uv_close((uv_handle_t *)&timer, NULL);
}

static void requests_are_unavailable_while_database_is_locked(void **state)
{
    (void)state;
    sqlite3 *db;
    struct bw_store_reply held = client_acquire(&a, E, 0);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    struct bw_store_reply renewed = client_renew(&a, E, held.record.token);
    assert_int_equal(renewed.outcome, BW_OUTCOME_UNAVAILABLE);
    assert_int_equal(renewed.error, BW_EBUSY);
    assert_non_null(strstr(renewed.why, "locked by another process"));
    assert_int_equal(client_do(&b, BW_STORE_READ, E).outcome, BW_OUTCOME_DONE);
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_int_equal(client_renew(&a, E, held.record.token).outcome, BW_OUTCOME_DONE);
}

static void removed_database_is_not_created_again(void **state)
{
    (void)state;
    char away[SCRATCH_MAX + 64], wal[SCRATCH_MAX + 64], away_wal[SCRATCH_MAX + 64];
    struct bw_store_reply held = client_acquire(&a, E, 0);
    snprintf(away, sizeof away, "%s/away", dir);
    snprintf(wal, sizeof wal, "%s-wal", path);
    snprintf(away_wal, sizeof away_wal, "%s/away-wal", dir);
    assert_int_equal(rename(path, away), 0);
    assert_int_equal(rename(wal, away_wal), 0);
    struct bw_store_reply renewed = client_renew(&a, E, held.record.token);
    assert_int_equal(renewed.outcome, BW_OUTCOME_UNAVAILABLE);
    assert_non_null(strstr(renewed.why, "cannot find the database"));
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(rename(away_wal, wal), 0);
    assert_int_equal(rename(away, path), 0);
    struct bw_store_reply back = client_renew(&a, E, held.record.token);
    assert_int_equal(back.outcome, BW_OUTCOME_DONE);
    assert_int_equal(back.record.token, held.record.token);
}

static void remove_database(void)
{
    char file[SCRATCH_MAX + 64];
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file, "%s%s", path, ends[i]);
        remove(file);
    }
}

/* A candidate that watched a record of the old database must not mistake a record of the new one
 * for it. */
static void recreated_database_does_not_repeat_versions(void **state)
{
    (void)state;
    uint64_t before[8];
    struct bw_store_reply held = client_acquire(&a, E, 0);
    before[0] = held.record.version;
    for (int i = 1; i < 7; i++)
        before[i] = client_renew(&a, E, held.record.token).record.version;
    before[7] = client_release(&a, E, held.record.token, true).record.version;
    remove_database();
    struct client c;
    client_open(&c, path, "cleo");
    held = client_acquire(&c, E, 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(held.outcome, BW_OUTCOME_DONE);
        for (int k = 0; k < 8; k++)
            assert_int_not_equal(held.record.version, before[k]);
        held = client_renew(&c, E, held.record.token);
    }
    client_release(&c, E, held.record.token, true);
    client_close(&c);
}

static void remove_locks(void)
{
    char locks[SCRATCH_MAX + 64];
    snprintf(locks, sizeof locks, "%s.locks", path);
    scratch_remove(locks);
}

/* A new candidate has created the database again. It leads once the old leader's work is dead, not
 * once that leader has noticed, and with a higher token. */
static void newcomer_waits_for(struct client *leader, bw_token token)
{
    struct client c;
    client_open(&c, path, "cleo");
    struct bw_store_reply new = client_acquire(&c, E, 0);
    assert_int_equal(new.outcome, BW_OUTCOME_UNAVAILABLE);
    assert_non_null(strstr(new.why, "while a leader runs"));
    assert_int_equal(client_renew(leader, E, token).outcome, BW_OUTCOME_REFUSED);
    assert_int_equal(client_acquire(&c, E, 0).outcome, BW_OUTCOME_UNAVAILABLE);
    assert_int_equal(client_acquire(&c, "another", 0).outcome, BW_OUTCOME_UNAVAILABLE);
    client_release(leader, E, token, true);
    assert_int_equal(client_acquire(&c, "another", 0).outcome, BW_OUTCOME_DONE);
    new = client_acquire(&c, E, 0);
    assert_int_equal(new.outcome, BW_OUTCOME_DONE);
    assert_true(new.record.token > token);
    client_close(&c);
}

static void replaced_database_is_used_when_old_holder_has_stopped(void **state)
{
    (void)state;
    struct bw_store_reply held = client_acquire(&a, E, 0);
    remove_database();
    newcomer_waits_for(&a, held.record.token);
}

static void database_replaced_with_its_locks_is_used_when_old_holder_has_stopped(void **state)
{
    (void)state;
    struct bw_store_reply held = client_acquire(&a, E, 0);
    remove_database();
    remove_locks();
    newcomer_waits_for(&a, held.record.token);
}

static void database_replaced_with_its_directory_is_used_when_old_holder_has_stopped(void **state)
{
    (void)state;
    struct bw_store_reply held = client_acquire(&a, E, 0);
    scratch_remove(dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    newcomer_waits_for(&a, held.record.token);
}

/* The leader cannot record in a removed database that its work is dead. */
static void new_database_is_usable_when_old_leader_stopped_without_database(void **state)
{
    (void)state;
    struct bw_store_reply held = client_acquire(&a, E, 0);
    remove_database();
    remove_locks();
    assert_int_equal(client_release(&a, E, held.record.token, true).outcome,
                     BW_OUTCOME_UNAVAILABLE);
    struct client c;
    client_open(&c, path, "cleo");
    assert_int_equal(client_acquire(&c, E, 0).outcome, BW_OUTCOME_DONE);
    client_close(&c);
}

static void other_boot_proves_no_death_and_tokens_grow(void **state)
{
    (void)state;
    struct bw_store_reply held = client_acquire(&a, E, 0);
    assert_true(held.record.left_ns > 0 && held.record.left_ns <= held.record.ttl_ns);
    sql("UPDATE election SET boot = 'another', reserved_boot = 'another'");
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, E);
    assert_true(seen.record.held);
    assert_false(seen.record.proved_dead);
    assert_int_equal(seen.record.left_ns, BW_TIME_NEVER);
    struct bw_store_reply taken = client_acquire(&b, E, seen.record.version);
    assert_true(taken.record.token >= held.record.token + 64); /* above all reserved tokens */
}

static void another_namespace_proves_nothing(void **state)
{
    (void)state;
    client_acquire(&a, E, 0);
    close(bw_store_sqlite_lock_fd(a.store, E)); /* the lock is free, as after a death */
    assert_true(client_do(&b, BW_STORE_READ, E).record.proved_dead);
    sql("UPDATE election SET spaces = 'pid:[1] time:[2] cgroup:[3]'");
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, E);
    assert_false(seen.record.proved_dead);
    assert_int_equal(seen.record.left_ns, BW_TIME_NEVER);
    /* use the closed descriptor number again */
    assert_int_equal(open("/dev/null", O_RDWR) >= 0, 1);
}

static void a_wiped_lock_directory_proves_nothing(void **state)
{
    (void)state;
    char file[SCRATCH_MAX + 64];
    struct bw_store_reply held = client_acquire(&a, E, 0);
    snprintf(file, sizeof file, "%s.locks/e-" E, path);
    assert_int_equal(unlink(file), 0);
    assert_false(client_do(&b, BW_STORE_READ, E).record.proved_dead);
    int fd = open(file, O_RDWR | O_CREAT, 0660); /* a new file of that name proves nothing either */
    assert_false(client_do(&b, BW_STORE_READ, E).record.proved_dead);
    close(fd);
    assert_int_equal(client_renew(&a, E, held.record.token).outcome, BW_OUTCOME_DONE);
}

static void release_is_found_by_polling_without_file_events(void **state)
{
    (void)state;
    struct client c;
    struct bw_store_reply reply;
    atomic_store(&shim.deaf, true);
    client_open(&c, path, "cleo");
    struct bw_store_request request = client_request(&a, BW_STORE_ACQUIRE, E);
    request.ttl_ns = 600 * BW_MS;
    struct bw_store_reply held = client_ask(&a, &request);
    uint64_t watch = client_watch(&c, E, held.record.version);
    client_idle(&c, 50);
    client_release(&a, E, held.record.token, true);
    assert_true(client_wait(&c, watch, HANG_MS, &reply)); /* no other process reports the change */
    assert_false(reply.record.held);
    client_close(&c);
}

/* The watch reads the row; then, before it tests the lock, the holder releases. */
static void release_between_row_and_lock_test_is_not_a_death(void **state)
{
    (void)state;
    struct bw_store_reply reply, held = client_acquire(&a, E, 0);
    atomic_store(&shim.holds_looks, true);
    uint64_t watch = client_watch(&b, E, held.record.version);
    for (unsigned ms = 0; ms < HANG_MS && atomic_load(&shim.looks_held) == 0; ms++)
        client_idle(&b, 1);
    assert_true(atomic_load(&shim.looks_held) > 0);
    assert_int_equal(client_release(&a, E, held.record.token, true).outcome, BW_OUTCOME_DONE);
    atomic_store(&shim.holds_looks, false);
    assert_true(client_wait(&b, watch, HANG_MS, &reply));
    assert_false(reply.record.held);
    assert_false(reply.record.proved_dead);
}

static void deleted_wakeup_file_is_created_again(void **state)
{
    (void)state;
    char file[SCRATCH_MAX + 64];
    struct bw_store_reply reply;
    struct bw_store_request request = client_request(&a, BW_STORE_ACQUIRE, E);
    request.ttl_ns = 4 * HANG_MS * BW_MS; /* polling alone would be too late */
    struct bw_store_reply held = client_ask(&a, &request);
    uint64_t watch = client_watch(&b, E, held.record.version);
    client_idle(&b, 20);
    snprintf(file, sizeof file, "%s.locks/@bell", path);
    assert_int_equal(unlink(file), 0);
    client_renew(&a, E, held.record.token);
    assert_true(client_wait(&b, watch, HANG_MS, &reply));
}

static void wall_clock_jumps_change_nothing(void **state)
{
    (void)state;
    const long long jumps[] = {86400, -86400, 315360000, -315360000};
    struct bw_store_reply held = client_acquire(&a, E, 0);
    for (int i = 0; i < 4; i++) {
        atomic_store(&shim.wall_jump_s, jumps[i]);
        struct bw_store_reply seen = client_do(&b, BW_STORE_READ, E);
        assert_true(seen.record.held);
        assert_false(seen.record.proved_dead);
        assert_true(seen.record.left_ns > 0 && seen.record.left_ns <= held.record.ttl_ns);
        assert_int_equal(client_acquire(&b, E, 0).outcome, BW_OUTCOME_REFUSED);
        assert_int_equal(client_renew(&a, E, held.record.token).outcome, BW_OUTCOME_DONE);
    }
}

static void acquire_is_unavailable_when_descriptors_run_out(void **state)
{
    (void)state;
    struct rlimit before, low;
    int fds[512], count = 0;
    client_acquire(&a, "other", 0); /* all descriptors that the store itself needs are open */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = (struct rlimit){.rlim_cur = 128, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    atomic_store(&shim.fixed_limits, true);
    while (count < 512 && (fds[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;
    struct bw_store_reply reply = client_acquire(&a, E, 0);
    while (count > 0)
        close(fds[--count]);
    atomic_store(&shim.fixed_limits, false);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(reply.outcome, BW_OUTCOME_UNAVAILABLE);
    assert_int_equal(reply.error, BW_ELIMIT);
    assert_false(client_do(&b, BW_STORE_READ, E).record.held);
    assert_int_equal(client_acquire(&a, E, 0).outcome, BW_OUTCOME_DONE);
}

static void holder_is_not_proved_dead_when_store_is_closed_without_release(void **state)
{
    (void)state;
    struct client c;
    client_open(&c, path, "cleo");
    struct bw_store_reply held = client_acquire(&c, E, 0);
    client_close(&c);
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, E);
    assert_true(seen.record.held);
    assert_false(seen.record.proved_dead); /* this process, and the work in it, still run */
    assert_int_equal(seen.record.token, held.record.token);
}

#define ELECTIONS 10000u
#define AT_ONCE   2000u

static void ask_all(enum bw_store_op op, bw_token *tokens)
{
    char name[32];
    struct bw_store_reply reply;
    for (unsigned from = 0; from < ELECTIONS; from += AT_ONCE) {
        uint64_t first = a.next_id;
        for (unsigned i = from; i < from + AT_ONCE; i++) {
            snprintf(name, sizeof name, "many-%u", i);
            struct bw_store_request request = client_request(&a, op, name);
            request.token = tokens[i];
            request.clean = true;
            client_send(&a, &request);
        }
        for (unsigned i = 0; i < AT_ONCE; i++) {
            assert_true(client_wait(&a, first + i, 60000, &reply));
            assert_int_equal(reply.outcome, BW_OUTCOME_DONE);
            tokens[from + i] = reply.record.token;
        }
    }
}

static void ten_thousand_elections_are_held_by_one_process(void **state)
{
    (void)state;
    static bw_token tokens[ELECTIONS];
    ask_all(BW_STORE_ACQUIRE, tokens);
    ask_all(BW_STORE_RENEW, tokens);
    assert_true(bw_store_sqlite_lock_fd(a.store, "many-9999") >= 0);
    struct bw_store_reply seen = client_acquire(&b, "many-5000", 0);
    assert_int_equal(seen.outcome, BW_OUTCOME_REFUSED);
    assert_false(seen.record.proved_dead);
    ask_all(BW_STORE_RELEASE, tokens);
    assert_int_equal(bw_store_sqlite_lock_fd(a.store, "many-9999"), -1);
    assert_int_equal(client_acquire(&b, "many-5000", 0).outcome, BW_OUTCOME_DONE);
}

#define in_scratch(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(leadership_survives_full_disk),
        in_scratch(tokens_never_fall_when_the_lock_file_cannot_be_read),
        in_scratch(acquire_is_unknown_when_sync_fails),
        in_scratch(no_answered_change_is_lost_when_any_write_fails),
        in_scratch(slow_disk_does_not_block_the_loop),
        in_scratch(requests_are_unavailable_while_database_is_locked),
        in_scratch(removed_database_is_not_created_again),
        in_scratch(recreated_database_does_not_repeat_versions),
        in_scratch(replaced_database_is_used_when_old_holder_has_stopped),
        in_scratch(database_replaced_with_its_locks_is_used_when_old_holder_has_stopped),
        in_scratch(database_replaced_with_its_directory_is_used_when_old_holder_has_stopped),
        in_scratch(new_database_is_usable_when_old_leader_stopped_without_database),
        in_scratch(other_boot_proves_no_death_and_tokens_grow),
        in_scratch(another_namespace_proves_nothing),
        in_scratch(a_wiped_lock_directory_proves_nothing),
        in_scratch(release_is_found_by_polling_without_file_events),
        in_scratch(release_between_row_and_lock_test_is_not_a_death),
        in_scratch(deleted_wakeup_file_is_created_again),
        in_scratch(wall_clock_jumps_change_nothing),
        in_scratch(acquire_is_unavailable_when_descriptors_run_out),
        in_scratch(ten_thousand_elections_are_held_by_one_process),
        in_scratch(holder_is_not_proved_dead_when_store_is_closed_without_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
