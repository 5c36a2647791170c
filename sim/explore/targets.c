/* The table of targets. */
#include "sim/explore/targets.h"

#include <string.h>

static const struct bw_explore_target *const targets[] = {
    &bw_explore_raft,   &bw_explore_raft_reconfigure, &bw_explore_guard,    &bw_explore_lease,
    &bw_explore_found,  &bw_explore_found_return,     &bw_explore_guardian, &bw_explore_shards,
    &bw_explore_session};

const struct bw_explore_target *bw_explore_at(unsigned i)
{
    return i < sizeof targets / sizeof targets[0] ? targets[i] : NULL;
}

const struct bw_explore_target *bw_explore_find(const char *name)
{
    for (unsigned i = 0; bw_explore_at(i); i++)
        if (strcmp(bw_explore_at(i)->name, name) == 0)
            return bw_explore_at(i);
    return NULL;
}
