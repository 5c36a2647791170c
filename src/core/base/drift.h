/* Time spans across clocks whose rates stay within 1 +- rho, rho in parts per million.
 *
 * Two clocks, each within 1 +- rho of true time: a span T on one lasts at least T(1-rho)/(1+rho)
 * and at most T(1+rho)/(1-rho) on the other. Whoever must stop first counts the short one, whoever
 * must wait the long one. */
#ifndef BW_BASE_DRIFT_H
#define BW_BASE_DRIFT_H

#include "core/base/types.h"

#define BW_PPM 1000000

/* What a holder may use of a span that another clock measures; rounded down. */
static inline bw_time bw_drift_shorten(bw_time span_ns, uint32_t ppm)
{
    return (bw_time)((__int128)span_ns * (BW_PPM - (int32_t)ppm) / (BW_PPM + (int32_t)ppm));
}

/* How long to wait so that another clock has surely seen the span pass; rounded up. */
static inline bw_time bw_drift_lengthen(bw_time span_ns, uint32_t ppm)
{
    int32_t slow = BW_PPM - (int32_t)ppm;
    return (bw_time)(((__int128)span_ns * (BW_PPM + (int32_t)ppm) + slow - 1) / slow);
}

#endif
