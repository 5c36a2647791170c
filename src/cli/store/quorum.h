/* Does a majority of a store's nodes answer? For messages about a store that cannot serve a
 * request. */
#ifndef BW_CLI_STORE_QUORUM_H
#define BW_CLI_STORE_QUORUM_H

#include "store/store.h"

/* Connects to every host of the URL, at most BW_QUORUM_WITHIN_MS, and closes the connections. If
 * the store needs a majority of its nodes, the URL names three or more, and fewer than a majority
 * accept, returns true with a line such as "no quorum: 1 of 3 nodes answers". Blocks; use it only
 * after a request has failed or is late. */
#define BW_QUORUM_WITHIN_MS 1000
bool bw_quorum_is_lost(const char *url, char line[BW_WHY_MAX + 1]);

#endif
