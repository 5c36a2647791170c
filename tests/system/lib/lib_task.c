/* bw_run_while_leader: a lost leadership cancels the task, the end of the task releases the
 * leadership, and a task that does not end in time does not survive. */
#include "system/kit/stall.h"
#include "system/lib/lib_common.h"

#include <poll.h>

#define E      "nightly"
#define TTL_MS 2400 /* a sixth of it is reserved for pauses of a busy machine: see open_as */

static int64_t ms(int64_t count)
{
    return count * 1000000;
}

/* ---- tasks ---- */

static int end_by_itself(struct bw_cancel *cancel, void *arg)
{
    *(uint64_t *)arg = bw_token(bw_cancel_leadership(cancel));
    return bw_cancelled(cancel) || bw_cancel_ms(cancel) <= 0 ? 1 : 42;
}

static int wait_for_cancel(struct bw_cancel *cancel, void *arg)
{
    struct pollfd fd = {.fd = bw_cancel_fd(cancel), .events = POLLIN};
    (void)arg;
    atomic_store(&page->phase, 1);
    if (poll(&fd, 1, HANG_MS) != 1 || !bw_cancelled(cancel))
        return 1;
    atomic_store(&page->at_ns, now_ns());
    atomic_store(&page->value, bw_cancel_ms(cancel));
    return 0;
}

static int spin_for_ever(struct bw_cancel *cancel, void *arg)
{
    (void)cancel;
    (void)arg;
    atomic_store(&page->phase, 1);
    for (volatile unsigned going = 1; going;)
        ;
    return 0;
}

static int ignore_cancel(struct bw_cancel *cancel, void *arg)
{
    (void)arg;
    atomic_store(&page->phase, 1);
    while (!bw_cancelled(cancel))
        pause_ms(5);
    while (bw_cancel_ms(cancel) > 0)
        pause_ms(5);
    pause_ms(20);
    return 7;
}

/* ---- tests ---- */

static void leadership_is_released_when_the_task_ends(void **state)
{
    (void)state;
    struct bw_handle *h = open_as("ada", TTL_MS);
    struct bw_run_options options = bw_run_options_default();
    struct bw_leader_info info = bw_leader_info_default();
    uint64_t token = 0;
    int result = 0;
    options.result = &result;
    assert_int_equal(bw_run_while_leader(h, E, end_by_itself, &token, &options), 0);
    assert_int_equal(result, 42);
    assert_true(token > 0);
    assert_int_equal(bw_leader(h, E, &info), 0);
    assert_string_equal(info.id, "");
    assert_int_equal(bw_run_while_leader(h, E, NULL, NULL, NULL), BW_EINVAL);
    assert_int_equal(bw_close(h), 0);
}

/* The time now. From now on, stalls of the machine are measured. */
static int64_t watched_now(void)
{
    stall_watch();
    return now_ns();
}

/* A lease whose last renewal began before `since` ends within a TTL from then. A machine that
 * stalls delays the end of the task. */
static void assert_within_a_lease(int64_t since, int64_t ended)
{
    assert_true(ended - since < ms(TTL_MS) + stall_longest_ns());
}

static int run_until_cancelled(int number)
{
    struct bw_handle *h = open_as("ada", TTL_MS);
    struct bw_run_options options = bw_run_options_default();
    enum bw_loss reason = BW_LOSS_NONE;
    int result = -1;
    (void)number;
    options.reason = &reason;
    options.result = &result;
    int error = bw_run_while_leader(h, E, wait_for_cancel, NULL, &options);
    return error == BW_ENOTLEADER && reason == BW_LOSS_UNREACHABLE && result == 0 ? 0 : 1;
}

static void task_is_cancelled_in_time_when_renewal_fails(void **state)
{
    (void)state;
    pid_t pid = spawn(run_until_cancelled, 0);
    assert_true(reaches(1));
    pause_ms(TTL_MS + 100); /* renewed until now */
    sqlite3 *db = lock_database();
    int64_t locked = watched_now();
    pause_ms(TTL_MS);
    unlock_database(db);
    ends_well(pid);
    assert_true(atomic_load(&page->at_ns) > locked);
    assert_within_a_lease(locked, atomic_load(&page->at_ns));
    assert_true(atomic_load(&page->value) > 50); /* there was time to clean up */
}

static int run_spinning(int number)
{
    struct bw_handle *h = open_as("ada", TTL_MS);
    (void)number;
    return bw_run_while_leader(h, E, spin_for_ever, NULL, NULL);
}

static void task_that_ignores_cancel_is_aborted_before_the_lease_ends(void **state)
{
    (void)state;
    fflush(stdout);
    pid_t pid = spawn(run_spinning, 0);
    assert_true(reaches(1));
    sqlite3 *db = lock_database();
    int64_t locked = watched_now();
    is_killed_by(pid, SIGABRT);
    /* The last renewal came before the database was locked, so the lease ends within a TTL from
     * then. */
    assert_within_a_lease(locked, now_ns());
    unlock_database(db);
}

/* The library's thread is stopped, too: only the kernel timer can end the process. */
static void a_stopped_process_is_killed_before_its_lease_ends(void **state)
{
    (void)state;
    pid_t pid = spawn(run_spinning, 0);
    assert_true(reaches(1));
    pause_ms(300);
    int64_t stopped = watched_now();
    kill(pid, SIGSTOP);
    is_killed_by(pid, SIGKILL);
    assert_within_a_lease(stopped, now_ns());
}

/* SIGABRT is blocked and handled; abort() ends the process anyway. */
static void survive(int signal)
{
    (void)signal;
}

static int run_spinning_with_a_handler(int number)
{
    sigset_t set;
    signal(SIGABRT, survive);
    sigemptyset(&set);
    sigaddset(&set, SIGABRT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return run_spinning(number);
}

static void abort_works_despite_a_sigabrt_handler(void **state)
{
    (void)state;
    pid_t pid = spawn(run_spinning_with_a_handler, 0);
    assert_true(reaches(1));
    sqlite3 *db = lock_database();
    int64_t locked = watched_now();
    is_killed_by(pid, SIGABRT);
    assert_within_a_lease(locked, now_ns());
    unlock_database(db);
}

static int run_overdue(int number)
{
    struct bw_handle *h = open_as("ada", TTL_MS);
    struct bw_campaign_options campaign = bw_campaign_options_default();
    struct bw_run_options options = bw_run_options_default();
    int result = 0;
    (void)number;
    campaign.overdue = BW_OVERDUE_REPORT;
    options.campaign = &campaign;
    options.result = &result;
    int error = bw_run_while_leader(h, E, ignore_cancel, NULL, &options);
    return error == BW_EOVERDUE && result == 7 && bw_close(h) == 0 ? 0 : 1;
}

static void overdue_task_is_reported_when_abort_is_disabled(void **state)
{
    (void)state;
    pid_t pid = spawn(run_overdue, 0);
    assert_true(reaches(1));
    sqlite3 *db = lock_database();
    pause_ms(TTL_MS + 200);
    unlock_database(db);
    ends_well(pid);
}

static void *interrupt_soon(void *arg)
{
    reaches(1);
    pause_ms(20);
    bw_interrupt(arg);
    return NULL;
}

static void interrupt_cancels_the_task_and_releases_the_leadership(void **state)
{
    (void)state;
    struct bw_handle *h = open_as("ada", TTL_MS), *other = open_as("ben", TTL_MS);
    struct bw_leader_info info = bw_leader_info_default();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, h), 0);
    assert_int_equal(bw_run_while_leader(h, E, wait_for_cancel, NULL, NULL), BW_EINTERRUPTED);
    pthread_join(thread, NULL);
    assert_int_equal(bw_leader(other, E, &info), 0);
    assert_string_equal(info.id, "");
    assert_int_equal(bw_close(h), 0);
    assert_int_equal(bw_close(other), 0);
}

static int end_the_second_time(struct bw_cancel *cancel, void *arg)
{
    int *turn = arg;
    return ++*turn == 1 ? wait_for_cancel(cancel, NULL) : 5;
}

static int run_again(int number)
{
    struct bw_handle *h = open_as("ada", TTL_MS);
    struct bw_run_options options = bw_run_options_default();
    int turn = 0, result = 0;
    (void)number;
    options.again = true;
    options.result = &result;
    int error = bw_run_while_leader(h, E, end_the_second_time, &turn, &options);
    return error == 0 && turn == 2 && result == 5 && bw_close(h) == 0 ? 0 : 1;
}

static void task_runs_again_after_a_loss(void **state)
{
    (void)state;
    pid_t pid = spawn(run_again, 0);
    assert_true(reaches(1));
    sqlite3 *db = lock_database();
    pause_ms(TTL_MS + 100);
    unlock_database(db);
    ends_well(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(leadership_is_released_when_the_task_ends),
        in_scratch(task_is_cancelled_in_time_when_renewal_fails),
        in_scratch(task_that_ignores_cancel_is_aborted_before_the_lease_ends),
        in_scratch(a_stopped_process_is_killed_before_its_lease_ends),
        in_scratch(abort_works_despite_a_sigabrt_handler),
        in_scratch(overdue_task_is_reported_when_abort_is_disabled),
        in_scratch(interrupt_cancels_the_task_and_releases_the_leadership),
        in_scratch(task_runs_again_after_a_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
