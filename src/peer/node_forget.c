/* Forgets network state of nodes that are not members. Sessions, replay windows and addresses are
 * kept in tables of the maximum cluster size. Nodes that left, or had a key but were not accepted,
 * must not fill them permanently; otherwise later nodes could not connect.
 *
 * State is not dropped at once: a leaver announces itself several times, and a joining node sends
 * frames before it is a member. Forgetting too early costs one handshake. */
#include "peer/node_state.h"

#define SWEEP_NS (5 * BW_SEC)

static bool is_needed(void *context, bw_node node)
{
    return peer_counts_on(context, node);
}

void peer_sweep(struct bw_peer *p)
{
    bw_seal_sweep(p->seal, is_needed, p);
    bw_datagram_sweep(p->datagram, is_needed, p);
}

void peer_sweep_tick(struct bw_peer *p, bw_time now)
{
    struct bw_seal_counts counts;
    bw_seal_counts(p->seal, &counts);
    bool full = counts.dropped[BW_SEAL_DROP_FULL] != p->seal_full_drops;
    if (now < p->sweep_at && !full)
        return;
    p->sweep_at = now + SWEEP_NS;
    p->seal_full_drops = counts.dropped[BW_SEAL_DROP_FULL];
    peer_sweep(p);
}
