/* See drain.h. */
#include "run/drain/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LAST_BYTE 0x7fffffffL /* no process id is higher */

struct range {
    off_t from, to; /* both included */
};

static int path_of(char out[PATH_MAX], const char *directory, const char *name)
{
    int length = snprintf(out, PATH_MAX, "%s/%s", directory, name);
    return length > 0 && length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Writes "cannot VERB PATH: CAUSE" and a hint; returns the error. */
static int failed(char *why, int error, const char *verb, const char *path)
{
    const char *hint = error == -EACCES || error == -EPERM || error == -EROFS
                           ? "; run this command as root, or give a --drain-dir that you may write"
                           : "";
    snprintf(why, BW_DRAIN_WHY, "cannot %s %.300s: %s%s", verb, path, strerror(-error), hint);
    return error;
}

/* ---- a candidate ---- */

void bw_drain_init(struct bw_drain *drain, const char *directory)
{
    *drain = (struct bw_drain){.directory = directory ? directory : BW_DRAIN_DIR, .fd = -1};
}

static int open_candidates(const char *directory)
{
    char path[PATH_MAX];
    if (path_of(path, directory, "candidates") != 0)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* Whether `candidates` is now another file than the open one: the directory was replaced. */
static bool is_replaced(const struct bw_drain *drain)
{
    char path[PATH_MAX];
    struct stat named, opened;
    return path_of(path, drain->directory, "candidates") == 0 && lstat(path, &named) == 0 &&
           fstat(drain->fd, &opened) == 0 &&
           (named.st_dev != opened.st_dev || named.st_ino != opened.st_ino);
}

/* A lock on a replaced file stays until the new file is locked. */
void bw_drain_lock(struct bw_drain *drain)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = getpid(), .l_len = 1};
    if (drain->locked && !is_replaced(drain))
        return;
    int fd = open_candidates(drain->directory);
    if (fd < 0)
        return;
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        close(fd);
        return;
    }
    bw_drain_unlock(drain);
    drain->fd = fd;
    drain->locked = true;
}

/* Closes the file too, so that a later lock uses the current file of that name. */
void bw_drain_unlock(struct bw_drain *drain)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = getpid(), .l_len = 1};
    if (drain->fd < 0)
        return;
    fcntl(drain->fd, F_OFD_SETLK, &lock);
    close(drain->fd);
    drain->fd = -1;
    drain->locked = false;
}

bool bw_drain_look(struct bw_drain *drain)
{
    char path[PATH_MAX];
    struct stat info;
    drain->error = path_of(path, drain->directory, "drained");
    if (drain->error != 0)
        return false;
    if (lstat(path, &info) == 0)
        drain->drained = true;
    else if (errno == ENOENT || errno == ENOTDIR)
        drain->drained = false;
    else
        drain->error = -errno;
    return drain->drained;
}

bool bw_drain_watch(struct bw_drain *drain)
{
    if (drain->drained && bw_drain_look(drain))
        return true;
    bw_drain_lock(drain);
    return bw_drain_look(drain);
}

void bw_drain_deinit(struct bw_drain *drain)
{
    bw_drain_unlock(drain);
}

/* ---- the operator ---- */

/* Creates a directory that all users may read, whatever the umask. Returns 0 or an error. */
static int make_readable(const char *path)
{
    if (mkdir(path, 0755) != 0)
        return -errno;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        fchmod(fd, 0755);
        close(fd);
    }
    return 0;
}

/* Creates the directory and its parent. */
static int make_directory(const char *directory, char *why)
{
    char parent[PATH_MAX];
    if (snprintf(parent, sizeof parent, "%s", directory) >= (int)sizeof parent)
        return failed(why, -ENAMETOOLONG, "create", directory);
    char *slash = strrchr(parent, '/');
    if (slash && slash != parent) {
        *slash = '\0';
        make_readable(parent); /* if it is still missing, the next call fails */
    }
    int error = make_readable(directory);
    return error == 0 || error == -EEXIST ? 0 : failed(why, error, "create", directory);
}

/* How long candidates may not have found the lock file yet. Each looks once per POLL. The file is
 * never written, so its time of modification is that of its creation, by this or another command. A
 * time in the future means that the clock was set: then the whole time counts. */
static bw_time unseen_of(int fd)
{
    struct stat st;
    struct timespec now;
    bw_time most = 2 * BW_DRAIN_POLL_NS;
    clock_gettime(CLOCK_REALTIME, &now);
    if (fstat(fd, &st) != 0)
        return most;
    bw_time age = (bw_time)(now.tv_sec - st.st_mtim.tv_sec) * BW_SEC +
                  (bw_time)(now.tv_nsec - st.st_mtim.tv_nsec);
    return age < 0 ? most : bw_time_max(most - age, 0);
}

/* Creates the lock file, readable by all users: any of them may run a candidate. */
static int make_candidates(const char *directory, bw_time *unseen_ns, char *why)
{
    char path[PATH_MAX];
    if (path_of(path, directory, "candidates") != 0)
        return failed(why, -ENAMETOOLONG, "create", directory);
    int fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 && errno == EEXIST)
        fd = open_candidates(directory);
    if (fd < 0)
        return failed(why, -errno, "create", path);
    fchmod(fd, 0644); /* whatever the umask */
    *unseen_ns = unseen_of(fd);
    close(fd);
    return 0;
}

static char *line_of(const char *by, const char *reason)
{
    char now[40];
    time_t seconds = time(NULL);
    struct tm utc;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    json_t *value = json_pack("{s:s, s:s, s:s}", "time", now, "by", by, "reason", reason);
    char *line = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    return line;
}

/* Writes the file under another name, syncs it, and renames it: it is complete or missing. */
static int write_drained(const char *directory, const char *line, char *why)
{
    char path[PATH_MAX], draft[PATH_MAX];
    if (path_of(path, directory, "drained") != 0 || path_of(draft, directory, "drained.new") != 0)
        return failed(why, -ENAMETOOLONG, "create", directory);
    int fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return failed(why, -errno, "create", draft);
    fchmod(fd, 0644);
    size_t length = strlen(line);
    int error = write(fd, line, length) == (ssize_t)length && fsync(fd) == 0 ? 0 : -errno;
    close(fd);
    if (error == 0 && rename(draft, path) != 0)
        error = -errno;
    if (error) {
        unlink(draft);
        return failed(why, error, "write", path);
    }
    int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) { /* so that the host is still drained after a power failure */
        fsync(folder);
        close(folder);
    }
    return 0;
}

int bw_drain_set(const char *directory, const char *by, const char *reason, bw_time *unseen_ns,
                 char *why)
{
    char before[BW_DRAIN_LINE];
    *unseen_ns = 0;
    int made = make_directory(directory, why);
    if (made == 0)
        made = make_candidates(directory, unseen_ns, why);
    if (made < 0)
        return made;
    int already = bw_drain_read(directory, before, why);
    if (already != 0)
        return already < 0 ? already : 0;
    char *line = line_of(by, reason);
    if (!line || strlen(line) >= BW_DRAIN_LINE) {
        free(line);
        snprintf(why, BW_DRAIN_WHY, "cannot write the reason: it is too long or not UTF-8");
        return -EINVAL;
    }
    int error = write_drained(directory, line, why);
    free(line);
    return error;
}

int bw_drain_clear(const char *directory, char *why)
{
    char path[PATH_MAX];
    int error = path_of(path, directory, "drained");
    if (error == 0 && unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR)
        error = -errno;
    return error ? failed(why, error, "remove", path) : 0;
}

int bw_drain_read(const char *directory, char *line, char *why)
{
    char path[PATH_MAX];
    line[0] = '\0';
    if (path_of(path, directory, "drained") != 0)
        return failed(why, -ENAMETOOLONG, "read", directory);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : failed(why, -errno, "read", path);
    ssize_t got = read(fd, line, BW_DRAIN_LINE - 1);
    line[got > 0 ? got : 0] = '\0';
    close(fd);
    return 1;
}

/* Finds a lock in a range of bytes. Returns its first byte, or -1 if there is none. The request is
 * for a lock that every read lock blocks; F_OFD_GETLK does not take it. */
static off_t find_lock(int fd, struct range range)
{
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = range.from,
                         .l_len = range.to - range.from + 1};
    bool found = range.from <= range.to && fcntl(fd, F_OFD_GETLK, &lock) == 0;
    return found && lock.l_type != F_UNLCK ? lock.l_start : -1;
}

/* The kernel reports any lock of a range, not the first one. So each lock that is found splits its
 * range in two. */
int bw_drain_candidates(const char *directory, pid_t out[BW_DRAIN_CANDIDATES_MAX], char *why)
{
    struct range left[BW_DRAIN_CANDIDATES_MAX + 2] = {{0, LAST_BYTE}};
    int count = 0, ranges = 1, fd = open_candidates(directory);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : failed(why, -errno, "read", directory);
    while (ranges > 0 && count < (int)BW_DRAIN_CANDIDATES_MAX) {
        struct range range = left[--ranges];
        off_t at = find_lock(fd, range);
        if (at < 0)
            continue;
        out[count++] = (pid_t)at;
        left[ranges++] = (struct range){range.from, at - 1};
        left[ranges++] = (struct range){at + 1, range.to};
    }
    close(fd);
    return count;
}
