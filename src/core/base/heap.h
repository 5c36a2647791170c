/* Blocks of any size inside one piece of memory that the caller gave: for state that grows and
 * shrinks above the line, where no allocator may be called.
 *
 * Model: free blocks of a size class hang in a list of that class and are taken from it again; a
 * new one comes from the untouched end. Classes grow by at most a quarter, so a block wastes at
 * most a fifth of itself; nothing is split or joined, so taking and giving are a few instructions.
 * The memory need not be resident: pages that were never taken are never touched. */
#ifndef BW_BASE_HEAP_H
#define BW_BASE_HEAP_H

#include "core/base/assert.h"
#include "core/base/types.h"

typedef uint32_t bw_ref; /* a block, in units of BW_HEAP_UNIT from the start; 0 = none */

#define BW_HEAP_UNIT      16u
#define BW_HEAP_BLOCK_MAX ((size_t)2 << 20) /* the largest request of etcd's wire, with room */
#define BW_HEAP_CLASSES   64u

struct bw_heap {
    unsigned char *base;
    size_t used, size; /* bytes: handed out at least once; all */
    size_t taken;      /* bytes in blocks that are in use now */
    bw_ref free[BW_HEAP_CLASSES];
};

/* `memory` is aligned to BW_HEAP_UNIT; at most 64 GiB of it are used. It is not cleared. */
void bw_heap_init(struct bw_heap *heap, void *memory, size_t size);
/* 0: no room, or larger than BW_HEAP_BLOCK_MAX. The block is not cleared. */
bw_ref bw_heap_take(struct bw_heap *heap, size_t bytes);
/* `bytes` as it was taken. */
void bw_heap_give(struct bw_heap *heap, bw_ref ref, size_t bytes);
/* What a block of this size really takes. */
size_t bw_heap_cost(size_t bytes);

static inline void *bw_heap_at(const struct bw_heap *heap, bw_ref ref)
{
    BW_ASSERT(ref != 0);
    return heap->base + (size_t)ref * BW_HEAP_UNIT;
}

#endif
