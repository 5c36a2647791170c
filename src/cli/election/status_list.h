/* `bellwether status` without --election: all elections of a store. */
#ifndef BW_CLI_ELECTION_STATUS_LIST_H
#define BW_CLI_ELECTION_STATUS_LIST_H

#include "cli/history/age.h"
#include "cli/store/client.h"

/* Prints a line per election, or a JSON array. Returns the exit code. */
int bw_status_list(struct bw_client *client, const struct bw_ages *ages);

#endif
