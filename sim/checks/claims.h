/* Who says that who leads: every node's latest announcement per election, and whether all agree.
 *
 * A node counts while it runs: live, not paused, not left. All agree when every counted node names
 * the same counted node, and that one names itself. A leadership gets a serial number when its
 * first announcement is made. */
#ifndef BW_SIM_CLAIMS_H
#define BW_SIM_CLAIMS_H

#include "core/base/action.h"
#include "core/base/arena.h"
#include "core/base/types.h"

struct bw_sim_claim {
    bw_node leader; /* whom the node names; none also when it is dead */
    bool leads;     /* it names itself */
    bool working;   /* a work event is scheduled for it */
    uint64_t serial;
    bw_term term;
    bw_token token;
    bw_time act_from, act_until; /* on its own clock */
};

struct bw_sim_claims {
    uint32_t slots, elections;
    struct bw_sim_claim *at; /* [election][node] */
    uint32_t *names;         /* [election][leader]: counted nodes that name it */
    bw_node *hint;           /* [election]: named last */
    bool *counted;           /* [node] */
    uint32_t count;          /* of counted nodes */
    uint64_t serial;
};

void bw_sim_claims_init(struct bw_sim_claims *claims, struct bw_arena *arena, uint32_t slots,
                        uint32_t elections);

static inline struct bw_sim_claim *bw_sim_claims_of(const struct bw_sim_claims *claims,
                                                    uint32_t election, bw_node node)
{
    return &claims->at[(size_t)election * claims->slots + node];
}

/* The node starts or stops to count; stopping by death also forgets what it said. */
void bw_sim_claims_count(struct bw_sim_claims *claims, bw_node node, bool counted);
void bw_sim_claims_forget(struct bw_sim_claims *claims, bw_node node);

/* Takes an announcement; true when it begins a leadership of its own. */
bool bw_sim_claims_announce(struct bw_sim_claims *claims, uint32_t election, bw_node node,
                            const struct bw_announcement *a);

/* The leader all agree on, or none. */
bw_node bw_sim_claims_agreed(const struct bw_sim_claims *claims, uint32_t election);
/* All agree, in every election. */
bool bw_sim_claims_settled(const struct bw_sim_claims *claims);
/* The counted node with the newest leadership; if there is none, a paused one; or none. */
bw_node bw_sim_claims_leader(const struct bw_sim_claims *claims, uint32_t election);

#endif
