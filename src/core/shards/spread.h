/* Which of many candidates should lead which of N shards?
 *
 * A function of the set of candidates alone: whoever sees the same set, in whatever order, says the
 * same. Every candidate gets N / count shards, rounded down or up. It is a preference, not a right:
 * views may differ for a while, and each shard's own election decides.
 *
 * Method: rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit
 * rates", 1998) with exact room for each candidate, matched by deferred acceptance (Gale and
 * Shapley, "College admissions and the stability of marriage", 1962): a shard asks the candidates
 * in the order of its hash with them, a full candidate drops the shard it hashes lowest with. Both
 * sides go by the same hash, so there is one stable result. When a candidate comes or goes, few
 * shards move that need not: 1.05 to 1.7 times the least possible, the less the more shards each
 * has (tests/unit/core/shards/spread_moves.c). Not guaranteed: the least possible for every change,
 * which would need a memory that all agree on. */
#ifndef BW_ELECT_SPREAD_H
#define BW_ELECT_SPREAD_H

#include "core/base/limits.h"
#include "core/base/types.h"

struct bw_spread {
    uint32_t shards, count;
    uint64_t keys[BW_SPREAD_CANDIDATES_MAX];
    uint16_t owner[BW_SHARDS_MAX]; /* by shard: a place in `keys` */
    /* While it is worked out. */
    uint64_t score[BW_SHARDS_MAX]; /* of a shard with its owner */
    uint16_t room[BW_SPREAD_CANDIDATES_MAX], load[BW_SPREAD_CANDIDATES_MAX];
};

/* A candidate's key, from its name or the bytes of its number. */
uint64_t bw_spread_key(const void *name, size_t length);

/* How much a shard likes a candidate: the order of rendezvous hashing. For one shard different keys
 * have different scores. */
uint64_t bw_spread_score(uint32_t shard, uint64_t key);

/* Works out who should own what; `keys` in any order. Returns 0, BW_EINVAL when there are no
 * shards, no keys or one key twice, or BW_ELIMIT. */
int bw_spread_make(struct bw_spread *spread, uint32_t shards, const uint64_t *keys, uint32_t count);

/* The key of the shard's owner. */
uint64_t bw_spread_owner(const struct bw_spread *spread, uint32_t shard);

/* In which order the others should step in for the owner of a shard: 0 is the first of them. For a
 * key that is none of the candidates', behind all. */
uint32_t bw_spread_rank(const struct bw_spread *spread, uint32_t shard, uint64_t key);

#endif
