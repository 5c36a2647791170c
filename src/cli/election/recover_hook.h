/* Runs a hook of a recovery: a shell command that gets text on stdin and whose stdout is kept. The
 * hook is work under the recovery's leadership: it is killed in time when leadership is lost. */
#ifndef BW_CLI_ELECTION_RECOVER_HOOK_H
#define BW_CLI_ELECTION_RECOVER_HOOK_H

#include "cli/election/recover_lead.h"
#include "cli/election/sides.h"

struct bw_hook_result {
    /* exit code; 128+N after signal N; -1: not started, or killed because leadership was lost */
    int status;
    bool overflowed;
    char text[BW_SIDES_TEXT_MAX + 1];
};

/* Returns 0 if the hook ended with exit code 0 within `limit_ns`, else BW_EIO with the reason in
 * `why`. On return every process of its process group is dead. */
int bw_hook_run(struct bw_lead *lead, const char *command, const char *input, bw_time limit_ns,
                struct bw_hook_result *result, char *why);

#endif
