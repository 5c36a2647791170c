/* Reads processes from /proc, and signals them without ever hitting a recycled pid.
 *
 * A process is identified by its pid and the clock tick of its start. Together they are unique
 * within one boot and one PID namespace. */
#ifndef BW_RUN_CONTAIN_PROC_H
#define BW_RUN_CONTAIN_PROC_H

#include "core/base/types.h"

#include <sys/types.h>

struct bw_proc {
    pid_t pid, parent;
    uint64_t start;   /* clock ticks since boot */
    unsigned threads; /* a zombie with more than one thread: the first thread ended, others run */
    char state;       /* state of the first thread: R S D T t Z X */
    bool exiting;     /* the first thread is exiting and runs no more code */
    bool marked;      /* set by callers that select some processes */
};

/* Returns 0, or -1 if there is no such process. */
int bw_proc_read(pid_t pid, struct bw_proc *out);

/* Lists all processes by pid, none marked. The caller frees *out. Returns the count, or -1. */
ssize_t bw_proc_list(struct bw_proc **out);

/* Lists at most `max` children of the calling thread. Returns the count; also 0 if the kernel does
 * not list children (CONFIG_PROC_CHILDREN). */
size_t bw_proc_children(pid_t *out, size_t max);

/* The pid of the newest process or thread of this PID namespace; 0: unknown. If two calls return
 * the same number, nothing was created in between. */
uint64_t bw_proc_last_created(void);

/* Returns the process with that pid, or NULL. `list` comes from bw_proc_list(). */
const struct bw_proc *bw_proc_find(const struct bw_proc *list, size_t count, pid_t pid);

/* Marks all descendants of marked processes. `list` comes from bw_proc_list(). */
void bw_proc_mark_descendants(struct bw_proc *list, size_t count);

/* Signals exactly that process. Returns 0, or -1 with errno: ESRCH if it is gone, EPERM and
 * others. */
int bw_proc_signal(pid_t pid, uint64_t start, int signal);

/* True if the process runs or can run again: neither a zombie nor gone. */
bool bw_proc_lives(const struct bw_proc *proc);

/* Inode of a namespace ("pid", "cgroup") of a process; 0: unknown. pid 0: our own. */
uint64_t bw_proc_namespace(pid_t pid, const char *kind);

/* True if the process was started with the environment entry `text` ("NAME=value"). */
bool bw_proc_has_environment(const struct bw_proc *proc, const char *text);

/* Opens /dev/null for each standard stream that was closed at start. Otherwise a later descriptor
 * of ours would become a standard stream. */
void bw_run_fill_streams(void);

/* True if enough descriptors are free to start. Check this first: libuv aborts if it cannot create
 * its signal pipe. False with errno. */
bool bw_run_has_descriptors(void);

#endif
