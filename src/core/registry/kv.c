/* Immutable versions of keys, reference-counted by the tree and the history, and their memory.
 *
 * The heap does not use the memory of one size for another one (heap.h), and clients choose the
 * sizes. So the memory has two halves. When the half in use is exhausted, everything in use moves
 * to the other half, without gaps. What is in use fits, because the quota bounds it, so no sequence
 * of requests exhausts the memory. A move happens only after a large part of a half was used up, so
 * its cost per byte written is bounded. A move of 512 MiB takes about half a second.
 *
 * The layout of the memory differs between nodes and never decides anything. */
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/registry/registry_state.h"

#include <string.h>

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
    struct bw_kv *kv = kv_at(r, ref);
    if (--kv->refs > 0)
        return;
    uint64_t bytes = kv_size(r, ref);
    bw_heap_give(&r->versions, ref, bytes);
    r->bytes -= bytes;
}

/* Returns the new place of a version. The old one keeps it in `mark`, without references. */
static bw_ref move_version(const struct bw_registry *r, struct bw_heap *to, bw_ref ref)
{
    struct bw_kv *old = kv_at(r, ref);
    if (old->refs == 0)
        return old->mark;
    uint64_t bytes = kv_size(r, ref);
    bw_ref new = bw_heap_take(to, bytes);
    memcpy(bw_heap_at(to, new), old, bytes);
    old->refs = 0;
    old->mark = new;
    return new;
}

/* Visits all nodes without a stack: the last node before one with a left branch leads back to it
 * meanwhile (Morris, 1979). */
static void move_tree(struct bw_registry *r, struct bw_heap *to)
{
    for (bw_ref at = r->root; at;) {
        struct node *node = node_at(r, at);
        if (node->left) {
            bw_ref last = node->left;
            while (node_at(r, last)->right && node_at(r, last)->right != at)
                last = node_at(r, last)->right;
            bool visited = node_at(r, last)->right == at;
            node_at(r, last)->right = visited ? 0 : at;
            if (!visited) {
                at = node->left;
                continue;
            }
        }
        node->kv = move_version(r, to, node->kv);
        at = node->right;
    }
}

static void move_all(struct bw_registry *r)
{
    size_t half = r->versions_half, in_use = r->versions.size;
    size_t from = in_use > BW_HEAP_UNIT + half ? BW_HEAP_UNIT : BW_HEAP_UNIT + half;
    struct bw_heap to;
    bw_heap_init_part(&to, r->versions.base, from, from + half);
    move_tree(r, &to);
    for (uint64_t i = r->event_first; i < r->event_end; i++) {
        struct event *event = event_at(r, i);
        event->kv = move_version(r, &to, event->kv);
        if (event->previous)
            event->previous = move_version(r, &to, event->previous);
    }
    roles_move(r, &to);
    r->left = in_use - half;
    r->left_end = r->versions.used;
    r->versions = to;
}

/* Freed blocks serve only their own size. So when more than half of the memory is free blocks, the
 * versions move, too: otherwise each new size would take a quota of memory of its own. */
static bool is_wasteful(const struct bw_registry *r)
{
    size_t start = r->versions.size - r->versions_half, used = r->versions.used - start;
    return used > 2 * r->versions.taken + r->versions_half / 32;
}

/* A block is at most a quarter larger than its content. */
void versions_reserve(struct bw_registry *r, uint64_t bytes)
{
    uint64_t need = bytes + bytes / 4;
    bool full = r->versions.size - r->versions.used < need;
    if ((full || is_wasteful(r)) && !BW_BUG(registry_never_moves_versions))
        move_all(r);
}
