/* The gauge of tests/system/kit/stall.h sees that its process stood still. */
#include "system/kit/stall.h"
#include "unit/unit.h"

#include <signal.h>
#include <sys/wait.h>

#define STOP_MS 1000

static void pause_ms(long ms)
{
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&span, NULL);
}

/* Runs in the process that is stopped. Exits with 0 if it has measured the stop, and only once. */
static int measure(int to_parent)
{
    stall_watch();
    if (write(to_parent, "r", 1) != 1)
        return 1;
    while (stall_longest_ns() < STOP_MS * 1000000ll)
        pause_ms(1);
    if (!stall_excuses(STOP_MS, "the gauge"))
        return 2;
    stall_watch();
    return stall_excuses(STOP_MS, "the gauge") ? 3 : 0;
}

static void gauge_measures_a_stop_and_starts_again_from_zero(void **state)
{
    (void)state;
    int ends[2], status;
    char ready;
    assert_int_equal(pipe(ends), 0);
    stall_watch(); /* its threads do not exist in the child */
    pid_t pid = fork();
    if (pid == 0)
        _exit(measure(ends[1]));
    close(ends[1]);
    assert_int_equal(read(ends[0], &ready, 1), 1);
    kill(pid, SIGSTOP);
    pause_ms(STOP_MS + 100);
    kill(pid, SIGCONT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gauge_measures_a_stop_and_starts_again_from_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
