/* Comparisons and one subtraction, rounded and saturated on the safe side. */
#include "core/lease/validity.h"

#include "core/base/bug.h"

bw_time bw_redlock_validity(bw_time ttl_ns, bw_time elapsed_ns)
{
    bw_time drift_ns = ttl_ns / 100 + (ttl_ns % 100 != 0) + 2 * BW_MS;
    if (BW_BUG(redlock_forgets_drift))
        drift_ns = 0;
    if (elapsed_ns >= ttl_ns || drift_ns >= ttl_ns - elapsed_ns)
        return 0;
    return ttl_ns - elapsed_ns - drift_ns;
}

struct bw_clock_interval bw_clock_interval_at(bw_time wall_ns, bw_time uncertainty_ns)
{
    return (struct bw_clock_interval){
        .earliest = uncertainty_ns > wall_ns ? 0 : wall_ns - uncertainty_ns,
        .latest = bw_time_add(wall_ns, uncertainty_ns),
    };
}

bool bw_clock_holder_must_stop(struct bw_clock_interval now, bw_time expiry_ns)
{
    return now.latest >= expiry_ns;
}

bool bw_clock_successor_may_start(struct bw_clock_interval now, bw_time expiry_ns)
{
    if (BW_BUG(clock_forgets_uncertainty))
        return now.latest > expiry_ns;
    return now.earliest > expiry_ns;
}
