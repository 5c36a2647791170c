/* Chang-Roberts: every candidate sends its id around the ring. A node forwards larger ids and drops
 * smaller ones. Only the largest id returns to its owner, which has won.
 *
 * A node that has not taken part yet marks itself and sends its own id on the first message that it
 * receives.
 *
 * Messages for n nodes, without the announcement: from 2n-1 (ids increase along the ring) to
 * n(n+1)/2 (ids decrease), n H_n on average. The announcement adds n.
 *
 * Difference from the paper: if the node with the largest id dies after the others have given up,
 * its id would circle forever. Here it is dropped after one lap, or as soon as its owner is found
 * dead, and the round's timeout starts another round.
 *
 * Model, guarantees and limits: ring.h.
 *
 * Source: E. Chang, R. Roberts, "An improved algorithm for decentralized extrema-finding in
 * circular configurations of processes", CACM 22(5), 1979. */
#include "core/base/bug.h"
#include "core/elect/ring/ring.h"

/* A withdrawn node sends no id, only a message that makes the next node take part. */
static void begin(struct bw_ring *ring, bw_time now, struct bw_actions *actions)
{
    struct bw_ring_part part = {
        .initiator = ring->self, .best = ring->withdrawn ? BW_NODE_NONE : ring->self, .hops = 1};
    ring->marked = true;
    if (!bw_ring_pass_election(ring, &part, actions))
        bw_ring_decide(ring, BW_NODE_NONE, now, actions);
}

static void message(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                    struct bw_actions *actions)
{
    struct bw_ring_part part = msg->ring;
    bool own = part.initiator == ring->self;
    if (msg->kind != BW_MSG_RING_ELECTION || (own && (ring->done || !ring->marked)) ||
        (!own && bw_ring_circled(ring, part.hops))) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_LATE, msg->from, msg->kind, msg->term);
        return;
    }
    if (own) {
        if (!ring->withdrawn || part.best == BW_NODE_NONE)
            bw_ring_decide(ring, part.best, now, actions);
        return;
    }
    if (!ring->marked && ring->withdrawn)
        ring->marked = true;
    else if (!ring->marked)
        begin(ring, now, actions);
    bw_ring_yield(ring, part.best, now, actions);
    /* planted bug: every id returns, and every owner wins */
    if (!ring->withdrawn && !bw_ring_outranks_self(ring, part.best) &&
        !BW_BUG(chang_roberts_passes_smaller))
        return;
    part.hops++;
    bw_ring_pass_election(ring, &part, actions);
}

static const struct bw_ring_rules rules = {begin, message};

static int init(void *memory, const struct bw_elector_config *config)
{
    return bw_ring_init(memory, config, &rules);
}

const struct bw_elector_ops bw_elect_ring_chang_roberts = {
    .name = "ring-chang-roberts",
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
