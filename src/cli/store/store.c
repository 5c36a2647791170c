/* `bellwether store`: examines a store before use. */
#include "cli/commands.h"
#include "cli/store/check.h"

static const struct bw_cli_command *const subs[] = {&bw_command_store_check, &bw_command_store_init,
                                                    NULL};

const struct bw_cli_command bw_command_store = {
    .name = "store",
    .path = "bellwether store",
    .usage = "COMMAND URL [options]",
    .about = "check a store before you use it: version, latency, guarantees",
    .text = "`bellwether --version` lists the stores that can be used here.\n",
    .subs = subs,
    .run = bw_command_dispatch,
};
