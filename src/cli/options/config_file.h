/* --config FILE and BELLWETHER_CONFIG: options from a file (its text: config_text.h). A flag wins
 * over the environment, the environment over the file, the file over the default.
 *
 * The file holds no secret, so that it may be readable by all: secrets stand in files of their own
 * that it names (store-file, fence-file). It may name shell lines to run, so one that everybody can
 * write to is refused. */
#ifndef BW_CLI_CONFIG_FILE_H
#define BW_CLI_CONFIG_FILE_H

#include "cli/options/options.h"

/* The row that every command has. */
extern const struct bw_option bw_option_config;

/* Sets what the file says and neither `parsed->given` nor the environment does. BW_GO_ON, or the
 * exit code after one line that names the file and its line. */
int bw_config_apply(const struct bw_cli_command *command, const char *path,
                    const struct bw_parsed *parsed, void *target);

#endif
