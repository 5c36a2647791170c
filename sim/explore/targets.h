/* All targets of the explorer; each is defined in a file of its own. */
#ifndef BW_SIM_EXPLORE_TARGETS_H
#define BW_SIM_EXPLORE_TARGETS_H

#include "sim/explore/explore.h"

extern const struct bw_explore_target bw_explore_raft, bw_explore_raft_reconfigure,
    bw_explore_guard, bw_explore_lease, bw_explore_found, bw_explore_found_return,
    bw_explore_guardian, bw_explore_shards, bw_explore_session;

#endif
