/* The register as a file: locked, looked at, replaced as a whole, synced (guard.h says why).
 *
 * Order of a raise: new bytes to PATH.guard.new, fsync, rename, fsync of the directory, and only
 * then the token counts as accepted. A crash before the rename leaves the old register and a file
 * nobody reads; after it, the new one. On a failed fsync nothing is retried: the token is not
 * accepted, and what the disk has is read again next time. */
#include "fence/guard_file.h"

#include "core/base/bug.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define LOOK_BYTE 0
#define WORK_BYTE 1

int bw_guard_say(char *why, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, BW_GUARD_WHY_MAX + 1, format, arguments);
    va_end(arguments);
    return error;
}

static int io_error(char *why, const char *what, const char *path)
{
    int error = errno == EACCES || errno == EPERM || errno == EROFS ? BW_EDENIED : BW_EIO;
    return bw_guard_say(why, error, "cannot %s %.300s: %s", what, path, strerror(errno));
}

/* ---- locks ---- */

static int lock_byte(int fd, int command, short type, off_t at)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(fd, command, &lock);
}

static void unlock_byte(int fd, off_t at)
{
    lock_byte(fd, F_OFD_SETLK, F_UNLCK, at);
}

/* The moment of looking is short: waiting for it needs no limit. */
static int begin_look(struct bw_guard *guard, char *why)
{
    struct stat mine, there;
    while (lock_byte(guard->look_fd, F_OFD_SETLKW, F_WRLCK, LOOK_BYTE) != 0)
        if (errno != EINTR)
            return io_error(why, "lock", guard->lock_path);
    bool same = fstat(guard->look_fd, &mine) == 0 && stat(guard->lock_path, &there) == 0 &&
                mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
    if (same)
        return 0;
    unlock_byte(guard->look_fd, LOOK_BYTE);
    return bw_guard_say(why, BW_EDAMAGED, "%.300s was removed or replaced while in use",
                        guard->lock_path);
}

static void end_look(struct bw_guard *guard)
{
    unlock_byte(guard->look_fd, LOOK_BYTE);
}

static void on_alarm(int signal)
{
    (void)signal; /* only interrupts the wait */
}

/* Repeats, so that one that comes just before the wait begins does no harm. */
static void set_alarm(bw_time first_ns)
{
    struct itimerval timer = {.it_value = {first_ns / BW_SEC, first_ns % BW_SEC / BW_US},
                              .it_interval = {0, first_ns ? 10000 : 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static int wait_for_work(struct bw_guard *guard, bw_time wait_ns, char *why)
{
    if (lock_byte(guard->work_fd, F_OFD_SETLK, F_WRLCK, WORK_BYTE) == 0)
        return 0;
    bool limited = wait_ns != BW_TIME_NEVER;
    struct sigaction action = {.sa_handler = on_alarm}, before;
    int result = -1;
    errno = EINTR;
    if (wait_ns > 0) {
        if (limited) {
            sigaction(SIGALRM, &action, &before);
            set_alarm(bw_time_max(wait_ns, BW_US));
        }
        do
            result = lock_byte(guard->work_fd, F_OFD_SETLKW, F_WRLCK, WORK_BYTE);
        while (result != 0 && errno == EINTR && !limited);
        int kept = errno;
        if (limited) {
            set_alarm(0);
            sigaction(SIGALRM, &before, NULL);
        }
        errno = kept;
    }
    if (result != 0 && errno != EINTR)
        return io_error(why, "lock", guard->lock_path);
    return result == 0
               ? 0
               : bw_guard_say(why, BW_EBUSY,
                              "guarded work on %.300s still runs; it was waited for in vain",
                              guard->path);
}

/* ---- the register ---- */

static bool was_written(const struct bw_guard *guard)
{
    struct stat st;
    return fstat(guard->look_fd, &st) == 0 && st.st_size > 0;
}

static int no_register(const struct bw_guard *guard, char *why)
{
    if (errno != ENOENT)
        return io_error(why, "open", guard->register_path);
    if (!was_written(guard))
        return 0;
    return bw_guard_say(why, BW_EDAMAGED,
                        "%.300s is gone: which tokens were accepted is not known any more",
                        guard->register_path);
}

static int load(const struct bw_guard *guard, struct bw_guard_state *state, char *why)
{
    uint8_t bytes[BW_REGISTER_BYTES + 1];
    uint32_t version;
    *state = (struct bw_guard_state){0};
    int fd = open(guard->register_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return no_register(guard, why);
    ssize_t length = pread(fd, bytes, sizeof bytes, 0);
    int kept = errno;
    close(fd);
    errno = kept;
    if (length < 0)
        return io_error(why, "read", guard->register_path);
    int error = bw_register_decode(bytes, (size_t)length, state, &version);
    if (error == BW_EVERSION)
        return bw_guard_say(why, error, "%.300s is of version %u; this program knows %u",
                            guard->register_path, version, BW_REGISTER_VERSION);
    if (error)
        return bw_guard_say(why, error, "%.300s is damaged and cannot be trusted",
                            guard->register_path);
    return 0;
}

static int sync_directory(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    snprintf(dir, sizeof dir, "%.*s", (int)length, path);
    int fd = open(length ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int result = fsync(fd), kept = errno;
    close(fd);
    errno = kept;
    return result;
}

static int write_synced(const char *path, mode_t mode, const void *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return -1;
    ssize_t written = write(fd, bytes, length);
    if (written >= 0 && (size_t)written != length)
        errno = ENOSPC;
    bool good = written == (ssize_t)length && fsync(fd) == 0;
    int kept = errno;
    close(fd);
    errno = kept;
    return good ? 0 : -1;
}

int bw_guard_replace(const struct bw_guard *guard, const char *path, const void *bytes,
                     size_t length, char *why)
{
    char fresh[PATH_MAX + 16];
    struct stat st;
    snprintf(fresh, sizeof fresh, "%s.new", path);
    if (fstat(guard->look_fd, &st) != 0)
        return io_error(why, "look at", guard->lock_path);
    if (write_synced(fresh, st.st_mode & 0777, bytes, length) != 0) {
        int kept = errno;
        unlink(fresh);
        errno = kept;
        return io_error(why, "write", fresh);
    }
    if (rename(fresh, path) != 0 || sync_directory(path) != 0)
        return io_error(why, "replace", path);
    return 0;
}

/* From the first register on, a missing one is a loss. */
static int mark_written(struct bw_guard *guard, char *why)
{
    static const char text[] = "bellwether guard\n";
    if (was_written(guard))
        return 0;
    ssize_t length = (ssize_t)sizeof text - 1;
    if (pwrite(guard->look_fd, text, (size_t)length, 0) != length || fsync(guard->look_fd) != 0)
        return io_error(why, "write", guard->lock_path);
    return 0;
}

static int store(struct bw_guard *guard, const struct bw_guard_state *state, char *why)
{
    uint8_t bytes[BW_REGISTER_BYTES];
    bw_register_encode(state, bytes);
    int error = bw_guard_replace(guard, guard->register_path, bytes, sizeof bytes, why);
    return error ? error : mark_written(guard, why);
}

static int look_and_raise(struct bw_guard *guard, bw_token token, struct bw_guard_verdict *verdict,
                          char *why)
{
    struct bw_guard_state state;
    int error = load(guard, &state, why);
    if (error)
        return error;
    if (state.highest != BW_TOKEN_NONE && (error = mark_written(guard, why)) != 0)
        return error; /* a crash may have come between the register and its mark */
    *verdict = bw_guard_decide(&state, token);
    if (verdict->error)
        return bw_guard_explain(verdict, guard->path, why);
    if (!verdict->raise || BW_BUG(fence_raises_afterwards)) /* "when the work is done": too late */
        return 0;
    state.highest = token;
    return store(guard, &state, why);
}

int bw_guard_check(struct bw_guard *guard, bw_token token, struct bw_guard_verdict *verdict,
                   char *why)
{
    struct bw_guard_verdict own;
    if (!verdict)
        verdict = &own;
    *verdict = (struct bw_guard_verdict){.token = token};
    why[0] = '\0';
    int error = begin_look(guard, why);
    if (error)
        return error;
    error = look_and_raise(guard, token, verdict, why);
    end_look(guard);
    return error;
}

int bw_guard_read(struct bw_guard *guard, struct bw_guard_state *state, char *why)
{
    why[0] = '\0';
    int error = begin_look(guard, why);
    if (error)
        return error;
    error = load(guard, state, why);
    end_look(guard);
    return error;
}

int bw_guard_hold(struct bw_guard *guard, bw_token token, bw_time wait_ns,
                  struct bw_guard_verdict *verdict, char *why)
{
    struct bw_guard_verdict own;
    if (!verdict)
        verdict = &own;
    int error = bw_guard_check(guard, token, verdict, why);
    if (error == 0)
        error = wait_for_work(guard, wait_ns, why);
    if (error)
        return error;
    error = BW_BUG(fence_does_not_look_again) ? 0 : bw_guard_check(guard, token, verdict, why);
    if (error)
        unlock_byte(guard->work_fd, WORK_BYTE);
    return error;
}

int bw_guard_fd(const struct bw_guard *guard)
{
    return guard->work_fd;
}

bool bw_guard_adopt(struct bw_guard *guard, int fd)
{
    struct stat given, mine;
    if (fstat(fd, &given) != 0 || fstat(guard->look_fd, &mine) != 0 ||
        given.st_ino != mine.st_ino || given.st_dev != mine.st_dev)
        return false;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return false;
    close(guard->work_fd);
    guard->work_fd = copy;
    return true;
}

/* ---- for recovery ---- */

static int set_closed(struct bw_guard *guard, bw_token token, bool closed, char *why)
{
    struct bw_guard_state state;
    why[0] = '\0';
    int error = begin_look(guard, why);
    if (error)
        return error;
    error = load(guard, &state, why);
    bool done = closed ? state.closed && state.highest == token : !state.closed;
    struct bw_guard_verdict verdict = {.token = token, .highest = state.highest};
    if (error == 0 && !done && (token < state.highest || token == BW_TOKEN_NONE)) {
        verdict.error = token == BW_TOKEN_NONE ? BW_ENOTOKEN : BW_ESTALE;
        error = bw_guard_explain(&verdict, guard->path, why);
    } else if (error == 0 && !done) {
        state = (struct bw_guard_state){.highest = token, .closed = closed};
        error = store(guard, &state, why);
    }
    end_look(guard);
    return error;
}

int bw_guard_shut(struct bw_guard *guard, bw_token token, char *why)
{
    return set_closed(guard, token, true, why);
}

int bw_guard_reopen(struct bw_guard *guard, bw_token token, char *why)
{
    return set_closed(guard, token, false, why);
}

/* ---- counting ---- */

int bw_guard_count(struct bw_guard *guard, const char *metrics_path, char *why)
{
    int error = begin_look(guard, why);
    if (error)
        return error;
    error = bw_guard_count_one(guard, metrics_path, why);
    end_look(guard);
    return error;
}

/* ---- opening ---- */

static int open_lock(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
}

int bw_guard_open(struct bw_guard **out, const char *path, char *why)
{
    size_t length = strlen(path);
    *out = NULL;
    if (length == 0 || path[length - 1] == '/' || length + 16 > PATH_MAX)
        return bw_guard_say(why, BW_EINVAL, "'%.300s' is no path of a file to guard", path);
    struct bw_guard *guard = calloc(1, sizeof *guard);
    if (!guard)
        return bw_guard_say(why, BW_ENOMEM, "no memory for a guard");
    snprintf(guard->path, sizeof guard->path, "%s", path);
    snprintf(guard->register_path, sizeof guard->register_path, "%s.guard", path);
    snprintf(guard->lock_path, sizeof guard->lock_path, "%s.guard.lock", path);
    guard->look_fd = open_lock(guard->lock_path);
    guard->work_fd = guard->look_fd < 0 ? -1 : open_lock(guard->lock_path);
    if (guard->work_fd < 0) {
        int error = io_error(why, "open", guard->lock_path);
        bw_guard_close(guard);
        return error;
    }
    *out = guard;
    return 0;
}

void bw_guard_close(struct bw_guard *guard)
{
    if (!guard)
        return;
    if (guard->look_fd >= 0)
        close(guard->look_fd);
    if (guard->work_fd >= 0)
        close(guard->work_fd);
    free(guard);
}
