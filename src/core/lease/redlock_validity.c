/* Remaining validity, rounded on the safe side; see redlock_validity.h. */
#include "core/lease/redlock_validity.h"

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
