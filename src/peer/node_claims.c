/* Who says that it leads. A leader that may act tells a bounded number of members twice a second;
 * everybody who hears two of them at once, the leaders too, says so. Found, not healed: what
 * follows is up to whoever listens to `split`. */
#include "peer/node_state.h"

#define CLAIM_NS (500 * BW_MS)
/* Longer than a claim can be on its way while its leader has gone. */
#define SETTLE_NS (3 * CLAIM_NS)
/* To how many: in a larger cluster each hears of it somewhat later. */
#define CLAIM_TO 32u
/* How often a split is told. */
#define AGAIN 5u
/* A claim that was heard longer ago is nobody's news. */
#define SILENT_MS 60000u

void peer_claims_init(struct bw_peer *p)
{
    for (uint32_t e = 0; e < p->elections; e++)
        bw_claims_init(&p->election[e].claims, SETTLE_NS);
}

/* What p->out holds, to a bounded number of members. */
static void tell(struct bw_peer *p)
{
    uint32_t count = p->roster.count, told = 0;
    uint64_t first = bw_rng_below(&p->rng, count);
    for (uint32_t i = 0; i < count && told < CLAIM_TO; i++) {
        const struct bw_peer_row *row = &p->roster.at[(first + i) % count].row;
        if (row->left || row->id == p->options.self)
            continue;
        peer_send(p, row->id);
        told++;
    }
}

static void pass_on(struct bw_peer *p, uint32_t election, const struct bw_peer_claim *claim)
{
    bw_time since = claim->since ? claim->since : claim->seen;
    if (claim->node == BW_NODE_NONE)
        return;
    p->out.kind = BW_PEER_CLAIM;
    p->out.lead = (struct bw_peer_lead){.election = (uint16_t)election,
                                        .node = claim->node,
                                        .term = claim->term,
                                        .token = claim->token,
                                        .since_ms = (uint64_t)((claim->seen - since) / BW_MS),
                                        .ago_ms = (uint64_t)((peer_now() - claim->seen) / BW_MS),
                                        .done = p->election[election].done,
                                        .ended = claim->ended};
    tell(p);
}

/* At once, and with a few ticks: when a cut heals, one way may be open before the other. But not
 * faster than it ticks: what one says makes the others speak, and with many who claim there is
 * always something to say. */
static void tell_split(struct bw_peer *p, uint32_t election)
{
    struct peer_election *e = &p->election[election];
    for (int i = 0; e->split_again > 0 && i < 2; i++)
        pass_on(p, election, &e->split[i]);
    e->split_again -= e->split_again > 0;
}

/* Who finds two says so to the others: also those who can hear only one of them know then. */
static void hear(struct bw_peer *p, uint32_t election, const struct bw_peer_claim *claim)
{
    struct bw_peer_claim other;
    if (bw_claims_hear(&p->election[election].claims, claim, &other) == BW_CLAIMS_ONE)
        return;
    p->counters.splits++;
    p->election[election].split[0] = *claim;
    p->election[election].split[1] = other;
    p->election[election].split_again = AGAIN;
    if (peer_now() >= p->election[election].split_at) {
        p->election[election].split_at = peer_now() + CLAIM_NS;
        tell_split(p, election);
    }
    if (p->options.split)
        p->options.split(p->options.context, election, claim, &other);
}

/* Times of another clock are lengths here: what was under way counts as later than it was. */
void peer_claims_heard(struct bw_peer *p, bw_node from, const struct bw_peer_lead *lead)
{
    bw_time now = peer_now();
    bool absurd = lead->since_ms > (uint64_t)(now / BW_MS) || lead->ago_ms > SILENT_MS;
    if (lead->election >= p->elections || !p->formed || absurd ||
        (lead->node != from && lead->node == p->options.self && !lead->ended))
        return;
    if (lead->done && !p->election[lead->election].done) {
        p->election[lead->election].done = true;
        if (p->options.done)
            p->options.done(p->options.context, lead->election);
    }
    struct bw_peer_claim claim = {.node = lead->node, .term = lead->term, .token = lead->token};
    claim.seen = now - (bw_time)lead->ago_ms * BW_MS;
    claim.since = bw_time_max(claim.seen - (bw_time)lead->since_ms * BW_MS, 1);
    claim.ended = lead->ended;
    hear(p, lead->election, &claim);
}

void bw_peer_done(struct bw_peer *p, uint32_t election)
{
    if (election >= p->elections || p->election[election].done)
        return;
    p->election[election].done = true;
    p->claim_at = 1; /* told at once, and again with every claim */
}

static struct bw_peer_claim own_claim(const struct bw_peer *p, uint32_t election,
                                      const struct bw_announcement *said, bw_time seen)
{
    return (struct bw_peer_claim){.node = p->options.self,
                                  .term = said->term,
                                  .token = said->token,
                                  .seen = seen,
                                  .since = p->election[election].acts_since};
}

static bool acts(const struct bw_peer *p, uint32_t election, const struct bw_announcement *said,
                 bw_time now)
{
    bw_time since = p->election[election].acts_since;
    return said->leader == p->options.self && since > 0 && since <= now && now < said->act_until;
}

/* We led until now, and somebody else took it. After a partition that is how two leaders meet: the
 * other one must hear since when we acted. If work of ours may still run, or ran until its lease
 * was over while we slept, that is how long we acted. */
void peer_claims_last(struct bw_peer *p, uint32_t election, const struct bw_announcement *said)
{
    bw_time now = peer_now(), until = p->election[election].busy_until;
    if (!acts(p, election, said, now))
        return;
    struct bw_peer_claim own = own_claim(p, election, said, now);
    if (until > 0) {
        own.seen = bw_time_min(now, until);
        own.ended = own.seen > own.since;
    }
    if (!own.ended)
        own.seen = now;
    pass_on(p, election, &own);
    hear(p, election, &own);
}

/* A guardian has killed the work of `node`, and says so now; perhaps long after it did so, but no
 * work outlives its lease. Did we act before that? Nobody else knows when we began as well as we
 * do.
 */
void peer_claims_killed(struct bw_peer *p, uint32_t election, bw_node node, bw_term term)
{
    const struct bw_announcement *said = &p->election[election].said;
    bw_time now = peer_now();
    struct bw_peer_claim dead, own;
    if (acts(p, election, said, now) &&
        bw_claims_of(&p->election[election].claims, node, term, &dead)) {
        own = own_claim(p, election, said, now);
        hear(p, election, &own);
        dead.seen = bw_time_min(now, bw_time_add(dead.seen, p->election[election].lease_ns));
        dead.ended = true;
        hear(p, election, &dead);
        return;
    }
    bw_claims_end(&p->election[election].claims, node, term);
}

void peer_claims_tick(struct bw_peer *p, bw_time now)
{
    p->claim_at = now + CLAIM_NS;
    for (uint32_t e = 0; p->formed && !p->dead && e < p->elections; e++) {
        tell_split(p, e);
        const struct bw_announcement *said = &p->election[e].said;
        struct bw_peer_claim own = own_claim(p, e, said, now);
        if (said->leader != p->options.self || now < said->act_from || now >= said->act_until ||
            p->election[e].held_until)
            continue;
        pass_on(p, e, &own);
        hear(p, e, &own);
    }
}
