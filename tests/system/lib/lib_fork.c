/* Children of a process that uses the library. If a handle was open at the fork, the library
 * refuses at once. The documented ways to use the library in a child work. */
#include "system/lib/lib_common.h"

#include <unistd.h>

#define E        "nightly"
#define CHILDREN 30

/* Leads once; returns 0 on success. */
static int lead_once(const char *election)
{
    struct bw_handle *h = open_as(NULL, HANG_MS);
    struct bw_leadership *l;
    if (!h || bw_campaign(h, election, NULL, HANG_MS, &l) != 0)
        return 1;
    return bw_resign(l) == 0 && bw_close(h) == 0 ? 0 : 2;
}

static int is_refused(int number)
{
    struct bw_handle *h;
    (void)number;
    if (bw_open(path, NULL, &h) != BW_EFORKED || h || !strstr(bw_why(), "exec"))
        return 1;
    return bw_open("redis://localhost", NULL, &h) == BW_EFORKED ? 0 : 2;
}

static int is_refused_to_a_grandchild(int number)
{
    return WEXITSTATUS(status_of(spawn(is_refused, number)));
}

/* Keeps the library and SQLite busy until the test ends. */
static void *lead_again_and_again(void *handle)
{
    struct bw_leadership *l;
    while (atomic_load(&page->phase) == 0)
        if (bw_campaign(handle, "busy", NULL, HANG_MS, &l) == 0)
            bw_resign(l);
    return NULL;
}

static void a_child_cannot_open_a_store_while_its_parent_has_one_open(void **state)
{
    (void)state;
    struct bw_handle *h = open_as("ada", HANG_MS);
    pthread_t thread;
    assert_non_null(h);
    assert_int_equal(pthread_create(&thread, NULL, lead_again_and_again, h), 0);
    for (int i = 0; i < CHILDREN; i++)
        ends_well(spawn(i % 2 ? is_refused : is_refused_to_a_grandchild, i));
    atomic_store(&page->phase, 1);
    pthread_join(thread, NULL);
    assert_int_equal(lead_once(E), 0); /* the parent itself may open another */
    assert_int_equal(bw_close(h), 0);
}

static int open_and_lead(int number)
{
    (void)number;
    return lead_once(E);
}

static void a_child_can_open_a_store_after_its_parent_closed_all(void **state)
{
    (void)state;
    struct bw_handle *h;
    assert_int_equal(lead_once(E), 0);
    assert_int_not_equal(bw_open("nosuch://x", NULL, &h), 0); /* does not count as open either */
    ends_well(spawn(open_and_lead, 0));
}

static void a_child_forked_before_the_first_open_can_open_a_store(void **state)
{
    (void)state;
    int go[2];
    assert_int_equal(pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(go[1]);
        _exit(read(go[0], &byte, 1) == 1 ? lead_once(E) : 3);
    }
    struct bw_handle *h = open_as("ada", HANG_MS);
    assert_non_null(h);
    assert_int_equal(write(go[1], "", 1), 1);
    ends_well(pid);
    assert_int_equal(bw_close(h), 0);
    close(go[0]);
    close(go[1]);
}

static void a_child_that_execs_can_open_a_store(void **state)
{
    (void)state;
    struct bw_handle *h = open_as("ada", HANG_MS);
    struct bw_leadership *l;
    assert_int_equal(bw_campaign(h, "other", NULL, HANG_MS, &l), 0);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "lib_fork", path, (char *)NULL);
        _exit(3);
    }
    ends_well(pid);
    assert_true(bw_is_leader(l));
    assert_int_equal(bw_resign(l), 0);
    assert_int_equal(bw_close(h), 0);
}

static int fork_in_the_task(struct bw_cancel *cancel, void *arg)
{
    (void)arg;
    pid_t pid = fork();
    if (pid == 0)
        _exit(bw_cancel_fd(cancel) != -1 || !bw_cancelled(cancel) || bw_cancel_ms(cancel) != 0);
    ends_well(pid);
    return bw_cancel_fd(cancel) >= 0 ? 7 : 1;
}

static void a_task_is_cancelled_in_a_child(void **state)
{
    (void)state;
    struct bw_handle *h = open_as("ada", HANG_MS);
    struct bw_run_options options = bw_run_options_default();
    int result = 0;
    options.result = &result;
    assert_int_equal(bw_run_while_leader(h, E, fork_in_the_task, NULL, &options), 0);
    assert_int_equal(result, 7);
    assert_int_equal(bw_close(h), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        in_scratch(a_child_forked_before_the_first_open_can_open_a_store),
        in_scratch(a_child_cannot_open_a_store_while_its_parent_has_one_open),
        in_scratch(a_child_can_open_a_store_after_its_parent_closed_all),
        in_scratch(a_child_that_execs_can_open_a_store),
        in_scratch(a_task_is_cancelled_in_a_child),
    };
    if (argc == 2) {
        snprintf(path, sizeof path, "%s", argv[1]);
        return lead_once(E);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
