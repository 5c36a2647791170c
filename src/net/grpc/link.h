/* One outgoing TCP connection on a libuv loop, with or without TLS: bytes in, bytes out.
 *
 * Finding the name, connecting (to each of its addresses in turn) and the TLS handshake share one
 * time limit of the caller's: a hanging resolver, a half-open connection or a silent peer never
 * holds anybody longer. What waits to be written is bounded. No hook is called from within a call.
 */
#ifndef BW_NET_LINK_H
#define BW_NET_LINK_H

#include "net/tls/tls.h"

#include <uv.h>

#define BW_LINK_WHY_MAX 255u
/* Bytes that may wait for a peer that does not read. */
#define BW_LINK_QUEUE_MAX (8u << 20)

struct bw_link;

struct bw_link_options {
    uv_loop_t *loop;
    const char *host; /* copied */
    uint16_t port;
    struct bw_tls_config *tls; /* NULL: in the clear; borrowed for the link's life */
    uint64_t within_ms;        /* until `up` must have come */
    void *context;
    void (*up)(void *context);
    void (*bytes)(void *context, const uint8_t *bytes, size_t length);
    /* Once; nothing comes after it. The link still has to be closed. */
    void (*down)(void *context, const char *why);
};

/* NULL: no memory. */
struct bw_link *bw_link_open(const struct bw_link_options *options);
/* No hook is called any more; the memory goes when the loop has closed the handles. May be called
 * from hooks. */
void bw_link_close(struct bw_link *link);

/* Only while it is up. Returns 0, or BW_EIO / BW_ELIMIT: `down` then follows. */
int bw_link_write(struct bw_link *link, const uint8_t *bytes, size_t length);

/* Its socket while it is up, else -1. It stays the link's: who needs it for longer makes a copy. */
int bw_link_fd(const struct bw_link *link);

#endif
