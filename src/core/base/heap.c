/* Blocks inside one piece of memory; see heap.h. Classes: 16 to 128 in steps of 16, then four to
 * each doubling (160, 192, 224, 256, 320, ...). */
#include "core/base/heap.h"

#include <string.h>

#define LINEAR 8u /* classes of 16 .. 128 */

static unsigned class_of(size_t bytes)
{
    if (bytes <= (size_t)LINEAR * BW_HEAP_UNIT)
        return bytes ? (unsigned)((bytes - 1) / BW_HEAP_UNIT) : 0;
    unsigned top = 63u - (unsigned)__builtin_clzl(bytes - 1); /* 7 and up */
    return LINEAR + (top - 7) * 4 + (unsigned)((bytes - 1) >> (top - 2) & 3);
}

static size_t size_of(unsigned class)
{
    if (class < LINEAR)
        return (class + 1) * (size_t)BW_HEAP_UNIT;
    unsigned top = 7 + (class - LINEAR) / 4, quarter = (class - LINEAR) % 4;
    return ((size_t)1 << top) + ((size_t)(quarter + 1) << (top - 2));
}

size_t bw_heap_cost(size_t bytes)
{
    return size_of(class_of(bytes));
}

void bw_heap_init(struct bw_heap *heap, void *memory, size_t size)
{
    size_t most = (size_t)UINT32_MAX * BW_HEAP_UNIT;
    *heap =
        (struct bw_heap){.base = memory, .used = BW_HEAP_UNIT, .size = size < most ? size : most};
}

static bw_ref take_free(struct bw_heap *heap, unsigned class)
{
    bw_ref ref = heap->free[class];
    if (ref)
        memcpy(&heap->free[class], bw_heap_at(heap, ref), sizeof ref);
    return ref;
}

/* When the end is reached, a larger free block serves too; it comes back as one of this class. */
static bw_ref take_larger(struct bw_heap *heap, unsigned class)
{
    bw_ref ref = 0;
    while (!ref && ++class < BW_HEAP_CLASSES)
        ref = take_free(heap, class);
    return ref;
}

bw_ref bw_heap_take(struct bw_heap *heap, size_t bytes)
{
    if (bytes > BW_HEAP_BLOCK_MAX)
        return 0;
    unsigned class = class_of(bytes);
    size_t size = size_of(class);
    bw_ref ref = take_free(heap, class);
    if (!ref && heap->used + size <= heap->size) {
        ref = (bw_ref)(heap->used / BW_HEAP_UNIT);
        heap->used += size;
    } else if (!ref) {
        ref = take_larger(heap, class);
    }
    heap->taken += ref ? size : 0;
    return ref;
}

void bw_heap_give(struct bw_heap *heap, bw_ref ref, size_t bytes)
{
    unsigned class = class_of(bytes);
    memcpy(bw_heap_at(heap, ref), &heap->free[class], sizeof ref);
    heap->free[class] = ref;
    heap->taken -= size_of(class);
}
