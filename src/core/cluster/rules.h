/* What all peers of a cluster must have in common, as each says of itself: the algorithm, whether a
 * quorum is asked for, into how many elections the work is divided, and how long a promise binds.
 *
 * Two who differ must not take part in one cluster: shard 3 of 4 and shard 3 of 6 are not the same
 * work, and a promise that one counts shorter than the other protects nobody. Of two who differ one
 * has to go, and both say the same one: whoever is not of the cluster yet; else whoever started
 * later, so that one that comes back with other settings ends nobody but itself; of two that
 * started together the higher id. Until it has gone its word counts for nothing. */
#ifndef BW_PEER_RULES_H
#define BW_PEER_RULES_H

#include "core/base/types.h"

#define BW_PEER_ALGORITHM_MAX 31u
/* How peers elect by Raft. Peers of different protocols do not take part in one cluster:
 *   1   said as "raft"; a leader kept what it waited for to itself
 *   2   said as "raft, protocol 2"; a leader passes it on (core/elect/raft/window.c) */
#define BW_PEER_RAFT_PROTOCOL 2u

struct bw_peer_rules {
    uint16_t elections;
    bool quorum;         /* the guard; raft needs none */
    bool formed;         /* no rule: the speaker is of the cluster already, */
    uint64_t age_ms;     /* and was started so long ago */
    uint64_t promise_ns; /* 0: nothing is promised */
    char algorithm[BW_PEER_ALGORITHM_MAX + 1];
};

enum bw_peer_rules_verdict { BW_PEER_RULES_SAME, BW_PEER_RULES_IT_GOES, BW_PEER_RULES_WE_GO };

enum bw_peer_rules_verdict bw_peer_rules_judge(bw_node self, const struct bw_peer_rules *own,
                                               bw_node other, const struct bw_peer_rules *said);

#endif
