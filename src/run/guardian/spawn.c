/* Starts the work: the guardian forks it into the containment. The work gets its environment, its
 * standard streams, and PR_SET_PDEATHSIG as a backup against the guardian's death.
 *
 * PR_SET_PDEATHSIG refers to the creating thread (the guardian has only one). A set-uid exec clears
 * it, and it has no effect if the parent has already died, so the child checks its parent
 * afterwards. It is only a backup; the containment gives the guarantee. */
#include "run/guardian/guardian.h"
#include "run/guardian/guardian_message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void add_entry(char **environment, char *entry)
{
    size_t name = strcspn(entry, "=") + 1;
    size_t i = 0;
    while (environment[i] && strncmp(environment[i], entry, name) != 0)
        i++;
    bool last = environment[i] == NULL;
    environment[i] = entry;
    if (last)
        environment[i + 1] = NULL;
}

static _Noreturn void fail(const char *path, const char *command, int error)
{
    char text[512];
    int length =
        snprintf(text, sizeof text, "%s: cannot run %.300s: %s\n", path, command, strerror(error));
    (void)!write(STDERR_FILENO, text, (size_t)length);
    _exit(error == ENOENT ? 127 : 126);
}

static _Noreturn void become_work(const struct bw_guardian_config *config,
                                  const struct bw_contain *contain, pid_t guardian, bw_token token)
{
    static char token_entry[BW_GUARDIAN_TOKEN_BYTES], cookie_entry[sizeof contain->cookie];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* In a PID namespace getppid() returns 0, because the guardian is outside. Then the check is
     * not needed: the namespace's init dies with the guardian. */
    pid_t parent = getppid();
    if (parent != guardian && !(parent == 0 && contain->kind == BW_CONTAIN_PIDNS))
        _exit(126);
    if (bw_run_token(token) != BW_TOKEN_NONE) {
        snprintf(token_entry, sizeof token_entry, "BELLWETHER_TOKEN=%llu",
                 (unsigned long long)token);
        add_entry(config->environment, token_entry);
    }
    if (contain->cookie[0]) {
        memcpy(cookie_entry, contain->cookie, sizeof cookie_entry);
        add_entry(config->environment, cookie_entry);
    }
    setrlimit(RLIMIT_CORE, &config->core);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, config->pipe_ignored ? SIG_IGN : SIG_DFL);
    sigprocmask(SIG_SETMASK, &config->mask, NULL);
    execvpe(config->argv[0], config->argv, config->environment);
    fail(config->path, config->argv[0], errno);
}

pid_t bw_guardian_spawn(const struct bw_guardian_config *config, struct bw_contain *contain,
                        bw_token token)
{
    pid_t guardian = getpid();
    pid_t pid = bw_contain_fork(contain);
    if (pid == 0)
        become_work(config, contain, guardian, token);
    return pid;
}
