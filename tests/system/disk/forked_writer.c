/* Carries out the file operations of a forked process; see forked_writer.h. */
#include "system/disk/forked_writer.h"

#include "system/disk/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define PATH_SIZE 512u

enum call { CALL_OPEN, CALL_CLOSE, CALL_WRITE, CALL_SYNC, CALL_RENAME, CALL_UNLINK, CALL_POINT };

struct request {
    enum call call;
    int fd, flags;
    mode_t mode;
    size_t length; /* of the bytes that follow */
    char name[PATH_SIZE], to[PATH_SIZE];
};

struct answer {
    long result;
    int error;
};

static struct {
    pid_t pid, owner; /* 0: none; the process that forked it */
    int socket;       /* in the owner; in the forked process too */
    bool forked;      /* this is the forked process */
    int flags;        /* there: of the file it writes */
    uv_thread_t server;
} w;

/* ---- in the forked process ---- */

static bool transfer(long call, void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        long moved = syscall(call, w.socket, (char *)bytes + done, length - done);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return false;
        done += (size_t)moved;
    }
    return true;
}

static long ask(const struct request *request, const void *bytes)
{
    struct answer answer;
    if (!transfer(SYS_write, (void *)request, sizeof *request) ||
        !transfer(SYS_write, (void *)bytes, request->length) ||
        !transfer(SYS_read, &answer, sizeof answer))
        _exit(1); /* the node was killed */
    errno = answer.error;
    return answer.result;
}

static int ask_to_open(int at, const char *path, int flags, mode_t mode)
{
    struct request request = {.call = CALL_OPEN, .fd = at, .flags = flags, .mode = mode};
    snprintf(request.name, sizeof request.name, "%s", path);
    w.flags = flags;
    return (int)ask(&request, NULL);
}

static int ask_to_close(int fd)
{
    return (int)ask(&(struct request){.call = CALL_CLOSE, .fd = fd}, NULL);
}

static ssize_t ask_to_write(int fd, const void *bytes, size_t length)
{
    return ask(&(struct request){.call = CALL_WRITE, .fd = fd, .length = length}, bytes);
}

static int ask_to_sync(int fd)
{
    return (int)ask(&(struct request){.call = CALL_SYNC, .fd = fd}, NULL);
}

static int ask_to_rename(int from_at, const char *from, int to_at, const char *to)
{
    struct request request = {.call = CALL_RENAME, .fd = from_at};
    snprintf(request.name, sizeof request.name, "%s", from);
    snprintf(request.to, sizeof request.to, "%s", to);
    if (from_at != to_at)
        _exit(1); /* not needed so far */
    return (int)ask(&request, NULL);
}

static int ask_to_unlink(int at, const char *path)
{
    struct request request = {.call = CALL_UNLINK, .fd = at};
    snprintf(request.name, sizeof request.name, "%s", path);
    return (int)ask(&request, NULL);
}

bool writer_point(const char *name, int fd, const void *bytes, size_t length)
{
    struct request request = {.call = CALL_POINT, .fd = fd, .length = length};
    if (!w.forked)
        return false;
    snprintf(request.name, sizeof request.name, "%s", name);
    ask(&request, bytes);
    return true;
}

/* ---- in the process that forked it ---- */

static long carry_out(const struct request *request, const void *bytes)
{
    switch (request->call) {
    case CALL_OPEN:
        return openat(request->fd, request->name, request->flags, request->mode);
    case CALL_CLOSE:
        return close(request->fd);
    case CALL_WRITE:
        return write(request->fd, bytes, request->length);
    case CALL_SYNC:
        return fsync(request->fd);
    case CALL_RENAME:
        return renameat(request->fd, request->name, request->fd, request->to);
    case CALL_UNLINK:
        return unlinkat(request->fd, request->name, 0);
    default:
        plan_torn(request->name, request->fd, bytes, request->length, -1);
        return 0;
    }
}

/* A coroutine. It waits for the process without letting others run, so the order of all operations
 * follows from the schedule. It ends when the process has ended, and all its descriptors are
 * closed. */
static void serve(void *argument)
{
    struct request request;
    (void)argument;
    while (transfer(SYS_read, &request, sizeof request)) {
        void *bytes = request.length ? malloc(request.length) : NULL;
        if (request.length && (!bytes || !transfer(SYS_read, bytes, request.length)))
            break;
        schedule_point();
        struct answer answer = {.result = carry_out(&request, bytes)};
        answer.error = errno;
        free(bytes);
        if (!transfer(SYS_write, &answer, sizeof answer))
            break;
    }
    siginfo_t ended;
    while (waitid(P_PID, (id_t)w.pid, &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        ;
    close(w.socket);
    w.socket = -1;
}

static void become_writer(int socket)
{
    static const struct disk_calls calls = {.open = ask_to_open,
                                            .close = ask_to_close,
                                            .write = ask_to_write,
                                            .sync = ask_to_sync,
                                            .rename = ask_to_rename,
                                            .unlink = ask_to_unlink};
    w.forked = true;
    w.socket = socket;
    signal(SIGPIPE, SIG_IGN);
    disk_replace(&calls);
}

pid_t fork(void)
{
    int ends[2];
    if (w.pid || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    pid_t pid = _Fork();
    if (pid == 0) {
        syscall(SYS_close, ends[0]);
        become_writer(ends[1]);
        return 0;
    }
    syscall(SYS_close, ends[1]);
    w.socket = ends[0];
    w.owner = getpid();
    w.pid = pid;
    if (pid < 0 || uv_thread_create(&w.server, serve, NULL) != 0)
        plan_violation("cannot fork a writer");
    return pid;
}

/* Another process than the forked one is waited for as usual. */
pid_t waitpid(pid_t pid, int *status, int options)
{
    if (w.pid && pid == w.pid && getpid() == w.owner) {
        uv_thread_join(&w.server);
        w.pid = 0;
    }
    return (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
}

void writer_forget(void)
{
    if (w.pid && getpid() == w.owner) {
        kill(w.pid, SIGKILL);
        syscall(SYS_wait4, w.pid, NULL, 0, NULL);
    }
    if (w.pid && w.socket >= 0)
        close(w.socket);
    w.pid = 0;
}

/* The forked process keeps its descriptors: one of them leads to the recorder. */
int close_range(unsigned first, unsigned last, int flags)
{
    return w.forked ? 0 : (int)syscall(SYS_close_range, first, last, flags);
}

/* The file of the forked process takes direct writes, which go through the recorder. */
int fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    long argument = va_arg(arguments, long);
    va_end(arguments);
    if (!w.forked)
        return (int)syscall(SYS_fcntl, fd, command, argument);
    if (command == F_GETFL)
        return w.flags;
    if (command == F_SETFL)
        w.flags = (int)argument;
    return 0;
}
