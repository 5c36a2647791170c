/* The resource that leaders write to. It remembers the highest token it has seen and refuses
 * smaller ones.
 *
 * The world gives each leadership a serial number when it is announced. The resource does not use
 * it for its decision; it only records the truth: a write is stale if a write of a later leadership
 * came before it. Without a token, or with fencing off, the resource accepts every write. */
#ifndef BW_SIM_WORLD_RESOURCE_H
#define BW_SIM_WORLD_RESOURCE_H

#include "core/base/types.h"

struct bw_sim_resource {
    bw_token highest;
    uint64_t serial; /* latest leadership that has written */
};

struct bw_sim_write {
    uint64_t serial;
    bw_token token;
};

/* Accepts or refuses a write. *stale is whether it was in fact stale. */
bool bw_sim_resource_write(struct bw_sim_resource *resource, const struct bw_sim_write *write,
                           bool fencing, bool *stale);

#endif
