/* Every command, one file each. */
#ifndef BW_CLI_COMMANDS_H
#define BW_CLI_COMMANDS_H

#include "cli/options/options.h"

/* `bellwether` itself, above all the others. */
extern const struct bw_cli_command bw_command_top;

extern const struct bw_cli_command bw_command_sim, bw_command_sim_run, bw_command_sim_compare,
    bw_command_sim_storm, bw_command_sim_check, bw_command_sim_demo, bw_command_run,
    bw_command_status, bw_command_candidates, bw_command_observe, bw_command_resign,
    bw_command_transfer, bw_command_recover, bw_command_guard, bw_command_store, bw_command_serve,
    bw_command_cluster, bw_command_peer, bw_command_peer_members, bw_command_peer_status,
    bw_command_peer_resign, bw_command_peer_transfer, bw_command_peer_remove,
    bw_command_peer_keygen, bw_command_peer_recover;

/* Finds the subcommand argv[0] and runs it; help and errors are its own. */
int bw_command_dispatch(const struct bw_cli_command *command, int argc, char **argv);

#endif
