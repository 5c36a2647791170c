/* Containments with real processes. All processes inside are found, killed and confirmed dead. A
 * name that is wrong or outdated never touches a process outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/contain/contain.h"
#include "run/contain/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_MS 60000 /* only detects a hang */

static const char *permits; /* containment.sh */

/* Starts a child that waits for a signal, with a grandchild in its own session. Returns when both
 * ignore SIGTERM. */
static pid_t start_tree(struct bw_contain *contain)
{
    int ends[2];
    char ready;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = bw_contain_fork(contain);
    if (pid != 0) {
        close(ends[1]);
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(read(ends[0], &ready, 1), 1);
        close(ends[0]);
        return pid;
    }
    if (contain->cookie[0])
        putenv(contain->cookie);
    signal(SIGTERM, SIG_IGN);
    if (fork() == 0) {
        setsid();
        if (fork() != 0)
            _exit(0);
    }
    if (write(ends[1], "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static bool empty_within(struct bw_contain *contain, int ms)
{
    struct bw_contain_left left;
    for (int i = 0; i < ms; i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        bw_contain_check(contain, &left);
        if (left.empty)
            return true;
        usleep(1000);
    }
    return false;
}

/* Makes a containment. Skips the test if the machine does not permit it, which a script finds out
 * without Bellwether. */
static void make_or_skip(struct bw_contain *contain, enum bw_contain_kind kind)
{
    static const char *const names[] = {[BW_CONTAIN_CGROUP] = "cgroup",
                                        [BW_CONTAIN_PIDNS] = "pidns",
                                        [BW_CONTAIN_SUBREAPER] = "subreaper"};
    char why[BW_WHY_MAX + 1], line[1024];
    snprintf(line, sizeof line, "%s %s", permits, names[kind]);
    if (system(line) != 0)
        skip();
    if (bw_contain_make(contain, kind, "a test", why) != 0)
        fail_msg("%s", why);
}

static void a_tree_is_killed_and_known_to_be_gone(enum bw_contain_kind kind)
{
    struct bw_contain contain, found;
    struct bw_contain_left left;
    make_or_skip(&contain, kind);
    pid_t pid = start_tree(&contain);
    assert_true(pid > 0);
    bw_contain_check(&contain, &left);
    assert_false(left.empty);
    bw_contain_signal(&contain, SIGTERM, 0); /* the tree ignores it */
    assert_false(empty_within(&contain, 30));
    assert_int_equal(bw_contain_find(&found, contain.name), BW_CONTAIN_HERE);
    bw_contain_kill(&found); /* by name, as a successor does */
    assert_true(empty_within(&contain, HANG_MS));
    assert_true(empty_within(&found, HANG_MS));
    bw_contain_remove(&contain);
}

static void cgroup_kills_a_tree(void **state)
{
    (void)state;
    a_tree_is_killed_and_known_to_be_gone(BW_CONTAIN_CGROUP);
}

static void pidns_kills_a_tree(void **state)
{
    (void)state;
    a_tree_is_killed_and_known_to_be_gone(BW_CONTAIN_PIDNS);
}

static void subreaper_kills_a_tree(void **state)
{
    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    a_tree_is_killed_and_known_to_be_gone(BW_CONTAIN_SUBREAPER);
}

static bool looks_empty(struct bw_contain *contain)
{
    struct bw_contain_left left;
    bw_contain_check(contain, &left);
    return left.empty;
}

static void subreaper_is_not_empty_while_a_child_is_not_waited_for(void **state)
{
    (void)state;
    struct bw_contain contain;
    siginfo_t info;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    make_or_skip(&contain, BW_CONTAIN_SUBREAPER);
    pid_t pid = bw_contain_fork(&contain);
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    for (int i = 0; i < 20; i++)
        assert_false(looks_empty(&contain)); /* a scan finds only a dead process */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(looks_empty(&contain));
}

/* Each process of the chain forks the next one and exits. All of them hold the same end of a
 * pipe. */
static void start_chain(struct bw_contain *contain, const int *lives)
{
    pid_t pid = bw_contain_fork(contain);
    assert_true(pid >= 0);
    if (pid > 0)
        return;
    close(lives[0]);
    for (int i = 0; i < 20000; i++) {
        usleep(1000);
        if (fork() != 0)
            break;
    }
    _exit(0);
}

static void subreaper_is_empty_only_after_a_chain_of_forks_is_dead(void **state)
{
    (void)state;
    struct bw_contain contain;
    int lives[2];
    char byte;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    make_or_skip(&contain, BW_CONTAIN_SUBREAPER);
    assert_int_equal(pipe2(lives, O_NONBLOCK), 0);
    start_chain(&contain, lives);
    close(lives[1]);
    for (int i = 0; i < 300; i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        assert_false(looks_empty(&contain));
    }
    while (!looks_empty(&contain)) {
        bw_contain_kill_children(&contain, NULL, NULL);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
    /* end of file: all holders of the other end are dead */
    assert_int_equal(read(lives[0], &byte, 1), 0);
    close(lives[0]);
}

/* A process whose first thread has ended: /proc shows it as a zombie, but it runs. */
static void *wait_for_a_signal(void *unused)
{
    pause();
    return unused;
}

static int run_without_first_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_a_signal, NULL) != 0)
        return 1;
    syscall(SYS_exit, 0);
    return 1;
}

/* Starts a process whose guardian is gone: only its environment shows to which work it belongs. */
static pid_t start_without_first_thread(struct bw_contain *contain, struct bw_proc *proc)
{
    pid_t pid = fork();
    if (pid == 0) {
        char *arguments[] = {"run_contain", "threads", NULL};
        char *environment[] = {contain->cookie, NULL};
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves no process behind */
        execve("/proc/self/exe", arguments, environment);
        _exit(1);
    }
    do
        usleep(1000);
    while (bw_proc_read(pid, proc) == 0 && proc->state != 'Z');
    return pid;
}

static void successor_kills_a_process_whose_first_thread_has_ended(void **state)
{
    (void)state;
    struct bw_contain contain, found;
    struct bw_contain_left left;
    struct bw_proc proc;
    make_or_skip(&contain, BW_CONTAIN_SUBREAPER);
    assert_int_equal(bw_contain_find(&found, contain.name), BW_CONTAIN_HERE);
    found.start++; /* the guardian counts as dead */
    pid_t pid = start_without_first_thread(&contain, &proc);
    assert_true(bw_proc_lives(&proc));
    for (int i = 0; i < 20; i++) {
        bw_contain_check(&found, &left);
        assert_false(left.empty);
        assert_int_equal(left.pid, pid);
    }
    bw_contain_kill(&found);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_not_equal(bw_proc_read(pid, &proc), 0);
}

static void removed_cgroup_is_reported_as_gone(void **state)
{
    (void)state;
    struct bw_contain contain, found;
    make_or_skip(&contain, BW_CONTAIN_CGROUP);
    bw_contain_remove(&contain);
    assert_int_equal(bw_contain_find(&found, contain.name), BW_CONTAIN_GONE);
}

static void empty_cgroup_of_a_killed_guardian_is_removed(void **state)
{
    (void)state;
    struct bw_contain contain, next, found;
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t pid = fork();
    if (pid == 0) { /* a guardian that creates a group and dies */
        char why[BW_WHY_MAX + 1];
        memset(&contain, 0, sizeof contain);
        bw_contain_make(&contain, BW_CONTAIN_CGROUP, "a test", why);
        (void)!write(pipe_fds[1], contain.name, sizeof contain.name);
        _exit(0);
    }
    assert_int_equal(read(pipe_fds[0], contain.name, sizeof contain.name), sizeof contain.name);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    make_or_skip(&next, BW_CONTAIN_CGROUP);
    assert_int_equal(bw_contain_find(&found, contain.name), BW_CONTAIN_GONE);
    assert_int_equal(bw_contain_find(&found, next.name), BW_CONTAIN_HERE);
    bw_contain_remove(&next);
}

static void containment_name_of_another_boot_touches_no_process(void **state)
{
    (void)state;
    struct bw_contain contain, found;
    char name[BW_CONTAINMENT_MAX + 1];
    make_or_skip(&contain, BW_CONTAIN_SUBREAPER);
    snprintf(name, sizeof name, "%s", contain.name);
    char *place = strrchr(name, '@');
    place[1] = place[1] == '0' ? '1' : '0'; /* another boot */
    assert_int_equal(bw_contain_find(&found, name), BW_CONTAIN_ELSEWHERE);
    const char *nonsense[] = {"", "cgroup", "cgroup:", "zone:x@y", "pid:1@", "@", ":@"};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        assert_int_equal(bw_contain_find(&found, nonsense[i]), BW_CONTAIN_INVALID);
    snprintf(name, sizeof name, "cgroup:/../../etc%s", strrchr(contain.name, '@'));
    assert_int_equal(bw_contain_find(&found, name), BW_CONTAIN_INVALID);
}

static void recycled_pid_is_never_signalled(void **state)
{
    (void)state;
    struct bw_proc proc;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    assert_int_equal(bw_proc_read(pid, &proc), 0);
    assert_int_equal(bw_proc_signal(pid, proc.start + 1, SIGKILL), -1);
    assert_int_equal(errno, ESRCH);
    usleep(10000);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    assert_int_equal(bw_proc_signal(pid, proc.start, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Waits until the process runs the program of this name. */
static void await_name(pid_t pid, const char *name)
{
    char path[64], found[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    for (int i = 0; i < 60000 && strcmp(found, name) != 0; i++) {
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        assert_non_null(fgets(found, sizeof found, file));
        fclose(file);
        usleep(1000);
    }
    assert_string_equal(found, name);
}

/* The start time identifies a process: without it, a later process with the same pid could be taken
 * for the work. */
static void process_keeps_its_start_time_after_exec(void **state)
{
    (void)state;
    struct bw_proc before, after;
    int go[2];
    assert_int_equal(pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        (void)!read(go[0], &byte, 1);
        execlp("sleep", "sleep", "10", (char *)NULL);
        _exit(1);
    }
    assert_int_equal(bw_proc_read(pid, &before), 0);
    assert_int_equal(write(go[1], "x", 1), 1);
    await_name(pid, "sleep\n");
    assert_int_equal(bw_proc_read(pid, &after), 0);
    assert_int_equal(before.start, after.start);
    assert_int_equal(after.parent, getpid());
    assert_int_equal(bw_proc_signal(pid, before.start, SIGKILL), 0);
    waitpid(pid, NULL, 0);
}

/* run_contain PERMITS   the script that tells whether the machine permits a containment */
int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "threads") == 0)
        return run_without_first_thread();
    if (argc != 2)
        return 64;
    permits = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cgroup_kills_a_tree),
        cmocka_unit_test(pidns_kills_a_tree),
        cmocka_unit_test(subreaper_kills_a_tree),
        cmocka_unit_test(subreaper_is_not_empty_while_a_child_is_not_waited_for),
        cmocka_unit_test(subreaper_is_empty_only_after_a_chain_of_forks_is_dead),
        cmocka_unit_test(successor_kills_a_process_whose_first_thread_has_ended),
        cmocka_unit_test(removed_cgroup_is_reported_as_gone),
        cmocka_unit_test(empty_cgroup_of_a_killed_guardian_is_removed),
        cmocka_unit_test(containment_name_of_another_boot_touches_no_process),
        cmocka_unit_test(recycled_pid_is_never_signalled),
        cmocka_unit_test(process_keeps_its_start_time_after_exec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
