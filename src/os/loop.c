/* A libuv loop that is opened and used without the risk of an abort; see loop.h. */
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

/* Two pipes for signals (the loop's, and with the first loop the process'), epoll and an eventfd.
 * The pipes are tried as pipes, because the kernel limits their memory per user, too. */
#define PIPES       2u
#define DESCRIPTORS (2 * PIPES + 2)

/* 0 or a negative errno. */
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

/* The size of libuv's pool, as libuv reads it. */
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

/* Starts as many threads as the pool has, all at once, and ends them. 0 or a negative errno. */
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

/* Once they could be started, the pool keeps its threads. */
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
