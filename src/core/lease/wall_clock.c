/* Intervals of true time, rounded on the safe side; see wall_clock.h. */
#include "core/lease/wall_clock.h"

#include "core/base/bug.h"

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
