/* Claims to lead; see claims.h. */
#include "core/cluster/claims.h"

#include "core/base/bug.h"

void bw_claims_init(struct bw_claims *claims, bw_time settle_ns)
{
    *claims = (struct bw_claims){.settle = settle_ns};
}

static struct bw_claim_row *find(struct bw_claims *claims, bw_node node)
{
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->at[i].claim.node == node)
            return &claims->at[i];
    return NULL;
}

/* A place for a node that was not heard before: the one that was silent longest goes. */
static struct bw_claim_row *place(struct bw_claims *claims)
{
    if (claims->count < BW_CLAIMS_MAX)
        return &claims->at[claims->count++];
    struct bw_claim_row *oldest = &claims->at[0];
    for (uint32_t i = 1; i < claims->count; i++)
        if (claims->at[i].claim.seen < oldest->claim.seen)
            oldest = &claims->at[i];
    return oldest;
}

/* What others pass on may be older than what is known: it is compared, and not kept. */
static struct bw_claim_row *take(struct bw_claims *claims, const struct bw_peer_claim *claim,
                                 struct bw_claim_row *old)
{
    struct bw_claim_row *row = find(claims, claim->node);
    bool renewed = !row || row->claim.term != claim->term;
    /* It may go on under the same term; but a claim that was under way when it ended does not say
     * so.
     */
    bool late = row && !renewed && row->claim.ended && !claim->ended &&
                claim->seen - row->claim.seen < claims->settle;
    if (late)
        return row;
    if (row && claim->term < row->claim.term)
        row = old;
    else if (!row)
        row = place(claims);
    if (renewed)
        *row = (struct bw_claim_row){.first = claim->since ? claim->since : claim->seen};
    bw_time seen = bw_time_max(row->claim.seen, claim->seen);
    row->claim = *claim;
    row->claim.seen = seen;
    return row;
}

/* Their times are known to the end: they have one in common. Tokens exclude that, and say more than
 * clocks. */
static bool intersect(const struct bw_claim_row *a, const struct bw_claim_row *b)
{
    bool known = (a->claim.ended || b->claim.ended) && !BW_BUG(claims_forgive_a_short_split);
    return known && a->claim.token == BW_TOKEN_NONE && b->claim.token == BW_TOKEN_NONE &&
           a->first < b->claim.seen && b->first < a->claim.seen;
}

/* Each was heard again well after the other had begun. */
static bool overlap(const struct bw_claims *claims, const struct bw_claim_row *a,
                    const struct bw_claim_row *b)
{
    if (intersect(a, b))
        return true;
    return a->claim.seen - b->first >= claims->settle && b->claim.seen - a->first >= claims->settle;
}

static bool told_before(const struct bw_claims *claims, const struct bw_peer_claim *a,
                        const struct bw_peer_claim *b)
{
    for (uint32_t i = 0; i < BW_CLAIMS_TOLD; i++) {
        const struct bw_claims_pair *pair = &claims->told[i];
        if (pair->one == a->node && pair->other == b->node && pair->one_term == a->term &&
            pair->other_term == b->term)
            return true;
    }
    return false;
}

/* The lower id stands first, so that a pair has one name. */
static bool is_news(struct bw_claims *claims, const struct bw_peer_claim *a,
                    const struct bw_peer_claim *b)
{
    const struct bw_peer_claim *one = a->node < b->node ? a : b, *other = one == a ? b : a;
    if (told_before(claims, one, other))
        return false;
    claims->told[claims->told_next++ % BW_CLAIMS_TOLD] =
        (struct bw_claims_pair){one->node, other->node, one->term, other->term};
    return true;
}

static enum bw_claims_verdict judge_token(struct bw_claims *claims, struct bw_claim_row *row,
                                          struct bw_peer_claim *other)
{
    bw_token token = row->claim.token;
    if (token == BW_TOKEN_NONE || token >= claims->highest) {
        claims->highest = token > claims->highest ? token : claims->highest;
        return BW_CLAIMS_ONE;
    }
    if (row->stale)
        return BW_CLAIMS_ONE;
    row->stale = true;
    *other = (struct bw_peer_claim){.token = claims->highest};
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->at[i].claim.token == claims->highest)
            *other = claims->at[i].claim;
    return BW_CLAIMS_STALE;
}

enum bw_claims_verdict bw_claims_hear(struct bw_claims *claims, const struct bw_peer_claim *claim,
                                      struct bw_peer_claim *other)
{
    struct bw_claim_row old, *row = take(claims, claim, &old);
    for (uint32_t i = 0; i < claims->count; i++) {
        const struct bw_claim_row *second = &claims->at[i];
        if (second->claim.node != claim->node && overlap(claims, row, second) &&
            is_news(claims, &row->claim, &second->claim)) {
            *other = second->claim;
            return BW_CLAIMS_TWO;
        }
    }
    /* A message that was under way when the lead passed on is not a claim of today's. */
    if (row->claim.seen - row->first < claims->settle)
        return BW_CLAIMS_ONE;
    return judge_token(claims, row, other);
}

bool bw_claims_of(const struct bw_claims *claims, bw_node node, bw_term term,
                  struct bw_peer_claim *out)
{
    for (uint32_t i = 0; i < claims->count; i++) {
        const struct bw_claim_row *row = &claims->at[i];
        if (row->claim.node != node || row->claim.term > term)
            continue;
        *out = row->claim;
        out->since = row->first;
        return true;
    }
    return false;
}

void bw_claims_end(struct bw_claims *claims, bw_node node, bw_term term)
{
    struct bw_claim_row *row = find(claims, node);
    if (row && row->claim.term <= term)
        *row = claims->at[--claims->count];
}

uint32_t bw_claims_now(const struct bw_claims *claims, bw_time now, bw_time fresh,
                       struct bw_peer_claim *out, uint32_t cap)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < claims->count && count < cap; i++) {
        if (now - claims->at[i].claim.seen > fresh || claims->at[i].claim.ended)
            continue;
        uint32_t at = count++;
        for (; at > 0 && out[at - 1].seen > claims->at[i].claim.seen; at--)
            out[at] = out[at - 1];
        out[at] = claims->at[i].claim;
    }
    return count;
}
