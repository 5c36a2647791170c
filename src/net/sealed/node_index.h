/* A hash index of nodes: maps a node to its position in a dense table of fixed size. After a
 * removal the caller moves the last row of its table into the free position. */
#ifndef BW_NET_SEALED_NODE_INDEX_H
#define BW_NET_SEALED_NODE_INDEX_H

#include "core/base/types.h"

struct bw_node_index {
    uint32_t count, max;
    bw_node *nodes;  /* by position */
    uint32_t *slots; /* by hash: position + 1; 0: free */
    uint32_t slot_mask;
};

#define BW_NODE_INDEX_NONE UINT32_MAX

/* Returns 0 or BW_ENOMEM; deinit is valid after either. */
int bw_node_index_init(struct bw_node_index *index, uint32_t max);
void bw_node_index_deinit(struct bw_node_index *index);

/* The node's position, or BW_NODE_INDEX_NONE. */
uint32_t bw_node_index_find(const struct bw_node_index *index, bw_node node);
/* The node must not be in the index. BW_NODE_INDEX_NONE: full. */
uint32_t bw_node_index_add(struct bw_node_index *index, bw_node node);
/* The node at the last position (the new `count`) moves to this one. */
void bw_node_index_remove(struct bw_node_index *index, uint32_t position);

#endif
