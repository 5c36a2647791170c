/* Hirschberg-Sinclair: a candidate sends FROM(value, num, max) to its neighbours on both sides, up
 * to a distance. A higher-ranked node on the way answers NO; the last node reached answers OK.
 * After an OK from both sides the distance doubles. A candidate whose own FROM returns has won.
 *
 * Messages: fewer than 8n + 8 ceil(n log2 n), without the announcement. If all nodes start at once
 * and each message takes one unit of time, a node wins after exactly 3n-2 units for n = 2^k, and
 * after 5n-6 for n = 2^k + 1.
 *
 * Additions to the paper:
 * - A reply names the distance that it belongs to and counts its hops, so that duplicate, late and
 *   undeliverable replies do no harm.
 * - A node that has not taken part yet does so on the first message of a lower-ranked node.
 * - FROM with max 0, sent by a withdrawn node, only makes others take part.
 *
 * Model, guarantees and limits: ring.h.
 *
 * Source: D. S. Hirschberg, J. B. Sinclair, "Decentralized extrema-finding in circular
 * configurations of processors", CACM 23(11), 1980. */
#include "core/base/bug.h"
#include "core/elect/ring/ring.h"

enum { SIDE_RIGHT = 1, SIDE_LEFT = 2, SIDE_BOTH = 3 };

static bool send(struct bw_ring *ring, enum bw_message_kind kind, bool left,
                 const struct bw_hs_part *part, struct bw_actions *actions)
{
    struct bw_message *msg = bw_ring_pass(ring, kind, left, part->value, actions);
    if (msg)
        msg->hs = *part;
    return msg != NULL;
}

static void ask_both(struct bw_ring *ring, bw_time now, struct bw_actions *actions)
{
    struct bw_hs_part part = {.value = ring->self, .max = ring->reach};
    ring->replies = 0;
    if (!send(ring, BW_MSG_HS_FROM, false, &part, actions))
        bw_ring_decide(ring, ring->self, now, actions);
    else
        send(ring, BW_MSG_HS_FROM, true, &part, actions);
}

static void begin(struct bw_ring *ring, bw_time now, struct bw_actions *actions)
{
    ring->marked = true;
    if (ring->withdrawn) {
        struct bw_hs_part wake = {.value = ring->self};
        if (!send(ring, BW_MSG_HS_FROM, false, &wake, actions))
            bw_ring_decide(ring, BW_NODE_NONE, now, actions);
        return;
    }
    ring->candidate = true;
    ring->reach = 1;
    ask_both(ring, now, actions);
}

static void late(const struct bw_message *msg, struct bw_actions *actions)
{
    bw_actions_trace(actions, BW_TRACE_IGNORED_LATE, msg->from, msg->kind, msg->term);
}

static void on_own(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                   struct bw_actions *actions)
{
    bool wake = msg->hs.max == 0;
    if (ring->done || (wake ? !ring->withdrawn : !ring->candidate)) {
        late(msg, actions);
        return;
    }
    bw_ring_decide(ring, wake ? BW_NODE_NONE : ring->self, now, actions);
}

static void on_from(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                    struct bw_actions *actions)
{
    struct bw_hs_part part = msg->hs;
    bool left = msg->flags & BW_FLAG_LEFT, wake = part.max == 0;
    part.num++;
    if (bw_ring_circled(ring, part.num)) {
        late(msg, actions);
        return;
    }
    if (wake && ring->withdrawn) {
        send(ring, BW_MSG_HS_FROM, left, &part, actions);
        return;
    }
    if (wake || !bw_ring_outranks_self(ring, part.value)) {
        struct bw_hs_part no = {.value = part.value, .max = part.max};
        if (!wake)
            send(ring, BW_MSG_HS_NO, !left, &no, actions);
        if (!ring->marked)
            begin(ring, now, actions);
        return;
    }
    ring->marked = true;
    ring->candidate = false;
    bw_ring_yield(ring, part.value, now, actions);
    if (part.num < part.max) {
        send(ring, BW_MSG_HS_FROM, left, &part, actions);
        return;
    }
    struct bw_hs_part ok = {.value = part.value, .max = part.max};
    send(ring, BW_MSG_HS_OK, !left, &ok, actions);
}

static void on_answer(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                      struct bw_actions *actions)
{
    struct bw_hs_part part = msg->hs;
    bool left = msg->flags & BW_FLAG_LEFT;
    if (part.value != ring->self) {
        part.num++;
        if (!bw_ring_circled(ring, part.num))
            send(ring, msg->kind, left, &part, actions);
        return;
    }
    if (!ring->candidate || part.max != ring->reach || ring->done) {
        late(msg, actions);
        return;
    }
    if (msg->kind == BW_MSG_HS_NO && !BW_BUG(hirschberg_takes_no_for_ok)) {
        ring->candidate = false;
        return;
    }
    /* a reply that travels left comes from the right side */
    ring->replies |= left ? SIDE_RIGHT : SIDE_LEFT;
    if (ring->replies != SIDE_BOTH)
        return;
    /* otherwise planted bug: only the timeout ends the round */
    if (!BW_BUG(hirschberg_never_reaches_further))
        ring->reach *= 2;
    ask_both(ring, now, actions);
}

static void message(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                    struct bw_actions *actions)
{
    if (msg->kind == BW_MSG_RING_ELECTION)
        late(msg, actions);
    else if (msg->kind != BW_MSG_HS_FROM)
        on_answer(ring, msg, now, actions);
    else if (msg->hs.value == ring->self)
        on_own(ring, msg, now, actions);
    else
        on_from(ring, msg, now, actions);
}

static const struct bw_ring_rules rules = {begin, message};

static int init(void *memory, const struct bw_elector_config *config)
{
    return bw_ring_init(memory, config, &rules);
}

const struct bw_elector_ops bw_elect_ring_hirschberg_sinclair = {
    .name = "ring-hirschberg-sinclair",
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
