/* A small seeded random generator (xoshiro256**, Blackman and Vigna 2018). Each user keeps its own
 * state, so that a run depends only on its seed. Not for secrets. */
#ifndef BW_CORE_BASE_RNG_H
#define BW_CORE_BASE_RNG_H

#include "core/base/types.h"

struct bw_rng {
    uint64_t s[4];
};

void bw_rng_init(struct bw_rng *rng, uint64_t seed);

static inline uint64_t bw_rng_rotl(uint64_t x, unsigned k)
{
    return (x << k) | (x >> (64u - k));
}

static inline uint64_t bw_rng_next(struct bw_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = bw_rng_rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = bw_rng_rotl(s[3], 45);
    return result;
}

/* Uniform in [0, n); n > 0. Multiply-shift: the bias is below 2^-32 for n < 2^32. */
static inline uint64_t bw_rng_below(struct bw_rng *rng, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)bw_rng_next(rng) * n) >> 64);
}

/* Uniform in [0, 1). */
static inline double bw_rng_unit(struct bw_rng *rng)
{
    return (double)(bw_rng_next(rng) >> 11) * 0x1.0p-53;
}

/* True with probability p. Draws nothing if p <= 0. */
bool bw_rng_chance(struct bw_rng *rng, double p);

/* Uniform in [low, high]; low when high <= low. */
static inline bw_time bw_rng_between(struct bw_rng *rng, bw_time low, bw_time high)
{
    return high <= low ? low : low + (bw_time)bw_rng_below(rng, (uint64_t)(high - low) + 1);
}

/* Shuffles with the Fisher-Yates algorithm. */
void bw_rng_shuffle(struct bw_rng *rng, bw_node *ids, uint32_t count);

#endif
