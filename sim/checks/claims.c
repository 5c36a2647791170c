/* Tracks which leader each node follows, so that agreement is known at any time without a scan. */
#include "sim/checks/claims.h"

#include <string.h>

void bw_sim_claims_init(struct bw_sim_claims *claims, struct bw_arena *arena, uint32_t slots,
                        uint32_t elections)
{
    size_t cells = (size_t)slots * elections;
    claims->slots = slots;
    claims->elections = elections;
    claims->at = bw_arena_take(arena, cells * sizeof *claims->at);
    claims->names = bw_arena_take(arena, cells * sizeof *claims->names);
    claims->hint = bw_arena_take(arena, elections * sizeof *claims->hint);
    claims->counted = bw_arena_take(arena, slots * sizeof *claims->counted);
    claims->count = 0;
    claims->serial = 0;
    if (!bw_arena_fits(arena))
        return;
    memset(claims->at, 0, cells * sizeof *claims->at);
    memset(claims->names, 0, cells * sizeof *claims->names);
    memset(claims->hint, 0, elections * sizeof *claims->hint);
    memset(claims->counted, 0, slots * sizeof *claims->counted);
}

static uint32_t *names_of(const struct bw_sim_claims *claims, uint32_t election)
{
    return claims->names + (size_t)election * claims->slots;
}

/* Sets `hint` to a leader that some counted node follows, if there is a counted node. */
static void renew_hints(struct bw_sim_claims *claims)
{
    bw_node any = BW_NODE_NONE;
    for (bw_node node = 1; node < claims->slots && !any; node++)
        any = claims->counted[node] ? node : BW_NODE_NONE;
    for (uint32_t e = 0; e < claims->elections; e++)
        claims->hint[e] = any ? bw_sim_claims_of(claims, e, any)->leader : BW_NODE_NONE;
}

void bw_sim_claims_count(struct bw_sim_claims *claims, bw_node node, bool counted)
{
    if (claims->counted[node] == counted)
        return;
    claims->counted[node] = counted;
    claims->count += counted ? 1u : -1u;
    for (uint32_t e = 0; e < claims->elections; e++) {
        bw_node leader = bw_sim_claims_of(claims, e, node)->leader;
        names_of(claims, e)[leader] += counted ? 1u : -1u;
    }
    renew_hints(claims);
}

void bw_sim_claims_forget(struct bw_sim_claims *claims, bw_node node)
{
    bw_sim_claims_count(claims, node, false);
    for (uint32_t e = 0; e < claims->elections; e++)
        *bw_sim_claims_of(claims, e, node) = (struct bw_sim_claim){0};
}

bool bw_sim_claims_announce(struct bw_sim_claims *claims, uint32_t election, bw_node node,
                            const struct bw_announcement *a)
{
    struct bw_sim_claim *claim = bw_sim_claims_of(claims, election, node);
    uint32_t *names = names_of(claims, election);
    bool leads = a->leader == node;
    bool begins = leads && (!claim->leads || claim->term != a->term || claim->token != a->token);
    bw_node leader = a->leader < claims->slots ? a->leader : BW_NODE_NONE;
    if (claims->counted[node]) {
        names[claim->leader]--;
        names[leader]++;
        claims->hint[election] = leader;
    }
    claim->leader = leader;
    claim->leads = leads;
    claim->term = a->term;
    claim->token = a->token;
    claim->act_from = a->act_from;
    claim->act_until = a->act_until;
    if (begins)
        claim->serial = ++claims->serial;
    return begins;
}

bw_node bw_sim_claims_agreed(const struct bw_sim_claims *claims, uint32_t election)
{
    bw_node leader = claims->hint[election];
    if (!leader || !claims->counted[leader])
        return BW_NODE_NONE;
    bool all = names_of(claims, election)[leader] == claims->count;
    return all && bw_sim_claims_of(claims, election, leader)->leads ? leader : BW_NODE_NONE;
}

bool bw_sim_claims_settled(const struct bw_sim_claims *claims)
{
    for (uint32_t e = 0; e < claims->elections; e++)
        if (!bw_sim_claims_agreed(claims, e))
            return false;
    return claims->elections > 0;
}

bw_node bw_sim_claims_leader(const struct bw_sim_claims *claims, uint32_t election)
{
    bw_node best = BW_NODE_NONE;
    uint64_t best_key = 0;
    for (bw_node node = 1; election < claims->elections && node < claims->slots; node++) {
        const struct bw_sim_claim *claim = bw_sim_claims_of(claims, election, node);
        uint64_t key = claim->serial | (uint64_t)claims->counted[node] << 63;
        if (claim->leads && key > best_key) {
            best = node;
            best_key = key;
        }
    }
    return best;
}
