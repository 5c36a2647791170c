/* Size-class allocator; see heap.h. The classes are 16 to 128 in steps of 16, then four per
 * doubling (160, 192, 224, 256, 320, ...). */
#include "core/base/heap.h"
#include "core/base/assert.h"

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
    bw_heap_init_part(heap, memory, BW_HEAP_UNIT, size);
}

void bw_heap_init_part(struct bw_heap *heap, void *memory, size_t from, size_t end)
{
    size_t most = BW_HEAP_BYTES_MAX;
    *heap = (struct bw_heap){.base = memory, .used = from, .size = end < most ? end : most};
}

/* A free block begins with the reference to the next one. */
static bw_ref pop(const struct bw_heap *heap, bw_ref *list)
{
    bw_ref ref = *list;
    if (ref)
        memcpy(list, bw_heap_at(heap, ref), sizeof ref);
    return ref;
}

static void push(const struct bw_heap *heap, bw_ref *list, bw_ref ref)
{
    memcpy(bw_heap_at(heap, ref), list, sizeof ref);
    *list = ref;
}

static size_t large(unsigned class)
{
    return size_of(class) >= BW_HEAP_LARGE ? size_of(class) : 0;
}

static bw_ref take_free(struct bw_heap *heap, unsigned class)
{
    bw_ref ref = pop(heap, &heap->free[class]);
    if (ref)
        heap->free_large -= large(class);
    return ref ? ref : pop(heap, &heap->released[class]);
}

/* When the unused end is exhausted, takes a larger free block. Freeing returns the block to the
 * smaller class. */
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
    push(heap, &heap->free[class], ref);
    heap->free_large += large(class);
    heap->taken -= size_of(class);
}

/* The page with the reference to the next free block stays. */
static struct bw_heap_pages pages_of(const struct bw_heap *heap, bw_ref ref, size_t size)
{
    unsigned char *block = bw_heap_at(heap, ref);
    size_t skipped = BW_HEAP_PAGE - (uintptr_t)block % BW_HEAP_PAGE;
    return (struct bw_heap_pages){.at = block + skipped,
                                  .length = (size - skipped) / BW_HEAP_PAGE * BW_HEAP_PAGE};
}

bool bw_heap_release(struct bw_heap *heap, struct bw_heap_pages *out)
{
    if (heap->free_large == 0)
        return false;
    unsigned class = BW_HEAP_CLASSES - 1;
    while (BW_NEVER(!large(class)) || !heap->free[class])
        class --;
    bw_ref ref = pop(heap, &heap->free[class]);
    push(heap, &heap->released[class], ref);
    heap->free_large -= large(class);
    *out = pages_of(heap, ref, size_of(class));
    return true;
}

void bw_heap_keep_whole(struct bw_heap_pages *pages, size_t page_size)
{
    size_t over = (uintptr_t)pages->at % page_size, skipped = over ? page_size - over : 0;
    pages->at = (unsigned char *)pages->at + skipped;
    pages->length = skipped < pages->length ? (pages->length - skipped) / page_size * page_size : 0;
}
