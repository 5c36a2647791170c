/* Small commands that the supervisor runs beside the work: hooks, health checks, fencing. Each has
 * its own process group and a time limit; all are bounded in number. They are not the work: they
 * run outside its containment and die with the supervisor. */
#ifndef BW_RUN_CHILD_H
#define BW_RUN_CHILD_H

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
    bw_child_done *done; /* NULL: nobody wants to know */
    void *context;
};

struct bw_children {
    struct bw_child at[BW_CHILDREN_MAX];
    char **environment; /* what all of them get */
    sigset_t mask;
    struct rlimit core; /* of their core dumps */
};

struct bw_child_order {
    const char *shell;                         /* a line for sh -c; or */
    const char *program;                       /* a program, found by PATH */
    const char *arguments[2];                  /* of it; NULL: none */
    const char *input;                         /* what it reads; NULL: nothing */
    const char *entries[BW_CHILD_ENTRIES_MAX]; /* "NAME=value" on top; NULL-ended */
    bw_time limit_ns;                          /* NEVER: none */
    bw_child_done *done;
    void *context;
    pid_t *pid; /* where to put it; NULL: not wanted */
    int output; /* where its output goes; 0 or below: to our standard error */
};

/* Returns 0, or an error: too many at once, or no process. `done` is then not called. */
int bw_child_start(struct bw_children *children, const struct bw_child_order *order);
/* A process was reaped; true if it was one of these. */
bool bw_child_reaped(struct bw_children *children, pid_t pid, int status);
void bw_child_tick(struct bw_children *children, bw_time now);
bw_time bw_child_deadline(const struct bw_children *children);
/* One is under way whose end nobody waits for: a hook that tells of a change. */
bool bw_child_tells(const struct bw_children *children);
/* Kills those that are left. */
void bw_child_end_all(struct bw_children *children);

#endif
