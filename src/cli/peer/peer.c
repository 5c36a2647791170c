/* `bellwether peer`: the instances elect a leader among themselves. The leader runs the command, as
 * with `bellwether run`. */
#include "cli/peer/peer.h"

#include "cli/commands.h"
#include "run/shards/shards.h"
#include "store/parent/parent.h"

#include <stdlib.h>
#include <string.h>

static const struct bw_cli_command *const commands[] = {
    &bw_command_peer_members, &bw_command_peer_status,
    &bw_command_peer_resign,  &bw_command_peer_transfer,
    &bw_command_peer_remove,  &bw_command_peer_recover,
    &bw_command_peer_keygen,  NULL};

/* Runs the peer for all shards, and a supervisor for each shard that this peer leads. */
static int launch(const struct bw_cli_command *command, struct bw_peer_cli *options,
                  int options_count, char **argv, char **work)
{
    const struct bw_run_config *c = &options->job.config;
    if (!work[0])
        return bw_usage_error(command, "missing command: --shards needs -- COMMAND or --command");
    int code = bw_job_check_command(command, work[0]);
    if (code == BW_GO_ON)
        code = bw_job_check_shards(command, &options->job);
    if (code != BW_GO_ON)
        return code;
    struct bw_shards_order order = {.store = c->store,
                                    .store_shown = c->store_shown,
                                    .election = c->election,
                                    .id = c->id,
                                    .shards = options->job.shards,
                                    .ttl_ns = c->terms.ttl_ns,
                                    .retry_ns = c->retry_ns,
                                    .drain_dir = c->drain_dir,
                                    .log = c->log,
                                    .is_peer = true,
                                    .options = argv,
                                    .options_count = options_count,
                                    .argv = work};
    return bw_shards_run(&order);
}

/* Runs one of those supervisors. It asks its launcher, which is the peer. */
static int supervise_shard(const struct bw_cli_command *command, struct bw_peer_cli *options,
                           const char *parent, char **work)
{
    static char store[64], election[BW_ELECTION_NAME_MAX + 1];
    struct bw_run_config *c = &options->job.config;
    snprintf(store, sizeof store, "%s%.40s", BW_PARENT_SCHEME, parent);
    snprintf(election, sizeof election, "%.100s.%.10s", c->election, getenv("BELLWETHER_SHARD"));
    unsetenv("BELLWETHER_PARENT");
    c->store = store;
    c->election = election;
    c->ignores_drain = true;
    c->promise = false; /* the launcher has printed the guarantees */
    return bw_job_start(command, c, work);
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    static struct bw_peer_cli options;
    struct bw_parsed parsed;
    /* a subcommand; the command to run comes after the options */
    if (argc > 0 && argv[0][0] != '-')
        return bw_command_dispatch(command, argc, argv);
    int at = bw_job_command_at(command, argc, argv);
    bw_peer_cli_init(&options);
    int code = bw_options_parse(command, at, argv, &options, &parsed);
    if (code == BW_GO_ON)
        code = bw_peer_cli_finish(command, &options, &parsed);
    if (code != BW_GO_ON)
        return code;
    int options_count = at;
    at += at < argc && strcmp(argv[at], "--") == 0;
    char **work = bw_job_command(&options.job, argv + at);
    const char *parent = getenv("BELLWETHER_PARENT");
    if (parent && getenv("BELLWETHER_SHARD"))
        return supervise_shard(command, &options, parent, work);
    if (options.job.shards)
        return launch(command, &options, options_count, argv, work);
    return bw_job_start(command, &options.job.config, work);
}

const struct bw_cli_command bw_command_peer = {
    .name = "peer",
    .path = "bellwether peer",
    .usage =
        "--id N --listen ADDR --data DIR --join ADDR,... --expect N [options] -- COMMAND...\n"
        "       bellwether peer ... --http ADDR [options]\n"
        "       bellwether peer members|status|resign|transfer|remove|recover|keygen [options]",
    .about = "elect a leader among the instances themselves, without a service; the leader runs a "
             "command",
    .text =
        "Start one peer on each host, each with its own --id and --data. When --expect of them "
        "have\n"
        "met, they form a cluster; others can join it later. One peer leads and runs the command,\n"
        "like bellwether run; when it fails, another one does.\n"
        "Guarantees: with raft, or with --quorum, there is at most one leader at a time and a "
        "growing\n"
        "token, and a minority has no leader. Other algorithms without --quorum can have two "
        "leaders\n"
        "in a partition and provide no token: BELLWETHER_TOKEN is not set. The peer logs its\n"
        "guarantees at start.\n"
        "The command gets BELLWETHER_ELECTION, BELLWETHER_ID, BELLWETHER_TOKEN and "
        "BELLWETHER_STORE\n"
        "in its environment, with --shards also BELLWETHER_SHARD and BELLWETHER_SHARDS.\n"
        "\n"
        "Exit code: as bellwether run; 64 also for a directory of another peer, a key file that "
        "other\n"
        "users can read, an address that is not this host's, or settings that differ from the "
        "other\n"
        "peers' (--algorithm, --quorum, --shards, --ttl); 69 the cluster was unreachable for all "
        "of -w.\n",
    .options = bw_peer_option_rows,
    .subs = commands,
    .run = run,
};
