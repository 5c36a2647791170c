/* `bellwether peer`: the instances elect among themselves; the leader runs the command, as with
 * `bellwether run`. */
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

/* The peer of all shards, and a supervisor for each that it leads. */
static int launch(const struct bw_cli_command *command, struct bw_peer_cli *options,
                  int options_count, char **argv, char **work)
{
    const struct bw_run_config *c = &options->job.config;
    if (!work[0])
        return bw_usage_error(command, "which command? --shards needs one behind --");
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
                                    .log = c->log,
                                    .told = true,
                                    .options = argv,
                                    .options_count = options_count,
                                    .argv = work};
    return bw_shards_run(&order);
}

/* One of those supervisors: it asks its launcher, which is the peer. */
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
    c->promise = false; /* the launcher has said it */
    return bw_job_start(command, c, work);
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    static struct bw_peer_cli options;
    struct bw_parsed parsed;
    if (argc > 0 && argv[0][0] != '-') /* a command of ours; the work's stands behind options */
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
    const char *parent = getenv("BELLWETHER_PARENT");
    if (parent && getenv("BELLWETHER_SHARD"))
        return supervise_shard(command, &options, parent, argv + at);
    if (options.job.shards)
        return launch(command, &options, options_count, argv, argv + at);
    return bw_job_start(command, &options.job.config, argv + at);
}

const struct bw_cli_command bw_command_peer = {
    .name = "peer",
    .path = "bellwether peer",
    .usage =
        "--id N --listen ADDR --data DIR --join ADDR,... --expect N [options] -- COMMAND...\n"
        "       bellwether peer ... --http ADDR [options]\n"
        "       bellwether peer members|status|resign|transfer|remove|recover|keygen [options]",
    .about = "elect among the instances themselves, without any service; the leader runs a command",
    .text =
        "Start one on each host, each with its own --id and --data. Once --expect of them have "
        "met\n"
        "they are a cluster; others may join it later. One leads and runs the command, exactly as\n"
        "bellwether run does; when it fails, another does.\n"
        "Raft, and the others with --quorum, have one leader at a time and a token that grows; a\n"
        "minority has no leader. The others without --quorum may have two in a partition and give\n"
        "no token: BELLWETHER_TOKEN is not set. What is promised is said at start.\n"
        "The command finds BELLWETHER_ELECTION, BELLWETHER_ID, BELLWETHER_TOKEN and\n"
        "BELLWETHER_STORE in its environment, with --shards also BELLWETHER_SHARD and\n"
        "BELLWETHER_SHARDS.\n"
        "\n"
        "Exit: as bellwether run; 64 also for a directory that is another peer's, a key that "
        "others\n"
        "may read, an address that is not this host's, settings that are not the others' "
        "(--algorithm,\n"
        "--quorum, --shards, --ttl); 69 the cluster was not there for all of -w.\n",
    .options = bw_peer_option_rows,
    .subs = commands,
    .run = run,
};
