/* `bellwether peer status` of peers with --shards: who leads each, and how many each leads. */
#ifndef BW_CLI_PEER_SHARDS_H
#define BW_CLI_PEER_SHARDS_H

#include "cli/peer/client.h"

/* Asks every member of the list and prints. Exit code: 0 all who answer see the same leaders and
 * all shards are led, 1 not so, 71. */
int bw_peer_shards_show(struct bw_peer_client *client, const struct bw_peer_answer *members,
                        uint32_t shards, bool json);

#endif
