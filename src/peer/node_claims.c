/* Claims of leadership. A leader that may act announces that to a bounded number of members twice a
 * second. Any member that receives two such claims at once, including a leader, reports a split.
 * This module only detects a split; the owner of the `split` hook decides what to do. */
#include "os/clock.h"
#include "peer/node_state.h"

#define CLAIM_NS (500 * BW_MS)
/* Longer than a claim can be in flight after its leader has gone. */
#define SETTLE_NS (3 * CLAIM_NS)
/* Receivers per announcement; in a larger cluster, a member may learn of a claim somewhat later. */
#define CLAIM_TO 32u
/* How often a split is announced. */
#define SPLIT_ANNOUNCEMENTS 5u
/* Maximum age of a claim; older ones are ignored. */
#define CLAIM_AGE_MAX_MS 60000u

void peer_claims_init(struct bw_peer *p)
{
    for (uint32_t e = 0; e < p->elections; e++)
        bw_claims_init(&p->election[e].claims, SETTLE_NS);
}

/* Sends the frame in p->out to a bounded number of members. */
static void send_to_some(struct bw_peer *p)
{
    uint32_t count = p->roster.count, sent = 0;
    uint64_t first = bw_rng_below(&p->rng, count);
    for (uint32_t i = 0; i < count && sent < CLAIM_TO; i++) {
        const struct bw_peer_row *row = &p->roster.at[(first + i) % count].row;
        if (row->left || row->id == p->options.self)
            continue;
        peer_send(p, row->id);
        sent++;
    }
}

static void send_claim(struct bw_peer *p, uint32_t election, const struct bw_peer_claim *claim)
{
    bw_time since = claim->since ? claim->since : claim->seen;
    if (claim->node == BW_NODE_NONE)
        return;
    p->out.kind = BW_PEER_CLAIM;
    p->out.lead =
        (struct bw_peer_claim_frame){.election = (uint16_t)election,
                                     .node = claim->node,
                                     .term = claim->term,
                                     .token = claim->token,
                                     .since_ms = (uint64_t)((claim->seen - since) / BW_MS),
                                     .ago_ms = (uint64_t)((bw_clock_boot() - claim->seen) / BW_MS),
                                     .done = p->election[election].done,
                                     .ended = claim->ended};
    send_to_some(p);
}

/* Announces a split at once, and again with the next ticks: when a partition heals, one direction
 * may open before the other. The rate is limited to the tick: each announcement makes others
 * announce, and with many claims there would always be something to send. */
static void send_split(struct bw_peer *p, uint32_t election)
{
    struct peer_election *e = &p->election[election];
    for (int i = 0; e->split_again > 0 && i < 2; i++)
        send_claim(p, election, &e->split[i]);
    e->split_again -= e->split_again > 0;
}

/* Records a claim. A node that finds two leaders announces both, so that members which can receive
 * only one of the claims learn of the split, too. */
static void record_claim(struct bw_peer *p, uint32_t election, const struct bw_peer_claim *claim)
{
    struct bw_peer_claim other;
    if (bw_claims_receive(&p->election[election].claims, claim, &other) == BW_CLAIMS_ONE)
        return;
    p->counters.splits++;
    p->election[election].split[0] = *claim;
    p->election[election].split[1] = other;
    p->election[election].split_again = SPLIT_ANNOUNCEMENTS;
    if (bw_clock_boot() >= p->election[election].split_at) {
        p->election[election].split_at = bw_clock_boot() + CLAIM_NS;
        send_split(p, election);
    }
    if (p->options.split)
        p->options.split(p->options.context, election, claim, &other);
}

/* Handles a received claim. The two clocks differ, so the frame has durations that end when it is
 * sent. We subtract them from the time of receipt; the transmission delay therefore makes the claim
 * look later than it was. */
void peer_claims_received(struct bw_peer *p, bw_node from, const struct bw_peer_claim_frame *lead)
{
    bw_time now = bw_clock_boot();
    bool invalid = lead->since_ms > (uint64_t)(now / BW_MS) || lead->ago_ms > CLAIM_AGE_MAX_MS;
    if (lead->election >= p->elections || !p->formed || invalid ||
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
    record_claim(p, lead->election, &claim);
}

void bw_peer_done(struct bw_peer *p, uint32_t election)
{
    if (election >= p->elections || p->election[election].done)
        return;
    p->election[election].done = true;
    p->claim_at = 1; /* announced at once, and again with every claim */
}

static struct bw_peer_claim own_claim(const struct bw_peer *p, uint32_t election,
                                      const struct bw_announcement *announcement, bw_time seen)
{
    return (struct bw_peer_claim){.node = p->options.self,
                                  .term = announcement->term,
                                  .token = announcement->token,
                                  .seen = seen,
                                  .since = p->election[election].acts_since};
}

static bool acts_now(const struct bw_peer *p, uint32_t election,
                     const struct bw_announcement *announcement, bw_time now)
{
    bw_time since = p->election[election].acts_since;
    return announcement->leader == p->options.self && since > 0 && since <= now &&
           now < announcement->act_until;
}

/* We led until now, and another node took over. After a partition, this is how two leaders meet:
 * the other one must learn since when we acted. If our work may still run, or ran until its lease
 * expired while we were suspended, then we acted until that time. */
void peer_claims_last(struct bw_peer *p, uint32_t election,
                      const struct bw_announcement *announcement)
{
    bw_time now = bw_clock_boot(), until = p->election[election].busy_until;
    if (!acts_now(p, election, announcement, now))
        return;
    struct bw_peer_claim own = own_claim(p, election, announcement, now);
    if (until > 0) {
        own.seen = bw_time_min(now, until);
        own.ended = own.seen > own.since;
    }
    if (!own.ended)
        own.seen = now;
    send_claim(p, election, &own);
    record_claim(p, election, &own);
}

/* A guardian announces that it has killed the work of `node`, perhaps long after it did; but no
 * work outlives its lease. If we acted before that time, both led at once. Only we know exactly
 * when we started to act. */
void peer_claims_killed(struct bw_peer *p, uint32_t election, bw_node node, bw_term term)
{
    const struct bw_announcement *announcement = &p->election[election].announced;
    bw_time now = bw_clock_boot();
    struct bw_peer_claim dead, own;
    if (acts_now(p, election, announcement, now) &&
        bw_claims_of(&p->election[election].claims, node, term, &dead)) {
        own = own_claim(p, election, announcement, now);
        record_claim(p, election, &own);
        dead.seen = bw_time_min(now, bw_time_add(dead.seen, p->election[election].lease_ns));
        dead.ended = true;
        record_claim(p, election, &dead);
        return;
    }
    bw_claims_end(&p->election[election].claims, node, term);
}

void peer_claims_tick(struct bw_peer *p, bw_time now)
{
    p->claim_at = now + CLAIM_NS;
    for (uint32_t e = 0; p->formed && !p->dead && e < p->elections; e++) {
        send_split(p, e);
        const struct bw_announcement *announcement = &p->election[e].announced;
        struct bw_peer_claim own = own_claim(p, e, announcement, now);
        if (announcement->leader != p->options.self || now < announcement->act_from ||
            now >= announcement->act_until || p->election[e].held_until)
            continue;
        send_claim(p, e, &own);
        record_claim(p, e, &own);
    }
}
