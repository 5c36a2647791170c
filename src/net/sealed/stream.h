/* Sealed frames by TCP, and the hint that a closed connection is.
 *
 * For what does not fit a datagram, and to learn within a millisecond that a process has gone: the
 * kernel closes its connections. Each node keeps a connection to the one it follows, not to all. A
 * connection that closes without a word proves nothing; it is a hint that starts an election early.
 * Who closes in good order (idle, not needed any more) says so first, and that is no hint.
 *
 *   on the wire   4 length of the frame, the frame (seal.c); inside TLS where there are credentials
 *
 * With credentials both sides show certificates: for the host that was dialled, and, of who dials,
 * one that a server may show. The frames are sealed all the same.
 *
 * Bounds: connections, bytes that wait to be sent on each, the length of a frame; who connects and
 * says nothing believable within five seconds is hung up on; one that waits for an answer to its
 * connect as well.
 *
 * Hooks are called from the loop, never from within a call. */
#ifndef BW_NET_STREAM_H
#define BW_NET_STREAM_H

#include "net/sealed/seal.h"

#include <sys/socket.h>
#include <uv.h>

#define BW_STREAM_WHY_MAX 255u
/* Bytes that may wait on one connection: a dozen of the longest frames. */
#define BW_STREAM_QUEUE_MAX (1u << 20)
/* A connection that was dialled to send something closes when it was not needed for so long. */
#define BW_STREAM_IDLE_MS 30000u

struct bw_stream;
struct bw_credentials;

struct bw_stream_options {
    uv_loop_t *loop;
    struct bw_seal *seal;               /* borrowed; may be shared with datagrams */
    const struct sockaddr *listen;      /* NULL: we only dial */
    struct bw_credentials *credentials; /* NULL: sealed frames alone */
    uint32_t links_max;                 /* connections at a time, both ways */
    void *context;                      /* of the hooks; `frame` is a must */
    /* A frame; pointers last for the call. `link` names the connection for bw_stream_answer. */
    void (*frame)(void *context, const struct bw_sealed *frame, uint64_t link);
    /* A node's session is believed; `restarted`: it had another one before. */
    void (*met)(void *context, bw_node node, bool restarted);
    /* There is a connection to this node, either way, and it has shown that it is this node. */
    void (*up)(void *context, bw_node node);
    /* The last connection with this node closed without a word: the hint. */
    void (*down)(void *context, bw_node node);
    /* A link that bw_stream_call made is up, or will never be (then why is a line). */
    void (*called)(void *context, uint64_t link, const char *why);
};

/* Returns 0, or BW_EINVAL, BW_EBUSY (the address is in use), BW_EIO or BW_ENOMEM with a line in
 * why[BW_STREAM_WHY_MAX + 1]. */
int bw_stream_open(struct bw_stream **out, const struct bw_stream_options *options, char *why);
/* Says that it closes, and lets go; `closed` (or NULL) is called from the loop. */
void bw_stream_close(struct bw_stream *stream, void (*closed)(void *context));

/* Keeps a connection to this node from now on, made anew whenever it breaks; calling again moves it
 * to another address. `host` is the name its certificate must have (NULL: the address in digits).
 * Returns 0, BW_ELIMIT or BW_ENOMEM. */
int bw_stream_keep(struct bw_stream *stream, bw_node node, const struct sockaddr *address,
                   const char *host);
/* Not needed any more: closes in good order. */
void bw_stream_let_go(struct bw_stream *stream, bw_node node);

/* On any connection with the node; if there is none, one is made to `address` and the frame waits
 * for it. Returns 0, or BW_ELIMIT (too long, too much waits, too many links), BW_EINVAL, BW_ENOMEM.
 */
int bw_stream_send(struct bw_stream *stream, bw_node to, const struct sockaddr *address,
                   unsigned kind, const void *payload, size_t length);

/* One connection to whoever is at the address, for a client; `called` follows. */
int bw_stream_call(struct bw_stream *stream, const struct sockaddr *address, const char *host,
                   uint64_t *link);
/* On this very connection. BW_ENOTMEMBER: it is gone. */
int bw_stream_answer(struct bw_stream *stream, uint64_t link, unsigned kind, const void *payload,
                     size_t length);
void bw_stream_hang_up(struct bw_stream *stream, uint64_t link);

bool bw_stream_connected(const struct bw_stream *stream, bw_node node);

struct bw_stream_counts {
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    uint64_t accepted, dialled, hints;
    uint64_t refused; /* connections hung up on: too many, too slow, no frames of ours, TLS */
    uint64_t queue_full;
    uint32_t links; /* now */
};

void bw_stream_counts(const struct bw_stream *stream, struct bw_stream_counts *out);

#endif
