/* `bellwether store check` and `store init`. */
#ifndef BW_CLI_STORE_CHECK_H
#define BW_CLI_STORE_CHECK_H

#include "cli/store/client.h"

extern const struct bw_cli_command bw_command_store_check, bw_command_store_init;

/* Parses the options and the URL: operand, --store or BELLWETHER_STORE. `look` is the target's
 * first member. Returns BW_GO_ON or an exit code. */
int bw_store_parse(const struct bw_cli_command *command, int argc, char **argv,
                   struct bw_look *look);

#endif
