/* One outgoing TCP connection on a libuv loop, with or without TLS: bytes in, bytes out.
 *
 * Name resolution, connecting (to each address in turn) and the TLS handshake share one time limit.
 * So a hanging resolver, a half-open connection or a silent peer never delays the caller longer.
 * Unsent bytes are bounded. No hook is called from within a call to this interface. */
#ifndef BW_NET_GRPC_LINK_H
#define BW_NET_GRPC_LINK_H

#include "net/tls/tls.h"

#include <uv.h>

#define BW_LINK_WHY_MAX 255u
/* Maximum number of bytes queued for a peer that does not read. */
#define BW_LINK_QUEUE_MAX (8u << 20)

struct bw_link;

struct bw_link_options {
    uv_loop_t *loop;
    const char *host; /* copied */
    uint16_t port;
    struct bw_tls_config *tls; /* NULL: no TLS; borrowed for the lifetime of the link */
    uint64_t within_ms;        /* time limit until the peer accepts the connection */
    uint64_t setup_ms;         /* time limit from then on until `up` */
    void *context;
    void (*up)(void *context);
    void (*bytes)(void *context, const uint8_t *bytes, size_t length);
    /* Called once, as the last hook. The link still has to be closed. */
    void (*down)(void *context, const char *why);
};

/* Starts to connect. Returns NULL without memory. */
struct bw_link *bw_link_open(const struct bw_link_options *options);
/* Closes the link. No hook is called afterwards, and a hook may call this function. The memory is
 * freed when the loop has closed the handles. */
void bw_link_close(struct bw_link *link);

/* Queues bytes for sending. Call it only between `up` and `down`. Returns 0, or BW_EIO or
 * BW_ELIMIT; after an error the loop calls `down`. */
int bw_link_write(struct bw_link *link, const uint8_t *bytes, size_t length);

/* The link's socket while it is up, else -1. The link owns it. A caller that needs the socket for
 * longer than the link exists duplicates it. */
int bw_link_fd(const struct bw_link *link);

#endif
