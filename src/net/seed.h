/* Seeds a generator from the kernel, for backoff and other choices that must differ between
 * processes. With libc's unseeded rand all processes would pause equally long, so those that failed
 * together would retry together. Not for secrets. */
#ifndef BW_NET_SEED_H
#define BW_NET_SEED_H

#include "core/base/rng.h"
#include "os/clock.h"

#include <sys/random.h>
#include <unistd.h>

static inline void bw_net_seed(struct bw_rng *rng)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) { /* early boot */
        seed = (uint64_t)bw_clock_boot() ^ (uint64_t)getpid() << 40;
    }
    bw_rng_init(rng, seed);
}

#endif
