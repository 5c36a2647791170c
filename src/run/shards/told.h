/* The shards of a launcher that is a peer; see told.c. */
#ifndef BW_RUN_SHARDS_TOLD_H
#define BW_RUN_SHARDS_TOLD_H

#include "run/shards/state.h"

struct told;

/* Returns 0, or an error with a line in why[BW_WHY_MAX + 1]. */
int bw_told_open(struct told **out, struct launcher *l, char *why);
/* The loop has to run until it has closed its handles; the memory is gone then. */
void bw_told_close(struct told *told);

/* Asks what is due; and sleeps until `until`, or until something else is. */
void bw_told_act(struct told *told, bw_time now);
void bw_told_sleep(struct told *told, bw_time until, bw_time now);

/* A supervisor's end of the socket by which it asks; -1. The caller closes it. */
int bw_told_child(struct told *told, uint32_t shard);
/* A supervisor was waited for. If it held its shard, the shard is given back when its guardian has
 * confirmed the death of the work, or when the lease has expired; then bw_launcher_ended() follows,
 * otherwise at once. */
void bw_told_child_died(struct told *told, uint32_t shard, int status);
/* Are there shards to be given back? */
bool bw_told_waits(const struct told *told);
/* Does every leadership have a token? */
bool bw_told_token(const struct told *told);

#endif
