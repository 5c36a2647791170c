/* Lifeguard (Dadgar, Phillips, Currey 2018): SWIM that doubts itself first. */
#ifndef BW_DETECT_LIFEGUARD_H
#define BW_DETECT_LIFEGUARD_H

#include "core/base/types.h"

#define BW_LIFEGUARD_HEALTH_MAX 8u
/* Independent voices after which a suspicion lasts no longer than its minimum. */
#define BW_LIFEGUARD_VOICES 3u

/* How long a suspicion lasts: at least alpha max(1, log10 n) periods, at most beta times that,
 * falling from the one to the other with the logarithm of the confirmations. Groups too small for
 * `voices` others to confirm wait for as many as there can be; with none the minimum applies. */
bw_time bw_lifeguard_suspicion_ns(uint32_t members, bw_time period_ns, double alpha, double beta,
                                  uint32_t confirmations);

/* The local health multiplier: 0 is healthy, 8 the worst. */
struct bw_lifeguard {
    uint32_t score;
};

void bw_lifeguard_better(struct bw_lifeguard *health);
void bw_lifeguard_worse(struct bw_lifeguard *health, uint32_t by);

/* Who is slow itself gives others more time. */
static inline bw_time bw_lifeguard_stretch(const struct bw_lifeguard *health, bw_time span)
{
    return span * (bw_time)(health->score + 1);
}

#endif
