/* Where the work lives, so that all of it can be found, signalled, killed and known to be gone.
 *
 *   cgroup     a cgroup v2 group of its own; cgroup.kill, cgroup.events. Nothing leaves it without
 *              privilege: double forks, setsid and reparenting change nothing.
 *   pidns      a PID namespace whose init is ours; killing the init kills every process in it.
 *   subreaper  descendants of the guardian, and processes that carry its cookie in their
 *              environment. The work is proved dead by the process that inherits its orphans: the
 *              guardian, or the supervisor once the guardian is dead. When both are dead nobody
 *              can prove it any more: a successor waits until the lease has expired.
 *
 * A containment has a name that goes into the store's record, so that a successor on the same host
 * can empty it. The name ends in the place where it means something (boot, PID and cgroup
 * namespace): elsewhere it names nothing and nothing is touched. */
#ifndef BW_RUN_CONTAIN_H
#define BW_RUN_CONTAIN_H

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
    uint64_t start;       /* of that process */
    uint64_t space;       /* pidns: the namespace */
    char cookie[80];      /* subreaper: the entry in the environment, "NAME=VALUE" */
    int command_fd;       /* pidns, maker only: signals for init to send; -1 otherwise */
    unsigned clean_looks; /* pidns, subreaper: looks in a row that found nobody */
    bool reaps; /* subreaper: this process inherits the work's orphans, so it can prove the end */
};

/* What is left in it. */
struct bw_contain_left {
    bool empty; /* subreaper: a proof if this process `reaps`, otherwise only nobody found */
    pid_t pid;  /* one that is left, 0 = none was found */
    char state;
};

enum bw_contain_found {
    BW_CONTAIN_HERE,      /* exists and can be looked at */
    BW_CONTAIN_GONE,      /* does not exist any more: nothing of it lives */
    BW_CONTAIN_ELSEWHERE, /* another boot, host or namespace: cannot be judged from here */
    BW_CONTAIN_NONSENSE   /* not a name of ours */
};

const char *bw_contain_word(unsigned i); /* "auto", "cgroup", ...; NULL past the last */

/* Makes an empty containment; AUTO takes the first that works. To be called by the process that
 * will be the work's parent. Returns 0, or an error with a line in why[BW_WHY_MAX + 1]. */
int bw_contain_make(struct bw_contain *out, enum bw_contain_kind kind, const char *election,
                    char *why);

/* Forks into it. As fork(2): 0 in the child, which is already inside. */
pid_t bw_contain_fork(struct bw_contain *contain);

/* Finds a containment by its name: of our own guardian, or of a predecessor. */
enum bw_contain_found bw_contain_find(struct bw_contain *out, const char *name);

/* Can it be used again for the next work? A namespace is used up; a group may have been removed by
 * a successor, and Linux kills at birth who is cloned into a group that was killed before (seen on
 * 6.18: the group's kill count is compared with the one of the parent's group). */
bool bw_contain_lasts(const struct bw_contain *contain);

/* Signals everybody in it. `not_group`: except members of this process group (they have got it
 * already); 0: everybody. */
void bw_contain_signal(struct bw_contain *contain, int signal, pid_t not_group);

/* SIGKILL for everybody in it; to be repeated until look() says that it is empty. */
void bw_contain_kill(struct bw_contain *contain);

/* Subreaper: the guardian is dead, and its orphans are children of this process, its parent. */
void bw_contain_inherit(struct bw_contain *contain);

/* Subreaper, in the process that reaps: SIGKILL for its own children that started after the
 * guardian, except those that `spares` (may be NULL) names. It needs no scan of /proc, so it is
 * quick enough for a chain of processes that each fork the next one and exit. Other kinds: nothing.
 */
void bw_contain_strike(struct bw_contain *contain, bool (*spares)(void *context, pid_t pid),
                       void *context);

void bw_contain_look(struct bw_contain *contain, struct bw_contain_left *out);

/* A descriptor that gets POLLPRI when it may have become empty, or -1. The caller closes it. */
int bw_contain_events(const struct bw_contain *contain);

/* An empty containment is removed; a pidns init that waits for work ends. */
void bw_contain_remove(struct bw_contain *contain);

/* One file per kind. */
struct bw_contain_ops {
    const char *word;
    int (*make)(struct bw_contain *out, const char *election, char *why);
    pid_t (*fork)(struct bw_contain *contain);
    enum bw_contain_found (*find)(struct bw_contain *out, const char *text);
    void (*signal)(struct bw_contain *contain, int signal, pid_t not_group);
    void (*look)(struct bw_contain *contain, struct bw_contain_left *out);
    void (*kill)(struct bw_contain *contain);
    void (*remove)(struct bw_contain *contain);
};

extern const struct bw_contain_ops bw_contain_cgroup, bw_contain_pidns, bw_contain_subreaper;

/* A letter for each byte of an election's name that may stand in a file name, '_' for others. */
void bw_contain_label(char *out, size_t size, const char *election);
uint64_t bw_contain_random(void);

#endif
