/* Messages that a hand-shake may swallow.
 *
 * Whoever hears us for the first time drops the frame and asks whether we live (seal.h). In a large
 * cluster two members speak for the first time long after both have joined, and then a probe must
 * not stay without an answer: nor those of helpers, who may be strangers to it as well. So the last
 * few messages to nodes that we have not met are kept for a moment and said once more when we are
 * asked. A message that is heard twice all the same does no harm: networks double them too. */
#include "peer/node_state.h"

#include <string.h>

/* Older than this it would only mislead. */
#define KEPT_NS (500 * BW_MS)

void peer_keep(struct bw_peer *p, bw_node to, const unsigned char *bytes, size_t length)
{
    struct peer_kept *kept = &p->kept[p->kept_next++ % PEER_KEPT];
    if (length > sizeof kept->bytes)
        return;
    kept->to = to;
    kept->at = peer_now();
    kept->length = length;
    memcpy(kept->bytes, bytes, length);
}

bool peer_keep_again(struct bw_peer *p, bw_node to)
{
    bool any = false;
    bw_time now = peer_now();
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
