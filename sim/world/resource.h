/* The thing that leaders work on: it remembers the highest token it has seen and refuses smaller
 * ones.
 *
 * Each leadership has a serial number, given by the world when it is announced, which the resource
 * does not go by: it is only for telling the truth. A write is stale when one of a later leadership
 * came before it. Without a token, or with fencing off, everything is taken. */
#ifndef BW_SIM_RESOURCE_H
#define BW_SIM_RESOURCE_H

#include "core/base/types.h"

struct bw_sim_resource {
    bw_token highest;
    uint64_t serial; /* latest leadership that has written */
};

struct bw_sim_write {
    uint64_t serial;
    bw_token token;
};

/* Takes or refuses a write; *stale tells the truth about it. */
bool bw_sim_resource_write(struct bw_sim_resource *resource, const struct bw_sim_write *write,
                           bool fencing, bool *stale);

#endif
