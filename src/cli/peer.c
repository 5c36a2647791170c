/* `bellwether peer`: the instances elect among themselves; the leader runs the command, as with
 * `bellwether run`. */
#include "cli/peer.h"

#include "cli/commands.h"

#include <string.h>

static const struct bw_cli_command *const commands[] = {&bw_command_peer_members,
                                                        &bw_command_peer_status,
                                                        &bw_command_peer_resign,
                                                        &bw_command_peer_transfer,
                                                        &bw_command_peer_recover,
                                                        &bw_command_peer_keygen,
                                                        NULL};

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
    at += at < argc && strcmp(argv[at], "--") == 0;
    return bw_job_start(command, &options.job.config, argv + at);
}

const struct bw_cli_command bw_command_peer = {
    .name = "peer",
    .path = "bellwether peer",
    .usage = "--id N --listen ADDR --data DIR --join ADDR,... --expect N [options] -- COMMAND...\n"
             "       bellwether peer ... --http ADDR [options]\n"
             "       bellwether peer members|status|resign|transfer|recover|keygen [options]",
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
        "BELLWETHER_STORE in its environment.\n"
        "\n"
        "Exit: as bellwether run; 64 also for a directory that is another peer's, a key that "
        "others\n"
        "may read, an address that is not this host's; 69 the cluster was not there for all of\n"
        "-w.\n",
    .options = bw_peer_option_rows,
    .subs = commands,
    .run = run,
};
