/* List-collecting ring: ELECTION{initiator, list} makes one lap, and every live node adds itself.
 * The initiator chooses the highest-ranked node of the list and sends COORDINATOR for one lap.
 *
 * Messages: 2m for m live nodes and one initiator. A dead node costs one failed send per lap.
 * Concurrent initiators cost 2m each and agree. A message grows to m ids.
 * A node that finds itself in a list drops the message: the initiator is dead. All nodes on the way
 * have set a timeout, which starts the next round.
 *
 * Model, guarantees and limits: ring.h.
 *
 * Source: the ring election of the textbooks (Tanenbaum and van Steen, Distributed Systems,
 * 6.5.2). */
#include "core/base/bug.h"
#include "core/elect/ring/ring.h"

#include <string.h>

static bw_node best_of(const struct bw_ring *ring, const bw_node *list, uint32_t count)
{
    bw_node best = BW_NODE_NONE;
    for (uint32_t i = 0; i < count; i++)
        if (bw_ring_outranks(ring, list[i], best))
            best = list[i];
    return best;
}

static bool listed(const bw_node *list, uint32_t count, bw_node node)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == node)
            return true;
    return false;
}

/* Sends the `count` ids of ring->list, plus the own id unless this node is withdrawn. */
static bool pass(struct bw_ring *ring, bw_node initiator, uint32_t hops, uint32_t count,
                 struct bw_actions *actions)
{
    struct bw_message *msg = bw_ring_pass(ring, BW_MSG_RING_ELECTION, false, initiator, actions);
    if (!msg)
        return false;
    if (!ring->withdrawn)
        ring->list[count++] = ring->self;
    msg->ring = (struct bw_ring_part){.initiator = initiator, .hops = hops};
    msg->items = count;
    msg->data = ring->list;
    return true;
}

static void begin(struct bw_ring *ring, bw_time now, struct bw_actions *actions)
{
    if (!pass(ring, ring->self, 1, 0, actions))
        bw_ring_decide(ring, BW_NODE_NONE, now, actions);
}

static void message(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                    struct bw_actions *actions)
{
    bool own = msg->ring.initiator == ring->self;
    bool home = own && ring->initiator && !ring->done;
    if (msg->kind != BW_MSG_RING_ELECTION || (own && !home) ||
        msg->items >= ring->members.cap + own ||
        (!own &&
         (bw_ring_circled(ring, msg->ring.hops) || listed(msg->data, msg->items, ring->self)))) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_LATE, msg->from, msg->kind, msg->term);
        return;
    }
    bw_node best = best_of(ring, msg->data, msg->items);
    /* planted bug: the first node of the list wins, not the highest-ranked */
    if (BW_BUG(ring_list_takes_first))
        best = msg->items > 0 ? *(const bw_node *)msg->data : best;
    if (home) {
        bw_ring_decide(ring, best, now, actions);
        return;
    }
    bw_ring_yield(ring, best, now, actions);
    if (msg->items > 0)
        memcpy(ring->list, msg->data, msg->items * sizeof *ring->list);
    pass(ring, msg->ring.initiator, msg->ring.hops + 1, msg->items, actions);
}

static const struct bw_ring_rules rules = {begin, message};

static int init(void *memory, const struct bw_elector_config *config)
{
    return bw_ring_init(memory, config, &rules);
}

const struct bw_elector_ops bw_elect_ring_list = {
    .name = "ring-list",
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
