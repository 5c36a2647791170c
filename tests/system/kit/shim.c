/* Injects failures. Only calls on database files (those of SQLite) are counted and fail. Calls of
 * Bellwether itself go to lock files and wake-up files; losing those is harmless and tested
 * elsewhere. */
#include "system/kit/shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

struct shim shim;

void shim_reset(void)
{
    atomic_store(&shim.calls, 0);
    atomic_store(&shim.fail_at, 0);
    atomic_store(&shim.fail_from, 0);
    atomic_store(&shim.sync_error, 0);
    atomic_store(&shim.sync_delay_ms, 0);
    atomic_store(&shim.fs_type, 0);
    atomic_store(&shim.holds_looks, false);
    atomic_store(&shim.looks_held, 0);
    atomic_store(&shim.deaf, false);
    atomic_store(&shim.blind, false);
    atomic_store(&shim.fixed_limits, false);
    atomic_store(&shim.wall_jump_s, 0);
}

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static bool is_database(int fd)
{
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && strstr(path, ".db") &&
           !strstr(path, ".locks/");
}

static bool fails(int fd)
{
    int error = atomic_load(&shim.error);
    if (error == 0 || !is_database(fd))
        return false;
    int call = atomic_fetch_add(&shim.calls, 1) + 1;
    int from = atomic_load(&shim.fail_from);
    if (call != atomic_load(&shim.fail_at) && (from == 0 || call < from))
        return false;
    errno = error;
    return true;
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at);
ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at)
{
    ssize_t (*next)(int, const void *, size_t, off64_t);
    *(void **)&next = real("pwrite64");
    return fails(fd) ? -1 : next(fd, bytes, size, at);
}

static int sync_with(const char *name, int fd)
{
    int (*next)(int);
    *(void **)&next = real(name);
    int delay = atomic_load(&shim.sync_delay_ms);
    int error = atomic_load(&shim.sync_error);
    if (delay && is_database(fd))
        usleep((useconds_t)delay * 1000);
    if (error && is_database(fd)) {
        errno = error;
        return -1;
    }
    return fails(fd) ? -1 : next(fd);
}

int fdatasync(int fd)
{
    return sync_with("fdatasync", fd);
}

int fsync(int fd)
{
    return sync_with("fsync", fd);
}

int fcntl64(int fd, int command, ...);
int fcntl64(int fd, int command, ...)
{
    int (*next)(int, int, void *);
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    *(void **)&next = real("fcntl64");
    if (command == F_OFD_GETLK && atomic_load(&shim.holds_looks)) {
        atomic_fetch_add(&shim.looks_held, 1);
        while (atomic_load(&shim.holds_looks))
            usleep(1000);
    }
    return next(fd, command, argument);
}

int statfs(const char *path, struct statfs *out)
{
    int (*next)(const char *, struct statfs *);
    *(void **)&next = real("statfs");
    int result = next(path, out);
    unsigned type = atomic_load(&shim.fs_type);
    if (result == 0 && type)
        out->f_type = type;
    return result;
}

int open64(const char *path, int flags, ...)
{
    int (*next)(const char *, int, mode_t);
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    *(void **)&next = real("open64");
    bool looks = (flags & O_ACCMODE) == O_RDONLY && strstr(path, ".locks/e-");
    if (!looks || !atomic_load(&shim.blind))
        return next(path, flags, mode);
    errno = EMFILE;
    return -1;
}

int inotify_init1(int flags)
{
    int (*next)(int);
    *(void **)&next = real("inotify_init1");
    if (!atomic_load(&shim.deaf))
        return next(flags);
    errno = EMFILE;
    return -1;
}

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    if (!atomic_load(&shim.fixed_limits))
        return prlimit(0, resource, limit, NULL);
    errno = EPERM;
    return -1;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int (*next)(clockid_t, struct timespec *);
    *(void **)&next = real("clock_gettime");
    int result = next(clock, out);
    if (clock == CLOCK_REALTIME)
        out->tv_sec += (time_t)atomic_load(&shim.wall_jump_s);
    return result;
}
