/* Memory for what has no fixed size (lists behind messages, log entries under way): blocks in
 * classes of powers of two, given back piece by piece, carved from chunks that survive from run to
 * run. */
#ifndef BW_SIM_POOL_H
#define BW_SIM_POOL_H

#include "core/base/types.h"

#define BW_SIM_POOL_CLASSES 27u /* up to 64 MiB */

struct bw_sim_pool_chunk;

struct bw_sim_pool {
    void *free[BW_SIM_POOL_CLASSES];
    struct bw_sim_pool_chunk *chunks, *current;
    size_t used; /* of the current chunk */
};

/* A block of at least `size` bytes, its class in *class; NULL when out of memory or too large. */
void *bw_sim_pool_take(struct bw_sim_pool *pool, size_t size, uint8_t *class);
void bw_sim_pool_give(struct bw_sim_pool *pool, void *block, uint8_t class);
/* All blocks are given back at once; the chunks stay. */
void bw_sim_pool_reset(struct bw_sim_pool *pool);
void bw_sim_pool_deinit(struct bw_sim_pool *pool);

#endif
