/* Settings that peers must have in common; see rules.h. */
#include "core/peer/rules.h"

#include "core/base/bug.h"

#include <string.h>

/* Peers that started within this time of each other count as started together. It is longer than a
 * message takes, so that both peers agree, and shorter than a restart with other settings. */
#define TOGETHER_MS 200u

static bool same(const struct bw_peer_rules *a, const struct bw_peer_rules *b)
{
    return (a->elections == b->elections || BW_BUG(peer_shards_may_differ)) &&
           a->quorum == b->quorum && a->promise_ns == b->promise_ns &&
           strcmp(a->algorithm, b->algorithm) == 0;
}

enum bw_peer_rules_verdict bw_peer_rules_judge(bw_node self, const struct bw_peer_rules *own,
                                               bw_node other, const struct bw_peer_rules *received)
{
    uint64_t apart = own->age_ms > received->age_ms ? own->age_ms - received->age_ms
                                                    : received->age_ms - own->age_ms;
    bool younger = apart > TOGETHER_MS ? own->age_ms < received->age_ms : self > other;
    bool ours = own->formed != received->formed ? !own->formed : younger;
    if (same(own, received))
        return BW_PEER_RULES_SAME;
    return ours ? BW_PEER_RULES_SELF_LEAVES : BW_PEER_RULES_OTHER_LEAVES;
}
