/* Maximum-only ring: ELECTION{initiator, max} makes one lap, and every live node that ranks higher
 * replaces max by its own id. The initiator announces the maximum in a second lap.
 *
 * Messages: 2m of constant size for m live nodes and one initiator. Concurrent initiators cost 2m
 * each and agree.
 *
 * Model, guarantees and limits: ring.h.
 *
 * Source: the list ring, with the list reduced to its maximum. */
#include "core/elect/ring/ring.h"

static void begin(struct bw_ring *ring, bw_time now, struct bw_actions *actions)
{
    struct bw_ring_part part = {
        .initiator = ring->self, .best = ring->withdrawn ? BW_NODE_NONE : ring->self, .hops = 1};
    if (!bw_ring_pass_election(ring, &part, actions))
        bw_ring_decide(ring, BW_NODE_NONE, now, actions);
}

static void message(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                    struct bw_actions *actions)
{
    struct bw_ring_part part = msg->ring;
    bool own = part.initiator == ring->self;
    if (msg->kind != BW_MSG_RING_ELECTION || (own && (!ring->initiator || ring->done)) ||
        (!own && bw_ring_circled(ring, part.hops))) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_LATE, msg->from, msg->kind, msg->term);
        return;
    }
    if (own) {
        bw_ring_decide(ring, part.best, now, actions);
        return;
    }
    bw_ring_yield(ring, part.best, now, actions);
    if (!ring->withdrawn && !bw_ring_outranks_self(ring, part.best))
        part.best = ring->self;
    part.hops++;
    bw_ring_pass_election(ring, &part, actions);
}

static const struct bw_ring_rules rules = {begin, message};

static int init(void *memory, const struct bw_elector_config *config)
{
    return bw_ring_init(memory, config, &rules);
}

const struct bw_elector_ops bw_elect_ring_max = {
    .name = "ring-max",
    .promise = "Each side of a partition elects its own highest live node, so two lead until it "
               "heals; with the quorum guard only one may act.",
    .traits = BW_TRAIT_MAY_SPLIT | BW_TRAIT_DETERMINISTIC | BW_TRAIT_GUARDABLE,
    .bytes = bw_ring_bytes,
    .actions_max = bw_ring_actions_max,
    .init = init,
    .step = bw_ring_step,
    .deadline = bw_ring_deadline,
    .status = bw_ring_status,
    .ready = bw_ring_ready,
};
