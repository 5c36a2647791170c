/* Sealed frames over TCP, and the hint that a closed connection gives.
 *
 * Streams carry what does not fit into a datagram. They also show within a millisecond that a
 * process has died, because the kernel closes its connections. Each node keeps a connection to its
 * leader, not to all nodes. An abrupt close proves nothing; it is a hint that starts an election
 * early. A side that closes cleanly (idle, not needed any more) announces it first; that is not a
 * hint.
 *
 *   on the wire   4 length of the frame, the frame (seal.c); inside TLS if there are credentials
 *
 * With credentials both sides present certificates: the dialled side for its host, the dialling
 * side one that is valid for a server. The frames are sealed in addition.
 *
 * Bounds: connections, unsent bytes of each, the length of a frame. A connection that is not
 * identified within five seconds is closed, also while it is being established.
 *
 * Hooks are called from the loop, never from within a call to this interface. */
#ifndef BW_NET_SEALED_STREAM_H
#define BW_NET_SEALED_STREAM_H

#include "net/sealed/seal.h"

#include <sys/socket.h>
#include <uv.h>

#define BW_STREAM_WHY_MAX 255u
/* Unsent bytes of one connection: a dozen of the longest frames. */
#define BW_STREAM_QUEUE_MAX (1u << 20)
/* A connection that was dialled to send something closes after being idle for this time. */
#define BW_STREAM_IDLE_MS 30000u

struct bw_stream;
struct bw_credentials;

struct bw_stream_options {
    uv_loop_t *loop;
    struct bw_seal *seal;               /* borrowed; may be shared with datagrams */
    const struct sockaddr *listen;      /* NULL: only dial */
    struct bw_credentials *credentials; /* NULL: sealed frames without TLS */
    uint32_t links_max;                 /* maximum number of connections, both directions */
    void *context;                      /* of the hooks; `frame` is mandatory */
    /* A frame arrived; pointers are valid during the call. `link` identifies the connection for
     * bw_stream_answer. */
    void (*frame)(void *context, const struct bw_sealed *frame, uint64_t link);
    /* A node's session was verified; `restarted`: it had another one before. */
    void (*met)(void *context, bw_node node, bool restarted);
    /* There is a connection with this node, in either direction, and the node is identified. */
    void (*up)(void *context, bw_node node);
    /* The last connection with this node closed abruptly: the hint. */
    void (*down)(void *context, bw_node node);
    /* A link made by bw_stream_call is up, or failed (then `why` is the reason). */
    void (*called)(void *context, uint64_t link, const char *why);
};

/* Returns 0, or BW_EINVAL, BW_EBUSY (the address is in use), BW_EIO or BW_ENOMEM with the reason in
 * why[BW_STREAM_WHY_MAX + 1]. */
int bw_stream_open(struct bw_stream **out, const struct bw_stream_options *options, char *why);
/* Closes all connections cleanly; `closed` (or NULL) is called from the loop. */
void bw_stream_close(struct bw_stream *stream, void (*closed)(void *context));

/* Keeps a connection to this node from now on and reconnects whenever it breaks. Another call moves
 * it to another address. `host` is the name in its certificate (NULL: the numeric address). Returns
 * 0, BW_ELIMIT or BW_ENOMEM. */
int bw_stream_keep(struct bw_stream *stream, bw_node node, const struct sockaddr *address,
                   const char *host);
/* Stops keeping the connection and closes it cleanly. */
void bw_stream_stop_keeping(struct bw_stream *stream, bw_node node);

/* Sends on any connection with the node. If there is none, dials `address` and queues the frame.
 * Returns 0, or BW_ELIMIT (too long, queue full, too many links), BW_EINVAL, BW_ENOMEM. */
int bw_stream_send(struct bw_stream *stream, bw_node to, const struct sockaddr *address,
                   unsigned kind, const void *payload, size_t length);

/* For a client: opens one connection to any node at the address; `called` follows. */
int bw_stream_call(struct bw_stream *stream, const struct sockaddr *address, const char *host,
                   uint64_t *link);
/* Sends on this very connection. BW_ENOTMEMBER: it is gone. */
int bw_stream_answer(struct bw_stream *stream, uint64_t link, unsigned kind, const void *payload,
                     size_t length);
void bw_stream_close_link(struct bw_stream *stream, uint64_t link);

bool bw_stream_connected(const struct bw_stream *stream, bw_node node);

struct bw_stream_counts {
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    uint64_t accepted, dialled, hints;
    uint64_t refused; /* closed by us: too many, too slow, invalid frames, TLS */
    uint64_t queue_full;
    uint32_t links; /* current number */
};

void bw_stream_counts(const struct bw_stream *stream, struct bw_stream_counts *out);

#endif
