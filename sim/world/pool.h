/* Memory of variable size, for lists behind messages and log entries in flight. Blocks have sizes
 * of powers of two, are freed one by one, and come from chunks that are kept between runs. */
#ifndef BW_SIM_WORLD_POOL_H
#define BW_SIM_WORLD_POOL_H

#include "core/base/types.h"

#define BW_SIM_POOL_CLASSES 27u /* up to 64 MiB */

struct bw_sim_pool_chunk;

struct bw_sim_pool {
    void *free[BW_SIM_POOL_CLASSES];
    struct bw_sim_pool_chunk *chunks, *current;
    size_t used; /* bytes used of the current chunk */
};

/* Returns a block of at least `size` bytes and its class in *class, or NULL if memory is exhausted
 * or the size too large. */
void *bw_sim_pool_take(struct bw_sim_pool *pool, size_t size, uint8_t *class);
void bw_sim_pool_give(struct bw_sim_pool *pool, void *block, uint8_t class);
/* Frees all blocks at once; keeps the chunks. */
void bw_sim_pool_reset(struct bw_sim_pool *pool);
void bw_sim_pool_deinit(struct bw_sim_pool *pool);

#endif
