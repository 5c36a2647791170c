/* The bellwether program: finds the subcommand and runs it. */
#include "cli/commands.h"

#include "cli/version.h"
#include "core/base/parse_values.h"
#include "run/health/probe.h"

#include <string.h>

static const struct bw_cli_command *const commands[] = {
    &bw_command_run,      &bw_command_status,  &bw_command_candidates,
    &bw_command_observe,  &bw_command_resign,  &bw_command_transfer,
    &bw_command_recover,  &bw_command_guard,   &bw_command_store,
    &bw_command_serve,    &bw_command_cluster, &bw_command_peer,
    &bw_command_drain,    &bw_command_undrain, &bw_command_history,
    &bw_command_timeline, &bw_command_sim,     NULL};

const struct bw_cli_command bw_command_top = {
    .name = "bellwether",
    .path = "bellwether",
    .usage = "COMMAND [options]",
    .about = "leader election that people can trust",
    .text =
        "One of many equal instances leads. When it fails, another one takes over. Where the\n"
        "chosen store or algorithm guarantees it, two leaders never act at the same time.\n"
        "Terms:\n"
        "  election   a name that candidates compete for\n"
        "  candidate  an instance that wants to lead\n"
        "  leader     the candidate that was elected\n"
        "  term       a number that grows with every leadership\n"
        "  token      the term as it is passed to storage, which rejects older tokens\n"
        "  lease      the right to act until a deadline\n"
        "\n"
        "New here? Watch a failover:     bellwether sim demo\n"
        "Which algorithm fits?           bellwether sim compare\n"
        "What if the leader crashes?     bellwether sim run --algorithm raft --crash leader@2s\n"
        "Do the published figures hold?  bellwether sim check\n"
        "\n"
        "Every command has --help. Commands that print figures have --json. Invalid input ends a\n"
        "command with exit code 64 and one line that says what is wrong.\n",
    .subs = commands,
    .run = bw_command_dispatch,
};

static int unknown_command(const struct bw_cli_command *command, const char *got)
{
    const struct bw_cli_command *near = NULL;
    for (const struct bw_cli_command *const *sub = command->subs; *sub; sub++)
        if (bw_text_similar(got, (*sub)->name) &&
            (!near || bw_text_distance(got, (*sub)->name) < bw_text_distance(got, near->name)))
            near = *sub;
    if (near)
        return bw_usage_error(command, "unknown command '%.60s' (did you mean %s?)", got,
                              near->name);
    fprintf(stderr, "%s: unknown command '%.60s'; expected one of", command->path, got);
    for (const struct bw_cli_command *const *sub = command->subs; *sub; sub++)
        fprintf(stderr, "%s %s", sub == command->subs ? "" : ",", (*sub)->name);
    fputc('\n', stderr);
    return BW_EXIT_USAGE;
}

static const struct bw_cli_command *find_command(const struct bw_cli_command *command,
                                                 const char *name)
{
    for (const struct bw_cli_command *const *sub = command->subs; sub && *sub; sub++)
        if (strcmp(name, (*sub)->name) == 0)
            return *sub;
    return NULL;
}

/* `help run` and `help store check`: the same as `run --help` and `store check --help`. */
static int help(const struct bw_cli_command *command, int argc, char **argv)
{
    for (int i = 0; i < argc && command->subs; i++) {
        const struct bw_cli_command *sub = find_command(command, argv[i]);
        if (!sub)
            return unknown_command(command, argv[i]);
        command = sub;
    }
    bw_options_help(command);
    return BW_EXIT_OK;
}

int bw_command_dispatch(const struct bw_cli_command *command, int argc, char **argv)
{
    if (argc == 0) {
        bw_options_help(command);
        return BW_EXIT_USAGE;
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0 ||
        strcmp(argv[0], "help") == 0)
        return help(command, argc - 1, argv + 1);
    const struct bw_cli_command *sub = find_command(command, argv[0]);
    return sub ? sub->run(sub, argc - 1, argv + 1) : unknown_command(command, argv[0]);
}

int main(int argc, char **argv)
{
    int code;
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        bw_version_print();
        code = BW_EXIT_OK;
    } else if (argc > 1 && strcmp(argv[1], "--complete") == 0) {
        code = bw_options_complete(&bw_command_top, argc - 2, argv + 2);
    } else if (argc == 3 && strcmp(argv[1], "--probe") == 0) {
        code = bw_probe(argv[2]); /* runs as a child process of `run --health-http` */
    } else {
        code = bw_command_dispatch(&bw_command_top, argc - 1, argv + 1);
    }
    if (fflush(stdout) != 0 && code == BW_EXIT_OK) {
        perror("bellwether: standard output");
        code = BW_EXIT_IO;
    }
    return code;
}
