/* What a candidate of a spread election says of itself in the store, as its value:
 *
 *     shards=9 done=1f runs=0-2,5
 *
 *     shards   how many there are; candidates that differ in it are not counted together
 *     done     optional: shards whose command ended with 0, in hexadecimal, 4 in a digit, shard 0
 * the lowest bit of the first digit runs     optional, for people: those it has supervisors for;
 * cut ("...") where it is too long
 */
#ifndef BW_RUN_SHARDS_VALUE_H
#define BW_RUN_SHARDS_VALUE_H

#include "run/shards/shard_set.h"

/* Into out[BW_VALUE_MAX + 1]. */
void bw_shards_value_write(char *out, uint32_t shards, const struct bw_shard_set *done,
                           const struct bw_shard_set *runs);

/* Returns 0, or BW_EINVAL when the text is none of ours. */
int bw_shards_value_read(const char *text, uint32_t *shards, struct bw_shard_set *done);

/* The name of a shard's election, NAME.SHARD, into out[BW_ELECTION_NAME_MAX + 1]. Returns 0, or
 * BW_ELIMIT when it is too long. */
int bw_shards_election(char *out, const char *name, uint32_t shard);

#endif
