/* May a member be taken out of the cluster by the word of somebody else?
 *
 * The leader is asked. With Raft the voters change with it, one at a time, so a majority of those
 * who stay must be there: what cannot be carried out now must not be begun. Who is alive leaves by
 * itself (--leave), unless whoever asks insists. The voters of the quorum guard are the founders
 * for good: a promise that one of them gave may be all that keeps two from acting. */
#ifndef BW_PEER_REMOVAL_H
#define BW_PEER_REMOVAL_H

#include "core/base/types.h"

struct bw_peer_removal {
    bw_node self, node; /* the leader, and who is to go */
    bool known;
    bool left;  /* already: who asks twice is answered as the first time */
    bool alive; /* as far as the detector knows */
    bool insists;
    bool founder;             /* its promise counts for good */
    uint32_t voters, present; /* Raft: who would stay, and who of them is alive; else 0 */
};

/* 0; BW_ENOTMEMBER; BW_EINVAL: the leader itself; BW_EUNSUPPORTED: a founder under the guard;
 * BW_EBUSY: it is alive; BW_ENOQUORUM. */
int bw_peer_removal_judge(const struct bw_peer_removal *removal);

#endif
