/* Founding a cluster: the first `expect` nodes agree once on the set of founders.
 *
 * Model. Nodes crash and restart with durable memory. Messages may be lost, delayed, duplicated and
 * reordered. No node lies.
 *
 * Protocol:
 * - The lowest id that a node knows of proposes the `expect` lowest ids. If the nodes were given a
 *   list of members, the lowest id on the list proposes the list.
 * - A node durably accepts one set at a time. It keeps the set until the proposer withdraws the
 *   round.
 * - Only the proposer counts acceptances. The cluster is founded when all nodes of the set have
 *   accepted and the proposer has not withdrawn.
 * - A proposer that learns of a lower id before that withdraws durably. Only then does it accept or
 *   propose another set.
 *
 * Guarantee. Of two sets that share a node, at most one is ever founded.
 *
 * Not guaranteed: that a set is founded while one of its nodes is absent; that nodes which do not
 * know of each other, and share no third node, found only one cluster.
 *
 * The functions are pure. The caller passes in messages and known nodes, stores `saved` durably
 * when `persist` is set, and then sends `message` to the nodes in `to`. */
#ifndef BW_CORE_PEER_FOUNDING_H
#define BW_CORE_PEER_FOUNDING_H

#include "core/peer/frame.h"

/* The durable state: it must survive crashes. */
struct bw_peer_found_saved {
    bool founded;     /* `set` is the cluster; else `set` was accepted from `proposer` */
    bool returned;    /* founded: this node is in `set`, left, and came back without its memory */
    bw_node proposer; /* BW_NODE_NONE: no set is accepted */
    uint64_t round;
    uint64_t own_round; /* the highest round this node has proposed */
    uint32_t count;
    bw_node set[BW_PEER_FOUNDERS_MAX];
};

struct bw_peer_found {
    bw_node self;
    uint32_t expect;
    bool lenient;    /* set by the caller: a founder that lost its memory may continue */
    bool released;   /* set by the caller: other nodes no longer rely on what this node may have
                      * forgotten */
    uint32_t listed; /* number of members in `list`; 0: no list was given */
    bw_node list[BW_PEER_FOUNDERS_MAX];
    struct bw_peer_found_saved saved;
    /* While this node proposes: accepted[i] means that saved.set[i] has accepted. */
    bool accepted[BW_PEER_FOUNDERS_MAX];
};

struct bw_peer_found_out {
    bool persist;   /* store `saved` durably before sending */
    bool founded;   /* the cluster exists from now on */
    bool forgotten; /* others know of an acceptance or proposal of ours that we do not: our memory
                    * was lost */
    bool elsewhere; /* this node's cluster is founded, and the sender belongs to another cluster */
    uint32_t to_count;
    bw_node to[BW_PEER_FOUNDERS_MAX];
    struct bw_peer_founding message;
};

/* The caller gives either `list` (sorted, `listed` entries, at most BW_PEER_FOUNDERS_MAX) or
 * `expect`. `saved` is the durable state; NULL: none. */
void bw_peer_found_init(struct bw_peer_found *found, bw_node self, uint32_t expect,
                        const bw_node *list, uint32_t listed,
                        const struct bw_peer_found_saved *saved);
/* Call periodically. `known` lists the nodes heard from recently, sorted, including this node. */
void bw_peer_found_tick(struct bw_peer_found *found, const bw_node *known, uint32_t count,
                        struct bw_peer_found_out *out);
void bw_peer_found_receive(struct bw_peer_found *found, bw_node from,
                           const struct bw_peer_founding *message, struct bw_peer_found_out *out);
bool bw_peer_found_is_founder(const struct bw_peer_found *found, bw_node node);
/* The voters with which Raft starts on this node: the founders. The log contains all later changes.
 * A founder that left and came back without its memory must not count its own vote, which others no
 * longer count: it becomes a voter again only through the log. Writes at most
 * BW_PEER_FOUNDERS_MAX ids; returns how many. */
uint32_t bw_peer_found_voters(const struct bw_peer_found *found, bw_node *out);

#endif
