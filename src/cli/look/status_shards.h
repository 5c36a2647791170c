/* `bellwether status` of an election that is spread over shards (run --shards): one line per shard.
 */
#ifndef BW_CLI_STATUS_SHARDS_H
#define BW_CLI_STATUS_SHARDS_H

#include "cli/store/client.h"

/* How many shards its candidates say there are; 0: it is a plain election. `reply` is a LIST's. */
uint32_t bw_status_shards(const struct bw_store_reply *reply);

/* The same on a store that lists nobody: the shards in a row that somebody has ever led. BW_GO_ON,
 * or an exit code. */
int bw_status_find_shards(struct bw_client *client, uint32_t *shards);

/* Shows every shard's record. client->reply is the LIST's, if there is one. Exit code: 0 all are
 * led, 1 not all. */
int bw_status_show_shards(struct bw_client *client, uint32_t shards);

#endif
