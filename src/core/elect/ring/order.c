/* The order of the ring, and ranks.
 *
 * The order is by id, or as configured. In a configured order a member that joins later is added at
 * the end, as in the configuration that it gets itself. While members have different orders, they
 * cannot finish a round: the hop limit drops its messages, and the timeout starts another round. */
#include "core/base/assert.h"
#include "core/base/error.h"
#include "core/elect/ring/ring.h"

#include <string.h>

static uint32_t place_of(const struct bw_ring *ring, bw_node node)
{
    uint32_t i = 0;
    while (i < ring->length && ring->order[i] != node)
        i++;
    return i;
}

void bw_ring_order_add(struct bw_ring *ring, bw_node node)
{
    if (place_of(ring, node) < ring->length)
        return;
    uint32_t i = ring->length;
    for (; !ring->configured && i > 0 && ring->order[i - 1] > node; i--)
        ring->order[i] = ring->order[i - 1];
    ring->order[i] = node;
    ring->length++;
    ring->place = place_of(ring, ring->self);
}

void bw_ring_order_remove(struct bw_ring *ring, bw_node node)
{
    uint32_t i = place_of(ring, node);
    if (i == ring->length)
        return;
    ring->length--;
    memmove(&ring->order[i], &ring->order[i + 1], (ring->length - i) * sizeof *ring->order);
    ring->place = place_of(ring, ring->self);
}

int bw_ring_order_init(struct bw_ring *ring, const struct bw_elector_config *config)
{
    ring->length = 0;
    ring->configured = config->order != NULL;
    for (uint32_t i = 0; config->order && i < config->count; i++) {
        bw_node node = config->order[i];
        if (!bw_members_find(&ring->members, node) || place_of(ring, node) < ring->length)
            return BW_EINVAL;
        ring->order[ring->length++] = node;
    }
    for (uint32_t i = 0; i < ring->members.count; i++)
        bw_ring_order_add(ring, ring->members.at[i].id);
    ring->place = place_of(ring, ring->self);
    return 0;
}

bw_node bw_ring_next(const struct bw_ring *ring, bw_node after, bool left, bw_node keep)
{
    uint32_t at = after == ring->self ? ring->place : place_of(ring, after);
    if (at == ring->length) /* `after` is no longer in the ring: start at this node */
        at = ring->place;
    for (uint32_t i = 0; BW_ALWAYS(i < ring->length); i++) {
        if (left)
            at = at == 0 ? ring->length - 1 : at - 1;
        else
            at = at + 1 == ring->length ? 0 : at + 1;
        bw_node node = ring->order[at];
        if (node == ring->self || node == keep || !bw_members_find(&ring->members, node)->suspect)
            return node;
    }
    return ring->self;
}

bool bw_ring_outranks(const struct bw_ring *ring, bw_node a, bw_node b)
{
    const struct bw_member_row *row_a = bw_members_find(&ring->members, a);
    const struct bw_member_row *row_b = bw_members_find(&ring->members, b);
    if (!row_a || !row_b)
        return row_a != NULL;
    if (row_a->priority != row_b->priority)
        return row_a->priority > row_b->priority;
    return a > b;
}

bool bw_ring_outranks_self(const struct bw_ring *ring, bw_node node)
{
    return ring->withdrawn ? node != BW_NODE_NONE : bw_ring_outranks(ring, node, ring->self);
}

bw_node bw_ring_successor(const struct bw_ring *ring)
{
    bw_node best = BW_NODE_NONE;
    for (uint32_t i = 0; i < ring->members.count; i++) {
        const struct bw_member_row *row = &ring->members.at[i];
        if (row->id != ring->self && !row->suspect && bw_ring_outranks(ring, row->id, best))
            best = row->id;
    }
    return best;
}

bw_node bw_ring_next_in_turn(const struct bw_ring *ring)
{
    bw_node next = BW_NODE_NONE;
    for (uint32_t i = 0; i < ring->members.count; i++) {
        const struct bw_member_row *row = &ring->members.at[i];
        if (!row->suspect && bw_ring_outranks(ring, ring->self, row->id) &&
            bw_ring_outranks(ring, row->id, next))
            next = row->id;
    }
    return next ? next : bw_ring_successor(ring);
}
