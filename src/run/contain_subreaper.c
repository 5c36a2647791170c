/* Containment without any privilege: the guardian is a child subreaper, so what loses its parent
 * comes to it; and the work carries a random cookie in its environment, by which it is found when
 * the guardian is gone.
 *
 * Not guaranteed: that a process is found which wiped its environment AND left the guardian's tree
 * because the guardian was killed. The work's first process dies with the guardian
 * (PR_SET_PDEATHSIG). Use cgroup or pidns where that is not enough. */
#include "run/contain.h"

#include "run/proc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLEAN_LOOKS 2u

static int subreaper_make(struct bw_contain *out, const char *election, char *why)
{
    struct bw_proc self;
    (void)election;
    if (bw_proc_read(getpid(), &self) != 0)
        return bw_store_say(why, BW_EUNSUPPORTED, "/proc is not mounted here");
    unsigned long long random = bw_contain_random();
    out->pid = self.pid;
    out->start = self.start;
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

/* Marks the work: the guardian's descendants and the cookie's bearers with theirs. */
static ssize_t inside(const struct bw_contain *contain, struct bw_proc **list)
{
    ssize_t count = bw_proc_list(list), guardian = -1;
    for (ssize_t i = 0; i < count; i++) {
        struct bw_proc *proc = &(*list)[i];
        if (proc->pid == contain->pid && proc->start == contain->start)
            guardian = i;
        proc->marked = guardian == i || bw_proc_has_environment(proc->pid, contain->cookie);
    }
    if (count > 0)
        bw_proc_mark_descendants(*list, (size_t)count);
    if (guardian >= 0)
        (*list)[guardian].marked = false;
    return count;
}

static void subreaper_signal(struct bw_contain *contain, int signal, pid_t not_group)
{
    struct bw_proc *list;
    ssize_t count = inside(contain, &list);
    for (ssize_t i = 0; i < count; i++)
        if (list[i].marked && bw_proc_lives(&list[i]) &&
            (not_group == 0 || getpgid(list[i].pid) != not_group))
            bw_proc_signal(list[i].pid, list[i].start, signal);
    free(list);
}

static void subreaper_kill(struct bw_contain *contain)
{
    subreaper_signal(contain, SIGKILL, 0);
}

static void subreaper_look(struct bw_contain *contain, struct bw_contain_left *out)
{
    struct bw_proc *list;
    ssize_t count = inside(contain, &list);
    unsigned living = count < 0;
    for (ssize_t i = 0; i < count; i++)
        if (list[i].marked && bw_proc_lives(&list[i])) {
            living++;
            out->pid = list[i].pid;
            out->state = list[i].state;
        }
    free(list);
    contain->clean_looks = living == 0 ? contain->clean_looks + 1 : 0;
    out->empty = contain->clean_looks >= CLEAN_LOOKS; /* one may have forked past the first look */
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
