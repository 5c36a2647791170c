/* Containment by cgroup v2, wherever it is mounted.
 *
 * The group is a child of the group that this process is in, as delegation allows. It enables no
 * controllers, so it costs nothing, and needs no root if this user owns the parent group. The work
 * starts inside by clone3(CLONE_INTO_CGROUP); it is never outside, not even for a moment. The name
 * holds the path below the root of the hierarchy, not below a mount point, because another process
 * may see another mount point. */
#include "run/contain/contain.h"

#include "run/contain/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

struct mount {
    char root[PATH_MAX / 4]; /* part of the hierarchy that is visible at the mount point */
    char point[PATH_MAX / 4];
};

/* Format of mountinfo: "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS ... - TYPE SOURCE ..." */
static bool find_mount(struct mount *out)
{
    char line[4096], kind[32];
    bool found = false;
    FILE *table = fopen("/proc/self/mountinfo", "re");
    while (table && !found && fgets(line, sizeof line, table)) {
        const char *dash = strstr(line, " - ");
        found = dash && sscanf(dash, " - %31s", kind) == 1 && strcmp(kind, "cgroup2") == 0 &&
                sscanf(line, "%*d %*d %*s %1023s %1023s", out->root, out->point) == 2 &&
                strchr(out->point, '\\') == NULL;
    }
    if (table)
        fclose(table);
    return found;
}

/* Reads the "0::PATH" line of /proc/self/cgroup. */
static bool own_group(char *out, size_t size)
{
    char line[PATH_MAX];
    bool found = false;
    FILE *table = fopen("/proc/self/cgroup", "re");
    while (table && !found && fgets(line, sizeof line, table))
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, size, "%.*s", (int)size - 1, line + 3);
            found = true;
        }
    if (table)
        fclose(table);
    return found;
}

/* Finds the file system path of a group of the hierarchy. */
static bool visible_at(char *out, size_t size, const struct mount *mount, const char *group)
{
    size_t skip = strcmp(mount->root, "/") == 0 ? 0 : strlen(mount->root);
    if (strncmp(group, mount->root, skip) != 0 || (skip && group[skip] && group[skip] != '/'))
        return false;
    int length = snprintf(out, size, "%s%s", mount->point, group + skip);
    return length > 0 && (size_t)length < size;
}

static int put(const char *dir, const char *file, const char *text)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t put = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return put == (ssize_t)strlen(text) ? 0 : -1;
}

static pid_t fork_into(struct bw_contain *contain)
{
    int dir = open(contain->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -1;
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (unsigned)dir};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    int error = errno;
    if (pid != 0)
        close(dir);
    errno = error;
    if (pid >= 0 || (errno != ENOSYS && errno != EINVAL && errno != E2BIG && errno != EPERM))
        return pid;
    /* no clone3 (older kernel or seccomp filter): the child moves itself into the group */
    pid = fork();
    if (pid == 0 && put(contain->path, "cgroup.procs", "0") != 0)
        _exit(126);
    return pid;
}

/* True if a process can start in the group. Tries it with a process that exits at once. */
static bool works(struct bw_contain *contain)
{
    int status;
    pid_t pid = fork_into(contain);
    if (pid == 0)
        _exit(0);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Removes the empty groups of guardians that were killed. A group's name ends with
 * "-SPACE-PID-RANDOM"; SPACE is the PID namespace in which the pid is valid. rmdir does not remove
 * a group that contains a process. */
static void sweep(const char *path, unsigned long long space)
{
    char dir[PATH_MAX], old[PATH_MAX + 256];
    struct dirent *entry;
    snprintf(dir, sizeof dir, "%s", path);
    *strrchr(dir, '/') = '\0';
    DIR *entries = opendir(dir);
    while (entries && (entry = readdir(entries))) {
        unsigned long long of;
        unsigned random;
        int pid, dashes = 0;
        const char *at = entry->d_name + strlen(entry->d_name);
        while (at > entry->d_name && dashes < 3)
            dashes += *--at == '-';
        bool ours = strncmp(entry->d_name, "bellwether-", 11) == 0 &&
                    sscanf(at, "-%llu-%d-%8x", &of, &pid, &random) == 3 && of == space;
        if (ours && pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) {
            snprintf(old, sizeof old, "%s/%s", dir, entry->d_name);
            rmdir(old);
        }
    }
    if (entries)
        closedir(entries);
}

static int cgroup_make(struct bw_contain *out, const char *election, char *why)
{
    struct mount mount;
    char own[PATH_MAX / 2], group[PATH_MAX], label[64];
    unsigned long long space = bw_proc_namespace(0, "pid");
    if (!find_mount(&mount) || !own_group(own, sizeof own))
        return bw_store_explain(why, BW_EUNSUPPORTED, "cgroup v2 is not mounted");
    bw_contain_label(label, sizeof label, election);
    snprintf(group, sizeof group, "%s/bellwether-%s-%llu-%d-%08x", strcmp(own, "/") == 0 ? "" : own,
             label, space, (int)getpid(), (unsigned)bw_contain_random());
    if (!visible_at(out->path, sizeof out->path, &mount, group))
        return bw_store_explain(why, BW_EUNSUPPORTED,
                                "the cgroup of this process is outside the mounted hierarchy");
    if (mkdir(out->path, 0755) != 0)
        return bw_store_explain(why, BW_EDENIED, "cannot create a cgroup in %.120s%.60s: %s",
                                mount.point, own, strerror(errno));
    if (strlen(group) > BW_CONTAINMENT_MAX - 16 || !works(out)) {
        rmdir(out->path);
        return bw_store_explain(why, BW_EDENIED, "cannot start processes in a new cgroup: %s",
                                strerror(errno));
    }
    snprintf(out->name, sizeof out->name, "cgroup:%.230s", group);
    sweep(out->path, space);
    return 0;
}

static enum bw_contain_found cgroup_find(struct bw_contain *out, const char *text)
{
    struct mount mount;
    const char *last = strrchr(text, '/');
    if (!last || strncmp(last, "/bellwether-", 12) != 0 || strstr(text, "/../"))
        return BW_CONTAIN_INVALID;
    if (!find_mount(&mount) || !visible_at(out->path, sizeof out->path, &mount, text))
        return BW_CONTAIN_ELSEWHERE;
    if (access(out->path, F_OK) != 0)
        return errno == ENOENT ? BW_CONTAIN_GONE : BW_CONTAIN_ELSEWHERE;
    return BW_CONTAIN_HERE;
}

/* ---- all processes of the group, including those in groups that the work created below it ---- */

typedef void each_process(void *context, pid_t pid);

static void walk(const char *dir, unsigned depth, each_process *each, void *context)
{
    char path[PATH_MAX + 16];
    int pid;
    snprintf(path, sizeof path, "%s/cgroup.procs", dir);
    FILE *list = fopen(path, "re");
    while (list && fscanf(list, "%d", &pid) == 1)
        if (pid > 0)
            each(context, (pid_t)pid);
    if (list)
        fclose(list);
    DIR *entries = depth < 16 ? opendir(dir) : NULL;
    struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        if ((size_t)snprintf(path, PATH_MAX, "%s/%s", dir, entry->d_name) < PATH_MAX)
            walk(path, depth + 1, each, context);
    }
    if (entries)
        closedir(entries);
}

struct signal_order {
    int signal;
    pid_t not_group;
};

/* Signals one process of the group. Its pid was just read from the group, so a wrong process gets
 * the signal only if the pid was recycled in between. SIGKILL takes this way only on kernels
 * without cgroup.kill. */
static void signal_one(void *context, pid_t pid)
{
    struct signal_order *signal_order = context;
    struct bw_proc proc;
    if (signal_order->not_group && getpgid(pid) == signal_order->not_group)
        return;
    if (bw_proc_read(pid, &proc) == 0)
        bw_proc_signal(pid, proc.start, signal_order->signal);
}

static void cgroup_signal(struct bw_contain *contain, int signal, pid_t not_group)
{
    struct signal_order signal_order = {signal, not_group};
    walk(contain->path, 0, signal_one, &signal_order);
}

static void cgroup_kill(struct bw_contain *contain)
{
    if (put(contain->path, "cgroup.kill", "1") != 0)
        cgroup_signal(contain, SIGKILL, 0);
    put(contain->path, "cgroup.freeze", "0");
}

static void remember(void *context, pid_t pid)
{
    struct bw_contain_left *left = context;
    struct bw_proc proc;
    if (bw_proc_read(pid, &proc) != 0)
        return;
    if (left->pid == 0 || proc.state == 'D') {
        left->pid = pid;
        left->state = proc.state;
    }
}

static void cgroup_check(struct bw_contain *contain, struct bw_contain_left *out)
{
    char path[PATH_MAX + 16], text[256] = "";
    snprintf(path, sizeof path, "%s/cgroup.events", contain->path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        out->empty = errno == ENOENT; /* removed, which is possible only for an empty group */
        return;
    }
    ssize_t got = read(fd, text, sizeof text - 1);
    out->empty = got < 0 ? errno == ENODEV : strstr(text, "populated 0") != NULL;
    close(fd);
    if (!out->empty)
        walk(contain->path, 0, remember, out);
}

static void remove_below(const char *dir, unsigned depth)
{
    char path[PATH_MAX];
    struct dirent *entry;
    DIR *entries = depth < 16 ? opendir(dir) : NULL;
    while (entries && (entry = readdir(entries)))
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            (size_t)snprintf(path, sizeof path, "%s/%s", dir, entry->d_name) < sizeof path)
            remove_below(path, depth + 1);
    if (entries)
        closedir(entries);
    rmdir(dir);
}

static void cgroup_remove(struct bw_contain *contain)
{
    if (rmdir(contain->path) != 0 && errno == EBUSY)
        remove_below(contain->path, 0);
}

const struct bw_contain_ops bw_contain_cgroup = {
    .word = "cgroup",
    .make = cgroup_make,
    .fork = fork_into,
    .find = cgroup_find,
    .signal = cgroup_signal,
    .check = cgroup_check,
    .kill = cgroup_kill,
    .remove = cgroup_remove,
};
