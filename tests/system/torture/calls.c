/* The functions that can be made to fail; see fail.c. Each one lists the errnos of its manual page
 * that the kernel can really return for a correct program. EINTR is listed where a signal can
 * interrupt the call, never for regular files. */
#include "system/torture/interpose.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define ERRORS(...)                                                                                \
    (const int[])                                                                                  \
    {                                                                                              \
        __VA_ARGS__, 0                                                                             \
    }
#define CALLER __builtin_return_address(0)

/* Defines a function that fails with the return value `bad` and errno. */
#define FAILS(type, name, parameters, arguments, bad, errors)                                      \
    type name parameters;                                                                          \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*next) parameters;                                                             \
        int error = torture_next(TORTURE_CALL, #name, CALLER, errors);                             \
        if (!next)                                                                                 \
            *(void **)&next = torture_real(#name);                                                 \
        if (!error)                                                                                \
            return next arguments;                                                                 \
        errno = error;                                                                             \
        return bad;                                                                                \
    }

/* Defines an allocator. */
#define ALLOCATES(name, parameters, arguments)                                                     \
    void *name parameters;                                                                         \
    void *name parameters                                                                          \
    {                                                                                              \
        static void *(*next)parameters;                                                            \
        int error = torture_next(TORTURE_ALLOC, #name, CALLER, ERRORS(ENOMEM));                    \
        if (!next)                                                                                 \
            *(void **)&next = torture_real(#name);                                                 \
        if (!error)                                                                                \
            return next arguments;                                                                 \
        errno = error;                                                                             \
        return NULL;                                                                               \
    }

/* ---- memory ---- */

ALLOCATES(malloc, (size_t size), (size))
ALLOCATES(calloc, (size_t count, size_t size), (count, size))
ALLOCATES(realloc, (void *old, size_t size), (old, size))
ALLOCATES(aligned_alloc, (size_t alignment, size_t size), (alignment, size))
FAILS(void *, mmap64, (void *at, size_t size, int how, int flags, int fd, off64_t from),
      (at, size, how, flags, fd, from), MAP_FAILED, ERRORS(ENOMEM))

/* ---- bytes: what can happen depends on the descriptor ---- */

static const int *read_errors(int fd)
{
    static const int regular[] = {EIO, 0}, socket[] = {ECONNRESET, EINTR, 0}, local[] = {EINTR, 0};
    static const int *const possible[] = {[TORTURE_REGULAR] = regular,
                                          [TORTURE_SOCKET] = socket,
                                          [TORTURE_LOCAL] = local,
                                          [TORTURE_PIPE] = local,
                                          [TORTURE_OTHER] = NULL};
    return possible[torture_file_of(fd)];
}

static const int *write_errors(int fd)
{
    static const int regular[] = {ENOSPC, EIO, 0}, socket[] = {ECONNRESET, EINTR, EPIPE, 0},
                     local[] = {EINTR, ENOBUFS, 0}, pipe[] = {EINTR, 0};
    static const int *const possible[] = {[TORTURE_REGULAR] = regular,
                                          [TORTURE_SOCKET] = socket,
                                          [TORTURE_LOCAL] = local,
                                          [TORTURE_PIPE] = pipe,
                                          [TORTURE_OTHER] = NULL};
    return possible[torture_file_of(fd)];
}

/* libuv aborts if its own pipes and eventfds fail. */
static bool is_wakeup(int fd, const void *caller)
{
    return torture_in(caller, "libuv") && torture_file_of(fd) == TORTURE_PIPE;
}

#define FAILS_ON_FD(name, parameters, arguments, errors_of)                                        \
    ssize_t name parameters;                                                                       \
    ssize_t name parameters                                                                        \
    {                                                                                              \
        static ssize_t(*next) parameters;                                                          \
        const int *errors = errors_of(fd);                                                         \
        int error = errors && !is_wakeup(fd, CALLER)                                               \
                        ? torture_next(TORTURE_CALL, #name, CALLER, errors)                        \
                        : 0;                                                                       \
        if (!next)                                                                                 \
            *(void **)&next = torture_real(#name);                                                 \
        if (!error)                                                                                \
            return next arguments;                                                                 \
        errno = error;                                                                             \
        return -1;                                                                                 \
    }

FAILS_ON_FD(read, (int fd, void *bytes, size_t size), (fd, bytes, size), read_errors)
FAILS_ON_FD(__read_chk, (int fd, void *bytes, size_t size, size_t room), (fd, bytes, size, room),
            read_errors)
FAILS_ON_FD(pread64, (int fd, void *bytes, size_t size, off64_t at), (fd, bytes, size, at),
            read_errors)
FAILS_ON_FD(recv, (int fd, void *bytes, size_t size, int flags), (fd, bytes, size, flags),
            read_errors)
FAILS_ON_FD(__recv_chk, (int fd, void *bytes, size_t size, size_t room, int flags),
            (fd, bytes, size, room, flags), read_errors)
FAILS_ON_FD(recvfrom,
            (int fd, void *restrict bytes, size_t size, int flags, struct sockaddr *restrict from,
             socklen_t *restrict length),
            (fd, bytes, size, flags, from, length), read_errors)
FAILS_ON_FD(recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), read_errors)
FAILS_ON_FD(write, (int fd, const void *bytes, size_t size), (fd, bytes, size), write_errors)
FAILS_ON_FD(pwrite64, (int fd, const void *bytes, size_t size, off64_t at), (fd, bytes, size, at),
            write_errors)
FAILS_ON_FD(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count),
            write_errors)
FAILS_ON_FD(send, (int fd, const void *bytes, size_t size, int flags), (fd, bytes, size, flags),
            write_errors)
FAILS_ON_FD(sendto,
            (int fd, const void *bytes, size_t size, int flags, const struct sockaddr *to,
             socklen_t length),
            (fd, bytes, size, flags, to, length), write_errors)
FAILS_ON_FD(sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags),
            write_errors)

/* ---- files ---- */

#define SYNC_ERRORS ERRORS(EIO, ENOSPC)
FAILS(int, fsync, (int fd), (fd), -1, SYNC_ERRORS)
FAILS(int, fdatasync, (int fd), (fd), -1, SYNC_ERRORS)
FAILS(int, ftruncate64, (int fd, off64_t size), (fd, size), -1, ERRORS(EIO))
FAILS(int, rename, (const char *from, const char *to), (from, to), -1, ERRORS(EIO, ENOSPC))
FAILS(int, renameat, (int from_dir, const char *from, int to_dir, const char *to),
      (from_dir, from, to_dir, to), -1, ERRORS(EIO, ENOSPC))
FAILS(int, unlink, (const char *path), (path), -1, ERRORS(EIO))
FAILS(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags), -1, ERRORS(EIO))
FAILS(int, mkdir, (const char *path, mode_t mode), (path, mode), -1, ERRORS(ENOSPC, EACCES))
FAILS(int, rmdir, (const char *path), (path), -1, ERRORS(EBUSY))
FAILS(int, chmod, (const char *path, mode_t mode), (path, mode), -1, ERRORS(EPERM, EIO))
FAILS(int, fchmod, (int fd, mode_t mode), (fd, mode), -1, ERRORS(EPERM, EIO))
FAILS(int, stat64, (const char *restrict path, struct stat64 *restrict out), (path, out), -1,
      ERRORS(EACCES, ENOMEM))
FAILS(int, lstat64, (const char *restrict path, struct stat64 *restrict out), (path, out), -1,
      ERRORS(EACCES, ENOMEM))
FAILS(int, fstat64, (int fd, struct stat64 *out), (fd, out), -1, ERRORS(ENOMEM))
FAILS(int, fstatat64, (int dir, const char *restrict path, struct stat64 *restrict out, int flags),
      (dir, path, out, flags), -1, ERRORS(EACCES, ENOMEM))
FAILS(int, access, (const char *path, int how), (path, how), -1, ERRORS(EACCES, EIO))
FAILS(ssize_t, readlink, (const char *restrict path, char *restrict out, size_t room),
      (path, out, room), -1, ERRORS(EIO, ENOMEM))
FAILS(DIR *, opendir, (const char *path), (path), NULL, ERRORS(EMFILE, ENOMEM))
FAILS(FILE *, fopen64, (const char *restrict path, const char *restrict how), (path, how), NULL,
      ERRORS(EMFILE, ENOMEM))
FAILS(int, flock, (int fd, int how), (fd, how), -1, ERRORS(ENOLCK, EINTR))

int posix_fallocate64(int fd, off64_t from, off64_t size)
{
    static int (*next)(int, off64_t, off64_t);
    int error = torture_next(TORTURE_CALL, "posix_fallocate", CALLER, ERRORS(ENOSPC, EIO));
    if (!next)
        *(void **)&next = torture_real("posix_fallocate64");
    return error ? error : next(fd, from, size);
}

static const int *open_errors(int flags)
{
    static const int creating[] = {ENOSPC, EMFILE, EIO, 0}, opening[] = {EMFILE, ENOMEM, EIO, 0};
    return flags & O_CREAT ? creating : opening;
}

#define OPENS(name)                                                                                \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        static int (*next)(const char *, int, ...);                                                \
        int error = torture_next(TORTURE_CALL, #name, CALLER, open_errors(flags));                 \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;               \
        va_end(arguments);                                                                         \
        if (!next)                                                                                 \
            *(void **)&next = torture_real(#name);                                                 \
        if (!error)                                                                                \
            return next(path, flags, mode);                                                        \
        errno = error;                                                                             \
        return -1;                                                                                 \
    }
OPENS(open)
OPENS(open64)
FAILS(int, __open64_2, (const char *path, int flags), (path, flags), -1, open_errors(flags))

#define OPENS_AT(name)                                                                             \
    int name(int dir, const char *path, int flags, ...)                                            \
    {                                                                                              \
        static int (*next)(int, const char *, int, ...);                                           \
        int error = torture_next(TORTURE_CALL, #name, CALLER, open_errors(flags));                 \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;               \
        va_end(arguments);                                                                         \
        if (!next)                                                                                 \
            *(void **)&next = torture_real(#name);                                                 \
        if (!error)                                                                                \
            return next(dir, path, flags, mode);                                                   \
        errno = error;                                                                             \
        return -1;                                                                                 \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

/* Locks and copies of descriptors can fail; setting a flag and unlocking cannot. */
static const int *fcntl_errors(int command, const void *argument)
{
    static const int copy[] = {EMFILE, 0}, lock[] = {ENOLCK, 0};
    bool locks = command == F_SETLK || command == F_OFD_SETLK || command == F_OFD_GETLK ||
                 command == F_GETLK;
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        return copy;
    return locks && ((const struct flock *)argument)->l_type != F_UNLCK ? lock : NULL;
}

int fcntl64(int fd, int command, ...)
{
    static int (*next)(int, int, ...);
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    const int *errors = fcntl_errors(command, argument);
    int error = errors ? torture_next(TORTURE_CALL, "fcntl", CALLER, errors) : 0;
    if (!next)
        *(void **)&next = torture_real("fcntl64");
    if (!error)
        return next(fd, command, argument);
    errno = error;
    return -1;
}

/* ---- descriptors ---- */

#define NO_DESCRIPTOR ERRORS(EMFILE, ENFILE, ENOMEM)
FAILS(int, pipe, (int fds[2]), (fds), -1, ERRORS(EMFILE, ENFILE))
FAILS(int, pipe2, (int fds[2], int flags), (fds, flags), -1, ERRORS(EMFILE, ENFILE))
FAILS(int, eventfd, (unsigned count, int flags), (count, flags), -1, NO_DESCRIPTOR)
FAILS(int, timerfd_create, (int clock, int flags), (clock, flags), -1, NO_DESCRIPTOR)
FAILS(int, signalfd, (int fd, const sigset_t *mask, int flags), (fd, mask, flags), -1,
      NO_DESCRIPTOR)
FAILS(int, epoll_create1, (int flags), (flags), -1, NO_DESCRIPTOR)
FAILS(int, inotify_init1, (int flags), (flags), -1, NO_DESCRIPTOR)
FAILS(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), (fd, path, mask), -1,
      ERRORS(ENOSPC, ENOMEM))
FAILS(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1,
      NO_DESCRIPTOR)
FAILS(int, socketpair, (int domain, int type, int protocol, int fds[2]),
      (domain, type, protocol, fds), -1, NO_DESCRIPTOR)
FAILS(int, accept4, (int fd, struct sockaddr *restrict from, socklen_t *restrict length, int flags),
      (fd, from, length, flags), -1, ERRORS(EMFILE, ECONNABORTED, ENOMEM, EINTR))
FAILS(int, bind, (int fd, const struct sockaddr *to, socklen_t length), (fd, to, length), -1,
      ERRORS(EADDRINUSE, EACCES))
FAILS(int, listen, (int fd, int backlog), (fd, backlog), -1, ERRORS(EADDRINUSE))
FAILS(int, connect, (int fd, const struct sockaddr *to, socklen_t length), (fd, to, length), -1,
      ERRORS(ECONNREFUSED, ENETUNREACH, EADDRNOTAVAIL))
FAILS(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t length),
      (fd, level, option, value, length), -1, ERRORS(ENOMEM))
FAILS(int, getsockname, (int fd, struct sockaddr *restrict name, socklen_t *restrict length),
      (fd, name, length), -1, ERRORS(ENOBUFS))
FAILS(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout), -1,
      ERRORS(EINTR, ENOMEM))
FAILS(int, __poll_chk, (struct pollfd * fds, nfds_t count, int timeout, size_t room),
      (fds, count, timeout, room), -1, ERRORS(EINTR, ENOMEM))

/* ---- processes and threads ---- */

FAILS(pid_t, fork, (void), (), -1, ERRORS(EAGAIN, ENOMEM))
FAILS(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options), -1,
      ERRORS(EINTR))
FAILS(int, waitid, (idtype_t type, id_t id, siginfo_t *out, int options), (type, id, out, options),
      -1, ERRORS(EINTR))

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                   void *(*run)(void *), void *restrict arg)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int error = torture_next(TORTURE_CALL, "pthread_create", CALLER, ERRORS(EAGAIN));
    if (!next)
        *(void **)&next = torture_real("pthread_create");
    return error ? error : next(thread, attributes, run, arg);
}

/* System calls without a wrapper in the C library: only those that start something can fail. */
long syscall(long number, ...)
{
    static long (*next)(long, ...);
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (unsigned i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    bool starts = number == SYS_clone || number == SYS_clone3;
    int error = 0;
    if (starts)
        error = torture_next(TORTURE_CALL, "clone", CALLER, ERRORS(EAGAIN, ENOMEM));
    if (number == SYS_pidfd_open)
        error = torture_next(TORTURE_CALL, "pidfd_open", CALLER, ERRORS(EMFILE, ENOMEM));
    if (!next)
        *(void **)&next = torture_real("syscall");
    if (!error)
        return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    errno = error;
    return -1;
}
