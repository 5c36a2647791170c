/* The register file: locked, read, replaced as a whole, synced; see guard.h.
 *
 * Order of a raise: write the new bytes to PATH.guard.new, fsync it, rename it, fsync the
 * directory. Only then is the token accepted. A crash before the rename leaves the old register and
 * an unused file; a crash after it leaves the new register. A failed fsync is not retried: the
 * token is not accepted, and the next check reads what is on disk. */
#include "fence/guard_file.h"

#include "core/base/bug.h"
#include "os/clock.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK_BYTE 0
#define WORK_BYTE  1

int bw_guard_error(char *why, int error, const char *format, ...)
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
    return bw_guard_error(why, error, "cannot %s %.300s: %s", what, path, strerror(errno));
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

/* A check is short, so this wait has no limit. */
static int lock_register(struct bw_guard *guard, char *why)
{
    struct stat mine, named;
    while (lock_byte(guard->check_fd, F_OFD_SETLKW, F_WRLCK, CHECK_BYTE) != 0)
        if (errno != EINTR)
            return io_error(why, "lock", guard->lock_path);
    bool same = fstat(guard->check_fd, &mine) == 0 && stat(guard->lock_path, &named) == 0 &&
                mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
    if (same)
        return 0;
    unlock_byte(guard->check_fd, CHECK_BYTE);
    return bw_guard_error(why, BW_EDAMAGED, "%.300s was removed or replaced while in use",
                          guard->lock_path);
}

static void unlock_register(struct bw_guard *guard)
{
    unlock_byte(guard->check_fd, CHECK_BYTE);
}

/* The kernel has no wait for a lock with a limit. A library cannot use a signal to end the wait, so
 * a limited wait tries again at this interval. */
#define RETRY_MS 10

static int lock_work_within(struct bw_guard *guard, int64_t timeout_ms)
{
    bw_time until = bw_clock_boot() + timeout_ms * BW_MS;
    while (lock_byte(guard->work_fd, F_OFD_SETLK, F_WRLCK, WORK_BYTE) != 0) {
        bw_time left = until - bw_clock_boot();
        if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || left <= 0)
            return -1;
        poll(NULL, 0, (int)bw_time_min(RETRY_MS, left / BW_MS + 1));
    }
    return 0;
}

static int lock_work_forever(struct bw_guard *guard)
{
    while (lock_byte(guard->work_fd, F_OFD_SETLKW, F_WRLCK, WORK_BYTE) != 0)
        if (errno != EINTR)
            return -1;
    return 0;
}

static int wait_for_work(struct bw_guard *guard, int64_t timeout_ms, char *why)
{
    int64_t most = BW_TIME_NEVER / BW_MS / 2; /* the end of the wait fits into bw_time */
    int result = timeout_ms < 0 || timeout_ms > most ? lock_work_forever(guard)
                                                     : lock_work_within(guard, timeout_ms);
    if (result == 0)
        return 0;
    if (errno != EAGAIN && errno != EACCES && errno != EINTR)
        return io_error(why, "lock", guard->lock_path);
    return bw_guard_error(why, BW_EBUSY, "guarded work on %.300s is still running; gave up waiting",
                          guard->path);
}

/* ---- the register ---- */

static bool was_written(const struct bw_guard *guard)
{
    struct stat st;
    return fstat(guard->check_fd, &st) == 0 && st.st_size > 0;
}

static int no_register(const struct bw_guard *guard, char *why)
{
    if (errno != ENOENT)
        return io_error(why, "open", guard->register_path);
    if (!was_written(guard))
        return 0;
    return bw_guard_error(why, BW_EDAMAGED,
                          "%.300s is missing: the highest accepted token is unknown",
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
        return bw_guard_error(why, error, "%.300s has version %u; this program supports version %u",
                              guard->register_path, version, BW_REGISTER_VERSION);
    if (error)
        return bw_guard_error(why, error, "%.300s is damaged and cannot be trusted",
                              guard->register_path);
    return 0;
}

static int open_directory_of(const char *path)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    snprintf(directory, sizeof directory, "%.*s", (int)length, path);
    return open(length ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int bw_guard_replace(const struct bw_guard *guard, const char *path, const void *bytes,
                     size_t length, char *why)
{
    char temporary[PATH_MAX + 16];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct stat st;
    snprintf(temporary, sizeof temporary, "%s.new", name);
    if (fstat(guard->check_fd, &st) != 0)
        return io_error(why, "inspect", guard->lock_path);
    int directory = open_directory_of(path);
    bool good = directory >= 0 &&
                bw_file_replace(directory, temporary, name, st.st_mode & 0777, bytes, length, NULL);
    int error = errno;
    if (!good && directory >= 0)
        unlinkat(directory, temporary, 0);
    if (directory >= 0)
        close(directory);
    errno = error;
    return good ? 0 : io_error(why, "replace", path);
}

/* Marks that a register exists, so that a missing one is recognised as lost. */
static int mark_written(struct bw_guard *guard, char *why)
{
    static const char text[] = "bellwether guard\n";
    if (was_written(guard))
        return 0;
    ssize_t length = (ssize_t)sizeof text - 1;
    if (pwrite(guard->check_fd, text, (size_t)length, 0) != length || fsync(guard->check_fd) != 0)
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

static int check_and_raise(struct bw_guard *guard, bw_token token, struct bw_guard_verdict *verdict,
                           char *why)
{
    struct bw_guard_state state;
    int error = load(guard, &state, why);
    if (error)
        return error;
    if (state.highest != BW_TOKEN_NONE && (error = mark_written(guard, why)) != 0)
        return error; /* a crash may have happened between the register and its mark */
    *verdict = bw_guard_decide(&state, token);
    if (verdict->error)
        return bw_guard_explain(verdict, guard->path, why);
    /* planted bug: the register is raised only after the work, which is too late */
    if (!verdict->raise || BW_BUG(fence_raises_afterwards))
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
    int error = lock_register(guard, why);
    if (error)
        return error;
    error = check_and_raise(guard, token, verdict, why);
    unlock_register(guard);
    return error;
}

int bw_guard_read(struct bw_guard *guard, struct bw_guard_state *state, char *why)
{
    why[0] = '\0';
    int error = lock_register(guard, why);
    if (error)
        return error;
    error = load(guard, state, why);
    unlock_register(guard);
    return error;
}

int bw_guard_hold(struct bw_guard *guard, bw_token token, int64_t timeout_ms,
                  struct bw_guard_verdict *verdict, char *why)
{
    struct bw_guard_verdict own;
    if (!verdict)
        verdict = &own;
    *verdict = (struct bw_guard_verdict){.token = token};
    if (guard->held)
        return bw_guard_error(why, BW_EINVAL, "this guard of %.300s is already held; release it",
                              guard->path);
    int error = bw_guard_check(guard, token, verdict, why);
    if (error == 0)
        error = wait_for_work(guard, timeout_ms, why);
    if (error)
        return error;
    struct bw_guard_verdict again;
    error = BW_BUG(fence_does_not_look_again) ? 0 : bw_guard_check(guard, token, &again, why);
    if (error) {
        *verdict = again;
        unlock_byte(guard->work_fd, WORK_BYTE);
    }
    guard->held = error == 0;
    return error;
}

void bw_guard_release(struct bw_guard *guard)
{
    if (guard && guard->held)
        unlock_byte(guard->work_fd, WORK_BYTE);
    if (guard)
        guard->held = false;
}

int bw_guard_fd(const struct bw_guard *guard)
{
    return guard->work_fd;
}

bool bw_guard_adopt(struct bw_guard *guard, int fd)
{
    struct stat given, mine;
    if (fstat(fd, &given) != 0 || fstat(guard->check_fd, &mine) != 0 ||
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
    int error = lock_register(guard, why);
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
    unlock_register(guard);
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
    int error = lock_register(guard, why);
    if (error)
        return error;
    error = bw_guard_count_one(guard, metrics_path, why);
    unlock_register(guard);
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
        return bw_guard_error(why, BW_EINVAL, "invalid path '%.300s': expected a file to guard",
                              path);
    struct bw_guard *guard = calloc(1, sizeof *guard);
    if (!guard)
        return bw_guard_error(why, BW_ENOMEM, "no memory for a guard");
    snprintf(guard->path, sizeof guard->path, "%s", path);
    snprintf(guard->register_path, sizeof guard->register_path, "%s.guard", path);
    snprintf(guard->lock_path, sizeof guard->lock_path, "%s.guard.lock", path);
    guard->check_fd = open_lock(guard->lock_path);
    guard->work_fd = guard->check_fd < 0 ? -1 : open_lock(guard->lock_path);
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
    if (guard->check_fd >= 0)
        close(guard->check_fd);
    if (guard->work_fd >= 0)
        close(guard->work_fd);
    free(guard);
}
