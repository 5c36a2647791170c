/* Containment without privileges: the guardian is a child subreaper (prctl(2)), and so is its
 * parent, the supervisor. The work also carries a random cookie in its environment.
 *
 * Model. When a process exits, the kernel gives its children to the nearest living ancestor that is
 * a subreaper, in one step under the lock of the process table. So every living process of the work
 * has an ancestor among the children of the guardian, or, once the guardian is dead, among those of
 * the supervisor. That process is the reaper.
 *
 * Guarantee. The reaper reports the work dead only when waitid(2) fails with ECHILD: it has no
 * child left, neither running nor dead. A scan of /proc proves nothing: it takes milliseconds, and
 * it can miss a process that forks and exits during the scan.
 *
 * Not guaranteed: that a process other than the reaper (a successor, after the lease has expired)
 * finds all processes. It finds descendants of the guardian while that lives, and processes with
 * the cookie. It does not find a process that wiped its environment. */
#include "run/contain/contain.h"

#include "core/base/bug.h"
#include "run/contain/proc.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN_MAX 64 /* killed by one call; the next call finds the others */

/* The containment counts as empty after two scans that end with a quiet round, or, on a machine
 * that creates processes all the time, after eight scans of any kind. */
#define EMPTY_SCANS 8u
#define QUIET_SCAN  4u
#define ROUNDS_MAX  24
#define FRESH_MAX   128

static int subreaper_make(struct bw_contain *out, const char *election, char *why)
{
    struct bw_proc self;
    (void)election;
    if (bw_proc_read(getpid(), &self) != 0)
        return bw_store_explain(why, BW_EUNSUPPORTED, "/proc is not mounted");
    unsigned long long random = bw_contain_random();
    out->pid = self.pid;
    out->start = self.start;
    out->reaps = true;
    snprintf(out->cookie, sizeof out->cookie, BW_CONTAIN_COOKIE "=%016llx", random);
    snprintf(out->name, sizeof out->name, "subreaper:%d:%llu:%016llx", (int)self.pid,
             (unsigned long long)self.start, random);
    return 0;
}

static pid_t fork_into(struct bw_contain *contain)
{
    (void)contain;
    return fork();
}

static enum bw_contain_found subreaper_find(struct bw_contain *out, const char *text)
{
    unsigned long long start, random;
    int pid;
    char rest;
    if (sscanf(text, "%d:%llu:%16llx%c", &pid, &start, &random, &rest) != 3 || pid <= 1)
        return BW_CONTAIN_INVALID;
    out->pid = (pid_t)pid;
    out->start = start;
    snprintf(out->cookie, sizeof out->cookie, BW_CONTAIN_COOKIE "=%016llx", random);
    return BW_CONTAIN_HERE;
}

/* Marks the work: descendants of the guardian, and processes with the cookie and their descendants.
 * It sends `signal` (0: none) to a process with the cookie as soon as it finds it. It starts with
 * the highest pids: these processes are probably the newest, and may exit before the scan ends. */
static ssize_t list_inside(const struct bw_contain *contain, int signal, struct bw_proc **list)
{
    ssize_t count = bw_proc_list(list), guardian = -1;
    for (ssize_t i = count - 1; i >= 0; i--) {
        struct bw_proc *proc = &(*list)[i];
        if (proc->pid == contain->pid && proc->start == contain->start)
            guardian = i;
        bool has_cookie = guardian != i && bw_proc_has_environment(proc, contain->cookie);
        proc->marked = guardian == i || has_cookie;
        if (has_cookie && signal)
            bw_proc_signal(proc->pid, proc->start, signal);
    }
    if (count > 0)
        bw_proc_mark_descendants(*list, (size_t)count);
    if (guardian >= 0)
        (*list)[guardian].marked = false;
    return count;
}

/* Processes that are newer than a complete list. */
struct fresh {
    const struct bw_proc *list;
    size_t listed, count;
    pid_t pid[FRESH_MAX];
};

static bool is_fresh(struct fresh *fresh, pid_t pid)
{
    if (bw_proc_find(fresh->list, fresh->listed, pid) || fresh->count == FRESH_MAX)
        return false;
    for (size_t i = 0; i < fresh->count; i++)
        if (fresh->pid[i] == pid)
            return false;
    fresh->pid[fresh->count++] = pid;
    return true;
}

/* Scans /proc again, only for processes that are not in the list. Returns how many of them run and
 * have the cookie; they get `signal` (0: none). */
static unsigned scan_fresh(const struct bw_contain *contain, int signal, struct fresh *fresh,
                           struct bw_contain_left *out)
{
    unsigned running = 0;
    struct dirent *entry;
    struct bw_proc proc;
    DIR *dir = opendir("/proc");
    while (dir && (entry = readdir(dir))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || !is_fresh(fresh, pid) || bw_proc_read(pid, &proc) != 0 ||
            !bw_proc_lives(&proc) || !bw_proc_has_environment(&proc, contain->cookie))
            continue;
        if (signal)
            bw_proc_signal(pid, proc.start, signal);
        running++;
        out->pid = pid;
        out->state = proc.state;
    }
    if (dir)
        closedir(dir);
    return running;
}

/* Follows a chain of processes that moves faster than a complete scan. True if the last round was
 * quiet: no process was created during it, and none of the new ones has the cookie. */
static bool follow(const struct bw_contain *contain, int signal, const struct bw_proc *list,
                   ssize_t count, struct bw_contain_left *out)
{
    struct fresh fresh = {.list = list, .listed = count > 0 ? (size_t)count : 0};
    for (int round = 0; round < ROUNDS_MAX && fresh.count < FRESH_MAX; round++) {
        uint64_t before = bw_proc_last_created();
        unsigned running = scan_fresh(contain, signal, &fresh, out);
        if (running && !signal)
            return false;
        if (!running && before != 0 && bw_proc_last_created() == before)
            return true;
    }
    return false;
}

static void subreaper_signal(struct bw_contain *contain, int signal, pid_t not_group)
{
    struct bw_proc *list;
    ssize_t count = list_inside(contain, signal == SIGKILL ? SIGKILL : 0, &list);
    for (ssize_t i = 0; i < count; i++)
        if (list[i].marked && bw_proc_lives(&list[i]) &&
            (not_group == 0 || getpgid(list[i].pid) != not_group))
            bw_proc_signal(list[i].pid, list[i].start, signal);
    if (signal == SIGKILL && !contain->reaps)
        follow(contain, signal, list, count, &(struct bw_contain_left){.pid = 0});
    free(list);
}

static void subreaper_kill(struct bw_contain *contain)
{
    subreaper_signal(contain, SIGKILL, 0);
}

void bw_contain_kill_children(struct bw_contain *contain,
                              bool (*is_exempt)(void *context, pid_t pid), void *context)
{
    pid_t children[CHILDREN_MAX];
    struct bw_proc child;
    if (!contain->reaps)
        return;
    size_t count = bw_proc_children(children, CHILDREN_MAX);
    /* only this process waits for them, so their pids are not recycled */
    for (size_t i = 0; i < count; i++)
        if (!(is_exempt && is_exempt(context, children[i])) &&
            bw_proc_read(children[i], &child) == 0 && child.start >= contain->start)
            kill(children[i], SIGKILL);
}

static void find_child(struct bw_contain_left *out)
{
    pid_t children[CHILDREN_MAX];
    struct bw_proc child;
    size_t count = bw_proc_children(children, CHILDREN_MAX);
    for (size_t i = 0; i < count && out->pid == 0; i++)
        if (bw_proc_read(children[i], &child) == 0 && bw_proc_lives(&child)) {
            out->pid = child.pid;
            out->state = child.state;
        }
}

/* True if this process has no children, not even zombies. */
static bool is_childless(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 && errno == ECHILD;
}

static void subreaper_check(struct bw_contain *contain, struct bw_contain_left *out)
{
    struct bw_proc *list;
    bool can_prove = contain->reaps && !BW_BUG(contain_trusts_scans);
    out->empty = can_prove && is_childless();
    if (out->empty)
        return;
    /* the guardian: all its children belong to the work */
    if (can_prove && contain->pid == getpid()) {
        find_child(out);
        return;
    }
    ssize_t count = list_inside(contain, 0, &list);
    for (ssize_t i = 0; i < count; i++)
        if (list[i].marked && bw_proc_lives(&list[i])) {
            out->pid = list[i].pid;
            out->state = list[i].state;
        }
    bool quiet = !can_prove && count >= 0 && out->pid == 0 && follow(contain, 0, list, count, out);
    free(list);
    bool found = count < 0 || out->pid != 0;
    contain->empty_scans = found ? 0 : contain->empty_scans + (quiet ? QUIET_SCAN : 1);
    out->empty = !can_prove && contain->empty_scans >= EMPTY_SCANS;
}

static void subreaper_remove(struct bw_contain *contain)
{
    contain->empty_scans = 0;
}

const struct bw_contain_ops bw_contain_subreaper = {
    .word = "subreaper",
    .make = subreaper_make,
    .fork = fork_into,
    .find = subreaper_find,
    .signal = subreaper_signal,
    .check = subreaper_check,
    .kill = subreaper_kill,
    .remove = subreaper_remove,
};
