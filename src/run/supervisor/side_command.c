/* Runs hooks, health checks and fencing commands as processes, see side_command.h. Everything a
 * child needs is prepared before the fork, because the supervisor has threads. */
#include "run/supervisor/side_command.h"

#include "core/base/error.h"
#include "os/clock.h"
#include "run/contain/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Opens the standard input of a command: a memory file with `text`, or /dev/null if it is NULL. */
static int open_input(const char *text)
{
    if (!text)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd >= 0 &&
        (write(fd, text, strlen(text)) != (ssize_t)strlen(text) || lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static char **make_environment(char **common, const struct bw_child_order *order)
{
    size_t count = 0, used = 0;
    while (common[count])
        count++;
    char **out = calloc(count + BW_CHILD_ENTRIES_MAX + 1, sizeof *out);
    for (size_t i = 0; out && i < count; i++) {
        bool replaced = false;
        for (size_t k = 0; k < BW_CHILD_ENTRIES_MAX && order->entries[k]; k++)
            replaced = replaced || strncmp(common[i], order->entries[k],
                                           strcspn(order->entries[k], "=") + 1) == 0;
        if (!replaced)
            out[used++] = common[i];
    }
    for (size_t k = 0; out && k < BW_CHILD_ENTRIES_MAX && order->entries[k]; k++)
        out[used++] = (char *)order->entries[k];
    return out;
}

static _Noreturn void become(const struct bw_children *children, char *const *argv,
                             char *const *environment, int input, int output, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    setpgid(0, 0);
    dup2(input, STDIN_FILENO);
    if (output > 0)
        dup2(output, STDERR_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output belongs to the work */
    setrlimit(RLIMIT_CORE, &children->core);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &children->mask, NULL);
    execvpe(argv[0], argv, environment);
    _exit(errno == ENOENT ? 127 : 126);
}

int bw_child_start(struct bw_children *children, const struct bw_child_order *order)
{
    struct bw_child *child = NULL;
    bool shell = order->shell != NULL;
    char *argv[] = {(char *)(shell ? "sh" : order->program),
                    (char *)(shell ? "-c" : order->arguments[0]),
                    (char *)(shell ? order->shell : order->arguments[1]), NULL};
    for (unsigned i = 0; i < BW_CHILDREN_MAX && !child; i++)
        child = children->at[i].pid == 0 ? &children->at[i] : NULL;
    if (!child)
        return BW_ELIMIT;
    int input = open_input(order->input);
    char **environment = make_environment(children->environment, order);
    pid_t parent = getpid(), pid = -1;
    if (input >= 0 && environment)
        pid = fork();
    if (pid == 0)
        become(children, argv, environment, input, order->output, parent);
    if (input >= 0)
        close(input);
    free(environment);
    if (pid < 0)
        return BW_ENOMEM;
    setpgid(pid, pid);
    *child = (struct bw_child){.pid = pid,
                               .kill_at = bw_time_add(bw_clock_boot(), order->limit_ns),
                               .done = order->done,
                               .context = order->context};
    if (order->pid)
        *order->pid = pid;
    return 0;
}

bool bw_child_reaped(struct bw_children *children, pid_t pid, int status)
{
    for (unsigned i = 0; i < BW_CHILDREN_MAX; i++) {
        struct bw_child child = children->at[i];
        if (child.pid != pid)
            continue;
        children->at[i].pid = 0;
        if (child.done)
            child.done(child.context, WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return true;
    }
    return false;
}

void bw_child_tick(struct bw_children *children, bw_time now)
{
    for (unsigned i = 0; i < BW_CHILDREN_MAX; i++)
        if (children->at[i].pid > 0 && now >= children->at[i].kill_at) {
            kill(-children->at[i].pid, SIGKILL);
            children->at[i].kill_at = BW_TIME_NEVER;
        }
}

bw_time bw_child_deadline(const struct bw_children *children)
{
    bw_time next = BW_TIME_NEVER;
    for (unsigned i = 0; i < BW_CHILDREN_MAX; i++)
        if (children->at[i].pid > 0)
            next = bw_time_min(next, children->at[i].kill_at);
    return next;
}

bool bw_child_hook_runs(const struct bw_children *children)
{
    for (unsigned i = 0; i < BW_CHILDREN_MAX; i++)
        if (children->at[i].pid > 0 && !children->at[i].done)
            return true;
    return false;
}

void bw_child_end_all(struct bw_children *children)
{
    for (unsigned i = 0; i < BW_CHILDREN_MAX; i++)
        if (children->at[i].pid > 0)
            kill(-children->at[i].pid, SIGKILL);
}
