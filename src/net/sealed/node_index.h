/* Positions of nodes in a dense table of fixed size, found by hash: what a table per node is kept
 * by. Who removes one moves the last row of the table into its place. */
#ifndef BW_NET_NODE_INDEX_H
#define BW_NET_NODE_INDEX_H

#include "core/base/types.h"

struct bw_node_index {
    uint32_t count, max;
    bw_node *nodes;  /* by position */
    uint32_t *slots; /* by hash: position + 1; 0: free */
    uint32_t slot_mask;
};

#define BW_NODE_INDEX_NONE UINT32_MAX

/* Returns 0 or BW_ENOMEM; deinit is fine after either. */
int bw_node_index_init(struct bw_node_index *index, uint32_t max);
void bw_node_index_deinit(struct bw_node_index *index);

/* The node's position, or BW_NODE_INDEX_NONE. */
uint32_t bw_node_index_find(const struct bw_node_index *index, bw_node node);
/* It must not be there. BW_NODE_INDEX_NONE: full. */
uint32_t bw_node_index_add(struct bw_node_index *index, bw_node node);
/* The node at the last position (`count`, afterwards) is now at this one. */
void bw_node_index_remove(struct bw_node_index *index, uint32_t position);

#endif
