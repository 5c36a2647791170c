/* Detects two leaders of one election from the claims that one node receives.
 *
 * Model. A leader that may act sends a CLAIM in every period. A received claim therefore means that
 * its sender acted a moment ago. `settle` is longer than any message delay.
 *
 * Verdicts:
 * - Succession is normal: one leader claims, later another one does.
 * - Two leaders are split if each of them claimed again `settle` or more after the other had begun.
 *   No message delay explains that.
 * - A leadership that ended without a handover reports when it stopped acting (`ended`): its leader
 *   learned of another leader, or its guardian killed its work. Then both ends are known, and any
 *   overlap is a split, however short.
 * - A leadership that was handed over is dropped when it ends: its work was dead before its
 *   successor began.
 * - A claim with a token lower than one already received is stale: its sender acts on a leadership
 *   that has passed on. It is reported even while the newer leader is silent.
 *
 * The functions are pure. A split is reported once for each pair of terms, so that a lasting split
 * is one event. */
#ifndef BW_CORE_PEER_CLAIMS_H
#define BW_CORE_PEER_CLAIMS_H

#include "core/base/types.h"

#define BW_CLAIMS_MAX 16u
/* Number of reported pairs to remember: more than half a dozen leaders can form. */
#define BW_CLAIMS_REPORTED 32u

/* A claim to be the leader. */
struct bw_peer_claim {
    bw_node node;
    bw_term term;
    bw_token token; /* BW_TOKEN_NONE: the algorithm issues no tokens */
    bw_time seen;   /* time of the last claim, on our clock */
    bw_time since;  /* start of acting, as claimed, on our clock; 0: not claimed */
    bool ended;     /* the leader acted until `seen` and then stopped */
};

struct bw_claim_row {
    struct bw_peer_claim claim;
    bw_time first; /* start of this term's leadership: as claimed, or when the first claim
                    * arrived */
    bool stale;    /* already reported as stale */
};

struct bw_claims {
    bw_time settle;
    bw_token highest;
    uint32_t count;
    struct bw_claim_row at[BW_CLAIMS_MAX];
    struct bw_claims_pair {
        bw_node one, other;
        bw_term one_term, other_term;
    } reported[BW_CLAIMS_REPORTED]; /* the last reported pairs, a ring */
    uint32_t reported_next;
};

enum bw_claims_verdict { BW_CLAIMS_ONE, BW_CLAIMS_TWO, BW_CLAIMS_STALE };

void bw_claims_init(struct bw_claims *claims, bw_time settle_ns);
/* Records a claim that was received now (claim->seen). Returns BW_CLAIMS_TWO if *other is a second
 * leader, and BW_CLAIMS_STALE if *other has a higher token (other->node is BW_NODE_NONE if the node
 * is no longer remembered). */
enum bw_claims_verdict bw_claims_receive(struct bw_claims *claims,
                                         const struct bw_peer_claim *claim,
                                         struct bw_peer_claim *other);
/* Drops the claim of `node` under terms up to `term`: its work was dead before a successor
 * began. */
void bw_claims_end(struct bw_claims *claims, bw_node node, bw_term term);
/* Returns the claim of `node` if its term is at most `term`. */
bool bw_claims_of(const struct bw_claims *claims, bw_node node, bw_term term,
                  struct bw_peer_claim *out);
/* Lists the claims received within the last `fresh`, oldest first. Returns their number. */
uint32_t bw_claims_now(const struct bw_claims *claims, bw_time now, bw_time fresh,
                       struct bw_peer_claim *out, uint32_t cap);

#endif
