/* A hash index of nodes; see node_index.h. */
#include "net/sealed/node_index.h"

#include "core/base/error.h"

#include <stdlib.h>
#include <string.h>

int bw_node_index_init(struct bw_node_index *index, uint32_t max)
{
    uint32_t slots = 16;
    while (slots < 2 * max)
        slots *= 2;
    *index = (struct bw_node_index){.max = max, .slot_mask = slots - 1};
    index->slots = calloc(slots, sizeof *index->slots);
    index->nodes = calloc(max, sizeof *index->nodes);
    return index->slots && index->nodes ? 0 : BW_ENOMEM;
}

void bw_node_index_deinit(struct bw_node_index *index)
{
    free(index->slots);
    free(index->nodes);
    *index = (struct bw_node_index){0};
}

static uint32_t slot_of(const struct bw_node_index *index, bw_node node)
{
    return (node * UINT32_C(2654435761) >> 7) & index->slot_mask;
}

uint32_t bw_node_index_find(const struct bw_node_index *index, bw_node node)
{
    for (uint32_t at = slot_of(index, node); index->slots[at]; at = (at + 1) & index->slot_mask)
        if (index->nodes[index->slots[at] - 1] == node)
            return index->slots[at] - 1;
    return BW_NODE_INDEX_NONE;
}

static void put(struct bw_node_index *index, uint32_t position)
{
    uint32_t at = slot_of(index, index->nodes[position]);
    while (index->slots[at])
        at = (at + 1) & index->slot_mask;
    index->slots[at] = position + 1;
}

uint32_t bw_node_index_add(struct bw_node_index *index, bw_node node)
{
    if (index->count == index->max)
        return BW_NODE_INDEX_NONE;
    index->nodes[index->count] = node;
    put(index, index->count);
    return index->count++;
}

void bw_node_index_remove(struct bw_node_index *index, uint32_t position)
{
    index->nodes[position] = index->nodes[--index->count];
    memset(index->slots, 0, ((size_t)index->slot_mask + 1) * sizeof *index->slots);
    for (uint32_t i = 0; i < index->count; i++)
        put(index, i);
}
