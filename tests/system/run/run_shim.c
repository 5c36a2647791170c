/* A clock that jumps, a disk that stalls, a message that is lost, and a guardian that is stopped
 * when a message arrives, for `bellwether run`.
 *
 * Adds the seconds in a file to CLOCK_REALTIME (file named by SHIM_REALTIME) or CLOCK_BOOTTIME
 * (SHIM_BOOTTIME). Kernel timers do not move: only readers of the clock see the jump, as after a
 * resume.
 *
 * While the file named by SHIM_STALL exists, no write of SQLite returns. One that waits adds a byte
 * to that file.
 *
 * The file named by SHIM_LOSE contains START or DISMISS: the supervisor cannot send the next
 * message of this kind to its guardian (ENOBUFS). Then the file is removed.
 *
 * The file named by SHIM_STOP contains START, STOP or DISMISS: the guardian that receives the next
 * message of this kind removes the file and gets SIGSTOP before it can handle the message. */
#include "run/guardian/guardian_message.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long shift_of(const char *variable)
{
    char text[32] = "";
    const char *path = getenv(variable);
    if (!path)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    return got > 0 ? strtol(text, NULL, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (result == 0 && clock == CLOCK_REALTIME)
        out->tv_sec += shift_of("SHIM_REALTIME");
    if (result == 0 && clock == CLOCK_BOOTTIME)
        out->tv_sec += shift_of("SHIM_BOOTTIME");
    return result;
}

static void stall(void)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    const char *path = getenv("SHIM_STALL");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    (void)!write(fd, "x", 1);
    close(fd);
    while (access(path, F_OK) == 0)
        nanosleep(&pause, NULL);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    stall();
    return (ssize_t)syscall(SYS_pwrite64, fd, data, size, at);
}

/* The kind of message that the file at `path` names; 0: none. */
static uint32_t kind_in(const char *path)
{
    static const struct {
        const char *name;
        uint32_t kind;
    } kinds[] = {{"START", BW_WIRE_START}, {"STOP", BW_WIRE_STOP}, {"DISMISS", BW_WIRE_DISMISS}};
    char name[16] = "";
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, name, sizeof name - 1);
    close(fd);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (got > 0 && strcmp(name, kinds[i].name) == 0)
            return kinds[i].kind;
    return 0;
}

static bool carries(const struct msghdr *message, const char *path)
{
    const struct iovec *part = message->msg_iov;
    const struct bw_wire *wire = part->iov_base;
    return path && part->iov_len == sizeof *wire && wire->kind == kind_in(path);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    const char *path = getenv("SHIM_LOSE");
    if (carries(message, path)) {
        unlink(path);
        errno = ENOBUFS;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    const char *path = getenv("SHIM_STOP");
    ssize_t got = syscall(SYS_recvmsg, fd, message, flags);
    if (got == (ssize_t)sizeof(struct bw_wire) && carries(message, path)) {
        unlink(path);
        kill(getpid(), SIGSTOP);
    }
    return got;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
