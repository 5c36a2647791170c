/* A bump allocator over one block of the caller's memory.
 *
 * A module takes its state from the arena at init; single pieces are never freed. With `at` NULL
 * the arena only measures: `used` is then the size that the real block must have. So each module
 * computes its size and lays out its state with the same code. */
#ifndef BW_CORE_BASE_ARENA_H
#define BW_CORE_BASE_ARENA_H

#include "core/base/assert.h"
#include "core/base/types.h"

struct bw_arena {
    unsigned char *at;
    size_t used, cap;
};

#define BW_ARENA_ALIGN 16u

/* Returns the next `size` bytes, aligned to BW_ARENA_ALIGN and not cleared. Returns NULL while
 * measuring and when the block is too small. `used` grows even then, so used > cap shows that the
 * block is too small. */
static inline void *bw_arena_take(struct bw_arena *arena, size_t size)
{
    size_t start = (arena->used + BW_ARENA_ALIGN - 1) & ~(size_t)(BW_ARENA_ALIGN - 1);
    arena->used = start + size;
    return arena->at && arena->used <= arena->cap ? arena->at + start : (void *)0;
}

static inline bool bw_arena_fits(const struct bw_arena *arena)
{
    return arena->at && BW_ALWAYS(arena->used <= arena->cap);
}

#endif
