/* `bellwether history`: prints the changes of leadership that the candidates of this host have
 * seen, from their local history. The lines have the form of `bellwether observe`. */
#include "cli/commands.h"
#include "cli/history/show.h"
#include "run/history/history_log.h"

struct history_options {
    const char *election, *store, *directory, *since;
    bool json;
};

static const struct bw_option options[] = {
    {.name = "election",
     .form = "NAME",
     .help = "name of the election (default: all elections)",
     .set = bw_set_text,
     .offset = offsetof(struct history_options, election)},
    {.name = "store",
     .form = "URL",
     .help = "store of the election, as given to run (default: all stores)",
     .set = bw_set_text,
     .offset = offsetof(struct history_options, store)},
    {.name = "since",
     .form = "T",
     .help = "print changes since a time (2026-11-18T05:00:00Z) or for a duration (1h), and the "
             "change before them (default: all)",
     .set = bw_set_text,
     .offset = offsetof(struct history_options, since)},
    {.name = "history-dir",
     .form = "DIR",
     .help = "directory of the history, as given to run or peer (default: those of this host and "
             "of this user)",
     .set = bw_set_text,
     .offset = offsetof(struct history_options, directory)},
    {.name = "json",
     .help = "print JSON (default: text)",
     .set = bw_set_switch,
     .offset = offsetof(struct history_options, json)},
    {.name = NULL},
};

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct history_options given = {0};
    struct bw_parsed parsed;
    int code = bw_options_parse(command, argc, argv, &given, &parsed);
    if (code != BW_GO_ON)
        return code;
    char store[BW_HISTORY_STORE];
    struct bw_history_query query = {.store =
                                         given.store ? bw_history_store(store, given.store) : NULL,
                                     .election = given.election,
                                     .directory = given.directory,
                                     .files = parsed.operands,
                                     .files_count = parsed.operands_count,
                                     .json = given.json};
    code = bw_history_since(command, given.since, &query.since);
    return code == BW_GO_ON ? bw_history_show(command, &query) : code;
}

const struct bw_cli_command bw_command_history = {
    .name = "history",
    .path = "bellwether history",
    .usage = "[--election NAME] [--store URL] [--since T] [--json] [--history-dir DIR | FILE...]",
    .about = "print past changes of leadership, from what the candidates of this host saw",
    .text =
        "Each `run` and `peer` writes the leaderships that it sees to a bounded local history, at\n"
        "most 2 MiB per directory. The lines have the form of `observe`: found, elected and lost,\n"
        "with the reason, how long the leader led, and how long there was none. FILE: such a\n"
        "history, or the output of `observe --json`; - is standard input. Several files are\n"
        "merged. Times are those of the wall clock of each observer. If an election was held in\n"
        "several stores, each line names its store.\n"
        "Exit code: 0; 64 invalid usage; 66 no history, or none of this election; 74 a file\n"
        "cannot be read.\n",
    .options = options,
    .operand = bw_any_word,
    .run = run,
};
