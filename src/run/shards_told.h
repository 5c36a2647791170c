/* The shards of a launcher that is a peer; see shards_told.c. */
#ifndef BW_RUN_SHARDS_TOLD_H
#define BW_RUN_SHARDS_TOLD_H

#include "run/shards_state.h"

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
void bw_told_child_gone(struct told *told, uint32_t shard);
/* Does every leadership have a token? */
bool bw_told_token(const struct told *told);

#endif
