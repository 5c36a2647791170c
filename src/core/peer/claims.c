/* Claims of leaders; see claims.h. */
#include "core/peer/claims.h"

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

/* Returns a row for a new node; a full table drops the node that was silent longest. */
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

/* Stores the claim in the node's row. A forwarded claim of an older term goes to the scratch row
 * *old: it is compared but not kept. */
static struct bw_claim_row *update_row(struct bw_claims *claims, const struct bw_peer_claim *claim,
                                       struct bw_claim_row *old)
{
    struct bw_claim_row *row = find(claims, claim->node);
    bool renewed = !row || row->claim.term != claim->term;
    /* A leader may continue under the same term. But a claim that was in flight when the leadership
     * ended does not mean that. */
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

/* The end of at least one leadership is known, and the two overlap. Tokens rule an overlap out, and
 * are stronger evidence than clocks. */
static bool intersect(const struct bw_claim_row *a, const struct bw_claim_row *b)
{
    bool known = (a->claim.ended || b->claim.ended) && !BW_BUG(claims_forgive_a_short_split);
    return known && a->claim.token == BW_TOKEN_NONE && b->claim.token == BW_TOKEN_NONE &&
           a->first < b->claim.seen && b->first < a->claim.seen;
}

/* Each leader claimed again at least `settle` after the other had begun. */
static bool overlap(const struct bw_claims *claims, const struct bw_claim_row *a,
                    const struct bw_claim_row *b)
{
    if (intersect(a, b))
        return true;
    return a->claim.seen - b->first >= claims->settle && b->claim.seen - a->first >= claims->settle;
}

static bool reported_before(const struct bw_claims *claims, const struct bw_peer_claim *a,
                            const struct bw_peer_claim *b)
{
    for (uint32_t i = 0; i < BW_CLAIMS_REPORTED; i++) {
        const struct bw_claims_pair *pair = &claims->reported[i];
        if (pair->one == a->node && pair->other == b->node && pair->one_term == a->term &&
            pair->other_term == b->term)
            return true;
    }
    return false;
}

/* Records the pair with the lower id first, so that each pair is stored in one form only. */
static bool record_pair(struct bw_claims *claims, const struct bw_peer_claim *a,
                        const struct bw_peer_claim *b)
{
    const struct bw_peer_claim *one = a->node < b->node ? a : b, *other = one == a ? b : a;
    if (reported_before(claims, one, other))
        return false;
    claims->reported[claims->reported_next++ % BW_CLAIMS_REPORTED] =
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

enum bw_claims_verdict bw_claims_receive(struct bw_claims *claims,
                                         const struct bw_peer_claim *claim,
                                         struct bw_peer_claim *other)
{
    struct bw_claim_row old, *row = update_row(claims, claim, &old);
    for (uint32_t i = 0; i < claims->count; i++) {
        const struct bw_claim_row *second = &claims->at[i];
        if (second->claim.node != claim->node && overlap(claims, row, second) &&
            record_pair(claims, &row->claim, &second->claim)) {
            *other = second->claim;
            return BW_CLAIMS_TWO;
        }
    }
    /* A message that was in flight when leadership passed on is not a current claim. */
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
