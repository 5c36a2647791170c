/* The state is seeded with splitmix64, so that neighbouring seeds give unrelated streams. */
#include "core/base/rng.h"

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void bw_rng_init(struct bw_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->s[i] = splitmix(&seed);
}

void bw_rng_shuffle(struct bw_rng *rng, bw_node *ids, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = (uint32_t)bw_rng_below(rng, i);
        bw_node swap = ids[i - 1];
        ids[i - 1] = ids[j];
        ids[j] = swap;
    }
}

bool bw_rng_chance(struct bw_rng *rng, double p)
{
    return p > 0 && bw_rng_unit(rng) < p;
}
