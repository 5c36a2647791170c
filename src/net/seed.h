/* A generator for pauses and other choices that must differ between processes, seeded by the
 * kernel. libc's rand without a seed gives every process the same pauses: those that failed
 * together would try again together. Not for secrets. */
#ifndef BW_NET_SEED_H
#define BW_NET_SEED_H

#include "core/base/rng.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static inline void bw_net_seed(struct bw_rng *rng)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) { /* early at boot */
        struct timespec now;
        clock_gettime(CLOCK_BOOTTIME, &now);
        seed = (uint64_t)now.tv_sec * BW_SEC + (uint64_t)now.tv_nsec;
        seed ^= (uint64_t)getpid() << 40;
    }
    bw_rng_init(rng, seed);
}

#endif
