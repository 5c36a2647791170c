/* Size classes over chunks. */
#include "sim/world/pool.h"

#include <stdlib.h>
#include <string.h>

#define CLASS_MIN   6u /* 64 bytes */
#define CHUNK_BYTES ((size_t)256 * 1024)

struct bw_sim_pool_chunk {
    struct bw_sim_pool_chunk *next;
    size_t size;
    _Alignas(16) unsigned char at[];
};

static uint8_t class_of(size_t size)
{
    uint8_t class = CLASS_MIN;
    while (class < BW_SIM_POOL_CLASSES && ((size_t)1 << class) < size)
        class ++;
    return class;
}

/* Makes `current` a chunk with `size` free bytes: one from an earlier run, or a new one. */
static bool advance(struct bw_sim_pool *pool, size_t size)
{
    struct bw_sim_pool_chunk **link = pool->current ? &pool->current->next : &pool->chunks;
    while (*link && (*link)->size < size)
        link = &(*link)->next;
    if (!*link) {
        size_t bytes = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        struct bw_sim_pool_chunk *chunk = malloc(sizeof *chunk + bytes);
        if (!chunk)
            return false;
        chunk->next = NULL;
        chunk->size = bytes;
        *link = chunk;
    }
    pool->current = *link;
    pool->used = 0;
    return true;
}

void *bw_sim_pool_take(struct bw_sim_pool *pool, size_t size, uint8_t *class)
{
    *class = class_of(size);
    if (*class >= BW_SIM_POOL_CLASSES)
        return NULL;
    void *block = pool->free[*class];
    if (block) {
        memcpy(&pool->free[*class], block, sizeof(void *));
        return block;
    }
    size_t bytes = (size_t)1 << *class;
    if ((!pool->current || pool->current->size - pool->used < bytes) && !advance(pool, bytes))
        return NULL;
    block = pool->current->at + pool->used;
    pool->used += bytes;
    return block;
}

void bw_sim_pool_give(struct bw_sim_pool *pool, void *block, uint8_t class)
{
    memcpy(block, &pool->free[class], sizeof(void *));
    pool->free[class] = block;
}

void bw_sim_pool_reset(struct bw_sim_pool *pool)
{
    memset(pool->free, 0, sizeof pool->free);
    pool->current = NULL;
    pool->used = 0;
}

void bw_sim_pool_deinit(struct bw_sim_pool *pool)
{
    while (pool->chunks) {
        struct bw_sim_pool_chunk *next = pool->chunks->next;
        free(pool->chunks);
        pool->chunks = next;
    }
    memset(pool, 0, sizeof *pool);
}
