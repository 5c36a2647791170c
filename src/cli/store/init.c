/* `bellwether store init URL`: creates what a store needs on its server before first use, or prints
 * it for an administrator with the rights to create it. */
#include "cli/store/check.h"

#include <stdlib.h>

struct init_options {
    struct bw_look look;
    bool print;
};

static const struct bw_option options[] = {
    BW_LOOK_STORE,
    BW_LOOK_STORE_FILE,
    {.name = "print",
     .help = "print the statements without connecting (default: execute them)",
     .set = bw_set_switch,
     .offset = offsetof(struct init_options, print)},
    BW_LOOK_TIMEOUT,
    {.name = NULL},
};

static int print_schema(const struct bw_cli_command *command, const struct bw_store_ops *ops,
                        const char *url)
{
    char why[BW_WHY_MAX + 1] = "";
    if (!ops->schema) {
        printf("%s: nothing to create before first use\n", ops->scheme);
        return BW_EXIT_OK;
    }
    char *text = ops->schema(url, why);
    if (!text)
        return bw_usage_error(command, "%s", why);
    fputs(text, stdout);
    free(text);
    return BW_EXIT_OK;
}

/* Sends one read. A store creates its tables or keys on its first request. */
static int make(const struct bw_cli_command *command, const struct bw_look *look)
{
    struct bw_client client;
    int code = bw_client_open(&client, command, look);
    if (code != BW_GO_ON)
        return code;
    struct bw_store_request request = bw_client_request(&client, BW_STORE_READ);
    code = bw_client_ask(&client, &request);
    if (code == BW_GO_ON && client.reply.outcome != BW_OUTCOME_DONE)
        code = bw_client_fail(&client, BW_EXIT_UNAVAILABLE, "%s", client.reply.why);
    else if (code == BW_GO_ON)
        code = printf("%s is ready\n", look->shown) > 0 ? BW_EXIT_OK : BW_EXIT_IO;
    bw_client_close(&client);
    return code;
}

static int run_init(const struct bw_cli_command *command, int argc, char **argv)
{
    struct init_options init = {.look.election = "bellwether-check"};
    char why[BW_WHY_MAX + 1];
    int code = bw_store_parse(command, argc, argv, &init.look);
    if (code != BW_GO_ON)
        return code;
    const struct bw_store_ops *ops = bw_store_find(init.look.store, why);
    if (!ops)
        return bw_usage_error(command, "%s", why);
    return init.print ? print_schema(command, ops, init.look.store) : make(command, &init.look);
}

const struct bw_cli_command bw_command_store_init = {
    .name = "init",
    .path = "bellwether store init",
    .usage = "URL [--print]",
    .about = "create the tables or keys that the store needs, or print the statements",
    .text = "Candidates create them on first use. Use this command if the candidates lack the\n"
            "permissions. Exit code: 0; 69 the store is unreachable, or this user lacks the\n"
            "permissions.\n",
    .options = options,
    .operand = bw_any_word,
    .run = run_init,
};
