/* Tracks every node's latest announcement per election, and whether all nodes agree.
 *
 * A node counts while it runs: live, not paused, not left. All nodes agree when every counted node
 * follows the same counted node, and that node follows itself. Each leadership gets a serial number
 * with its first announcement. */
#ifndef BW_SIM_CHECKS_CLAIMS_H
#define BW_SIM_CHECKS_CLAIMS_H

#include "core/base/action.h"
#include "core/base/arena.h"
#include "core/base/types.h"

struct bw_sim_claim {
    bw_node leader; /* the leader that the node follows; none also if the node is dead */
    bool leads;     /* it follows itself */
    bool working;   /* a work event is scheduled for it */
    uint64_t serial;
    bw_term term;
    bw_token token;
    bw_time act_from, act_until; /* on the node's own clock */
};

struct bw_sim_claims {
    uint32_t slots, elections;
    struct bw_sim_claim *at; /* [election][node] */
    uint32_t *names;         /* [election][leader]: number of counted nodes that follow it */
    bw_node *hint;           /* [election]: the leader named last */
    bool *counted;           /* [node] */
    uint32_t count;          /* number of counted nodes */
    uint64_t serial;
};

void bw_sim_claims_init(struct bw_sim_claims *claims, struct bw_arena *arena, uint32_t slots,
                        uint32_t elections);

static inline struct bw_sim_claim *bw_sim_claims_of(const struct bw_sim_claims *claims,
                                                    uint32_t election, bw_node node)
{
    return &claims->at[(size_t)election * claims->slots + node];
}

/* The node starts or stops counting. If it stops because it died, its announcements are dropped. */
void bw_sim_claims_count(struct bw_sim_claims *claims, bw_node node, bool counted);
void bw_sim_claims_forget(struct bw_sim_claims *claims, bw_node node);

/* Records an announcement. Returns true if it begins a leadership of the node itself. */
bool bw_sim_claims_announce(struct bw_sim_claims *claims, uint32_t election, bw_node node,
                            const struct bw_announcement *a);

/* Returns the leader that all agree on, or none. */
bw_node bw_sim_claims_agreed(const struct bw_sim_claims *claims, uint32_t election);
/* Returns whether all agree, in every election. */
bool bw_sim_claims_settled(const struct bw_sim_claims *claims);
/* Returns the counted node with the newest leadership; else a paused one; else none. */
bw_node bw_sim_claims_leader(const struct bw_sim_claims *claims, uint32_t election);

#endif
