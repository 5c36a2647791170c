/* Containment without any privilege: the guardian is a child subreaper (prctl(2)), and so is its
 * parent, the supervisor. The work also carries a random cookie in its environment.
 *
 * Model: the kernel gives the children of a process that exits to its nearest living ancestor that
 * is a subreaper, in one step under the lock of the process table. So every living process of the
 * work has an ancestor among the children of the guardian, and among those of the supervisor once
 * the guardian is dead. That process is the reaper.
 *
 * Guaranteed: the reaper reports the work dead only when waitid(2) says ECHILD: it has no child
 * left, neither running nor dead. A scan of /proc proves nothing: it takes milliseconds, and a
 * process that forks and exits meanwhile is in none of them.
 *
 * Not guaranteed: that a process that is not the reaper (a successor, after the lease has expired)
 * finds everything. It finds descendants of the guardian if that lives, and processes with the
 * cookie; not a process that wiped its environment. */
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

#define CHILDREN_MAX 64 /* struck at once; the next strike finds the others */

/* Two looks that end with a quiet round are enough; on a machine that creates processes all the
 * time, eight of any kind. */
#define CLEAN_LOOKS 8u
#define QUIET_LOOK  4u
#define ROUNDS_MAX  24
#define FRESH_MAX   128

static int subreaper_make(struct bw_contain *out, const char *election, char *why)
{
    struct bw_proc self;
    (void)election;
    if (bw_proc_read(getpid(), &self) != 0)
        return bw_store_say(why, BW_EUNSUPPORTED, "/proc is not mounted here");
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
        return BW_CONTAIN_NONSENSE;
    out->pid = (pid_t)pid;
    out->start = start;
    snprintf(out->cookie, sizeof out->cookie, BW_CONTAIN_COOKIE "=%016llx", random);
    return BW_CONTAIN_HERE;
}

/* Marks the work: the guardian's descendants, and the processes with the cookie and theirs. The
 * latter get `signal` (0: none) as soon as they are found, those with high numbers first: they are
 * probably the newest, and may not live long enough to be signalled after the scan. */
static ssize_t inside(const struct bw_contain *contain, int signal, struct bw_proc **list)
{
    ssize_t count = bw_proc_list(list), guardian = -1;
    for (ssize_t i = count - 1; i >= 0; i--) {
        struct bw_proc *proc = &(*list)[i];
        if (proc->pid == contain->pid && proc->start == contain->start)
            guardian = i;
        bool bearer = guardian != i && bw_proc_has_environment(proc, contain->cookie);
        proc->marked = guardian == i || bearer;
        if (bearer && signal)
            bw_proc_signal(proc->pid, proc->start, signal);
    }
    if (count > 0)
        bw_proc_mark_descendants(*list, (size_t)count);
    if (guardian >= 0)
        (*list)[guardian].marked = false;
    return count;
}

/* Processes that are newer than a list of all. */
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

/* One more look at /proc, only at processes that were not there before. Returns how many of them
 * have the cookie and live; they get `signal` (0: none). */
static unsigned look_at_fresh(const struct bw_contain *contain, int signal, struct fresh *fresh,
                              struct bw_contain_left *out)
{
    unsigned living = 0;
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
        living++;
        out->pid = pid;
        out->state = proc.state;
    }
    if (dir)
        closedir(dir);
    return living;
}

/* Follows a chain of processes that is quicker than a scan of all. True if it ends with a quiet
 * round: no process was created during it, and nobody in it has the cookie. */
static bool follow(const struct bw_contain *contain, int signal, const struct bw_proc *list,
                   ssize_t count, struct bw_contain_left *out)
{
    struct fresh fresh = {.list = list, .listed = count > 0 ? (size_t)count : 0};
    for (int round = 0; round < ROUNDS_MAX && fresh.count < FRESH_MAX; round++) {
        uint64_t before = bw_proc_last_created();
        unsigned living = look_at_fresh(contain, signal, &fresh, out);
        if (living && !signal)
            return false;
        if (!living && before != 0 && bw_proc_last_created() == before)
            return true;
    }
    return false;
}

static void subreaper_signal(struct bw_contain *contain, int signal, pid_t not_group)
{
    struct bw_proc *list;
    ssize_t count = inside(contain, signal == SIGKILL ? SIGKILL : 0, &list);
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

void bw_contain_strike(struct bw_contain *contain, bool (*spares)(void *context, pid_t pid),
                       void *context)
{
    pid_t children[CHILDREN_MAX];
    struct bw_proc child;
    if (!contain->reaps)
        return;
    size_t count = bw_proc_children(children, CHILDREN_MAX);
    for (size_t i = 0; i < count; i++) /* nobody else waits for them, so no pid is recycled */
        if (!(spares && spares(context, children[i])) && bw_proc_read(children[i], &child) == 0 &&
            child.start >= contain->start)
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

/* Has this process no child at all, not even one to be waited for? */
static bool is_childless(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 && errno == ECHILD;
}

static void subreaper_look(struct bw_contain *contain, struct bw_contain_left *out)
{
    struct bw_proc *list;
    bool proves = contain->reaps && !BW_BUG(contain_trusts_scans);
    out->empty = proves && is_childless();
    if (out->empty)
        return;
    if (proves && contain->pid == getpid()) { /* the guardian: all its children are the work's */
        find_child(out);
        return;
    }
    ssize_t count = inside(contain, 0, &list);
    for (ssize_t i = 0; i < count; i++)
        if (list[i].marked && bw_proc_lives(&list[i])) {
            out->pid = list[i].pid;
            out->state = list[i].state;
        }
    bool quiet = !proves && count >= 0 && out->pid == 0 && follow(contain, 0, list, count, out);
    free(list);
    bool found = count < 0 || out->pid != 0;
    contain->clean_looks = found ? 0 : contain->clean_looks + (quiet ? QUIET_LOOK : 1);
    out->empty = !proves && contain->clean_looks >= CLEAN_LOOKS;
}

static void subreaper_remove(struct bw_contain *contain)
{
    contain->clean_looks = 0;
}

const struct bw_contain_ops bw_contain_subreaper = {
    .word = "subreaper",
    .make = subreaper_make,
    .fork = fork_into,
    .find = subreaper_find,
    .signal = subreaper_signal,
    .look = subreaper_look,
    .kill = subreaper_kill,
    .remove = subreaper_remove,
};
