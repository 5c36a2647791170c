/* Short commands that the supervisor runs beside the work: hooks, health checks, fencing. Each has
 * its own process group and a time limit, and their number is bounded. They do not belong to the
 * work: they run outside its containment and die with the supervisor. */
#ifndef BW_RUN_SUPERVISOR_SIDE_COMMAND_H
#define BW_RUN_SUPERVISOR_SIDE_COMMAND_H

#include "core/base/types.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#define BW_CHILDREN_MAX      16u
#define BW_CHILD_ENTRIES_MAX 8u

typedef void bw_child_done(void *context, bool good);

struct bw_child {
    pid_t pid; /* 0: free */
    bw_time kill_at;
    bw_child_done *done; /* NULL: the result is not needed */
    void *context;
};

struct bw_children {
    struct bw_child at[BW_CHILDREN_MAX];
    char **environment; /* common environment */
    sigset_t mask;
    struct rlimit core; /* limit of their core dumps */
};

struct bw_child_order {
    const char *shell;        /* a command for sh -c; or */
    const char *program;      /* a program, found through PATH */
    const char *arguments[2]; /* arguments of `program`; NULL: none */
    const char *input;        /* its standard input; NULL: empty */
    /* additional "NAME=value" entries; NULL-terminated */
    const char *entries[BW_CHILD_ENTRIES_MAX];
    bw_time limit_ns; /* time limit; NEVER: none */
    bw_child_done *done;
    void *context;
    pid_t *pid; /* receives the pid; may be NULL */
    int output; /* descriptor of its output; 0 or less: our standard error */
};

/* Starts a command. Returns 0, or an error (too many at once, or no process); `done` is then not
 * called. */
int bw_child_start(struct bw_children *children, const struct bw_child_order *order);
/* Handles a reaped process. Returns true if it was one of these commands. */
bool bw_child_reaped(struct bw_children *children, pid_t pid, int status);
void bw_child_tick(struct bw_children *children, bw_time now);
bw_time bw_child_deadline(const struct bw_children *children);
/* True if a hook runs whose result is not needed (one that reports a change). */
bool bw_child_hook_runs(const struct bw_children *children);
/* Kills all commands that still run. */
void bw_child_end_all(struct bw_children *children);

#endif
