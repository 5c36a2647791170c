/* One block of the caller's memory, handed out front to back at init and never given back
 * piecewise. With `at` NULL it only measures: `used` is then the size the real block must have.
 * This is how every module sizes and lays out its state with the same lines of code. */
#ifndef BW_BASE_ARENA_H
#define BW_BASE_ARENA_H

#include "core/base/types.h"

struct bw_arena {
    unsigned char *at;
    size_t used, cap;
};

#define BW_ARENA_ALIGN 16u

/* The next `size` bytes, aligned to BW_ARENA_ALIGN; NULL while measuring or when the block is too
 * small (`used` still grows, so used > cap tells). The memory is not cleared. */
static inline void *bw_arena_take(struct bw_arena *arena, size_t size)
{
    size_t start = (arena->used + BW_ARENA_ALIGN - 1) & ~(size_t)(BW_ARENA_ALIGN - 1);
    arena->used = start + size;
    return arena->at && arena->used <= arena->cap ? arena->at + start : (void *)0;
}

static inline bool bw_arena_fits(const struct bw_arena *arena)
{
    return arena->at && arena->used <= arena->cap;
}

#endif
