/* Measures how long the disk of the machine stood still, so that a test can tell a slow disk from a
 * defect. stall.h does the same for the CPU.
 *
 * The header replaces pwrite, fdatasync and fsync of the program, and notes for each thread how
 * long its calls took in the kernel. Time between the calls does not count. Include it in one
 * source file of a test whose threads write to a disk:
 *
 *     disk_stall_watch();
 *     ... the judged action ...
 *     if (failed && disk_stall_excuses(500, "the proposal"))
 *         ... repeat it ...
 *
 * A call that began before disk_stall_watch and ends after it counts in full. */
#ifndef BW_TESTS_SYSTEM_KIT_DISK_STALL_H
#define BW_TESTS_SYSTEM_KIT_DISK_STALL_H

#include "system/kit/stall.h"

#include <sys/syscall.h>

#define DISK_STALL_THREADS_MAX 1024 /* further threads are not measured */

static struct {
    atomic_int count;
    struct disk_stall_thread {
        atomic_llong begun_ns; /* of the call that this thread is in; 0: none */
        atomic_llong spent_ns; /* in calls that have ended since disk_stall_watch */
    } threads[DISK_STALL_THREADS_MAX];
} disk_stall_gauge;

static inline struct disk_stall_thread *disk_stall_self(void)
{
    static _Thread_local int self = -1;
    if (self < 0)
        self = atomic_fetch_add(&disk_stall_gauge.count, 1);
    return self < DISK_STALL_THREADS_MAX ? &disk_stall_gauge.threads[self] : NULL;
}

static inline void disk_stall_begin(void)
{
    struct disk_stall_thread *self = disk_stall_self();
    if (self)
        atomic_store(&self->begun_ns, stall_now_ns());
}

static inline void disk_stall_end(void)
{
    struct disk_stall_thread *self = disk_stall_self();
    if (self) /* the time is added first: a reader may count it twice, but never misses it */
        atomic_fetch_add(&self->spent_ns, stall_now_ns() - atomic_load(&self->begun_ns));
    if (self)
        atomic_store(&self->begun_ns, 0);
}

int fdatasync(int fd)
{
    disk_stall_begin();
    int result = (int)syscall(SYS_fdatasync, fd);
    disk_stall_end();
    return result;
}

int fsync(int fd)
{
    disk_stall_begin();
    int result = (int)syscall(SYS_fsync, fd);
    disk_stall_end();
    return result;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    disk_stall_begin();
    ssize_t result = (ssize_t)syscall(SYS_pwrite64, fd, data, size, at);
    disk_stall_end();
    return result;
}

static inline int disk_stall_count(void)
{
    int count = atomic_load(&disk_stall_gauge.count);
    return count < DISK_STALL_THREADS_MAX ? count : DISK_STALL_THREADS_MAX;
}

/* Starts the measurement of the action that follows. */
static inline void disk_stall_watch(void)
{
    for (int i = 0; i < disk_stall_count(); i++)
        atomic_store(&disk_stall_gauge.threads[i].spent_ns, 0);
}

/* The time that one thread has spent in the kernel's calls, of the thread with the most. */
static inline int64_t disk_stall_longest_ns(void)
{
    long long longest = 0, now = stall_now_ns();
    for (int i = 0; i < disk_stall_count(); i++) {
        long long begun = atomic_load(&disk_stall_gauge.threads[i].begun_ns);
        long long spent = atomic_load(&disk_stall_gauge.threads[i].spent_ns);
        spent += begun ? now - begun : 0;
        longest = spent > longest ? spent : longest;
    }
    return longest;
}

/* True if a thread spent at least `ms` in writes and syncs since disk_stall_watch. Prints then that
 * `what` is not judged. */
static inline bool disk_stall_excuses(int64_t ms, const char *what)
{
    int64_t longest_ms = disk_stall_longest_ns() / 1000000;
    if (longest_ms < ms)
        return false;
    printf("# the disk stalled for %lld ms: %s is not judged\n", (long long)longest_ms, what);
    fflush(stdout);
    return true;
}

#endif
