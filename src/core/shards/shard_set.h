/* A set of shards, a bit each. */
#ifndef BW_CORE_SHARDS_SHARD_SET_H
#define BW_CORE_SHARDS_SHARD_SET_H

#include "core/base/limits.h"
#include "core/base/types.h"

struct bw_shard_set {
    unsigned char bits[BW_SHARDS_MAX / 8];
};

static inline bool bw_shard_set_has(const struct bw_shard_set *set, uint32_t shard)
{
    return set->bits[shard / 8] >> (shard % 8) & 1;
}

static inline void bw_shard_set_add(struct bw_shard_set *set, uint32_t shard)
{
    set->bits[shard / 8] = (unsigned char)(set->bits[shard / 8] | 1u << (shard % 8));
}

static inline uint32_t bw_shard_set_count(const struct bw_shard_set *set, uint32_t shards)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < shards; i++)
        count += bw_shard_set_has(set, i);
    return count;
}

#endif
