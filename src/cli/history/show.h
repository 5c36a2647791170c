/* Prints the changes of leadership that the candidates of this host have seen, from their local
 * history (run/history/history_log.h): `history`, and `observe --since`. */
#ifndef BW_CLI_HISTORY_SHOW_H
#define BW_CLI_HISTORY_SHOW_H

#include "cli/options/options.h"

struct bw_history_query {
    const char *election;  /* NULL: all elections */
    const char *store;     /* as bw_history_store writes it; NULL: all stores */
    const char *directory; /* NULL: those of this host and of this user */
    char **files;          /* read instead of a directory, if there are any */
    int files_count;
    bw_time since; /* wall clock; the last change before it is printed too */
    bool json;
};

/* Returns BW_EXIT_OK, or another exit code after one line on stderr. */
int bw_history_show(const struct bw_cli_command *command, const struct bw_history_query *query);
/* Parses the value of --since; NULL: all. Returns BW_GO_ON, or BW_EXIT_USAGE after one line. */
int bw_history_since(const struct bw_cli_command *command, const char *text, bw_time *since);

#endif
