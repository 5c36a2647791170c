/* Shards of a launcher that is a peer; see peer_shards.c. */
#ifndef BW_RUN_SHARDS_PEER_SHARDS_H
#define BW_RUN_SHARDS_PEER_SHARDS_H

#include "run/shards/state.h"

struct peer_shards;

/* Returns 0, or an error with a line in why[BW_WHY_MAX + 1]. */
int bw_peer_shards_open(struct peer_shards **out, struct launcher *l, char *why);
/* The loop must run until all handles are closed; then the memory is freed. */
void bw_peer_shards_close(struct peer_shards *peer_shards);

/* Sends the requests that are due. bw_peer_shards_sleep sets the timer to `until`, or to an earlier
 * deadline of its own. */
void bw_peer_shards_act(struct peer_shards *peer_shards, bw_time now);
void bw_peer_shards_sleep(struct peer_shards *peer_shards, bw_time until, bw_time now);

/* The host is drained: ends all supervisors, and leaves the queue of each shard. Or it no longer
 * is: enters again. */
void bw_peer_shards_drain(struct peer_shards *peer_shards, bool drained);

/* Creates the socket by which a supervisor sends its requests. Returns the supervisor's end, or -1.
 * The caller closes it. */
int bw_peer_shards_child(struct peer_shards *peer_shards, uint32_t shard);
/* A supervisor was reaped. If it held its shard, the shard is released when its guardian has
 * confirmed the death of the work, or when the lease has expired. Then bw_launcher_ended() is
 * called; otherwise it is called at once. */
void bw_peer_shards_child_died(struct peer_shards *peer_shards, uint32_t shard, int status);
/* True while shards wait to be released. */
bool bw_peer_shards_waits(const struct peer_shards *peer_shards);
/* True if every leadership has a token. */
bool bw_peer_shards_token(const struct peer_shards *peer_shards);

#endif
