/* The token register as a file, with real files, locks and processes. */
#include "fence/guard.h"
#include "fence/register.h"
#include "fence/split_brain_event.h"
#include "system/kit/scratch.h"
#include "unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static char dir[SCRATCH_MAX], path[SCRATCH_MAX + 16], side[SCRATCH_MAX + 32];
static char why[BW_GUARD_WHY_MAX + 1];

static int setup(void **state)
{
    (void)state;
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/ledger", dir);
    snprintf(side, sizeof side, "%s.guard", path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(dir);
    return 0;
}

static struct bw_guard *opened(void)
{
    struct bw_guard *guard;
    if (bw_guard_open(&guard, path, why) != 0)
        fail_msg("%s", why);
    return guard;
}

static int check(bw_token token)
{
    struct bw_guard *guard = opened();
    int error = bw_guard_check(guard, token, NULL, why);
    bw_guard_close(guard);
    return error;
}

static bw_token standing(void)
{
    struct bw_guard *guard = opened();
    struct bw_guard_state now;
    assert_int_equal(bw_guard_read(guard, &now, why), 0);
    bw_guard_close(guard);
    return now.highest;
}

static void older_tokens_are_always_refused(void **state)
{
    struct bw_guard *guard = opened();
    struct bw_guard_verdict verdict;
    (void)state;
    assert_int_equal(bw_guard_check(guard, 5, NULL, why), 0);
    assert_int_equal(bw_guard_check(guard, 5, NULL, why), 0);
    bw_guard_close(guard);
    guard = opened(); /* as another process would open it */
    assert_int_equal(bw_guard_check(guard, 4, &verdict, why), BW_ESTALE);
    assert_int_equal(verdict.token, 4);
    assert_int_equal(verdict.highest, 5);
    assert_non_null(strstr(why, "token 4 is older than 5"));
    bw_guard_close(guard);
    assert_int_equal(check(0), BW_ENOTOKEN);
    assert_int_equal(standing(), 5);
}

static void write_file(const char *name, const void *bytes, size_t length)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

static size_t read_file(const char *name, char *bytes, size_t size)
{
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    size_t length = fread(bytes, 1, size, file);
    fclose(file);
    return length;
}

static void damaged_register_is_refused_and_not_changed(void **state)
{
    char bytes[64], after[64];
    (void)state;
    assert_int_equal(check(5), 0);
    size_t length = read_file(side, bytes, sizeof bytes);
    bytes[16] ^= 0x40;
    write_file(side, bytes, length);
    assert_int_equal(check(900), BW_EDAMAGED);
    assert_non_null(strstr(why, "ledger.guard is damaged"));
    assert_int_equal(read_file(side, after, sizeof after), length);
    assert_memory_equal(bytes, after, length);
    write_file(side, bytes, length / 2);
    assert_int_equal(check(900), BW_EDAMAGED);
}

static void lost_register_is_not_mistaken_for_a_new_one(void **state)
{
    (void)state;
    assert_int_equal(check(5), 0);
    unlink(side);
    assert_int_equal(check(1), BW_EDAMAGED);
    assert_non_null(strstr(why, "ledger.guard is missing"));
}

static void register_mark_lost_in_a_crash_is_restored(void **state)
{
    char lock[SCRATCH_MAX + 40];
    (void)state;
    assert_int_equal(check(5), 0);
    snprintf(lock, sizeof lock, "%s.lock", side);
    assert_int_equal(truncate(lock, 0), 0);
    assert_int_equal(check(5), 0);
    unlink(side);
    assert_int_equal(check(1), BW_EDAMAGED);
}

static void partial_new_register_after_a_crash_is_ignored(void **state)
{
    char fresh[SCRATCH_MAX + 40];
    (void)state;
    assert_int_equal(check(5), 0);
    snprintf(fresh, sizeof fresh, "%s.new", side);
    write_file(fresh, "BWGUA", 5);
    assert_int_equal(standing(), 5);
    assert_int_equal(check(4), BW_ESTALE);
    assert_int_equal(check(6), 0);
    assert_int_equal(standing(), 6);
}

/* A killed process never loses an accepted token, whenever it was killed. */
static void accepted_token_survives_kill_of_the_writer(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        int pipe_fds[2];
        bw_token last = 0, one;
        assert_int_equal(pipe(pipe_fds), 0);
        pid_t pid = fork();
        if (pid == 0) {
            struct bw_guard *guard;
            char line[BW_GUARD_WHY_MAX + 1];
            if (bw_guard_open(&guard, path, line) != 0)
                _exit(1);
            for (one = (bw_token)round * 100000 + 2;; one++)
                if (bw_guard_check(guard, one, NULL, line) != 0 ||
                    write(pipe_fds[1], &one, sizeof one) != sizeof one)
                    _exit(1);
        }
        close(pipe_fds[1]);
        for (int i = 0; i <= round % 7; i++)
            assert_int_equal(read(pipe_fds[0], &last, sizeof last), sizeof last);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        while (read(pipe_fds[0], &one, sizeof one) == sizeof one)
            last = one;
        close(pipe_fds[0]);
        assert_true(standing() >= last);
        assert_int_equal(check(last - 1), BW_ESTALE);
    }
}

static void no_token_is_accepted_when_the_disk_is_full(void **state)
{
    struct rlimit before, none;
    (void)state;
    assert_int_equal(check(5), 0);
    getrlimit(RLIMIT_FSIZE, &before);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    int error = check(6);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(error, BW_EIO);
    assert_int_equal(standing(), 5);
    assert_int_equal(check(5), 0);
}

static void concurrent_processes_never_lower_the_token(void **state)
{
    (void)state;
    enum { PROCESSES = 6, EACH = 40 };
    for (int p = 0; p < PROCESSES; p++)
        if (fork() == 0) {
            for (bw_token i = 1; i <= EACH; i++) {
                bw_token token = i * PROCESSES + (bw_token)p;
                int error = check(token);
                if (error != 0 && error != BW_ESTALE)
                    _exit(1);
                if (standing() < token)
                    _exit(2);
            }
            _exit(0);
        }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        wait(&status);
        assert_int_equal(status, 0);
    }
    assert_int_equal(standing(), (EACH + 1) * PROCESSES - 1);
}

/* ---- guarded work ---- */

/* Starts a child that holds the lock of the work until its end of the pipe is closed. */
static pid_t start_work(bw_token token, int *hold)
{
    int go[2], ready[2];
    char byte = 0;
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        struct bw_guard *guard = opened();
        if (bw_guard_hold(guard, token, -1, NULL, why) != 0)
            _exit(1);
        if (write(ready[1], "x", 1) != 1 || read(go[0], &byte, 1) != 0)
            _exit(1);
        _exit(0);
    }
    close(go[0]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    *hold = go[1];
    return pid;
}

static void guarded_work_never_interleaves_and_waiting_times_out(void **state)
{
    int hold;
    (void)state;
    pid_t pid = start_work(5, &hold);
    struct bw_guard *guard = opened();
    struct bw_guard_verdict verdict;
    assert_int_equal(bw_guard_hold(guard, 6, 0, &verdict, why), BW_EBUSY);
    assert_int_equal(verdict.error, 0);
    assert_int_equal(bw_guard_hold(guard, 6, 30, &verdict, why), BW_EBUSY);
    /* the old work still runs, but its token is already rejected */
    assert_int_equal(standing(), 6);
    assert_int_equal(check(5), BW_ESTALE);
    close(hold);
    waitpid(pid, NULL, 0);
    assert_int_equal(bw_guard_hold(guard, 6, 10000, &verdict, why), 0);
    bw_guard_close(guard);
}

/* Token 6 waits for the work of token 5. Meanwhile 7 is elected, so 6 must not start. */
static void waiter_checks_its_token_again_after_waiting(void **state)
{
    int hold, status;
    (void)state;
    pid_t work = start_work(5, &hold);
    pid_t waiter = fork();
    if (waiter == 0) {
        close(hold);
        struct bw_guard *guard = opened();
        _exit(bw_guard_hold(guard, 6, -1, NULL, why) == BW_ESTALE ? 0 : 1);
    }
    for (int ms = 0; standing() != 6 && ms < 5000; ms++)
        usleep(1000); /* the child raises the register, then waits */
    assert_int_equal(check(7), 0);
    close(hold);
    waitpid(work, NULL, 0);
    waitpid(waiter, &status, 0);
    assert_int_equal(status, 0);
}

static void killed_work_keeps_the_lock_while_its_children_live(void **state)
{
    int hold;
    (void)state;
    pid_t pid = start_work(5, &hold);
    struct bw_guard *guard = opened();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(bw_guard_hold(guard, 6, 10000, NULL, why), 0);
    pid_t child = fork(); /* inherits the descriptor, as a command does */
    if (child == 0) {
        pause();
        _exit(0);
    }
    bw_guard_close(guard);
    guard = opened();
    assert_int_equal(bw_guard_hold(guard, 7, 20, NULL, why), BW_EBUSY);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(bw_guard_hold(guard, 7, 10000, NULL, why), 0);
    close(hold);
    bw_guard_close(guard);
}

static void guarded_work_inside_guarded_work_does_not_wait_for_itself(void **state)
{
    struct bw_guard *outer = opened(), *inner = opened();
    (void)state;
    assert_int_equal(bw_guard_hold(outer, 5, 0, NULL, why), 0);
    assert_int_equal(bw_guard_hold(inner, 5, 0, NULL, why), BW_EBUSY);
    assert_false(bw_guard_adopt(inner, STDERR_FILENO));
    assert_true(bw_guard_adopt(inner, bw_guard_fd(outer)));
    assert_int_equal(bw_guard_hold(inner, 5, 0, NULL, why), 0);
    bw_guard_close(inner);
    bw_guard_close(outer);
}

/* The pause between the check and the write is where a stopped leader wakes up too late. */
static void held_guard_excludes_a_newer_leader_until_it_is_released(void **state)
{
    struct bw_guard *old = opened(), *new = opened();
    struct bw_guard_verdict verdict;
    (void)state;
    assert_int_equal(bw_guard_hold(old, 5, -1, &verdict, why), 0);
    assert_true(verdict.raise);
    assert_int_equal(verdict.highest, 0);
    assert_int_equal(bw_guard_hold(new, 6, 0, &verdict, why), BW_EBUSY);
    bw_guard_release(old); /* its write has ended */
    assert_int_equal(bw_guard_hold(new, 6, 0, &verdict, why), 0);
    assert_int_equal(bw_guard_hold(old, 5, -1, &verdict, why), BW_ESTALE);
    assert_int_equal(verdict.highest, 6);
    bw_guard_release(new);
    bw_guard_close(old);
    bw_guard_close(new);
}

static void guard_can_be_held_again_only_after_its_release(void **state)
{
    struct bw_guard *guard = opened();
    (void)state;
    bw_guard_release(NULL);
    bw_guard_release(guard); /* not held */
    assert_int_equal(bw_guard_hold(guard, 5, 0, NULL, why), 0);
    assert_int_equal(bw_guard_hold(guard, 6, 0, NULL, why), BW_EINVAL);
    assert_non_null(strstr(why, "already held"));
    assert_int_equal(standing(), 5);
    bw_guard_release(guard);
    assert_int_equal(bw_guard_hold(guard, 6, 0, NULL, why), 0);
    bw_guard_close(guard);
}

/* ---- recovery, events ---- */

static void closed_register_accepts_only_the_recovery(void **state)
{
    struct bw_guard *guard = opened();
    (void)state;
    assert_int_equal(bw_guard_check(guard, 5, NULL, why), 0);
    assert_int_equal(bw_guard_shut(guard, 4, why), BW_ESTALE);
    assert_int_equal(bw_guard_shut(guard, 8, why), 0);
    assert_int_equal(bw_guard_shut(guard, 8, why), 0);
    assert_int_equal(bw_guard_check(guard, 7, NULL, why), BW_ESTALE);
    assert_int_equal(bw_guard_check(guard, 8, NULL, why), 0);
    assert_int_equal(bw_guard_check(guard, 9, NULL, why), BW_EBUSY);
    assert_int_equal(bw_guard_shut(guard, 10, why), 0); /* a second recovery after a crashed one */
    assert_int_equal(bw_guard_reopen(guard, 8, why), BW_ESTALE);
    assert_int_equal(bw_guard_reopen(guard, 10, why), 0);
    assert_int_equal(bw_guard_reopen(guard, 10, why), 0);
    assert_int_equal(bw_guard_check(guard, 11, NULL, why), 0);
    bw_guard_close(guard);
}

static void rejections_are_reported_and_counted(void **state)
{
    struct bw_guard *guard = opened();
    struct bw_guard_verdict verdict = {.error = BW_ESTALE, .token = 41, .highest = 42};
    char metrics[SCRATCH_MAX + 32], text[1024] = "", line[256] = "";
    (void)state;
    snprintf(metrics, sizeof metrics, "%s/guard.prom", dir);
    for (int i = 0; i < 3; i++)
        assert_int_equal(bw_guard_count(guard, metrics, why), 0);
    read_file(metrics, text, sizeof text - 1);
    assert_non_null(strstr(text, "# TYPE bellwether_split_brain_total counter\n"));
    assert_non_null(strstr(text, "ledger\"} 3\n"));
    bw_guard_close(guard);
    FILE *out = fmemopen(line, sizeof line, "w");
    bw_guard_report(out, &verdict, "a\"b", true);
    fclose(out);
    assert_string_equal(line,
                        "{\"event\":\"split_brain\",\"how\":\"token\",\"resource\":\"a\\\"b\","
                        "\"token\":41,\"highest\":42,\"action\":\"rejected\"}\n");
}

static void paths_that_cannot_be_guarded_are_refused(void **state)
{
    struct bw_guard *guard;
    (void)state;
    assert_int_equal(bw_guard_open(&guard, "", why), BW_EINVAL);
    assert_int_equal(bw_guard_open(&guard, "/tmp/", why), BW_EINVAL);
    assert_int_equal(bw_guard_open(&guard, "/nonexistent/file", why), BW_EIO);
    assert_non_null(strstr(why, "No such file or directory"));
    assert_null(guard);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(older_tokens_are_always_refused),
        TEST(damaged_register_is_refused_and_not_changed),
        TEST(lost_register_is_not_mistaken_for_a_new_one),
        TEST(register_mark_lost_in_a_crash_is_restored),
        TEST(partial_new_register_after_a_crash_is_ignored),
        TEST(accepted_token_survives_kill_of_the_writer),
        TEST(no_token_is_accepted_when_the_disk_is_full),
        TEST(concurrent_processes_never_lower_the_token),
        TEST(guarded_work_never_interleaves_and_waiting_times_out),
        TEST(waiter_checks_its_token_again_after_waiting),
        TEST(killed_work_keeps_the_lock_while_its_children_live),
        TEST(guarded_work_inside_guarded_work_does_not_wait_for_itself),
        TEST(held_guard_excludes_a_newer_leader_until_it_is_released),
        TEST(guard_can_be_held_again_only_after_its_release),
        TEST(closed_register_accepts_only_the_recovery),
        TEST(rejections_are_reported_and_counted),
        TEST(paths_that_cannot_be_guarded_are_refused),
    };
    return cmocka_run_group_tests_name("fence file", tests, NULL, NULL);
}
