/* Containment by PID namespace.
 *
 * The init of the namespace starts first, so that its name can be written into the record before
 * any work runs. It only reaps processes and passes on signals. When it dies, the kernel kills all
 * processes in the namespace, and init is gone only after all of them are. It dies with its
 * guardian: by PR_SET_PDEATHSIG, which it sets before the guardian continues, and by end of file on
 * the command pipe. The guardian itself forks the work into the namespace (setns). So the guardian
 * is the parent of the work and learns its exit status.
 *
 * If a successor kills the init while the guardian is stopped, the namespace cannot end, because
 * the guardian does not reap. It then counts as empty after three consecutive scans that found only
 * zombies, all after init began to exit. From then on no process in it can fork. */
#include "run/contain/contain.h"

#include "run/contain/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EMPTY_SCANS 3u

/* Closes every descriptor but one. */
static void keep_only(int fd)
{
    if (fd > 0)
        syscall(SYS_close_range, 0, fd - 1, 0);
    syscall(SYS_close_range, fd + 1, ~0u, 0);
}

static _Noreturn void be_init(int commands, int ready)
{
    unsigned char signal_number;
    sigset_t none;
    prctl(PR_SET_NAME, "bw-init");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN); /* the kernel reaps the children */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)!write(ready, "r", 1);
    keep_only(commands);
    for (;;) {
        ssize_t got = read(commands, &signal_number, 1);
        if (got == 1)
            kill(-1, signal_number);
        else if (got == 0 || errno != EINTR)
            _exit(0);
    }
}

static int start_init(struct bw_contain *out)
{
    int commands[2], ready[2];
    char byte;
    if (pipe2(commands, O_CLOEXEC) != 0)
        return -1;
    if (pipe2(ready, O_CLOEXEC) != 0) {
        close(commands[0]);
        close(commands[1]);
        return -1;
    }
    struct clone_args args = {.flags = CLONE_NEWPID, .exit_signal = SIGCHLD};
    out->pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    int error = errno;
    if (out->pid == 0) {
        close(commands[1]);
        be_init(commands[0], ready[1]);
    }
    close(commands[0]);
    close(ready[1]);
    bool alive = out->pid > 0 && read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    if (!alive) {
        close(commands[1]);
        errno = error;
        return -1;
    }
    out->command_fd = commands[1];
    return 0;
}

/* Forks a child into the namespace, and returns to the own namespace. */
static pid_t fork_into(struct bw_contain *contain)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)contain->pid);
    int there = open(path, O_RDONLY | O_CLOEXEC);
    int here = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    pid_t pid = -1;
    if (there >= 0 && here >= 0 && setns(there, CLONE_NEWPID) == 0) {
        pid = fork();
        if (pid != 0 && setns(here, CLONE_NEWPID) != 0)
            pid = pid > 0 ? pid : -1; /* the next containment cannot be created, and reports why */
    }
    int error = errno;
    if (there >= 0)
        close(there);
    if (here >= 0)
        close(here);
    errno = error;
    return pid;
}

static bool works(struct bw_contain *contain)
{
    int status;
    pid_t pid = fork_into(contain);
    if (pid == 0)
        _exit(0);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status);
}

static void end_init(struct bw_contain *contain)
{
    if (contain->command_fd >= 0)
        close(contain->command_fd);
    contain->command_fd = -1;
    bw_proc_signal(contain->pid, contain->start, SIGKILL);
    waitpid(contain->pid, NULL, WNOHANG);
}

static int pidns_make(struct bw_contain *out, const char *election, char *why)
{
    struct bw_proc init;
    (void)election;
    if (start_init(out) != 0)
        return bw_store_explain(why, BW_EDENIED, "cannot create a PID namespace: %s",
                                strerror(errno));
    bool known = bw_proc_read(out->pid, &init) == 0;
    out->start = known ? init.start : 0;
    out->space = bw_proc_namespace(out->pid, "pid");
    if (!known || out->space == 0 || !works(out)) {
        kill(out->pid, SIGKILL);
        end_init(out);
        return bw_store_explain(why, BW_EUNSUPPORTED,
                                "cannot start processes in a PID namespace: %s", strerror(errno));
    }
    snprintf(out->name, sizeof out->name, "pidns:%d:%llu:%llu", (int)out->pid,
             (unsigned long long)out->start, (unsigned long long)out->space);
    return 0;
}

static enum bw_contain_found pidns_find(struct bw_contain *out, const char *text)
{
    struct bw_proc init;
    unsigned long long start, space;
    int pid;
    char rest;
    if (sscanf(text, "%d:%llu:%llu%c", &pid, &start, &space, &rest) != 3 || pid <= 1)
        return BW_CONTAIN_INVALID;
    out->pid = (pid_t)pid;
    out->start = start;
    out->space = space;
    bool there = bw_proc_read(out->pid, &init) == 0 && init.start == start;
    return there ? BW_CONTAIN_HERE : BW_CONTAIN_GONE;
}

/* Marks all processes in the namespace and in namespaces below it. */
static ssize_t list_inside(const struct bw_contain *contain, struct bw_proc **list)
{
    ssize_t count = bw_proc_list(list);
    for (ssize_t i = 0; i < count; i++) {
        struct bw_proc *proc = &(*list)[i];
        proc->marked = proc->pid == contain->pid
                           ? proc->start == contain->start
                           : bw_proc_namespace(proc->pid, "pid") == contain->space;
    }
    if (count > 0)
        bw_proc_mark_descendants(*list, (size_t)count);
    return count;
}

static void pidns_signal(struct bw_contain *contain, int signal, pid_t not_group)
{
    struct bw_proc *list;
    unsigned char number = (unsigned char)signal;
    if (contain->command_fd >= 0 && not_group == 0 && write(contain->command_fd, &number, 1) == 1)
        return;
    ssize_t count = list_inside(contain, &list);
    for (ssize_t i = 0; i < count; i++)
        if (list[i].marked && list[i].pid != contain->pid && getpgid(list[i].pid) != not_group)
            bw_proc_signal(list[i].pid, list[i].start, signal);
    free(list);
}

static void pidns_kill(struct bw_contain *contain)
{
    bw_proc_signal(contain->pid, contain->start, SIGKILL);
}

static void pidns_check(struct bw_contain *contain, struct bw_contain_left *out)
{
    struct bw_proc init, *list;
    bool there = bw_proc_read(contain->pid, &init) == 0 && init.start == contain->start;
    out->empty = !there || !bw_proc_lives(&init);
    if (out->empty)
        return;
    ssize_t count = list_inside(contain, &list);
    unsigned running = count < 0;
    for (ssize_t i = 0; i < count; i++) {
        if (!list[i].marked || list[i].pid == contain->pid || !bw_proc_lives(&list[i]))
            continue;
        running++;
        out->pid = list[i].pid;
        out->state = list[i].state;
    }
    free(list);
    if (running == 0 && !init.exiting)
        pidns_kill(contain); /* only init is left, which needs no more time */
    contain->empty_scans = running == 0 && init.exiting ? contain->empty_scans + 1 : 0;
    out->empty = contain->empty_scans >= EMPTY_SCANS;
}

const struct bw_contain_ops bw_contain_pidns = {
    .word = "pidns",
    .make = pidns_make,
    .fork = fork_into,
    .find = pidns_find,
    .signal = pidns_signal,
    .check = pidns_check,
    .kill = pidns_kill,
    .remove = end_init,
};
