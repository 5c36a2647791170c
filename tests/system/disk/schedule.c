/* Coroutines in the place of threads; see schedule.h. */
#include "system/disk/schedule.h"

#include "core/base/rng.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <uv.h>

#define THREADS_MAX 32
#define STACK_BYTES ((size_t)512 << 10)

enum wait {
    RUNS,
    WAITS_FOR_LOCK,
    WAITS_FOR_SIGNAL,
    WAITS_FOR_BYTES,
    WAITS_FOR_END,
    WAITS_FOR_QUIET /* until no other thread can run */
};

struct thread {
    ucontext_t context;
    char *stack;
    bool used, ended;
    enum wait wait;
    const void *on; /* the lock or the condition */
    int fd;         /* -1: none */
    bool or_job;    /* a completed job ends the wait, too */
    bool signalled;
    int joins;
    void (*entry)(void *argument);
    void *argument;
    uv_work_t *job;
    uv_after_work_cb after;
};

static struct {
    struct thread thread[THREADS_MAX];
    int current;
    struct bw_rng rng;
    /* a thread that can go on is interrupted at one of so many points: the main one, the others */
    uint64_t patience[2];
    struct schedule_path *path;
    uint32_t decisions, preemptions;
} s;

static bool has_bytes(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) == 1;
}

static bool has_completed_job(void)
{
    for (int i = 0; i < THREADS_MAX; i++)
        if (s.thread[i].used && s.thread[i].job && s.thread[i].ended)
            return true;
    return false;
}

static bool can_run(const struct thread *thread)
{
    if (!thread->used || thread->ended)
        return false;
    switch (thread->wait) {
    case WAITS_FOR_LOCK:
        return *(const int *)thread->on == 0;
    case WAITS_FOR_SIGNAL:
        return thread->signalled;
    case WAITS_FOR_BYTES:
        return (thread->fd >= 0 && has_bytes(thread->fd)) ||
               (thread->or_job && has_completed_job());
    case WAITS_FOR_END:
        return s.thread[thread->joins].ended;
    case WAITS_FOR_QUIET:
        return false;
    default:
        return true;
    }
}

/* Follows the path: the first option is to go on, others cost a preemption if this one can run. */
static uint32_t decide_on_path(uint32_t count, bool free_choice)
{
    if (s.decisions == SCHEDULE_DECISIONS)
        return 0;
    if (!free_choice && s.preemptions >= s.path->preemptions_max)
        count = 1;
    uint32_t at = s.decisions++, taken = at < s.path->count ? s.path->taken[at] : 0;
    s.path->taken[at] = (uint16_t)taken;
    s.path->options[at] = (uint16_t)count;
    s.path->count = s.decisions > s.path->count ? s.decisions : s.path->count;
    s.preemptions += !free_choice && taken > 0;
    return taken;
}

static uint32_t decide(uint32_t count, bool free_choice)
{
    if (count == 1)
        return 0;
    if (s.path)
        return decide_on_path(count, free_choice);
    if (!free_choice && bw_rng_below(&s.rng, s.patience[s.current != 0]) != 0)
        return 0;
    return (uint32_t)bw_rng_below(&s.rng, count);
}

/* Lets one of the threads that can run continue. Returns false if there is none. */
static bool hand_over(void)
{
    int options[THREADS_MAX];
    uint32_t count = 0;
    int from = s.current;
    bool goes_on = can_run(&s.thread[from]);
    if (goes_on)
        options[count++] = from;
    for (int i = 0; i < THREADS_MAX; i++)
        if (i != from && can_run(&s.thread[i]))
            options[count++] = i;
    if (count == 0 && s.thread[0].wait == WAITS_FOR_QUIET)
        options[count++] = 0;
    if (count == 0)
        return false;
    int to = options[decide(count, !goes_on)];
    s.current = to;
    if (to != from)
        swapcontext(&s.thread[from].context, &s.thread[to].context);
    s.thread[s.current].wait = RUNS;
    return true;
}

static void stuck(const char *why)
{
    printf("# every thread waits: %s\n", why);
    fflush(stdout);
    _exit(1);
}

static void wait_for(enum wait wait, const char *why)
{
    s.thread[s.current].wait = wait;
    if (!hand_over())
        stuck(why);
}

void schedule_point(void)
{
    if (s.thread[s.current].used)
        hand_over();
}

bool schedule_wait(int fd)
{
    struct thread *self = &s.thread[s.current];
    self->wait = WAITS_FOR_BYTES;
    self->fd = fd;
    self->or_job = true;
    bool good = hand_over();
    self->or_job = false;
    self->wait = RUNS;
    return good;
}

void schedule_quiet(void)
{
    wait_for(WAITS_FOR_QUIET, "for the others");
}

void schedule_restart(uint64_t seed)
{
    static const uint64_t patience[] = {1, 4, 64};
    for (int i = 0; i < THREADS_MAX; i++)
        if (i != s.current)
            free(s.thread[i].stack);
    memset(&s, 0, sizeof s); /* the stack of the running coroutine stays */
    s.thread[0].used = true;
    bw_rng_init(&s.rng, seed);
    for (unsigned i = 0; i < 2; i++)
        s.patience[i] = patience[bw_rng_below(&s.rng, 3)];
}

void schedule_follow(struct schedule_path *path)
{
    s.path = path;
    s.decisions = s.preemptions = 0;
}

bool schedule_next(struct schedule_path *path)
{
    while (path->count && path->taken[path->count - 1] + 1u >= path->options[path->count - 1])
        path->count--;
    if (path->count == 0)
        return false;
    path->taken[path->count - 1]++;
    return true;
}

static void run_thread(void)
{
    struct thread *self = &s.thread[s.current];
    self->entry(self->argument);
    self->ended = true;
    if (!hand_over())
        stuck("the last thread ended");
}

static bool prepare(struct thread *thread)
{
    thread->stack = malloc(STACK_BYTES);
    if (!thread->stack || getcontext(&thread->context) != 0)
        return false;
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&thread->context, run_thread, 0);
    return true;
}

static int start(void (*entry)(void *argument), void *argument)
{
    int i = 1;
    while (i < THREADS_MAX && s.thread[i].used)
        i++;
    if (i == THREADS_MAX)
        return -1;
    s.thread[i] = (struct thread){.used = true, .entry = entry, .argument = argument, .fd = -1};
    return prepare(&s.thread[i]) ? i : -1;
}

static void end(struct thread *thread)
{
    free(thread->stack);
    *thread = (struct thread){0};
}

/* ---- the functions of libuv and of the C library ---- */

int uv_thread_create(uv_thread_t *tid, uv_thread_cb entry, void *argument)
{
    int i = start(entry, argument);
    *tid = (uv_thread_t)i;
    return i < 0 ? UV_EAGAIN : 0;
}

/* The type is libuv's. NOLINTNEXTLINE(readability-non-const-parameter) */
int uv_thread_join(uv_thread_t *tid)
{
    s.thread[s.current].joins = (int)*tid;
    wait_for(WAITS_FOR_END, "for the end of a thread");
    end(&s.thread[*tid]);
    return 0;
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
    (void)thread;
    (void)size;
    (void)set;
    return 0;
}

static void do_job(void *argument)
{
    uv_work_t *job = argument;
    job->work_cb(job);
}

int uv_queue_work(uv_loop_t *loop, uv_work_t *job, uv_work_cb work, uv_after_work_cb after)
{
    int i = start(do_job, job);
    if (i < 0)
        return UV_EAGAIN;
    job->loop = loop;
    job->work_cb = work;
    s.thread[i].job = job;
    s.thread[i].after = after;
    return 0;
}

void schedule_complete(void)
{
    for (int i = 1; i < THREADS_MAX; i++) {
        struct thread done = s.thread[i];
        if (!done.used || !done.job || !done.ended)
            continue;
        end(&s.thread[i]);
        done.after(done.job, 0);
    }
}

unsigned schedule_jobs(void)
{
    unsigned count = 0;
    for (int i = 1; i < THREADS_MAX; i++)
        count += s.thread[i].used && s.thread[i].job;
    return count;
}

/* A lock is an int: the number of its owner plus 1. */
int uv_mutex_init(uv_mutex_t *mutex)
{
    *(int *)mutex = 0;
    return 0;
}

void uv_mutex_destroy(uv_mutex_t *mutex)
{
    (void)mutex;
}

void uv_mutex_lock(uv_mutex_t *mutex)
{
    schedule_point();
    while (*(int *)mutex != 0) {
        s.thread[s.current].on = mutex;
        wait_for(WAITS_FOR_LOCK, "for a lock");
    }
    *(int *)mutex = s.current + 1;
}

void uv_mutex_unlock(uv_mutex_t *mutex)
{
    *(int *)mutex = 0;
}

int uv_cond_init(uv_cond_t *condition)
{
    (void)condition;
    return 0;
}

void uv_cond_destroy(uv_cond_t *condition)
{
    (void)condition;
}

void uv_cond_signal(uv_cond_t *condition)
{
    for (int i = 0; i < THREADS_MAX; i++)
        if (s.thread[i].used && s.thread[i].wait == WAITS_FOR_SIGNAL &&
            s.thread[i].on == condition) {
            s.thread[i].signalled = true;
            return;
        }
}

void uv_cond_wait(uv_cond_t *condition, uv_mutex_t *mutex)
{
    struct thread *self = &s.thread[s.current];
    self->on = condition;
    self->signalled = false;
    uv_mutex_unlock(mutex);
    wait_for(WAITS_FOR_SIGNAL, "for a condition");
    uv_mutex_lock(mutex);
}

/* A coroutine other than the main one waits for bytes without stopping the others. */
ssize_t read(int fd, void *bytes, size_t length)
{
    while (s.current != 0 && !has_bytes(fd)) {
        s.thread[s.current].fd = fd;
        wait_for(WAITS_FOR_BYTES, "for bytes");
    }
    return syscall(SYS_read, fd, bytes, length);
}
