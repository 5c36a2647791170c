/* Who claims to lead, and do two of them at once? One election, as one node hears of it.
 *
 * A leader that may act says so in every turn (CLAIM), so a claim heard means: it acted a moment
 * ago. One after the other is how a leadership passes on. Two are split when each was heard again
 * well after the other had begun: no delay of a message explains that, `settle` is longer than any.
 *
 * A leadership that ended without having been handed over says until when it acted (`ended`): its
 * leader heard of another, or its guardian has killed its work. Then both ends are known, and two
 * that overlap at all are split, however short that was. One that was handed over is forgotten when
 * it ends: its work was dead before the next one began.
 *
 * A claim with a token below one that was already heard is stale: whoever holds it acts on a lead
 * that has passed on, and is told as well, also when the newer leader is silent.
 *
 * Pure. A pair is told once for each pair of terms, so a split that lasts is one event. */
#ifndef BW_PEER_CLAIMS_H
#define BW_PEER_CLAIMS_H

#include "core/base/types.h"

#define BW_CLAIMS_MAX 16u
/* Pairs that were told and are not news: more than can be made of half a dozen who claim. */
#define BW_CLAIMS_TOLD 32u

/* A claim to lead, as somebody made it. */
struct bw_peer_claim {
    bw_node node;
    bw_term term;
    bw_token token; /* BW_TOKEN_NONE: the algorithm gives none */
    bw_time seen;   /* when it was last heard, on our clock */
    bw_time since;  /* it says that it has acted since then, on our clock; 0: it does not say */
    bool ended;     /* it acted until `seen`, and no longer */
};

struct bw_claim_row {
    struct bw_peer_claim claim;
    bw_time first; /* when it began: as it says, or when this term's was first heard */
    bool stale;    /* told */
};

struct bw_claims {
    bw_time settle;
    bw_token highest;
    uint32_t count;
    struct bw_claim_row at[BW_CLAIMS_MAX];
    struct bw_claims_pair {
        bw_node one, other;
        bw_term one_term, other_term;
    } told[BW_CLAIMS_TOLD]; /* the last ones */
    uint32_t told_next;
};

enum bw_claims_verdict { BW_CLAIMS_ONE, BW_CLAIMS_TWO, BW_CLAIMS_STALE };

void bw_claims_init(struct bw_claims *claims, bw_time settle_ns);
/* `claim` was heard; its `seen` is now. TWO: *other claims too. STALE: *other is the newest claim
 * with a higher token (node NONE: forgotten). */
enum bw_claims_verdict bw_claims_hear(struct bw_claims *claims, const struct bw_peer_claim *claim,
                                      struct bw_peer_claim *other);
/* What it led under terms up to `term` is dead, and was before anybody followed it: no claim any
 * more.
 */
void bw_claims_end(struct bw_claims *claims, bw_node node, bw_term term);
/* The newest claim of `node`, if its term is not above `term`. */
bool bw_claims_of(const struct bw_claims *claims, bw_node node, bw_term term,
                  struct bw_peer_claim *out);
/* Those heard within the last `fresh`, oldest first; returns how many. */
uint32_t bw_claims_now(const struct bw_claims *claims, bw_time now, bw_time fresh,
                       struct bw_peer_claim *out, uint32_t cap);

#endif
