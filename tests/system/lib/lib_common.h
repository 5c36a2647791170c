/* Shared by the tests of the library: a database per test, child processes, and a shared page of
 * memory. Tests use only the public header. */
#ifndef BW_TESTS_SYSTEM_LIB_LIB_COMMON_H
#define BW_TESTS_SYSTEM_LIB_LIB_COMMON_H

#include "system/kit/scratch.h"
#include "unit/unit.h"

#include <bellwether.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define HANG_MS 60000 /* only detects a hang; no assertion depends on it */

struct page {
    atomic_int inside, most_inside; /* processes that lead now, by their own report */
    atomic_int turns[8];            /* leaderships of each process */
    atomic_int phase;               /* progress of the child */
    atomic_int wrong;
    atomic_llong at_ns; /* time of the last step */
    atomic_llong value;
};

static char dir[SCRATCH_MAX], path[SCRATCH_MAX + 32];
static struct page *page;

static inline int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void pause_ms(long ms)
{
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&span, &span) != 0 && errno == EINTR)
        ;
}

static inline int set_up(void **state)
{
    (void)state;
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/elections.db", dir);
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? -1 : 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    munmap(page, sizeof *page);
    scratch_remove(dir);
    return 0;
}

/* Starts a child process that runs `part` and exits with its result. */
static inline pid_t spawn(int (*part)(int number), int number)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(part(number));
    return pid;
}

static inline int status_of(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static inline void ends_well(pid_t pid)
{
    int status = status_of(pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static inline void is_killed_by(pid_t pid, int signal)
{
    int status = status_of(pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal);
}

static inline bool reaches(int phase)
{
    for (long waited = 0; waited < HANG_MS; waited++) {
        if (atomic_load(&page->phase) >= phase)
            return true;
        pause_ms(1);
    }
    return false;
}

static inline struct bw_handle *open_as(const char *id, int64_t ttl_ms)
{
    struct bw_options options = bw_options_default();
    struct bw_handle *h;
    options.id = id;
    options.ttl_ms = ttl_ms;
    options.margin_ms = ttl_ms / 6; /* for busy machines */
    if (bw_open(path, &options, &h) != 0) {
        fprintf(stderr, "# %s\n", bw_why());
        return NULL;
    }
    return h;
}

/* Locks the database: no process can write to it, so the store is unavailable. */
static inline sqlite3 *lock_database(void)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 2000);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static inline void unlock_database(sqlite3 *db)
{
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* Waits until the candidate is registered for its election. */
static inline bool is_listed(const char *id)
{
    sqlite3 *db;
    sqlite3_stmt *stmt = NULL;
    bool found = false;
    if (sqlite3_open(path, &db) != SQLITE_OK)
        return false;
    sqlite3_busy_timeout(db, HANG_MS);
    for (long waited = 0; waited < HANG_MS && !found; waited++) {
        if (sqlite3_prepare_v2(db, "SELECT 1 FROM candidate WHERE id=?", -1, &stmt, NULL) ==
                SQLITE_OK &&
            sqlite3_bind_text(stmt, 1, id, -1, SQLITE_STATIC) == SQLITE_OK)
            found = sqlite3_step(stmt) == SQLITE_ROW;
        sqlite3_finalize(stmt);
        stmt = NULL;
        if (!found)
            pause_ms(1);
    }
    sqlite3_close(db);
    return found;
}

#define in_scratch(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
