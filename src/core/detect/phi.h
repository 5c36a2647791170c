/* The arithmetic of accrual detectors: suspicion as a number. phi = 1 means a mistake in one of ten
 * such silences, 8 one in a hundred million, if intervals follow the model. */
#ifndef BW_DETECT_PHI_H
#define BW_DETECT_PHI_H

#include "core/detect/detector.h"

/* -log10 of the chance that an interval lasts longer than y standard deviations above the mean. */
double bw_phi_normal(double y);
/* Akka's approximation of the same: finite and cheap, a little steeper beyond y = 2. */
double bw_phi_logistic(double y);
/* Cassandra's: intervals exponential, `ratio` = silence / mean. */
double bw_phi_exponential(double ratio);

/* The argument at which the model's phi reaches `phi`. */
double bw_phi_inverse(enum bw_phi_model model, double phi);

/* A sliding window of intervals with running sums; exact, so that nothing drifts. A sample is kept
 * as a multiple of unit_ns in 27 bits: squares of BW_PHI_WINDOW_MAX of them fit 64 bits. Longer
 * ones are cut. */
struct bw_phi_window {
    bw_time unit_ns;
    uint64_t sum, squares;
    uint32_t count, cap, next;
};

void bw_phi_window_init(struct bw_phi_window *window, bw_time unit_ns, uint32_t cap);
/* `samples` is the caller's array of `cap`, the same on every call. */
void bw_phi_window_add(struct bw_phi_window *window, uint32_t *samples, bw_time interval_ns);
double bw_phi_window_mean_ns(const struct bw_phi_window *window);
double bw_phi_window_sd_ns(const struct bw_phi_window *window);

#endif
