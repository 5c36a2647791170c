/* Lifeguard: extensions of SWIM for an observer that may itself be slow.
 *
 * Source: Dadgar, Phillips, Currey 2018, "Lifeguard: Local Health Awareness for More Accurate
 * Failure Detection". */
#ifndef BW_CORE_DETECT_SWIM_LIFEGUARD_H
#define BW_CORE_DETECT_SWIM_LIFEGUARD_H

#include "core/base/types.h"

#define BW_LIFEGUARD_HEALTH_MAX 8u
/* K: after this many independent confirmations a suspicion lasts only its minimum. */
#define BW_LIFEGUARD_CONFIRMATIONS 3u

/* The duration of a suspicion (LHA-Suspicion): at least alpha max(1, log10 n) periods, at most beta
 * times that. It falls from the maximum to the minimum with the logarithm of the number of
 * confirmations. In a group with fewer than K further members, all of those suffice. If there are
 * none, the minimum applies. */
bw_time bw_lifeguard_suspicion_ns(uint32_t members, bw_time period_ns, double alpha, double beta,
                                  uint32_t confirmations);

/* The local health multiplier: 0 is healthy, 8 is the worst. */
struct bw_lifeguard {
    uint32_t score;
};

void bw_lifeguard_better(struct bw_lifeguard *health);
void bw_lifeguard_worse(struct bw_lifeguard *health, uint32_t by);

/* A slow observer gives other members more time. */
static inline bw_time bw_lifeguard_stretch(const struct bw_lifeguard *health, bw_time span)
{
    return span * (bw_time)(health->score + 1);
}

#endif
