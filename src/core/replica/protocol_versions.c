/* Compatibility of versions; see protocol.h. */
#include "core/replica/protocol.h"

#include "core/base/bug.h"

enum bw_mesh_verdict bw_versions_judge(const struct bw_versions *ours,
                                       const struct bw_versions *theirs, uint32_t level)
{
    if (theirs->lowest > ours->highest)
        return BW_MESH_TOO_NEW;
    if (theirs->highest < level && !BW_BUG(versions_below_the_level))
        return BW_MESH_TOO_OLD;
    return theirs->highest < ours->lowest ? BW_MESH_TOO_OLD : BW_MESH_OK;
}
