/* Fencing at the resource; see resource.h. */
#include "sim/world/resource.h"

bool bw_sim_resource_write(struct bw_sim_resource *resource, const struct bw_sim_write *write,
                           bool fencing, bool *stale)
{
    *stale = write->serial < resource->serial;
    if (fencing && write->token != BW_TOKEN_NONE) {
        if (write->token < resource->highest)
            return false;
        resource->highest = write->token;
    }
    if (!*stale)
        resource->serial = write->serial;
    return true;
}
