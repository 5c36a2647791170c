/* Converts time spans between clocks whose rates are within 1 +- rho of real time; rho is in parts
 * per million.
 *
 * A span T on one such clock lasts at least T(1-rho)/(1+rho) and at most T(1+rho)/(1-rho) on
 * another. A lease holder, which must stop first, counts the shorter span. A node that waits for
 * the holder to stop counts the longer one. */
#ifndef BW_CORE_BASE_DRIFT_H
#define BW_CORE_BASE_DRIFT_H

#include "core/base/types.h"

#define BW_PPM 1000000

/* The part of a span, measured by another clock, that a holder may use; rounded down. */
static inline bw_time bw_drift_shorten(bw_time span_ns, uint32_t ppm)
{
    return (bw_time)((__int128)span_ns * (BW_PPM - (int32_t)ppm) / (BW_PPM + (int32_t)ppm));
}

/* How long to wait until the span has certainly passed on another clock; rounded up. */
static inline bw_time bw_drift_lengthen(bw_time span_ns, uint32_t ppm)
{
    int32_t slow = BW_PPM - (int32_t)ppm;
    return (bw_time)(((__int128)span_ns * (BW_PPM + (int32_t)ppm) + slow - 1) / slow);
}

#endif
