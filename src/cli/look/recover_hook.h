/* A hook of a recovery: a shell command that is fed some text, and whose standard output is kept.
 * It runs as work under the recovery's leadership: when that is lost, it is ended in time. */
#ifndef BW_CLI_RECOVER_HOOK_H
#define BW_CLI_RECOVER_HOOK_H

#include "cli/look/recover_lead.h"
#include "cli/look/sides.h"

struct bw_hook_result {
    int status; /* the exit code; 128+N; -1: was not started, or ended because leadership was lost
                 */
    bool overflowed;
    char text[BW_SIDES_TEXT_MAX + 1];
};

/* 0 when it ended with status 0 within `limit_ns`; else BW_EIO with a line in why. Everything in
 * its process group is dead afterwards. */
int bw_hook_run(struct bw_lead *lead, const char *command, const char *input, bw_time limit_ns,
                struct bw_hook_result *result, char *why);

#endif
