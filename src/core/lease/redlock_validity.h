/* How long a Redlock is valid (Sanfilippo 2014).
 *
 * A lock held on a majority of independent Redis servers is valid for the TTL, minus the time it
 * took to acquire the lock. Another 1 % of the TTL and 2 ms are subtracted for drift and expiry
 * precision.
 *
 * Model: the clocks of all servers run at nearly the same rate, and no server restarts without its
 * keys; a restarted server stays out for longer than the TTL.
 *
 * Not guaranteed: Redlock has no fencing token, so a holder that was paused can still write
 * late. */
#ifndef BW_CORE_LEASE_REDLOCK_VALIDITY_H
#define BW_CORE_LEASE_REDLOCK_VALIDITY_H

#include "core/base/types.h"

/* Remaining validity of a Redlock that took `elapsed_ns` to acquire; at least 0. Arguments >= 0. */
bw_time bw_redlock_validity(bw_time ttl_ns, bw_time elapsed_ns);

#endif
