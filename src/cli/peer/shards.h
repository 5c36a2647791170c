/* `bellwether peer status` for peers with --shards: prints the leader of each shard, and the number
 * of shards that each peer leads. */
#ifndef BW_CLI_PEER_SHARDS_H
#define BW_CLI_PEER_SHARDS_H

#include "cli/peer/client.h"

/* Asks every member of the list and prints the result. Returns the exit code: 0 all responding
 * peers see the same leaders and every shard has a leader that works; 1 otherwise; 71 out of
 * memory. */
int bw_peer_shards_show(struct bw_peer_client *client, const struct bw_peer_answer *members,
                        uint32_t shards, bool json);

#endif
