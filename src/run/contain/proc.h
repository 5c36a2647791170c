/* Looking at processes through /proc, and signalling them without ever hitting a recycled pid.
 *
 * A process is named by its pid and the tick of its start: together they are unique for one boot
 * and one PID namespace. */
#ifndef BW_RUN_PROC_H
#define BW_RUN_PROC_H

#include "core/base/types.h"

#include <sys/types.h>

struct bw_proc {
    pid_t pid, parent;
    uint64_t start;   /* clock ticks since boot */
    unsigned threads; /* a zombie with more than one: the first ended, others run */
    char state;       /* of the first thread: R S D T t Z X */
    bool exiting;     /* the first thread is past the point where it can do anything */
    bool marked;      /* for callers that choose some of them */
};

/* Returns 0, or -1 when there is no such process. */
int bw_proc_read(pid_t pid, struct bw_proc *out);

/* All processes by pid, none marked; the caller frees *out. Returns how many, or -1. */
ssize_t bw_proc_list(struct bw_proc **out);

/* The children of the calling thread, at most `room` of them. Returns how many; 0 also where the
 * kernel does not list them (CONFIG_PROC_CHILDREN). */
size_t bw_proc_children(pid_t *out, size_t room);

/* The number that the newest process or thread of this PID namespace got; 0: cannot tell. If it is
 * the same before and after, nothing was created meanwhile. */
uint64_t bw_proc_last_created(void);

/* The one with that pid, or NULL. `list` is as bw_proc_list() made it. */
const struct bw_proc *bw_proc_find(const struct bw_proc *list, size_t count, pid_t pid);

/* Marks every descendant of a marked one. `list` is as bw_proc_list() made it. */
void bw_proc_mark_descendants(struct bw_proc *list, size_t count);

/* Signals exactly that process. Returns 0; -1 with errno ESRCH when it is gone, EPERM... */
int bw_proc_signal(pid_t pid, uint64_t start, int signal);

/* True if it still runs, or could run again: not a zombie, not gone. */
bool bw_proc_lives(const struct bw_proc *proc);

/* The inode of a namespace of a process ("pid", "cgroup"); 0: cannot tell. pid 0: our own. */
uint64_t bw_proc_namespace(pid_t pid, const char *kind);

/* True if the environment the process was started with has the entry `text` ("NAME=value"). */
bool bw_proc_has_environment(const struct bw_proc *proc, const char *text);

/* Standard streams that were closed at start must not become something else of ours. */
void bw_run_fill_streams(void);

/* Libuv aborts where it finds none for its own signals: look first. False with errno. */
bool bw_run_has_descriptors(void);

/* Now, on CLOCK_BOOTTIME. */
bw_time bw_run_now(void);

#endif
