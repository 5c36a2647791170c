/* Containments: where the work runs, so that all its processes can be found, signalled, killed and
 * confirmed dead.
 *
 *   cgroup     A cgroup v2 group of its own (cgroup.kill, cgroup.events). No process can leave it
 *              without privileges; double forks, setsid and reparenting do not help.
 *   pidns      A PID namespace whose init is ours. Killing the init kills every process in it.
 *   subreaper  Descendants of the guardian, and processes that carry its cookie in their
 *              environment. Only the process that inherits the work's orphans can prove the work
 *              dead: the guardian, or the supervisor once the guardian is dead. If both are dead,
 *              a successor must wait until the lease has expired.
 *
 * The name of a containment is stored in the election's record, so that a successor on the same
 * host can kill the work. The name ends with the place where it is valid (boot, PID and cgroup
 * namespace). In any other place it names nothing, and no process is touched. */
#ifndef BW_RUN_CONTAIN_CONTAIN_H
#define BW_RUN_CONTAIN_CONTAIN_H

#include "core/base/types.h"
#include "store/store.h"

#include <limits.h>
#include <sys/types.h>

enum bw_contain_kind { BW_CONTAIN_AUTO, BW_CONTAIN_CGROUP, BW_CONTAIN_PIDNS, BW_CONTAIN_SUBREAPER };

#define BW_CONTAIN_COOKIE "BELLWETHER_COOKIE"

struct bw_contain {
    enum bw_contain_kind kind;
    char name[BW_CONTAINMENT_MAX + 1];
    char path[PATH_MAX];  /* cgroup: its directory */
    pid_t pid;            /* pidns: the init; subreaper: the guardian */
    uint64_t start;       /* start time of that process */
    uint64_t space;       /* pidns: inode of the namespace */
    char cookie[80];      /* subreaper: the environment entry, "NAME=VALUE" */
    int command_fd;       /* pidns, creator only: pipe for signals that init sends; -1 otherwise */
    unsigned empty_scans; /* pidns, subreaper: consecutive scans that found no process */
    /* Subreaper: this process inherits the work's orphans, so it can prove the work dead. */
    bool reaps;
};

/* Result of bw_contain_check. */
struct bw_contain_left {
    /* Subreaper: a proof if this process `reaps`, otherwise it only means that no process was
     * found. */
    bool empty;
    pid_t pid; /* one of the processes that still run; 0: none was found */
    char state;
};

enum bw_contain_found {
    BW_CONTAIN_HERE, /* exists and can be examined */
    BW_CONTAIN_GONE, /* no longer exists: all its processes are dead */
    /* belongs to another boot, host or namespace: cannot be examined from here */
    BW_CONTAIN_ELSEWHERE,
    BW_CONTAIN_INVALID /* not a name of a containment */
};

const char *bw_contain_word(unsigned i); /* "auto", "cgroup", ...; NULL after the last */

/* Creates an empty containment. AUTO takes the first kind that works. Must be called by the
 * process that will be the parent of the work. Returns 0, or an error with a line in
 * why[BW_WHY_MAX + 1]. */
int bw_contain_make(struct bw_contain *out, enum bw_contain_kind kind, const char *election,
                    char *why);

/* Forks a process into the containment. Like fork(2): returns 0 in the child, which already runs
 * inside. */
pid_t bw_contain_fork(struct bw_contain *contain);

/* Finds a containment by name: that of our own guardian, or of a predecessor. */
enum bw_contain_found bw_contain_find(struct bw_contain *out, const char *name);

/* Returns whether the next work can use this containment too. Only a subreaper can be used again:
 *   - A pid namespace ends with its first work.
 *   - A successor may have removed the cgroup. Linux also kills a process that is cloned into a
 *     cgroup that was killed before. (Seen on 6.18: Linux compares the cgroup's kill count with
 *     that of the parent process's cgroup.) */
bool bw_contain_is_reusable(const struct bw_contain *contain);

/* Signals all processes in the containment, except members of the process group `not_group`, which
 * have already received the signal (0: no exception). */
void bw_contain_signal(struct bw_contain *contain, int signal, pid_t not_group);

/* Sends SIGKILL to all processes in the containment. Repeat until bw_contain_check() reports it
 * empty. */
void bw_contain_kill(struct bw_contain *contain);

/* Subreaper: the guardian is dead, and its orphans are now children of this process, its parent. */
void bw_contain_inherit(struct bw_contain *contain);

/* Subreaper, in the process that reaps: kills its own children that started after the guardian,
 * except those that `is_exempt` (may be NULL) selects. It needs no scan of /proc, so it is fast
 * enough for a chain of processes that each fork the next one and exit. Other kinds: does
 * nothing. */
void bw_contain_kill_children(struct bw_contain *contain,
                              bool (*is_exempt)(void *context, pid_t pid), void *context);

void bw_contain_check(struct bw_contain *contain, struct bw_contain_left *out);

/* A descriptor that gets POLLPRI when the containment may have become empty, or -1. The caller
 * closes it. */
int bw_contain_events(const struct bw_contain *contain);

/* Removes an empty containment. pidns: ends the init of the namespace, even if no work was ever
 * started in it. */
void bw_contain_remove(struct bw_contain *contain);

/* Operations of one kind; one file per kind. */
struct bw_contain_ops {
    const char *word;
    int (*make)(struct bw_contain *out, const char *election, char *why);
    pid_t (*fork)(struct bw_contain *contain);
    enum bw_contain_found (*find)(struct bw_contain *out, const char *text);
    void (*signal)(struct bw_contain *contain, int signal, pid_t not_group);
    void (*check)(struct bw_contain *contain, struct bw_contain_left *out);
    void (*kill)(struct bw_contain *contain);
    void (*remove)(struct bw_contain *contain);
};

extern const struct bw_contain_ops bw_contain_cgroup, bw_contain_pidns, bw_contain_subreaper;

/* Copies an election's name for use in a file name: letters, digits and '-' stay, other bytes
 * become '_'. */
void bw_contain_label(char *out, size_t size, const char *election);
uint64_t bw_contain_random(void);

#endif
