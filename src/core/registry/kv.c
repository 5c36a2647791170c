/* Immutable versions of keys, reference-counted by the tree and the history, and their memory.
 *
 * The heap does not use the memory of one size for another one (heap.h), and clients choose the
 * sizes. So the memory has two halves. When the half in use is exhausted, everything in use moves
 * to the other half, without gaps. What is in use fits, because the quota bounds it, so no sequence
 * of requests exhausts the memory. A move happens only after a large part of a half was used up, so
 * its cost per byte written is bounded.
 *
 * To move 1 GB takes more than a second, so it is done in steps, between which the registry is used
 * and changed:
 *   - New versions are created in the new half, from the first step on.
 *   - A version that has moved leaves its new place behind: its references become 0, and `mark` is
 *     the new place. version_place() follows that, so references to the old place stay valid.
 *   - The first pass updates the nodes of the tree in the order of their keys; `move_node` is the
 *     next one. After this pass no node refers to the old half, and no later event does.
 *   - The second pass updates the events.
 *   - No memory of the old half is used again before the end of the move.
 *   - Permissions are few; they move in the first step.
 *
 * Each byte that is reserved moves PACE bytes, so the new half has room for everything. Let the
 * quota be 1. At most 1 is in use when a move begins, and at most 1/PACE is reserved before it
 * ends. A block is at most a quarter larger than its content, so that needs 5/4 * (1 + 1/8) = 1.41
 * of the 1.5 that the half has (registry.c). The rest is more than a 32nd of the half.
 *
 * The layout of the memory differs between nodes and never decides anything. */
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/registry/registry_state.h"

#include <string.h>

#define PACE 8u
/* A step moves at least this much. A node or an event costs at least VISIT_COST. */
#define STEP_BYTES 65536u
#define VISIT_COST 64u
/* A reservation of more than this part of a half ends the move. */
#define LARGE_PART 32u

struct bw_slice node_key(const struct bw_registry *r, bw_ref node)
{
    return bw_kv_key(kv_at(r, node_at(r, node)->kv));
}

uint64_t kv_bytes(size_t key, size_t value)
{
    return sizeof(struct bw_kv) + key + value;
}

uint64_t kv_size(const struct bw_registry *r, bw_ref ref)
{
    const struct bw_kv *kv = kv_at(r, ref);
    return kv_bytes(kv->key_length, kv->value_length);
}

bw_ref kv_new(struct bw_registry *r, struct bw_slice key, struct bw_slice value)
{
    bw_ref ref = bw_heap_take(&r->versions, kv_bytes(key.length, value.length));
    BW_ASSERT(ref); /* versions_reserve was called */
    struct bw_kv *kv = kv_at(r, ref);
    *kv = (struct bw_kv){
        .refs = 1, .key_length = (uint32_t)key.length, .value_length = (uint32_t)value.length};
    if (BW_ALWAYS(key.length))
        memcpy(kv->bytes, key.at, key.length);
    if (value.length)
        memcpy(kv->bytes + key.length, value.at, value.length);
    r->bytes += kv_bytes(key.length, value.length);
    return ref;
}

void kv_hold(struct bw_registry *r, bw_ref ref)
{
    kv_at(r, ref)->refs++;
}

void kv_drop(struct bw_registry *r, bw_ref ref)
{
    bw_ref place = version_place(r, ref);
    uint64_t bytes = kv_size(r, place);
    if (--kv_at(r, place)->refs > 0)
        return;
    if (!is_left(r, place))
        bw_heap_give(&r->versions, place, bytes);
    r->bytes -= bytes;
}

/* Moves a version unless it has moved already. Returns its place; adds what that cost. */
static bw_ref move_version(struct bw_registry *r, bw_ref ref, uint64_t *cost)
{
    bw_ref old = version_place(r, ref);
    if (!is_left(r, old))
        return old;
    uint64_t bytes = kv_size(r, old);
    bw_ref new = bw_heap_take(&r->versions, bytes);
    BW_ASSERT(new);
    struct bw_kv *kv = kv_at(r, old);
    memcpy(bw_heap_at(&r->versions, new), kv, bytes);
    kv->refs = 0;
    kv->mark = new;
    *cost += bytes;
    return new;
}

static bw_ref node_after(const struct bw_registry *r, bw_ref node)
{
    static const unsigned char zero = 0;
    struct bw_keys all = {.key = {&zero, 1}, .end = {&zero, 1}};
    return node ? tree_after(r, &all, node_key(r, node)) : tree_first(r, &all);
}

static bool is_moving(const struct bw_registry *r)
{
    return r->left_units > 0;
}

static void begin(struct bw_registry *r)
{
    size_t half = r->versions_half, start = r->versions.size - half;
    size_t other = start > BW_HEAP_UNIT ? BW_HEAP_UNIT : BW_HEAP_UNIT + half;
    struct bw_heap to;
    bw_heap_init_part(&to, r->versions.base, other, other + half);
    roles_move(r, &to);
    r->left = start;
    r->left_end = r->versions.used;
    r->left_first = (bw_ref)(start / BW_HEAP_UNIT);
    r->left_units = (bw_ref)(half / BW_HEAP_UNIT);
    r->move_node = node_after(r, 0);
    r->move_event = 0;
    r->versions = to;
}

static void move_nodes(struct bw_registry *r, uint64_t budget, uint64_t *cost)
{
    for (; r->move_node && *cost < budget; *cost += VISIT_COST) {
        struct node *node = node_at(r, r->move_node);
        node->kv = move_version(r, node->kv, cost);
        r->move_node = node_after(r, r->move_node);
    }
}

static void move_events(struct bw_registry *r, uint64_t budget, uint64_t *cost)
{
    if (r->move_event < r->event_first)
        r->move_event = r->event_first;
    for (; r->move_event < r->event_end && *cost < budget; *cost += VISIT_COST) {
        struct event *event = event_at(r, r->move_event++);
        event->kv = move_version(r, event->kv, cost);
        if (event->previous)
            event->previous = move_version(r, event->previous, cost);
    }
}

static void move_some(struct bw_registry *r, uint64_t budget)
{
    uint64_t cost = 0;
    if (BW_BUG(registry_moves_all_in_one_step))
        budget = UINT64_MAX;
    move_nodes(r, budget, &cost);
    if (!r->move_node)
        move_events(r, budget, &cost);
    if (!r->move_node && r->move_event >= r->event_end)
        r->left_units = 0;
}

bool bw_registry_move(struct bw_registry *r, uint64_t bytes)
{
    if (is_moving(r))
        move_some(r, bytes);
    return is_moving(r);
}

void move_skips(struct bw_registry *r, bw_ref node)
{
    if (r->move_node == node && !BW_BUG(registry_move_ends_at_a_deleted_key))
        r->move_node = node_after(r, node);
}

/* Freed blocks serve only their own size. So when more than half of the memory is free blocks, the
 * versions move, too: otherwise each new size would take a quota of memory of its own. */
static bool is_wasteful(const struct bw_registry *r)
{
    size_t start = r->versions.size - r->versions_half, used = r->versions.used - start;
    return used > 2 * r->versions.taken + r->versions_half / 32;
}

static bool is_full(const struct bw_registry *r, uint64_t need)
{
    return r->versions.size - r->versions.used < need;
}

/* A block is at most a quarter larger than its content. */
void versions_reserve(struct bw_registry *r, uint64_t bytes)
{
    uint64_t need = bytes + bytes / 4;
    uint64_t step = need > r->versions_half / LARGE_PART ? UINT64_MAX : PACE * need + STEP_BYTES;
    if (is_moving(r))
        move_some(r, step);
    if (!is_moving(r) && (is_full(r, need) || is_wasteful(r)) &&
        !BW_BUG(registry_never_moves_versions)) {
        begin(r);
        move_some(r, step);
    }
}
