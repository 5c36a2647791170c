/* Sealed frames over UDP: one socket on a libuv loop, with batched system calls.
 *
 * Datagrams may be lost, duplicated and reordered; the seal drops frames that were changed or
 * received before. Frames sent within one turn of the loop leave together (sendmmsg), before the
 * loop waits or after it has handled incoming frames. Incoming frames are received in batches
 * (recvmmsg), a bounded number per turn. Handshakes of the seal are answered here. Nothing is
 * allocated per datagram.
 *
 * Not guaranteed: delivery. What does not fit into the socket's buffer or our queue is dropped and
 * counted. A caller that needs an answer repeats its request.
 *
 * Hooks are called from the loop, never from within a call to this interface. */
#ifndef BW_NET_SEALED_DATAGRAM_H
#define BW_NET_SEALED_DATAGRAM_H

#include "net/sealed/seal.h"

#include <sys/socket.h>
#include <uv.h>

/* Bytes on the wire: fits into an Ethernet frame over IPv6 and common tunnels, so nothing is
 * fragmented. */
#define BW_DATAGRAM_MAX         1400u
#define BW_DATAGRAM_PAYLOAD_MAX (BW_DATAGRAM_MAX - BW_SEAL_OVERHEAD)
#define BW_DATAGRAM_WHY_MAX     255u

struct bw_datagram;

struct bw_datagram_options {
    uv_loop_t *loop;
    struct bw_seal *seal;          /* borrowed; may be shared with streams */
    const struct sockaddr *listen; /* IPv4 or IPv6; port 0: the kernel chooses */
    uint32_t peers_max;            /* maximum number of known addresses */
    void *context;                 /* of the hooks; `frame` is mandatory */
    /* A frame arrived; the pointers are valid during the call. */
    void (*frame)(void *context, const struct bw_sealed *frame, const struct sockaddr *from);
    /* A node's session was verified; `restarted`: it had another one before. */
    void (*met)(void *context, bw_node node, bool restarted, const struct sockaddr *from);
    /* A node had not verified us until now, so the frames that we sent to it were lost. */
    void (*lost)(void *context, bw_node node, const struct sockaddr *from);
};

/* Returns 0, or BW_EINVAL, BW_EBUSY (the address is in use), BW_EIO or BW_ENOMEM with the reason in
 * why[BW_DATAGRAM_WHY_MAX + 1]. */
int bw_datagram_open(struct bw_datagram **out, const struct bw_datagram_options *options,
                     char *why);
/* Sends what is queued and closes; `closed` (or NULL) is called from the loop. */
void bw_datagram_close(struct bw_datagram *datagram, void (*closed)(void *context));

/* Sets the address of a node. Returns 0, BW_EINVAL or BW_ELIMIT. */
int bw_datagram_set_address(struct bw_datagram *datagram, bw_node node,
                            const struct sockaddr *address);
/* The address of a node; NULL: unknown. It is valid until the next call that changes addresses. */
const struct sockaddr *bw_datagram_address(const struct bw_datagram *datagram, bw_node node);
/* Forgets only the address; the caller also calls bw_seal_forget if needed. */
void bw_datagram_forget(struct bw_datagram *datagram, bw_node node);
/* Forgets the address of every node for which `keeps` returns false. */
void bw_datagram_sweep(struct bw_datagram *datagram, bool (*keeps)(void *context, bw_node node),
                       void *context);

/* Queues a frame to a node. Returns 0, or BW_ENOTMEMBER (its address is unknown), BW_ELIMIT (the
 * payload is too long, or the queue is full, which is counted) or BW_EINVAL. */
int bw_datagram_send(struct bw_datagram *datagram, bw_node to, unsigned kind, const void *payload,
                     size_t length);
/* Queues a frame to this address. `to` may be BW_NODE_NONE: any node at the address, or a client.
 * Returns the same as bw_datagram_send. */
int bw_datagram_send_to(struct bw_datagram *datagram, const struct sockaddr *address, bw_node to,
                        unsigned kind, const void *payload, size_t length);
/* Starts a handshake with a node (bw_seal_start_handshake). */
int bw_datagram_start_handshake(struct bw_datagram *datagram, const struct sockaddr *address,
                                bw_node to);
/* Sends the queued frames now, not at the end of the loop's turn. */
void bw_datagram_flush(struct bw_datagram *datagram);

/* The socket, for a process that sends kept frames after our death. */
int bw_datagram_socket(const struct bw_datagram *datagram);
/* The bound address. */
const struct sockaddr *bw_datagram_bound(const struct bw_datagram *datagram);

struct bw_datagram_counts { /* frames, and bytes of UDP payload */
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    uint64_t batches_in, batches_out; /* system calls that received or sent at least one frame */
    uint64_t truncated;               /* received datagrams longer than any valid frame */
    uint64_t queue_full;              /* frames dropped because our queue was full */
    uint64_t not_sent;                /* frames that the kernel did not send */
};

void bw_datagram_counts(const struct bw_datagram *datagram, struct bw_datagram_counts *out);

/* Length of an IPv4 or IPv6 address; 0: another family. */
socklen_t bw_sockaddr_length(const struct sockaddr *address);
/* Translates an errno of listening: BW_EBUSY (in use: may pass), BW_EINVAL (not an address of this
 * host, or no permission: permanent), BW_EIO. */
int bw_listen_error(int code);

#endif
