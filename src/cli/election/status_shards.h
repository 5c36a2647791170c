/* `bellwether status` for an election with shards (run --shards): prints one line per shard. */
#ifndef BW_CLI_ELECTION_STATUS_SHARDS_H
#define BW_CLI_ELECTION_STATUS_SHARDS_H

#include "cli/history/age.h"
#include "cli/store/client.h"

/* Returns the number of shards that the candidates in `reply` (to a LIST) announce; 0: no
 * shards. */
uint32_t bw_status_shards(const struct bw_store_reply *reply);

/* Finds the number of shards on a store without a list of candidates: counts the consecutive shards
 * that have ever had a leader. Returns BW_GO_ON or an exit code. */
int bw_status_find_shards(struct bw_client *client, uint32_t *shards);

/* Prints every shard's record and age. client->reply holds the reply to LIST, if the store has one.
 * Returns the exit code: 0 every shard has a leader, 1 some do not. */
int bw_status_show_shards(struct bw_client *client, const struct bw_ages *ages, uint32_t shards);

#endif
