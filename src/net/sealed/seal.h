/* Sealed frames between peers: encrypted, bound to sender, receiver and cluster, and accepted only
 * once.
 *
 * Model. An owner of a key of the ring is trusted to be the node it claims to be. Everybody else
 * may record, drop, delay, repeat, redirect and forge frames. Frames also get lost and reordered
 * without an attacker.
 *
 * Each process draws a session, 128 random bits. It seals under a key derived from a key of the
 * ring and the session, and every frame has its own counter. A receiver keeps, for each peer, the
 * verified session and a window of the last 1,024 counters. It drops frames that it has received
 * before or that are older than the window.
 *
 * A frame of an unknown session is dropped even if it is authentic: it may be a recording. The
 * receiver sends a CHALLENGE back. Only a running process with that session can send the ANSWER,
 * which verifies the session. So recordings are useless, also after a restart of either side.
 * Challenges need no memory and are limited per second. An answer is valid for 10 to 20 seconds and
 * verifies only one session.
 *
 * Counters have four lanes, each with its own window; the two top bits select the lane:
 *   - datagrams,
 *   - streams (they overtake datagrams and vice versa),
 *   - kept frames,
 *   - frames to any node at an address (`to` is 0), and handshakes.
 * A kept frame is sealed now and sent later, perhaps by another process after our death. A receiver
 * that keeps its memory of us accepts it once, even if it has already verified our next session.
 *
 * Not guaranteed: that a frame within the window is fresh (an attacker may delay it); that lengths,
 * senders and receivers stay secret; anything against an attacker with a key. With the public key
 * that is everybody.
 *
 * No sockets and no clock: bytes in, bytes out, the caller supplies `now`. Memory does not grow
 * after bw_seal_new, and a frame of a verified session allocates nothing. A seal must be used by
 * one thread only. */
#ifndef BW_NET_SEALED_SEAL_H
#define BW_NET_SEALED_SEAL_H

#include "core/base/codec.h"
#include "core/base/types.h"
#include "net/sealed/keyring.h"

#define BW_SEAL_VERSION 1u
#define BW_SEAL_SESSION 16u
/* A seal adds a header and a tag to a payload. */
#define BW_SEAL_HEADER   48u
#define BW_SEAL_TAG      16u
#define BW_SEAL_OVERHEAD (BW_SEAL_HEADER + BW_SEAL_TAG)
/* The longest payload: one message of any kind, plus space for the caller's own prefix. */
#define BW_SEAL_PAYLOAD_MAX (BW_FRAME_MAX + 256u)
#define BW_SEAL_FRAME_MAX   (BW_SEAL_PAYLOAD_MAX + BW_SEAL_OVERHEAD)
/* Kinds 0 to BW_SEAL_KIND_MAX belong to the caller, the next ones to streams, the last ones to the
 * seal. */
#define BW_SEAL_KIND_MAX        239u
#define BW_SEAL_KIND_STREAM_MAX 253u
/* The longest reply: a handshake. */
#define BW_SEAL_REPLY_MAX (BW_SEAL_OVERHEAD + 64u)
/* Counters that may arrive in any order. */
#define BW_SEAL_WINDOW 1024u
/* Anonymous clients with a verified session; the least recently used one is replaced. */
#define BW_SEAL_CLIENTS_MAX 64u
/* Challenges per second, and as many answers. A thousand members that start at once verify each
 * other within seconds, and an attacker who replays recordings provokes little traffic. */
#define BW_SEAL_HANDSHAKES_PER_SECOND 512u

/* Why a frame was dropped: X(constant, name for metrics) */
#define BW_SEAL_DROP_MAP(X)                                                                        \
    X(MALFORMED, "malformed")        /* too short, too long, or an invalid header */               \
    X(VERSION, "version")            /* another version */                                         \
    X(CLUSTER, "wrong_cluster")      /* another cluster */                                         \
    X(NOT_FOR_US, "not_for_us")      /* sealed for another node */                                 \
    X(OURSELVES, "ourselves")        /* claims to be from us: reflected, or a duplicate id */      \
    X(KEY, "unknown_key")            /* names a key that is not in the ring */                     \
    X(FORGED, "bad_key")             /* cannot be decrypted: wrong key, or changed */              \
    X(REPLAY, "replay")              /* received before, or older than the window */               \
    X(UNVERIFIED, "unknown_session") /* authentic, but of an unverified session; challenged */     \
    X(FLOOD, "too_many_strangers")   /* the same, beyond the challenges per second */              \
    X(ANSWER, "bad_answer")          /* an answer to no challenge of ours, or too late */          \
    X(FULL, "too_many_peers")        /* the table of peers is full */

enum bw_seal_drop {
#define X(constant, name) BW_SEAL_DROP_##constant,
    BW_SEAL_DROP_MAP(X)
#undef X
        BW_SEAL_DROPS
};

/* A static string. */
const char *bw_seal_drop_name(unsigned drop);

struct bw_seal_options {
    struct bw_keyring *ring; /* borrowed for the seal's lifetime; may be reloaded at any time */
    uint64_t cluster;
    bw_node self;       /* BW_NODE_NONE: an anonymous client */
    uint32_t peers_max; /* maximum number of known nodes; 1 to BW_ELECTOR_MEMBERS_MAX */
};

struct bw_seal;

/* Returns 0, or BW_EINVAL, BW_ENOMEM, or BW_EIO: no randomness. */
int bw_seal_new(struct bw_seal **out, const struct bw_seal_options *options);
void bw_seal_free(struct bw_seal *seal);

/* Sets the time, on any monotonic clock: refills the limits per second and ages challenges. Call it
 * before opening a batch of frames. */
void bw_seal_clock(struct bw_seal *seal, bw_time now);

/* Seals a frame to `to` (BW_NODE_NONE: any node at the address, or a client). Returns its length,
 * or BW_ELIMIT (payload, `cap` or peers_max too small) or BW_EINVAL (kind). */
int bw_seal_make(struct bw_seal *seal, bw_node to, unsigned kind, const void *payload,
                 size_t length, unsigned char *out, size_t cap);
/* Seals a frame for a connection instead of a datagram. It uses the lane of streams, because its
 * frames may arrive earlier or later than datagrams. */
int bw_seal_make_stream(struct bw_seal *seal, bw_node to, unsigned kind, const void *payload,
                        size_t length, unsigned char *out, size_t cap);
/* Seals a frame that is sent later or never, by us or by a process without a key. Make it again
 * after bw_keyring_reload: a receiver without the old key cannot open it. */
int bw_seal_make_kept(struct bw_seal *seal, bw_node to, unsigned kind, const void *payload,
                      size_t length, unsigned char *out, size_t cap);
/* Starts a handshake: asks `to` to verify us, so that later frames are accepted in both directions.
 * It is optional, because a receiver challenges by itself, but it saves the loss of the first
 * frame. Returns the length, or an error as for bw_seal_make. BW_ELIMIT may also mean that too many
 * handshakes were sent. */
int bw_seal_start_handshake(struct bw_seal *seal, bw_node to, unsigned char *out, size_t cap);

enum bw_seal_result {
    BW_SEAL_FRAME,  /* a frame of the caller's kinds */
    BW_SEAL_REPLY,  /* no frame; send `reply` back to the sender's address */
    BW_SEAL_NOTHING /* a handshake frame was processed; check `met` */
};

struct bw_sealed {
    bw_node from;     /* BW_NODE_NONE: a client; also set with REPLY and NOTHING */
    bool unaddressed; /* sent to any node at our address */
    /* The session of `from` is verified from this frame on. */
    bool met;
    /* ... and replaces an earlier session: that process is gone, or two processes have this id. */
    bool restarted;
    /* REPLY: the sender had not verified us, so what we sent to it before was lost: send it
     * again. */
    bool lost;
    unsigned kind;
    const unsigned char *payload; /* valid until the next call with this seal */
    size_t length;
    size_t reply_length;
    unsigned char reply[BW_SEAL_REPLY_MAX];
    enum bw_seal_drop drop; /* why the frame was dropped */
};

/* Returns enum bw_seal_result, or BW_EDENIED: dropped and counted, with the reason in out->drop.
 * For a frame of an unverified session it returns BW_SEAL_REPLY with a challenge, and counts the
 * frame as dropped too. */
int bw_seal_open(struct bw_seal *seal, const unsigned char *in, size_t length,
                 struct bw_sealed *out);

/* Returns true if this node's session is verified. If not, frames to it are sent, but its answers
 * are challenged first. */
bool bw_seal_knows(const struct bw_seal *seal, bw_node node);
/* Removes a node that has left for good. If it returns, it is verified again. Of the frames
 * received from it earlier, only kept frames could be accepted again. */
void bw_seal_forget(struct bw_seal *seal, bw_node node);
/* Removes every node for which `keeps` returns false. Returns how many were removed. */
uint32_t bw_seal_sweep(struct bw_seal *seal, bool (*keeps)(void *context, bw_node node),
                       void *context);

struct bw_seal_counts {
    uint64_t sealed, opened;
    uint64_t greetings; /* handshake frames sent */
    uint64_t met;       /* sessions verified */
    uint64_t dropped[BW_SEAL_DROPS];
    uint32_t peers; /* nodes known now */
};

void bw_seal_counts(const struct bw_seal *seal, struct bw_seal_counts *out);

/* Derives the cluster's number from its name; 0: out of memory. */
uint64_t bw_seal_cluster(const char *name);

#endif
