/* Measures how long the machine itself stood still, so that a test can tell a stalled machine from
 * a defect. stall.py does the same for Python.
 *
 * Two measurements:
 *   - One thread per CPU sleeps for 5 ms at a time and notes how late it wakes up. If it is late,
 *     the machine had no CPU for it, nor for the programs under test.
 *   - The kernel counts how long the calling thread was runnable, but waited for a CPU.
 * A test may repeat the action that it judges only after it has measured such a stall, and prints
 * that it does:
 *
 *     stall_watch();
 *     ... the judged action ...
 *     if (failed && stall_excuses(500, "the renewal"))
 *         ... repeat it ...
 *
 * Not measured: a slow disk; see disk_stall.h. */
#ifndef BW_TESTS_SYSTEM_KIT_STALL_H
#define BW_TESTS_SYSTEM_KIT_STALL_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define STALL_CPUS_MAX 64u
#define STALL_TICK_NS  5000000

/* One per program; its threads run until the program ends. */
static struct {
    pid_t pid; /* of the process in which the threads run: a forked child has none */
    unsigned count;
    long long waited_ns;     /* of the calling thread, at stall_watch */
    atomic_llong since_ns;   /* time of stall_watch: what was before does not count */
    atomic_llong longest_ns; /* negative: none */
    long long watches;
    struct stall_thread {
        int cpu;
        atomic_llong slept_at; /* when it last went to sleep */
    } threads[STALL_CPUS_MAX];
} stall_gauge;

static inline long long stall_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void stall_note(const struct stall_thread *thread)
{
    long long due = atomic_load(&thread->slept_at) + STALL_TICK_NS, longest, late;
    do {
        longest = atomic_load(&stall_gauge.longest_ns); /* before `since`: see stall_watch */
        long long since = atomic_load(&stall_gauge.since_ns);
        late = stall_now_ns() - (due > since ? due : since);
    } while (late > 0 && late > longest &&
             !atomic_compare_exchange_weak(&stall_gauge.longest_ns, &longest, late));
}

static inline void *stall_run(void *context)
{
    struct stall_thread *thread = context;
    const struct timespec tick = {.tv_nsec = STALL_TICK_NS};
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)thread->cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    for (;;) {
        stall_note(thread); /* also how late the thread itself started */
        atomic_store(&thread->slept_at, stall_now_ns());
        nanosleep(&tick, NULL);
    }
    return NULL;
}

static inline void stall_start(void)
{
    cpu_set_t allowed;
    pthread_t id;
    stall_gauge.pid = getpid();
    stall_gauge.count = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        CPU_ZERO(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE && stall_gauge.count < STALL_CPUS_MAX; cpu++) {
        struct stall_thread *thread = &stall_gauge.threads[stall_gauge.count];
        if (!CPU_ISSET((size_t)cpu, &allowed))
            continue;
        thread->cpu = cpu;
        atomic_store(&thread->slept_at, stall_now_ns());
        if (pthread_create(&id, NULL, stall_run, thread) == 0 && pthread_detach(id) == 0)
            stall_gauge.count++;
    }
}

/* How long the calling thread has waited for a CPU so far; 0 if the kernel does not tell. */
static inline long long stall_waited_ns(void)
{
    long long waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%*s %lld", &waited) != 1)
        waited = 0;
    fclose(file);
    return waited;
}

/* Starts the measurement of the action that follows. */
static inline void stall_watch(void)
{
    stall_gauge.waited_ns = stall_waited_ns();
    if (stall_gauge.pid != getpid())
        stall_start();
    atomic_store(&stall_gauge.since_ns, stall_now_ns());
    /* a different value each time: a thread that compared an earlier one does not replace it */
    atomic_store(&stall_gauge.longest_ns, -++stall_gauge.watches);
}

/* The longest stall since stall_watch, or how long the calling thread waited for a CPU since then,
 * whichever is longer. A stall that has not ended counts, too: the calling thread may run again
 * before the others do. */
static inline int64_t stall_longest_ns(void)
{
    for (unsigned i = 0; i < stall_gauge.count; i++)
        stall_note(&stall_gauge.threads[i]);
    long long waited = stall_waited_ns() - stall_gauge.waited_ns;
    long long longest = atomic_load(&stall_gauge.longest_ns);
    return waited > longest ? waited : longest;
}

/* True if the machine stalled for at least `ms` since stall_watch. Prints then that `what` is not
 * judged. */
static inline bool stall_excuses(int64_t ms, const char *what)
{
    int64_t longest_ms = stall_longest_ns() / 1000000;
    if (longest_ms < ms)
        return false;
    printf("# the machine stalled for %lld ms: %s is not judged\n", (long long)longest_ms, what);
    fflush(stdout);
    return true;
}

#endif
