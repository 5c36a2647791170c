/* The members a detector watches: sorted by id, self left out, each row beginning with what every
 * detector keeps of a member.
 *
 * `earliest_ns` is a lower bound of all expiries. A sign of life only moves an expiry later, so the
 * bound stays true without looking at the others; it is made exact when it fires. That keeps a
 * message O(1) and the scan rare. */
#ifndef BW_DETECT_PEERS_H
#define BW_DETECT_PEERS_H

#include "core/base/arena.h"
#include "core/detect/detector.h"

struct bw_peer {
    bw_node id;
    uint8_t status;       /* enum bw_member_status */
    uint32_t incarnation; /* how often it had started, as last heard */
    uint64_t seq;         /* newest beat or acknowledged round */
    bw_time heard_ns;     /* last sign of life */
    bw_time expires_ns;   /* the verdict falls then; NEVER when there is nothing to wait for */
    bw_time barred_ns;    /* confirmed dead: beats of that life are not believed before this */
};

struct bw_peers {
    unsigned char *rows;
    size_t stride;
    uint32_t count, cap;
    bw_node self;
    bw_time earliest_ns;
};

/* Lays out and fills the table with rows of `stride` bytes, zeroed but for the id. Returns 0,
 * BW_EINVAL (id 0 or twice, no self) or BW_ELIMIT; with a measuring arena it only measures. */
int bw_peers_init(struct bw_peers *peers, struct bw_arena *arena,
                  const struct bw_detector_config *config, size_t stride);

static inline struct bw_peer *bw_peers_at(const struct bw_peers *peers, uint32_t i)
{
    return (struct bw_peer *)(void *)(peers->rows + i * peers->stride);
}

/* NULL when it is no member, or self. */
struct bw_peer *bw_peers_find(const struct bw_peers *peers, bw_node id);
/* The new zeroed row, or NULL when it was there already, is self, or the table is full. Moves rows.
 */
struct bw_peer *bw_peers_add(struct bw_peers *peers, bw_node id);
/* False when it was not there. Moves rows. */
bool bw_peers_remove(struct bw_peers *peers, bw_node id);

/* Sets when the verdict on `peer` falls and keeps the bound true. */
static inline void bw_peers_expire_at(struct bw_peers *peers, struct bw_peer *peer, bw_time at)
{
    peer->expires_ns = at;
    if (at < peers->earliest_ns)
        peers->earliest_ns = at;
}

#endif
