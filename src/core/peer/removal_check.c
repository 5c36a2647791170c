/* Taking a member out; see removal_check.h. */
#include "core/peer/removal_check.h"

#include "core/base/bug.h"
#include "core/base/error.h"

int bw_peer_removal_judge(const struct bw_peer_removal *r)
{
    if (!r->known)
        return BW_ENOTMEMBER;
    if (r->left)
        return 0;
    if (r->node == r->self)
        return BW_EINVAL;
    if (r->founder)
        return BW_EUNSUPPORTED;
    if (r->alive && !r->insists && !BW_BUG(peer_removes_a_running_node))
        return BW_EBUSY;
    return r->voters && 2 * r->present <= r->voters ? BW_ENOQUORUM : 0;
}
