/* All commands. Each command is defined in a file of its own. */
#ifndef BW_CLI_COMMANDS_H
#define BW_CLI_COMMANDS_H

#include "cli/options/options.h"

/* The top command, `bellwether`, which has all others below it. */
extern const struct bw_cli_command bw_command_top;

extern const struct bw_cli_command bw_command_sim, bw_command_sim_run, bw_command_sim_compare,
    bw_command_sim_storm, bw_command_sim_check, bw_command_sim_demo, bw_command_sim_explore,
    bw_command_sim_play, bw_command_run, bw_command_status, bw_command_candidates,
    bw_command_observe, bw_command_resign, bw_command_transfer, bw_command_recover,
    bw_command_guard, bw_command_store, bw_command_serve, bw_command_cluster, bw_command_peer,
    bw_command_peer_members, bw_command_peer_status, bw_command_peer_resign,
    bw_command_peer_transfer, bw_command_peer_remove, bw_command_peer_keygen,
    bw_command_peer_recover, bw_command_timeline, bw_command_history, bw_command_drain,
    bw_command_undrain;

/* Runs the subcommand that argv[0] names, or prints the help or an error. Returns the exit code. */
int bw_command_dispatch(const struct bw_cli_command *command, int argc, char **argv);

#endif
