/* Wall clocks with a declared uncertainty (Corbett et al. 2012, TrueTime; opt-in).
 *
 * Model: every wall clock is within u of true time.
 *
 * A holder stops when true time may have reached the expiry. A successor starts when true time has
 * certainly passed it. This is the only place where Bellwether compares the clocks of two hosts; it
 * is as reliable as u. */
#ifndef BW_CORE_LEASE_WALL_CLOCK_H
#define BW_CORE_LEASE_WALL_CLOCK_H

#include "core/base/types.h"

struct bw_clock_interval { /* contains true time; wall clock, ns */
    bw_time earliest, latest;
};

/* The interval of a clock that reads `wall_ns` with error bound `uncertainty_ns`. Arguments >=
 * 0. */
struct bw_clock_interval bw_clock_interval_at(bw_time wall_ns, bw_time uncertainty_ns);

/* latest >= expiry: true time may have reached it. */
bool bw_clock_holder_must_stop(struct bw_clock_interval now, bw_time expiry_ns);

/* earliest > expiry: true time has passed it. */
bool bw_clock_successor_may_start(struct bw_clock_interval now, bw_time expiry_ns);

#endif
