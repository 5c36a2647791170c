/* Two other ways to bound a lease: Redlock's validity, and clocks with a declared uncertainty.
 *
 * Redlock (Sanfilippo 2014): a lock held on a majority of independent Redis servers is valid for
 * the TTL less the time it took to get it, less 1 % of the TTL and 2 ms for drift and expiry
 * precision. Model: every server's clock runs at nearly the same rate and no server restarts with
 * its keys lost; a restarted one stays out for longer than the TTL. It gives no fencing token: a
 * holder that pauses can write late, and nothing here prevents that.
 *
 * Bounded clock uncertainty (Corbett et al. 2012, TrueTime; opt-in): every wall clock is known to
 * within +- u of true time. A holder stops when the true time may have reached the expiry; a
 * successor starts when it surely has passed it. This is the only place in Bellwether where clocks
 * of two hosts are compared, and it is as good as u is. */
#ifndef BW_LEASE_VALIDITY_H
#define BW_LEASE_VALIDITY_H

#include "core/base/types.h"

/* What is left of a Redlock after `elapsed_ns` of acquiring it; 0 when nothing is. Both >= 0. */
bw_time bw_redlock_validity(bw_time ttl_ns, bw_time elapsed_ns);

struct bw_clock_interval { /* true time lies in here; wall clock, ns */
    bw_time earliest, latest;
};

/* The interval of a clock that reads `wall_ns` and may be off by `uncertainty_ns` either way; both
 * >= 0. */
struct bw_clock_interval bw_clock_interval_at(bw_time wall_ns, bw_time uncertainty_ns);

/* latest >= expiry: the true time may have reached it. */
bool bw_clock_holder_must_stop(struct bw_clock_interval now, bw_time expiry_ns);

/* earliest > expiry: the true time has passed it. */
bool bw_clock_successor_may_start(struct bw_clock_interval now, bw_time expiry_ns);

#endif
