/* Settings that peers must have in common; see rules.h. */
#include "core/cluster/rules.h"

#include "core/base/bug.h"

#include <string.h>

/* Started within this time of each other: neither came to the other. More than a message takes, so
 * that both sides see it alike; less than anybody needs to come back with other settings. */
#define TOGETHER_MS 200u

static bool same(const struct bw_peer_rules *a, const struct bw_peer_rules *b)
{
    return (a->elections == b->elections || BW_BUG(peer_shards_may_differ)) &&
           a->quorum == b->quorum && a->promise_ns == b->promise_ns &&
           strcmp(a->algorithm, b->algorithm) == 0;
}

enum bw_peer_rules_verdict bw_peer_rules_judge(bw_node self, const struct bw_peer_rules *own,
                                               bw_node other, const struct bw_peer_rules *said)
{
    uint64_t apart =
        own->age_ms > said->age_ms ? own->age_ms - said->age_ms : said->age_ms - own->age_ms;
    bool younger = apart > TOGETHER_MS ? own->age_ms < said->age_ms : self > other;
    bool ours = own->formed != said->formed ? !own->formed : younger;
    if (same(own, said))
        return BW_PEER_RULES_SAME;
    return ours ? BW_PEER_RULES_WE_GO : BW_PEER_RULES_IT_GOES;
}
