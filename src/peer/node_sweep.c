/* What the network remembers of those who are no members: sessions, replay windows and addresses
 * lie in tables as large as the cluster may be. Who left, or had a key and was not taken in, must
 * not fill them for good, or those who come later could not be heard.
 *
 * Not at once: a node that leaves says so several times, and one that is being taken in has spoken
 * before it is a member. Being forgotten too early costs one hand-shake. */
#include "peer/node_state.h"

#define SWEEP_NS (5 * BW_SEC)

static bool keeps(void *context, bw_node node)
{
    return peer_counts_on(context, node);
}

void peer_sweep(struct bw_peer *p)
{
    bw_seal_sweep(p->seal, keeps, p);
    bw_datagram_sweep(p->datagram, keeps, p);
}

void peer_sweep_tick(struct bw_peer *p, bw_time now)
{
    struct bw_seal_counts counts;
    bw_seal_counts(p->seal, &counts);
    bool full = counts.dropped[BW_SEAL_DROP_FULL] != p->turned_away;
    if (now < p->sweep_at && !full)
        return;
    p->sweep_at = now + SWEEP_NS;
    p->turned_away = counts.dropped[BW_SEAL_DROP_FULL];
    peer_sweep(p);
}
