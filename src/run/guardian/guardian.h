/* The guardian process: the parent of the work. It enforces the deadline.
 *
 * The supervisor forks the guardian early, while the process is small. The guardian is
 * single-threaded, uses no loop library and allocates no heap memory. Its timer is a timerfd on
 * CLOCK_BOOTTIME, which also counts suspended time. core/guardian/guardian.h decides; this process
 * carries out the decisions. When the supervisor dies, the guardian kills the work, waits until all
 * its processes are dead, releases the leadership if the store allows that, and exits. */
#ifndef BW_RUN_GUARDIAN_GUARDIAN_H
#define BW_RUN_GUARDIAN_GUARDIAN_H

#include "run/contain/contain.h"
#include "run/event_log.h"

#include <signal.h>
#include <sys/resource.h>

/* Size of the environment entry with the token, which is set when the work starts. */
#define BW_GUARDIAN_TOKEN_BYTES 64

struct bw_guardian_config {
    const char *path; /* name of the command in messages: "bellwether run" */
    const char *election;
    char **argv;        /* command line of the work */
    char **environment; /* NULL-terminated, with space for two more entries */
    enum bw_contain_kind containment;
    bw_time kill_after_ns;
    const struct bw_log *log;
    sigset_t mask;      /* signal mask of the work */
    bool pipe_ignored;  /* SIGPIPE was ignored at our start */
    struct rlimit core; /* core limit of the work; our own may be 0, see supervisor.c */
};

/* Forks the guardian. Returns its pid and the supervisor's end of the socket, or -1 with errno. The
 * first message of the guardian is READY or FAILED. */
pid_t bw_guardian_start(const struct bw_guardian_config *config, int *socket);

/* spawn.c: forks and executes the work inside `contain`. Returns its pid or -1. */
pid_t bw_guardian_spawn(const struct bw_guardian_config *config, struct bw_contain *contain,
                        bw_token token);

#endif
