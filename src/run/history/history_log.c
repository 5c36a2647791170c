/* See history_log.h. */
#include "run/history/history_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PENDING_MAX 65536u
#define STACK_BYTES 65536u
#define TRIES       4 /* another writer may replace the file while this one waits for the lock */

/* Invariants: `writing` is true while a thread writes; only that thread starts no further one. The
 * thread owns a reference; the last owner frees the log. */
struct bw_history_log {
    pthread_mutex_t mutex;
    pthread_cond_t idle;
    bool writing, abandoned;
    size_t used;
    char pending[PENDING_MAX];
    char path[PATH_MAX], old_path[PATH_MAX], directory[PATH_MAX];
};

const char *bw_history_default_dir(char out[PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    out[0] = '\0';
    if (geteuid() == 0)
        snprintf(out, PATH_MAX, "%s", BW_HISTORY_HOST_DIR);
    else if (state && state[0] == '/')
        snprintf(out, PATH_MAX, "%s/bellwether/history", state);
    else if (home && home[0] == '/')
        snprintf(out, PATH_MAX, "%s/.local/state/bellwether/history", home);
    return out;
}

const char *bw_history_store(char out[BW_HISTORY_STORE], const char *url)
{
    static const char scheme[] = "sqlite:";
    bool named = strncmp(url, scheme, strlen(scheme)) == 0;
    const char *path = named ? url + strlen(scheme) : url;
    char directory[PATH_MAX] = "";
    bool other = !named && strstr(url, ":") && strcspn(url, ":") < strcspn(url, "/");
    while (path[0] == '/' && path[1] == '/')
        path++;
    if (!other && path[0] != '/' && !getcwd(directory, sizeof directory))
        directory[0] = '\0';
    while (!other && path[0] == '.' && path[1] == '/')
        path += 2;
    if (other)
        snprintf(out, BW_HISTORY_STORE, "%s", url);
    else
        snprintf(out, BW_HISTORY_STORE, "%s%s%s%s", scheme, directory, directory[0] ? "/" : "",
                 path);
    return out;
}

/* ---- the file ---- */

/* Creates the directory and its missing parents. Other users may read the history of the host, but
 * not that of a user. */
static void make_path(char *directory)
{
    mode_t mode = geteuid() == 0 ? 0755 : 0700;
    for (char *slash = strchr(directory + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(directory, mode);
        *slash = '/';
    }
    if (mkdir(directory, mode) == 0)
        chmod(directory, mode); /* whatever the umask */
}

/* Opens the current file and locks it. Returns its descriptor and size, or -1. */
static int open_locked(struct bw_history_log *log, off_t *size)
{
    for (int i = 0; i < TRIES; i++) {
        struct stat opened, named;
        int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
        int fd = open(log->path, flags, 0644);
        if (fd < 0 && errno == ENOENT && i == 0) {
            make_path(log->directory);
            continue;
        }
        if (fd < 0)
            return -1;
        bool good = flock(fd, LOCK_EX) == 0 && fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode);
        if (good && lstat(log->path, &named) == 0 && named.st_ino == opened.st_ino &&
            named.st_dev == opened.st_dev) {
            if (opened.st_size == 0)
                fchmod(fd, 0644); /* whatever the umask */
            *size = opened.st_size;
            return fd;
        }
        close(fd);
        if (!good)
            return -1;
    }
    return -1;
}

static void write_lines(struct bw_history_log *log, const char *lines, size_t length)
{
    off_t size = 0;
    int fd = open_locked(log, &size);
    if (fd >= 0 && size + (off_t)length > BW_HISTORY_FILE_MAX && size > 0) {
        rename(log->path, log->old_path);
        close(fd);
        fd = open_locked(log, &size);
    }
    if (fd < 0)
        return;
    /* A part of a line, for example on a full disk, would spoil the next line. */
    if (write(fd, lines, length) != (ssize_t)length)
        (void)!ftruncate(fd, size);
    close(fd);
}

/* ---- the thread ---- */

static void destroy(struct bw_history_log *log)
{
    pthread_mutex_destroy(&log->mutex);
    pthread_cond_destroy(&log->idle);
    free(log);
}

static void *write_pending(void *context)
{
    struct bw_history_log *log = context;
    char *lines = malloc(PENDING_MAX);
    pthread_mutex_lock(&log->mutex);
    while (log->used > 0 && lines) {
        size_t length = log->used;
        memcpy(lines, log->pending, length);
        log->used = 0;
        pthread_mutex_unlock(&log->mutex);
        write_lines(log, lines, length);
        pthread_mutex_lock(&log->mutex);
    }
    log->used = 0;
    log->writing = false;
    bool last = log->abandoned;
    pthread_cond_signal(&log->idle);
    pthread_mutex_unlock(&log->mutex);
    free(lines);
    if (last)
        destroy(log);
    return NULL;
}

/* The supervisor handles its signals itself, so the thread blocks all. */
static bool start_thread(struct bw_history_log *log)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, &attributes, write_pending, log) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

struct bw_history_log *bw_history_log_new(const char *directory)
{
    struct bw_history_log *log = calloc(1, sizeof *log);
    pthread_condattr_t attributes;
    if (!log)
        return NULL;
    snprintf(log->directory, sizeof log->directory, "%s", directory);
    int used = snprintf(log->path, sizeof log->path, "%s/%s", directory, BW_HISTORY_FILE);
    int old =
        snprintf(log->old_path, sizeof log->old_path, "%s/%s", directory, BW_HISTORY_OLD_FILE);
    if (used >= (int)sizeof log->path || old >= (int)sizeof log->old_path) {
        free(log);
        return NULL;
    }
    pthread_mutex_init(&log->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&log->idle, &attributes);
    pthread_condattr_destroy(&attributes);
    return log;
}

void bw_history_log_append(struct bw_history_log *log, const char *line)
{
    size_t length = strlen(line);
    pthread_mutex_lock(&log->mutex);
    if (log->used + length + 1 <= PENDING_MAX) {
        memcpy(log->pending + log->used, line, length);
        log->pending[log->used + length] = '\n';
        log->used += length + 1;
    }
    if (!log->writing) {
        log->writing = start_thread(log);
        if (!log->writing)
            log->used = 0;
    }
    pthread_mutex_unlock(&log->mutex);
}

void bw_history_log_free(struct bw_history_log *log, bw_time limit_ns)
{
    struct timespec until;
    int error = 0;
    if (!log)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    bw_time end = (bw_time)until.tv_sec * BW_SEC + until.tv_nsec + limit_ns;
    until = (struct timespec){.tv_sec = end / BW_SEC, .tv_nsec = end % BW_SEC};
    pthread_mutex_lock(&log->mutex);
    while (log->writing && !error)
        error = pthread_cond_timedwait(&log->idle, &log->mutex, &until);
    bool writing = log->writing;
    log->abandoned = true; /* a thread that still writes frees the log */
    pthread_mutex_unlock(&log->mutex);
    if (!writing)
        destroy(log);
}
