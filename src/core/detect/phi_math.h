/* The arithmetic of accrual detectors: suspicion as a number.
 *
 * If the intervals follow the model, a suspicion at phi = 1 is wrong in one of ten cases, and at
 * phi = 8 in one of a hundred million. */
#ifndef BW_CORE_DETECT_PHI_MATH_H
#define BW_CORE_DETECT_PHI_MATH_H

#include "core/detect/detector.h"

/* -log10 of the probability that an interval is longer than the mean plus y standard deviations. */
double bw_phi_normal(double y);
/* Akka's approximation of bw_phi_normal: finite, cheap, and slightly steeper beyond y = 2. */
double bw_phi_logistic(double y);
/* Cassandra's model: exponential intervals; `ratio` is silence / mean. */
double bw_phi_exponential(double ratio);

/* The argument at which the model's phi reaches `phi`. */
double bw_phi_inverse(enum bw_phi_model model, double phi);

/* A sliding window of intervals with running sums. The sums are integers, so that rounding errors
 * do not accumulate. A sample is a multiple of unit_ns in 27 bits, and a longer interval is cut to
 * that. The squares of BW_PHI_WINDOW_MAX samples fit into 64 bits. */
struct bw_phi_window {
    bw_time unit_ns;
    uint64_t sum, squares;
    uint32_t count, cap, next;
};

void bw_phi_window_init(struct bw_phi_window *window, bw_time unit_ns, uint32_t cap);
/* `samples` is the caller's array of `cap` elements, the same on every call. */
void bw_phi_window_add(struct bw_phi_window *window, uint32_t *samples, bw_time interval_ns);
double bw_phi_window_mean_ns(const struct bw_phi_window *window);
double bw_phi_window_sd_ns(const struct bw_phi_window *window);

#endif
