/* Exit codes of guards, shared by the commands that use them; `guard print`. */
#ifndef BW_CLI_GUARD_H
#define BW_CLI_GUARD_H

#include "cli/store/client.h"

#define BW_EXIT_DAMAGED 65 /* stored data cannot be trusted (EX_DATAERR) */

/* The exit code for an error of a guard. */
int bw_guard_exit_code(int error);

extern const struct bw_cli_command bw_command_guard_print;

#endif
