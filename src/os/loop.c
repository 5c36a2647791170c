/* Opens a libuv loop and resolves names on it; see loop.h. */
#include "os/loop.h"

#include "core/base/bug.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

/* Descriptors of a loop: two signal pipes (the loop's own, and the process' pipe made with the
 * first loop), epoll and an eventfd. The check creates real pipes, because the kernel also limits
 * pipe memory per user. */
#define PIPES       2u
#define DESCRIPTORS (2 * PIPES + 2)

/* Returns 0 or a negative errno. */
static int check_descriptors(void)
{
    int fds[DESCRIPTORS], error = 0;
    unsigned count = 0;
    while (count < DESCRIPTORS && !error) {
        bool pipes = count < 2 * PIPES;
        if (!pipes)
            fds[count] = eventfd(0, EFD_CLOEXEC);
        if (pipes ? pipe2(&fds[count], O_CLOEXEC) != 0 : fds[count] < 0)
            error = -errno;
        else
            count += pipes ? 2 : 1;
    }
    while (count > 0)
        close(fds[--count]);
    return error;
}

int bw_loop_init(uv_loop_t *loop)
{
    int error = BW_BUG(loop_trusts_libuv) ? 0 : check_descriptors();
    return error ? error : uv_loop_init(loop);
}

/* Size of libuv's thread pool, read the same way as libuv does. */
#define POOL_DEFAULT 4u
#define POOL_MAX     1024u

static unsigned pool_size(void)
{
    const char *text = getenv("UV_THREADPOOL_SIZE");
    unsigned long size = text ? strtoul(text, NULL, 10) : POOL_DEFAULT;
    return size == 0 ? 1 : size > POOL_MAX ? POOL_MAX : (unsigned)size;
}

static void *wait_for_all(void *all_started)
{
    pthread_mutex_lock(all_started);
    pthread_mutex_unlock(all_started);
    return NULL;
}

/* Checks that libuv can start its pool: starts the same number of threads, all at the same time,
 * and ends them. Returns 0 or a negative errno. */
static int try_threads(void)
{
    static pthread_t threads[POOL_MAX];
    pthread_mutex_t all_started = PTHREAD_MUTEX_INITIALIZER;
    sigset_t all, before;
    unsigned count = 0, size = pool_size();
    int error = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&all_started);
    while (count < size && !error) {
        error = pthread_create(&threads[count], NULL, wait_for_all, &all_started);
        count += !error;
    }
    pthread_mutex_unlock(&all_started);
    while (count > 0)
        pthread_join(threads[--count], NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_destroy(&all_started);
    return -error;
}

/* Checks this until it succeeds once: libuv starts its pool only once and never ends its
 * threads. */
static int check_threads(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static bool started;
    pthread_mutex_lock(&once);
    int error = started ? 0 : try_threads();
    started = !error;
    pthread_mutex_unlock(&once);
    return error;
}

int bw_loop_look_up(uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb found,
                    const char *host, const char *service, const struct addrinfo *hints)
{
    int error = BW_BUG(loop_trusts_libuv) ? 0 : check_threads();
    return error ? error : uv_getaddrinfo(loop, request, found, host, service, hints);
}

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

static void on_nothing(uv_work_t *work, int status)
{
    (void)status;
    free(work);
}

int bw_loop_start_pool(uv_loop_t *loop)
{
    int error = check_threads();
    uv_work_t *work = error ? NULL : malloc(sizeof *work);
    if (!error && !work)
        error = UV_ENOMEM;
    return error ? error : uv_queue_work(loop, work, do_nothing, on_nothing);
}
