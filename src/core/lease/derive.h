/* Derives the terms of a lease that the user did not give from those that the user gave, so that
 * every option works alone.
 *
 * - The TTL is the default, or longer if a given term needs more time.
 * - With a given TTL, the time to stop the work becomes shorter if the default does not fit.
 * - A term that the user gave is never changed. So terms that contradict each other stay as they
 *   are, bw_lease_check refuses them, and the functions below say which value would do.
 *
 * All durations are nanoseconds. */
#ifndef BW_CORE_LEASE_DERIVE_H
#define BW_CORE_LEASE_DERIVE_H

#include "core/lease/lease_deadline.h"

/* The terms as the user gave them, and the limits of the store. */
struct bw_lease_given {
    bw_time ttl_ns;          /* 0: not given */
    bw_time kill_after_ns;   /* negative: not given */
    bw_time kill_default_ns; /* kill_after_ns if it is not given and this fits */
    bw_time margin_ns;       /* 0: bw_lease_margin of the TTL */
    bw_time renew_ns;        /* 0: not given; at most a third of the TTL */
    bw_time uncertainty_ns;
    uint32_t drift_ppm;
    bw_time ttl_default_ns; /* > 0 */
    bw_time ttl_max_ns;     /* longest lease of the store; 0: no limit */
};

/* The margin of a lease with this TTL: TTL/20, at least 50 ms and at most 1 s. */
bw_time bw_lease_margin(bw_time ttl_ns);

/* Fills in `out`. If the user gave no two terms that contradict each other and the store permits
 * the TTL, the result satisfies bw_lease_check. */
void bw_lease_derive(struct bw_lease_terms *out, const struct bw_lease_given *given);

/* The smallest TTL, in whole milliseconds, that satisfies every rule with the margin that belongs
 * to it; BW_TIME_NEVER if there is none. */
bw_time bw_lease_ttl_needed(const struct bw_lease_terms *terms);
/* The longest kill_after, the largest uncertainty and the largest drift (in ppm) that satisfy every
 * rule with the other terms unchanged; negative if there is none. */
bw_time bw_lease_kill_after_most(const struct bw_lease_terms *terms);
bw_time bw_lease_uncertainty_most(const struct bw_lease_terms *terms);
int64_t bw_lease_drift_most(const struct bw_lease_terms *terms);

#endif
