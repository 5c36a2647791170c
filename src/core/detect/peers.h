/* The members that a detector watches: sorted by id, without self. Each row begins with the fields
 * that all detectors need.
 *
 * `earliest_ns` is a lower bound of all expiries. A sign of life only moves an expiry later, so the
 * bound stays valid without a scan. The detector scans all rows only when the bound fires, and
 * makes it exact then. So a message costs O(1) and scans are rare. */
#ifndef BW_CORE_DETECT_PEERS_H
#define BW_CORE_DETECT_PEERS_H

#include "core/base/arena.h"
#include "core/detect/detector.h"

struct bw_detector_peer {
    bw_node id;
    uint8_t status;       /* enum bw_member_status */
    uint32_t incarnation; /* its start count, as last received */
    uint64_t seq;         /* newest beat or acknowledged round */
    bw_time received_ns;  /* last sign of life */
    bw_time expires_ns;   /* when to pass a verdict; NEVER: nothing to wait for */
    /* confirmed dead: before this time, beats of the dead incarnation do not count */
    bw_time barred_ns;
    /* while suspected: the newest beat of an earlier incarnation, and how many came in order */
    uint64_t earlier_seq;
    uint32_t earlier_count;
};

struct bw_peers {
    unsigned char *rows;
    size_t stride;
    uint32_t count, cap;
    bw_node self;
    bw_time earliest_ns;
};

/* Lays out and fills the table. Rows have `stride` bytes and are zeroed except for the id and
 * expires_ns. Returns 0, BW_EINVAL (an id is 0 or a duplicate, or self is missing) or BW_ELIMIT.
 * With a measuring arena it only measures. */
int bw_peers_init(struct bw_peers *peers, struct bw_arena *arena,
                  const struct bw_detector_config *config, size_t stride);

static inline struct bw_detector_peer *bw_peers_at(const struct bw_peers *peers, uint32_t i)
{
    return (struct bw_detector_peer *)(void *)(peers->rows + i * peers->stride);
}

/* Returns NULL for self and for an id that is not a member. */
struct bw_detector_peer *bw_peers_find(const struct bw_peers *peers, bw_node id);
/* Returns the new zeroed row, or NULL if the id is known, is self, or the table is full. Moves
 * rows. */
struct bw_detector_peer *bw_peers_add(struct bw_peers *peers, bw_node id);
/* Returns false if the id was unknown. Moves rows. */
bool bw_peers_remove(struct bw_peers *peers, bw_node id);

/* Sets the time of the verdict on `peer` and keeps the bound valid. */
static inline void bw_peers_expire_at(struct bw_peers *peers, struct bw_detector_peer *peer,
                                      bw_time at)
{
    peer->expires_ns = at;
    if (at < peers->earliest_ns)
        peers->earliest_ns = at;
}

#endif
