/* Hirschberg-Sinclair: a candidate asks its neighbourhood on both sides, FROM(value, num, max); a
 * higher-ranked node there answers NO, the last one reached answers OK. After an OK from both sides
 * the reach doubles; whose own FROM comes home has won.
 *
 * Source: D. S. Hirschberg, J. B. Sinclair, "Decentralized extrema-finding in circular
 * configurations of processors", CACM 23(11), 1980. Model, guarantees and limits: ring.h.
 *
 * Messages below 8n + 8 ceil(n log2 n), announcement apart. All start at once and messages take
 * one unit: won after exactly 3n-2 units for n = 2^k, and 5n-6 for n = 2^k + 1.
 *
 * Added to the paper: an answer names the reach it belongs to and counts its hops, so that
 * repeated, late and homeless ones do no harm; a node that has not yet stood does so on the first
 * message of a lower-ranked one; FROM with max 0 only wakes (from a node that has resigned). */
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
    ring->replies |= left ? SIDE_RIGHT : SIDE_LEFT; /* it comes back from the other side */
    if (ring->replies != SIDE_BOTH)
        return;
    if (!BW_BUG(hirschberg_never_reaches_further)) /* the round ends by time-out only */
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
