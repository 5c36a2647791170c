/* Forked workers; see jobs.h. Shared memory holds the number of the next item and the current item
 * of each worker. Each worker sends its results through a pipe of its own, so that long results
 * never interleave. */
#include "cli/sim/jobs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_MS 200
#define IDLE    UINT64_MAX

struct shared {
    _Atomic uint64_t next;
    atomic_bool stop;
    _Atomic uint64_t at[BW_JOBS_MAX];
};

struct worker {
    pid_t pid; /* 0: none */
    int fd;
};

struct pool {
    const struct bw_sim_jobs *jobs;
    struct shared *shared;
    struct worker workers[BW_JOBS_MAX];
    unsigned count, alive;
    unsigned char *buffer; /* item number, then the result */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
    (void)signal;
    interrupted = 1;
}

unsigned bw_sim_jobs_cores(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > (long)BW_JOBS_MAX ? BW_JOBS_MAX : (unsigned)cores;
}

static bool write_all(int fd, const unsigned char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
    }
    return true;
}

static bool read_all(int fd, unsigned char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = read(fd, data, size);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
    }
    return true;
}

static void work_loop(struct pool *pool, unsigned self, int fd)
{
    const struct bw_sim_jobs *jobs = pool->jobs;
    struct shared *shared = pool->shared;
    if (jobs->begin)
        jobs->begin(jobs->context);
    while (!atomic_load(&shared->stop)) {
        uint64_t item = atomic_fetch_add(&shared->next, 1);
        if (item >= jobs->count)
            break;
        atomic_store(&shared->at[self], item);
        memcpy(pool->buffer, &item, sizeof item);
        memset(pool->buffer + sizeof item, 0, jobs->result_bytes);
        jobs->work(jobs->context, item, pool->buffer + sizeof item);
        if (!write_all(fd, pool->buffer, sizeof item + jobs->result_bytes))
            break;
        atomic_store(&shared->at[self], IDLE);
    }
}

static int spawn(struct pool *pool, unsigned self)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    atomic_store(&pool->shared->at[self], IDLE);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        close(ends[0]);
        work_loop(pool, self, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return -1;
    }
    pool->workers[self] = (struct worker){pid, ends[0]};
    pool->alive++;
    return 0;
}

/* Handles the end of a worker's pipe: the worker has finished, or it died at an item. */
static void handle_worker_end(struct pool *pool, unsigned self)
{
    struct worker *worker = &pool->workers[self];
    uint64_t item = atomic_load(&pool->shared->at[self]);
    int status = 0;
    waitpid(worker->pid, &status, 0);
    close(worker->fd);
    worker->pid = 0;
    pool->alive--;
    if (item == IDLE || interrupted)
        return;
    pool->jobs->died(pool->jobs->context, item, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    spawn(pool, self);
}

static void receive(struct pool *pool, unsigned self)
{
    const struct bw_sim_jobs *jobs = pool->jobs;
    uint64_t item;
    if (!read_all(pool->workers[self].fd, pool->buffer, sizeof item + jobs->result_bytes)) {
        handle_worker_end(pool, self);
        return;
    }
    memcpy(&item, pool->buffer, sizeof item);
    jobs->done(jobs->context, item, pool->buffer + sizeof item);
}

static void collect(struct pool *pool)
{
    struct pollfd fds[BW_JOBS_MAX];
    unsigned who[BW_JOBS_MAX], count = 0;
    for (unsigned i = 0; i < pool->count; i++)
        if (pool->workers[i].pid) {
            fds[count] = (struct pollfd){pool->workers[i].fd, POLLIN, 0};
            who[count++] = i;
        }
    if (poll(fds, count, TICK_MS) < 0)
        return;
    for (unsigned i = 0; i < count; i++)
        if (fds[i].revents)
            receive(pool, who[i]);
}

static void end_workers(struct pool *pool)
{
    for (unsigned i = 0; i < pool->count; i++)
        if (pool->workers[i].pid)
            kill(pool->workers[i].pid, SIGKILL);
    for (unsigned i = 0; i < pool->count; i++)
        if (pool->workers[i].pid)
            handle_worker_end(pool, i);
}

static int run_pool(struct pool *pool)
{
    int error = 0;
    for (unsigned i = 0; i < pool->count && error == 0; i++)
        error = spawn(pool, i);
    if (pool->alive == 0)
        return -1;
    while (pool->alive > 0 && !interrupted) {
        collect(pool);
        if (!pool->jobs->tick(pool->jobs->context))
            atomic_store(&pool->shared->stop, true);
    }
    end_workers(pool);
    return interrupted ? 1 : 0;
}

int bw_sim_jobs_run(const struct bw_sim_jobs *jobs)
{
    struct sigaction action = {.sa_handler = on_signal}, old_int, old_term;
    struct pool *pool = calloc(1, sizeof *pool);
    int result = -1;
    if (!pool)
        return -1;
    pool->jobs = jobs;
    pool->count = jobs->workers > BW_JOBS_MAX ? BW_JOBS_MAX : jobs->workers;
    if (jobs->count < pool->count)
        pool->count = (unsigned)jobs->count;
    pool->buffer = malloc(sizeof(uint64_t) + jobs->result_bytes);
    pool->shared =
        mmap(NULL, sizeof *pool->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pool->buffer && pool->shared != MAP_FAILED) {
        interrupted = 0;
        sigaction(SIGINT, &action, &old_int);
        sigaction(SIGTERM, &action, &old_term);
        result = run_pool(pool);
        sigaction(SIGINT, &old_int, NULL);
        sigaction(SIGTERM, &old_term, NULL);
    }
    if (pool->shared != MAP_FAILED)
        munmap(pool->shared, sizeof *pool->shared);
    free(pool->buffer);
    free(pool);
    return result;
}
