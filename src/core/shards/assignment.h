/* Assigns N shards to candidates.
 *
 * The result depends only on the set of candidates: every node that sees the same set, in any
 * order, computes the same assignment. Every candidate gets N / count shards, rounded down or up.
 * It is a preference: views may differ for a while, and each shard's own election decides.
 *
 * Method: rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit
 * rates", 1998) with an exact capacity for each candidate, matched by deferred acceptance (Gale and
 * Shapley, "College admissions and the stability of marriage", 1962). A shard proposes to the
 * candidates in the order of their hashes; a full candidate drops the shard with the lowest hash.
 * Both sides use the same hash, so there is exactly one stable result.
 *
 * When a candidate joins or leaves, few shards move needlessly: 1.05 to 1.7 times the minimum, and
 * less with more shards per candidate (tests/unit/core/shards/spread_moves.c).
 *
 * Not guaranteed: the minimum for every change. That would need a shared memory of past
 * assignments. */
#ifndef BW_CORE_SHARDS_ASSIGNMENT_H
#define BW_CORE_SHARDS_ASSIGNMENT_H

#include "core/base/limits.h"
#include "core/base/types.h"

struct bw_spread {
    uint32_t shards, count;
    uint64_t keys[BW_SPREAD_CANDIDATES_MAX];
    uint16_t owner[BW_SHARDS_MAX]; /* by shard: index in `keys` */
    /* During the computation. */
    uint64_t score[BW_SHARDS_MAX]; /* of a shard with its owner */
    uint16_t capacity[BW_SPREAD_CANDIDATES_MAX], load[BW_SPREAD_CANDIDATES_MAX];
};

/* A candidate's key, from its name or the bytes of its id. */
uint64_t bw_spread_key(const void *name, size_t length);

/* Rendezvous score of a candidate for a shard; the highest wins. For one shard, different keys have
 * different scores. */
uint64_t bw_spread_score(uint32_t shard, uint64_t key);

/* Computes the assignment; `keys` in any order. Returns 0, BW_ELIMIT, or BW_EINVAL if there are no
 * shards, no keys, or duplicate keys. */
int bw_spread_make(struct bw_spread *spread, uint32_t shards, const uint64_t *keys, uint32_t count);

/* The key of the shard's owner. */
uint64_t bw_spread_owner(const struct bw_spread *spread, uint32_t shard);

/* The order in which the other candidates replace the owner of a shard, from 0. An unknown key
 * ranks last. */
uint32_t bw_spread_rank(const struct bw_spread *spread, uint32_t shard, uint64_t key);

#endif
