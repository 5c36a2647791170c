/* Sealed frames by UDP: one socket on a libuv loop, many at a time in and out.
 *
 * Datagrams are lost, doubled and reordered; the seal drops what was changed or heard before. What
 * is sent within one turn of the loop leaves together (sendmmsg), before the loop waits or after it
 * has handled what came; what came is taken in batches (recvmmsg), a bounded number of them per
 * turn. Hand-shakes of the seal are answered here. Nothing is allocated per datagram. What does not
 * fit the socket's buffer or our queue is dropped and counted: who needs an answer asks again.
 *
 * Hooks are called from the loop, never from within a call. */
#ifndef BW_NET_DATAGRAM_H
#define BW_NET_DATAGRAM_H

#include "net/sealed/seal.h"

#include <sys/socket.h>
#include <uv.h>

/* Bytes on the wire: fits an Ethernet frame over IPv6 and the usual tunnels, so nothing is
 * fragmented. */
#define BW_DATAGRAM_MAX         1400u
#define BW_DATAGRAM_PAYLOAD_MAX (BW_DATAGRAM_MAX - BW_SEAL_OVERHEAD)
#define BW_DATAGRAM_WHY_MAX     255u

struct bw_datagram;

struct bw_datagram_options {
    uv_loop_t *loop;
    struct bw_seal *seal;          /* borrowed; may be shared with streams */
    const struct sockaddr *listen; /* IPv4 or IPv6; port 0: the kernel chooses */
    uint32_t peers_max;            /* addresses that can be known at a time */
    void *context;                 /* of the hooks; `frame` is a must */
    /* A frame; pointers last for the call. */
    void (*frame)(void *context, const struct bw_sealed *frame, const struct sockaddr *from);
    /* A node's session is believed; `restarted`: it had another one before. */
    void (*met)(void *context, bw_node node, bool restarted, const struct sockaddr *from);
    /* A node did not believe us until now: what was sent to it was lost. */
    void (*lost)(void *context, bw_node node, const struct sockaddr *from);
};

/* Returns 0, or BW_EINVAL, BW_EBUSY (the address is in use), BW_EIO or BW_ENOMEM with a line in
 * why[BW_DATAGRAM_WHY_MAX + 1]. */
int bw_datagram_open(struct bw_datagram **out, const struct bw_datagram_options *options,
                     char *why);
/* Sends what waits and lets go; `closed` (or NULL) is called from the loop. */
void bw_datagram_close(struct bw_datagram *datagram, void (*closed)(void *context));

/* Where a node is. Returns 0, BW_EINVAL or BW_ELIMIT. */
int bw_datagram_set_address(struct bw_datagram *datagram, bw_node node,
                            const struct sockaddr *address);
/* NULL: not known. Until the next call that changes addresses. */
const struct sockaddr *bw_datagram_address(const struct bw_datagram *datagram, bw_node node);
/* The address alone; the seal's memory of it is the caller's business (bw_seal_forget). */
void bw_datagram_forget(struct bw_datagram *datagram, bw_node node);
/* The same for every node of which `keeps` says no. */
void bw_datagram_sweep(struct bw_datagram *datagram, bool (*keeps)(void *context, bw_node node),
                       void *context);

/* Returns 0, or BW_ENOTMEMBER (no address), BW_ELIMIT (too long, or too much waits: counted) or
 * BW_EINVAL. */
int bw_datagram_send(struct bw_datagram *datagram, bw_node to, unsigned kind, const void *payload,
                     size_t length);
/* The same to an address; `to` may be BW_NODE_NONE: whoever is there, or a client. */
int bw_datagram_send_to(struct bw_datagram *datagram, const struct sockaddr *address, bw_node to,
                        unsigned kind, const void *payload, size_t length);
/* Asks a node to show itself (bw_seal_greet). */
int bw_datagram_greet(struct bw_datagram *datagram, const struct sockaddr *address, bw_node to);
/* What waits goes now, not at the end of the turn. */
void bw_datagram_flush(struct bw_datagram *datagram);

/* The socket, for who sends kept frames when we are gone. */
int bw_datagram_socket(const struct bw_datagram *datagram);
/* Where it is bound. */
const struct sockaddr *bw_datagram_bound(const struct bw_datagram *datagram);

struct bw_datagram_counts { /* frames, and bytes as UDP has them */
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    uint64_t batches_in, batches_out; /* system calls that moved something */
    uint64_t truncated;               /* longer than any of ours */
    uint64_t queue_full, not_sent;    /* dropped: by us, by the kernel */
};

void bw_datagram_counts(const struct bw_datagram *datagram, struct bw_datagram_counts *out);

/* Bytes of an IPv4 or IPv6 address; 0: something else. */
socklen_t bw_sockaddr_length(const struct sockaddr *address);
/* What an errno of listening means: BW_EBUSY (in use: may pass), BW_EINVAL (not an address of this
 * host, or not ours to take: lasts), BW_EIO. */
int bw_listen_error(int code);

#endif
