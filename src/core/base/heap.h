/* An allocator for blocks of any size inside one piece of the caller's memory. Core modules must
 * not call malloc; this serves those whose state grows and shrinks.
 *
 * Model: each size class has a list of free blocks. A request takes a block from that list, or else
 * from the unused end of the memory. Classes grow by at most a quarter, so a block wastes at most a
 * fifth of its size. Blocks are neither split nor joined, so both operations take a few
 * instructions. In return, a class never gives memory back to another class: where sizes change,
 * the owner of the blocks moves them to another heap at times (registry/kv.c). The heap never
 * touches pages before their first use, so the memory need not be resident.
 *
 * The caller can return the pages of large free blocks to the system (bw_heap_release). Such a
 * block is used again only when no other block of its class is free. Blocks below BW_HEAP_LARGE
 * keep their pages. */
#ifndef BW_CORE_BASE_HEAP_H
#define BW_CORE_BASE_HEAP_H

#include "core/base/assert.h"
#include "core/base/types.h"

typedef uint32_t bw_ref; /* a block, in units of BW_HEAP_UNIT from the start; 0: none */

#define BW_HEAP_UNIT      16u
#define BW_HEAP_BLOCK_MAX ((size_t)2 << 20) /* etcd's largest request, with a reserve */
#define BW_HEAP_BYTES_MAX ((size_t)UINT32_MAX * BW_HEAP_UNIT)
#define BW_HEAP_CLASSES   64u
#define BW_HEAP_PAGE      4096u
#define BW_HEAP_LARGE     8192u /* a free block of this size contains a whole page */

struct bw_heap {
    unsigned char *base;
    size_t used;       /* bytes that were ever part of a block */
    size_t size;       /* bytes of the whole memory */
    size_t taken;      /* bytes of the blocks now in use */
    size_t free_large; /* bytes of large free blocks that were not released */
    bw_ref free[BW_HEAP_CLASSES], released[BW_HEAP_CLASSES];
};

struct bw_heap_pages {
    void *at;
    size_t length;
};

/* Initializes the heap. `memory` must be aligned to BW_HEAP_UNIT and is not cleared. At most 64 GiB
 * are used. */
void bw_heap_init(struct bw_heap *heap, void *memory, size_t size);
/* The same for the part of the memory from `from` to `end`, both multiples of BW_HEAP_UNIT and not
 * 0. References count from the start of the memory, so they differ between its parts. */
void bw_heap_init_part(struct bw_heap *heap, void *memory, size_t from, size_t end);
/* Allocates a block, which is not cleared. Returns 0 if the heap is full or if `bytes` exceeds
 * BW_HEAP_BLOCK_MAX. */
bw_ref bw_heap_take(struct bw_heap *heap, size_t bytes);
/* Frees a block; `bytes` must be the size that was requested. */
void bw_heap_give(struct bw_heap *heap, bw_ref ref, size_t bytes);
/* Takes the pages of one large free block, whose content the caller may discard. Returns false if
 * there is none. */
bool bw_heap_release(struct bw_heap *heap, struct bw_heap_pages *out);
/* Reduces `pages` to whole pages of the system, whose size is a power of two; the length may become
 * 0. The system rounds a length up, and would discard the beginning of the next block. */
void bw_heap_keep_whole(struct bw_heap_pages *pages, size_t page_size);
/* The number of bytes that a block of this size occupies. */
size_t bw_heap_cost(size_t bytes);

static inline void *bw_heap_at(const struct bw_heap *heap, bw_ref ref)
{
    BW_ASSERT(ref != 0);
    return heap->base + (size_t)ref * BW_HEAP_UNIT;
}

#endif
