/* Options from a config file, which --config FILE or BELLWETHER_CONFIG names. config_text.h
 * describes the format.
 *
 * Precedence, highest first: command line, environment, config file, default.
 *
 * The file contains no secrets, so that every user may read it. Secrets are in files that it names
 * (store-file, fence-file). The file may name shell commands to run. Therefore a file that every
 * user can write to is refused. */
#ifndef BW_CLI_OPTIONS_CONFIG_FILE_H
#define BW_CLI_OPTIONS_CONFIG_FILE_H

#include "cli/options/options.h"

/* The --config option, which every command has. */
extern const struct bw_option bw_option_config;

/* Applies the settings of the file that neither the command line (`parsed->given`) nor the
 * environment sets. Returns BW_GO_ON, or the exit code after one line on stderr that names the file
 * and the line. */
int bw_config_apply(const struct bw_cli_command *command, const char *path,
                    const struct bw_parsed *parsed, void *target);

#endif
