/* The commands of `bellwether sim`. */
#include "cli/commands.h"

static const struct bw_cli_command *const subs[] = {
    &bw_command_sim_demo,  &bw_command_sim_play,    &bw_command_sim_run,   &bw_command_sim_compare,
    &bw_command_sim_storm, &bw_command_sim_explore, &bw_command_sim_check, NULL};

const struct bw_cli_command bw_command_sim = {
    .name = "sim",
    .path = "bellwether sim",
    .usage = "COMMAND [options]",
    .about = "try an algorithm in simulation: virtual time, the shipped code",
    .text = "The simulator runs the same object files that ship. The seed determines a run "
            "completely.\n"
            "Start with `bellwether sim demo`. Each command has its own --help.\n",
    .subs = subs,
    .run = bw_command_dispatch,
};
