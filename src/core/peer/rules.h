/* Settings that all peers of a cluster must share, and which of two differing peers must leave.
 *
 * The shared settings are the algorithm, the quorum guard, the number of elections (shards), and
 * the duration of a promise. Peers that differ must not take part in one cluster: shard 3 of 4 and
 * shard 3 of 6 are different work, and a promise that one peer counts shorter than another excludes
 * nothing.
 *
 * If two peers differ, one of them must leave the cluster. Both peers reach the same verdict:
 * - a peer that is not yet a member leaves;
 * - otherwise the peer that started later leaves, so that a member that restarts with other
 *   settings ends only itself;
 * - of two peers that started together, the one with the higher id leaves.
 *
 * Peers ignore the messages of the leaving peer until it has stopped. */
#ifndef BW_CORE_PEER_RULES_H
#define BW_CORE_PEER_RULES_H

#include "core/base/types.h"

#define BW_PEER_ALGORITHM_MAX 31u
/* Version of the Raft messages between peers. Peers of different versions do not form a cluster.
 *
 *   version  algorithm text         meaning
 *   1        "raft"                 the leader keeps its list of waits to itself
 *   2        "raft, protocol 2"     the leader replicates its list (core/elect/raft/window.c) */
#define BW_PEER_RAFT_PROTOCOL 2u

struct bw_peer_rules {
    uint16_t elections;
    bool quorum;         /* the quorum guard; Raft does not need it */
    bool formed;         /* not a setting: the sender is already a member */
    uint64_t age_ms;     /* not a setting: time since the sender started */
    uint64_t promise_ns; /* duration of a promise; 0: no promises */
    char algorithm[BW_PEER_ALGORITHM_MAX + 1];
};

enum bw_peer_rules_verdict {
    BW_PEER_RULES_SAME,
    BW_PEER_RULES_OTHER_LEAVES,
    BW_PEER_RULES_SELF_LEAVES
};

enum bw_peer_rules_verdict bw_peer_rules_judge(bw_node self, const struct bw_peer_rules *own,
                                               bw_node other, const struct bw_peer_rules *received);

#endif
