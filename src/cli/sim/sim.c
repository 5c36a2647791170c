/* `bellwether sim`: the simulator's commands. */
#include "cli/commands.h"

static const struct bw_cli_command *const subs[] = {&bw_command_sim_demo,    &bw_command_sim_run,
                                                    &bw_command_sim_compare, &bw_command_sim_storm,
                                                    &bw_command_sim_check,   NULL};

const struct bw_cli_command bw_command_sim = {
    .name = "sim",
    .path = "bellwether sim",
    .usage = "COMMAND [options]",
    .about = "try an algorithm before you trust it: virtual time, real code",
    .text = "The simulator runs the very objects that ship. A run is a function of its seed.\n"
            "Start with `bellwether sim demo`; each command has its own --help.\n",
    .subs = subs,
    .run = bw_command_dispatch,
};
