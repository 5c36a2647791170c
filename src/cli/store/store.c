/* `bellwether store`: the place where elections are kept, before one trusts it. */
#include "cli/commands.h"
#include "cli/store/check.h"

static const struct bw_cli_command *const subs[] = {&bw_command_store_check, &bw_command_store_init,
                                                    NULL};

const struct bw_cli_command bw_command_store = {
    .name = "store",
    .path = "bellwether store",
    .usage = "COMMAND URL [options]",
    .about = "look at a store before you trust it: version, latency, promises",
    .text = "`bellwether --version` lists the stores that can be used here.\n",
    .subs = subs,
    .run = bw_command_dispatch,
};
