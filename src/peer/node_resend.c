/* Keeps messages that a handshake may drop.
 *
 * A node that receives our first frame drops it and asks whether we are alive (seal.h). In a large
 * cluster, two members may exchange their first frame long after both have joined. A probe must not
 * stay unanswered then, nor the probes of helpers, which may not have met it either. So the last
 * few messages to nodes that we have not met are kept briefly, and sent once more after the
 * handshake. A duplicate is harmless: networks duplicate messages, too. */
#include "os/clock.h"
#include "peer/node_state.h"

#include <string.h>

/* Older messages would only mislead the receiver. */
#define KEPT_NS (500 * BW_MS)

void peer_keep(struct bw_peer *p, bw_node to, const unsigned char *bytes, size_t length)
{
    struct peer_kept *kept = &p->kept[p->kept_next++ % PEER_KEPT];
    if (length > sizeof kept->bytes)
        return;
    kept->to = to;
    kept->at = bw_clock_boot();
    kept->length = length;
    memcpy(kept->bytes, bytes, length);
}

bool peer_keep_again(struct bw_peer *p, bw_node to)
{
    bool any = false;
    bw_time now = bw_clock_boot();
    for (uint32_t i = 0; i < PEER_KEPT; i++) {
        struct peer_kept *kept = &p->kept[(p->kept_next + i) % PEER_KEPT];
        if (kept->to != to || to == BW_NODE_NONE)
            continue;
        kept->to = BW_NODE_NONE;
        if (p->dead || now - kept->at > KEPT_NS)
            continue;
        any = true;
        peer_send_bytes(p, to, kept->bytes, kept->length);
    }
    return any;
}
