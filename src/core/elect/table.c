/* The table of election algorithms. */
#include "core/elect/elector.h"

#include <string.h>

static const struct bw_elector_ops *const all[] = {
    &bw_elect_bully,
    &bw_elect_bully_notify,
    &bw_elect_bully_next,
    &bw_elect_bully_candidates,
    &bw_elect_ring_list,
    &bw_elect_ring_max,
    &bw_elect_ring_chang_roberts,
    &bw_elect_ring_hirschberg_sinclair,
    &bw_elect_invitation,
    &bw_elect_lowest,
    &bw_elect_stable,
    &bw_elect_raft,
};

const struct bw_elector_ops *bw_elector_at(unsigned i)
{
    return i < sizeof all / sizeof all[0] ? all[i] : NULL;
}

const struct bw_elector_ops *bw_elector_find(const char *name)
{
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
