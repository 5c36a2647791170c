/* Reads /proc with plain system calls, so that a freshly forked child can use it, too. Each result
 * describes one instant and may be outdated at once; callers that need certainty repeat the check
 * (contain.h). */
#include "run/contain/proc.h"
#include "os/grow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PF_EXITING   0x4u
#define STAT_START   18 /* index among the fields after the state; field 0 is the parent */
#define STAT_THREADS 16
#define STAT_FLAGS   5

static ssize_t read_whole(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, out, size - 1);
    close(fd);
    if (got >= 0)
        out[got] = '\0';
    return got;
}

/* Format: "PID (NAME) STATE PARENT ...". The name may contain any byte, so parsing starts at the
 * last ')'. */
int bw_proc_read(pid_t pid, struct bw_proc *out)
{
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (read_whole(path, text, sizeof text) <= 0)
        return -1;
    const char *at = strrchr(text, ')');
    if (!at || at[1] != ' ' || !at[2])
        return -1;
    *out = (struct bw_proc){.pid = pid, .state = at[2]};
    at += 3;
    for (int field = 0; *at && field <= STAT_START; field++) {
        char *end;
        unsigned long long value = strtoull(at, &end, 10);
        if (end == at)
            return -1;
        if (field == 0)
            out->parent = (pid_t)value;
        else if (field == STAT_FLAGS)
            out->exiting = (value & PF_EXITING) != 0;
        else if (field == STAT_THREADS)
            out->threads = (unsigned)value;
        else if (field == STAT_START)
            out->start = value;
        at = end;
    }
    return 0;
}

/* The state is that of the first thread, which may end before the others. */
bool bw_proc_lives(const struct bw_proc *proc)
{
    return (proc->state != 'Z' && proc->state != 'X') || proc->threads > 1;
}

static int add(struct bw_proc **list, size_t *count, size_t *capacity, const struct bw_proc *proc)
{
    if (!bw_grow(list, capacity, *count + 1, 256, sizeof **list))
        return -1;
    (*list)[(*count)++] = *proc;
    return 0;
}

static int by_pid(const void *a, const void *b)
{
    const struct bw_proc *left = a, *right = b;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

ssize_t bw_proc_list(struct bw_proc **out)
{
    size_t count = 0, capacity = 0;
    struct dirent *entry;
    struct bw_proc proc;
    DIR *dir = opendir("/proc");
    *out = NULL;
    if (!dir)
        return -1;
    while ((entry = readdir(dir))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && bw_proc_read(pid, &proc) == 0 && add(out, &count, &capacity, &proc) != 0) {
            free(*out);
            *out = NULL;
            closedir(dir);
            return -1;
        }
    }
    closedir(dir);
    if (count > 0)
        qsort(*out, count, sizeof **out, by_pid);
    return (ssize_t)count;
}

size_t bw_proc_children(pid_t *out, size_t max)
{
    char text[2048];
    size_t count = 0;
    if (read_whole("/proc/thread-self/children", text, sizeof text) <= 0)
        return 0;
    for (char *at = text, *end; count < max; at = end) {
        long pid = strtol(at, &end, 10);
        if (end == at || *end != ' ') /* the last number may be cut off */
            break;
        out[count++] = (pid_t)pid;
    }
    return count;
}

/* "0.20 0.18 0.12 1/80 11206": the last field of /proc/loadavg. */
uint64_t bw_proc_last_created(void)
{
    char text[128];
    const char *last = NULL;
    if (read_whole("/proc/loadavg", text, sizeof text) > 0)
        last = strrchr(text, ' ');
    return last ? strtoull(last, NULL, 10) : 0;
}

const struct bw_proc *bw_proc_find(const struct bw_proc *list, size_t count, pid_t pid)
{
    struct bw_proc key = {.pid = pid};
    return count > 0 ? bsearch(&key, list, count, sizeof *list, by_pid) : NULL;
}

void bw_proc_mark_descendants(struct bw_proc *list, size_t count)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < count; i++) {
            if (list[i].marked)
                continue;
            const struct bw_proc *parent = bw_proc_find(list, count, list[i].parent);
            list[i].marked = parent && parent->marked;
            more = more || list[i].marked;
        }
    }
}

int bw_proc_signal(pid_t pid, uint64_t start, int signal)
{
    struct bw_proc proc;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno != ENOSYS)
        return -1;
    bool same = bw_proc_read(pid, &proc) == 0 && proc.start == start;
    int result = -1;
    int error = ESRCH;
    if (same) {
        result =
            fd >= 0 ? (int)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) : kill(pid, signal);
        error = errno;
    }
    if (fd >= 0)
        close(fd);
    errno = error;
    return result;
}

uint64_t bw_proc_namespace(pid_t pid, const char *kind)
{
    char path[48];
    struct stat st;
    if (pid == 0)
        snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    else
        snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, kind);
    return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Zero bytes separate the entries. The loop keeps the start of an entry that spans two reads. */
static bool file_holds(const char *path, const char *text)
{
    char buffer[8192];
    size_t length = strlen(text) + 1, kept = 0;
    bool found = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got;
    while (!found && (got = read(fd, buffer + kept, sizeof buffer - kept)) > 0) {
        size_t have = kept + (size_t)got;
        found = memmem(buffer, have, text, length) != NULL;
        kept = have < length ? have : length - 1;
        memmove(buffer, buffer + have - kept, kept);
    }
    close(fd);
    return found;
}

/* A first thread that has ended has no environment any more; the other threads do. */
static bool thread_has_environment(pid_t pid, const char *text)
{
    char path[80];
    bool found = false;
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    while (dir && !found && (entry = readdir(dir))) {
        int thread = atoi(entry->d_name);
        snprintf(path, sizeof path, "/proc/%d/task/%d/environ", (int)pid, thread);
        found = thread > 0 && file_holds(path, text);
    }
    if (dir)
        closedir(dir);
    return found;
}

bool bw_proc_has_environment(const struct bw_proc *proc, const char *text)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)proc->pid);
    if (file_holds(path, text))
        return true;
    return proc->state == 'Z' && proc->threads > 1 && thread_has_environment(proc->pid, text);
}

void bw_run_fill_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Free descriptors required at start: a loop, a guardian and a store need that many. */
#define DESCRIPTORS_LEAST 12u

bool bw_run_has_descriptors(void)
{
    int fds[DESCRIPTORS_LEAST];
    unsigned count = 0;
    while (count < DESCRIPTORS_LEAST &&
           (fds[count] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO)) >= 0)
        count++;
    int error = errno;
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
    errno = error;
    return count == DESCRIPTORS_LEAST;
}
