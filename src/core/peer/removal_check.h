/* Decides whether the leader may remove a member at the request of another party.
 *
 * With Raft, removing a member also removes a voter, one at a time. The leader therefore refuses
 * unless a majority of the remaining voters is alive: it must not begin a change that it cannot
 * commit.
 *
 * A live member leaves by itself (--leave); the leader removes it only if the requester insists.
 *
 * The founders are the permanent voters of the quorum guard. A founder is never removed, because
 * its promise may be the only thing that keeps two leaders from acting. */
#ifndef BW_CORE_PEER_REMOVAL_CHECK_H
#define BW_CORE_PEER_REMOVAL_CHECK_H

#include "core/base/types.h"

struct bw_peer_removal {
    bw_node self, node; /* the leader, and the member to remove */
    bool known;
    bool left;  /* has already left: a repeated request succeeds again */
    bool alive; /* according to the detector */
    bool insists;
    bool founder;             /* permanent voter of the quorum guard */
    uint32_t voters, present; /* Raft: voters that would remain, and how many of them are alive;
                               * else 0 */
};

/* Returns 0 if the member may be removed, or:
 *   BW_ENOTMEMBER    the node is unknown
 *   BW_EINVAL        the node is the leader itself
 *   BW_EUNSUPPORTED  the node is a founder under the quorum guard
 *   BW_EBUSY         the node is alive, and the requester does not insist
 *   BW_ENOQUORUM     too few of the remaining voters are alive */
int bw_peer_removal_judge(const struct bw_peer_removal *removal);

#endif
