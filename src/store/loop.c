/* A libuv loop that is opened without the risk of an abort; see loop.h. */
#include "store/loop.h"

#include "base/bug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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
