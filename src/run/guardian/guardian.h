/* The guardian process: parent of the work, keeper of the deadline.
 *
 * Forked by the supervisor while it is small; single-threaded, no loop library, no heap of its own.
 * Its timer is a timerfd on CLOCK_BOOTTIME, so it counts suspend. It decides by
 * core/guardian/guardian.h and carries that out. When the supervisor dies it kills the work, waits
 * until nothing of it is left, releases the leadership on the embedded store, and ends. */
#ifndef BW_RUN_GUARDIAN_H
#define BW_RUN_GUARDIAN_H

#include "run/contain/contain.h"
#include "run/log.h"

#include <signal.h>
#include <sys/resource.h>

/* Entries that are filled in when the work starts. */
#define BW_GUARDIAN_TOKEN_BYTES 64

struct bw_guardian_config {
    const char *path; /* of the command that we are part of, for lines: "bellwether run" */
    const char *election;
    char **argv;        /* the command */
    char **environment; /* NULL-terminated, with room for two more entries before its end */
    enum bw_contain_kind containment;
    bw_time kill_after_ns;
    const struct bw_log *log;
    sigset_t mask;      /* of the work */
    bool pipe_ignored;  /* SIGPIPE was ignored when we were started */
    struct rlimit core; /* of the work: ours may be 0, see supervisor.c */
};

/* Forks one. Returns its pid and the supervisor's end of the socket, or -1 with errno. The first
 * thing it says is READY or FAILED. */
pid_t bw_guardian_start(const struct bw_guardian_config *config, int *socket);

/* spawn.c: forks and executes the work inside `contain`. Returns its pid or -1. */
pid_t bw_guardian_spawn(const struct bw_guardian_config *config, struct bw_contain *contain,
                        bw_token token);

#endif
