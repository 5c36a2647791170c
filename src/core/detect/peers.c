/* A sorted bounded table whose user chooses the row size. */
#include "core/detect/peers.h"
#include "core/base/assert.h"

#include "core/base/error.h"
#include "core/base/limits.h"

#include <string.h>

/* Index of the first row whose id is not below `id`. */
static uint32_t place(const struct bw_peers *peers, bw_node id)
{
    uint32_t low = 0, high = peers->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bw_peers_at(peers, middle)->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Ids are usually 1..n, and self is left out, so the row is nearly always at the index that follows
 * from this. */
struct bw_detector_peer *bw_peers_find(const struct bw_peers *peers, bw_node id)
{
    uint32_t i = id - (id > peers->self ? 2u : 1u);
    if (i >= peers->count || bw_peers_at(peers, i)->id != id)
        i = place(peers, id);
    if (i >= peers->count)
        return NULL;
    struct bw_detector_peer *peer = bw_peers_at(peers, i);
    return peer->id == id ? peer : NULL;
}

struct bw_detector_peer *bw_peers_add(struct bw_peers *peers, bw_node id)
{
    uint32_t i = place(peers, id);
    struct bw_detector_peer *peer = bw_peers_at(peers, i);
    bool known = i < peers->count && peer->id == id;
    if (known || id == peers->self || peers->count == peers->cap)
        return NULL;
    memmove(bw_peers_at(peers, i + 1), peer, (peers->count - i) * peers->stride);
    memset(peer, 0, peers->stride);
    peer->id = id;
    peer->expires_ns = BW_TIME_NEVER;
    peers->count++;
    return peer;
}

bool bw_peers_remove(struct bw_peers *peers, bw_node id)
{
    struct bw_detector_peer *peer = bw_peers_find(peers, id);
    if (!peer)
        return false;
    size_t end = peers->count * peers->stride;
    size_t next = (size_t)((unsigned char *)peer - peers->rows) + peers->stride;
    memmove(peer, peers->rows + next, end - next);
    peers->count--;
    return true;
}

int bw_peers_init(struct bw_peers *peers, struct bw_arena *arena,
                  const struct bw_detector_config *config, size_t stride)
{
    uint32_t cap = config->cap ? config->cap : config->count;
    if (config->self == BW_NODE_NONE)
        return BW_EINVAL;
    if (config->count > cap || cap > BW_DETECTOR_MEMBERS_MAX)
        return BW_ELIMIT;
    stride = (stride + 15) & ~(size_t)15;
    *peers = (struct bw_peers){.rows = bw_arena_take(arena, cap * stride),
                               .stride = stride,
                               .cap = cap,
                               .self = config->self,
                               .earliest_ns = BW_TIME_NEVER};
    if (!peers->rows)
        return BW_NEVER(arena->at) ? BW_ENOMEM : 0;
    for (uint32_t i = 0; i < config->count; i++) {
        bw_node id = config->members[i];
        if (id == BW_NODE_NONE || (id != config->self && !bw_peers_add(peers, id)))
            return BW_EINVAL;
    }
    return 0;
}
