/* Makes the disk fail on command: preloaded into `bellwether serve`. Every call reads the file that
 * SHIM_DISK names, so that a test can change the behaviour of a running node's disk:
 *
 *   sync ERRNO    fsync and fdatasync fail
 *   space ERRNO   creating files and reserving space fail
 *   stall         fsync and fdatasync block while the file says so
 *
 * In a forked copy of the process a lock that another thread held at the fork is never released.
 * Tests need not hit that moment: here every OpenSSL hash in such a copy aborts it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAUSE_US 2000u

/* The number after the word in the file, 1 without a number; 0: the word is not there. */
static int ordered(const char *word)
{
    char text[64] = "";
    const char *path = getenv("SHIM_DISK");
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    size_t length = strlen(word);
    if (got <= 0 || strncmp(text, word, length) != 0)
        return 0;
    int number = (int)strtol(text + length, NULL, 10);
    return number ? number : 1;
}

static pid_t process;

static __attribute__((constructor)) void note_process(void)
{
    process = getpid();
}

int EVP_DigestInit_ex(void *context, const void *type, void *engine)
{
    int (*next)(void *, const void *, void *);
    if (getpid() != process)
        abort();
    *(void **)&next = dlsym(RTLD_NEXT, "EVP_DigestInit_ex");
    return next(context, type, engine);
}

int EVP_DigestUpdate(void *context, const void *bytes, size_t length)
{
    int (*next)(void *, const void *, size_t);
    if (getpid() != process)
        abort();
    *(void **)&next = dlsym(RTLD_NEXT, "EVP_DigestUpdate");
    return next(context, bytes, length);
}

static bool sync_fails(void)
{
    while (ordered("stall"))
        usleep(PAUSE_US);
    errno = ordered("sync");
    return errno != 0;
}

int fsync(int fd)
{
    return sync_fails() ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_fails() ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int posix_fallocate(int fd, off_t from, off_t length)
{
    int (*next)(int, off_t, off_t);
    int error = ordered("space");
    *(void **)&next = dlsym(RTLD_NEXT, "posix_fallocate");
    return error ? error : next(fd, from, length);
}

static int open_at(int directory, const char *path, int flags, int mode)
{
    int error = flags & O_CREAT ? ordered("space") : 0;
    if (!error)
        return (int)syscall(SYS_openat, directory, path, flags, mode);
    errno = error;
    return -1;
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return open_at(directory, path, flags, mode);
}
