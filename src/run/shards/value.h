/* The value that a candidate of a sharded election publishes in the store:
 *
 *     shards=9 done=1f runs=0-2,5
 *
 *     shards  number of shards; candidates with different numbers ignore each other
 *     done    optional: shards whose command ended with 0, in hexadecimal, four per digit; shard 0
 *             is the lowest bit of the first digit
 *     runs    optional, for people: shards for which it runs a supervisor; cut off with "..." if
 *             it is too long */
#ifndef BW_RUN_SHARDS_VALUE_H
#define BW_RUN_SHARDS_VALUE_H

#include "core/shards/shard_set.h"

/* Writes the value into out[BW_VALUE_MAX + 1]. */
void bw_shards_value_write(char *out, uint32_t shards, const struct bw_shard_set *done,
                           const struct bw_shard_set *runs);

/* Parses a value. Returns 0, or BW_EINVAL if it is not of this format. */
int bw_shards_value_read(const char *text, uint32_t *shards, struct bw_shard_set *done);

/* Writes the name of a shard's election, NAME.SHARD, into out[BW_ELECTION_NAME_MAX + 1]. Returns 0,
 * or BW_ELIMIT if it is too long. */
int bw_shards_election(char *out, const char *name, uint32_t shard);

#endif
