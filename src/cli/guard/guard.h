/* Exit codes of guards, for all commands that use guards; and `guard print`. */
#ifndef BW_CLI_GUARD_GUARD_H
#define BW_CLI_GUARD_GUARD_H

#include "cli/store/client.h"

#define BW_EXIT_DAMAGED 65 /* stored data cannot be trusted (EX_DATAERR) */

/* Returns the exit code for an error of a guard. */
int bw_guard_exit_code(int error);

extern const struct bw_cli_command bw_command_guard_print;

#endif
