/* Founding a cluster: the first `expect` nodes agree, once, on who they are.
 *
 * Model: crashes with durable memory, loss, delay, repetition, any order; nobody lies. The lowest
 * id that a node knows of proposes the `expect` lowest; with a list of members given, the lowest
 * of the list proposes the list. A node accepts one set at a time, durably, and keeps to it until
 * the proposer itself says that this round will never be founded. The proposer alone counts: when
 * all of the set have accepted, and it has not withdrawn, the cluster is founded. A lower id that
 * turns up before that makes it withdraw, durably, before it accepts or proposes anything else.
 *
 * Guarantees: of two sets that share a node at most one is ever founded. Not promised: that a set
 * is founded while one of its nodes stays away, or that nodes that know nothing of each other and
 * share none found one cluster only.
 *
 * Pure: the caller tells what came and who is there, writes `saved` down durably when `persist`
 * says so, and then sends what is to be said. */
#ifndef BW_PEER_FOUND_H
#define BW_PEER_FOUND_H

#include "core/cluster/frame.h"

/* What must never be forgotten. */
struct bw_peer_found_saved {
    bool founded;     /* `set` is the cluster; else, with a proposer, it was accepted from it */
    bool returned;    /* founded: we are of `set`, left, and came back without our memory */
    bw_node proposer; /* BW_NODE_NONE: nothing was accepted */
    uint64_t round;
    uint64_t own_round; /* the highest round that we ever proposed */
    uint32_t count;
    bw_node set[BW_PEER_FOUNDERS_MAX];
};

struct bw_peer_found {
    bw_node self;
    uint32_t expect;
    bool lenient;    /* nothing hangs on memory: a founder that forgot it may go on; the caller's */
    bool released;   /* nobody counts any more on what we may have forgotten; the caller's */
    uint32_t listed; /* the members given by a list; 0: none */
    bw_node list[BW_PEER_FOUNDERS_MAX];
    struct bw_peer_found_saved saved;
    bool accepted[BW_PEER_FOUNDERS_MAX]; /* by place in saved.set; while we propose */
};

struct bw_peer_found_out {
    bool persist; /* write `saved` down before anything is said */
    bool founded; /* there is a cluster from now on */
    bool
        forgotten; /* others know what we accepted or proposed, and we do not: our memory is gone */
    bool elsewhere; /* we are founded, and somebody speaks of another cluster */
    uint32_t to_count;
    bw_node to[BW_PEER_FOUNDERS_MAX];
    struct bw_peer_founding say;
};

/* `list` (sorted, `listed` long, at most BW_PEER_FOUNDERS_MAX) or an `expect`, not both. */
void bw_peer_found_init(struct bw_peer_found *found, bw_node self, uint32_t expect,
                        const bw_node *list, uint32_t listed,
                        const struct bw_peer_found_saved *saved);
/* Now and then. `known`: who was heard of lately, sorted, self among them. */
void bw_peer_found_tick(struct bw_peer_found *found, const bw_node *known, uint32_t count,
                        struct bw_peer_found_out *out);
void bw_peer_found_heard(struct bw_peer_found *found, bw_node from,
                         const struct bw_peer_founding *said, struct bw_peer_found_out *out);
/* Is `node` one of the founders? */
bool bw_peer_found_founder(const struct bw_peer_found *found, bw_node node);

#endif
