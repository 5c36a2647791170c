/* Frames between peers, sealed: encrypted, bound to who speaks to whom in which cluster, and good
 * for one hearing.
 *
 * Model: who has a key of the ring is trusted to be the node it says it is; everybody else may
 * record, drop, delay, repeat, redirect and make up whatever they like. Frames get lost and
 * reordered on their own anyway.
 *
 * Each process draws a session, 128 random bits, and seals under a key derived from a key of the
 * ring and the session; every frame has its own counter in it. A receiver keeps, for each peer, the
 * session it believes in and a window of the last 1,024 counters: what it has seen, or what is
 * older than the window, is dropped.
 *
 * A session that is not known is not believed, however well the frame is sealed: it may be a
 * recording. A CHALLENGE goes back; the frame is lost. Only a process that still lives and has the
 * session can send the ANSWER. So recordings are worth nothing, also after a restart of either
 * side. Challenges need no memory and are limited per second; an answer is good for some 10 to 20
 * seconds, and for one belief only.
 *
 * Counters have four lanes, told apart by their two top bits, each with its own window: datagrams,
 * streams (two ways, two orders), kept frames, and frames to whoever is at an address (`to` is 0)
 * with the hand-shakes. A kept frame is sealed now and sent later, perhaps by somebody else when we
 * are dead; it is good once (for a process that has heard it and forgets neither itself nor us),
 * and still good when our next session is already believed.
 *
 * Not promised: that a frame within the window is fresh (an attacker may hold it back), that
 * lengths and who speaks to whom stay secret, or anything at all against somebody with a key. With
 * the public key that is everybody.
 *
 * No sockets and no clock: bytes in, bytes out, `now` from the caller. Nothing grows after
 * bw_seal_new, and a frame of a session that is believed allocates nothing at all. One seal is used
 * by one thread. */
#ifndef BW_NET_SEAL_H
#define BW_NET_SEAL_H

#include "core/base/codec.h"
#include "core/base/types.h"
#include "net/sealed/keyring.h"

#define BW_SEAL_VERSION 1u
#define BW_SEAL_SESSION 16u
/* What a seal adds to a payload: the header and the tag. */
#define BW_SEAL_HEADER   48u
#define BW_SEAL_TAG      16u
#define BW_SEAL_OVERHEAD (BW_SEAL_HEADER + BW_SEAL_TAG)
/* The longest payload: one message of any kind with room for what the caller puts before it. */
#define BW_SEAL_PAYLOAD_MAX (BW_FRAME_MAX + 256u)
#define BW_SEAL_FRAME_MAX   (BW_SEAL_PAYLOAD_MAX + BW_SEAL_OVERHEAD)
/* The caller's kinds are 0 to here; then come the stream's own, and the seal's. */
#define BW_SEAL_KIND_MAX        239u
#define BW_SEAL_KIND_STREAM_MAX 253u
/* The longest reply: a hand-shake. */
#define BW_SEAL_REPLY_MAX (BW_SEAL_OVERHEAD + 64u)
/* Counters that may come in any order. */
#define BW_SEAL_WINDOW 1024u
/* Anonymous clients whose session is believed; the one heard longest ago gives way. */
#define BW_SEAL_CLIENTS_MAX 64u
/* Challenges, and as many answers, that go out in a second: a thousand members that start at once
 * meet within seconds, and whoever replays recordings gets little traffic out of us. */
#define BW_SEAL_GREETINGS_PER_SECOND 512u

/* Why a frame was dropped: X(constant, name for metrics) */
#define BW_SEAL_DROP_MAP(X)                                                                        \
    X(MALFORMED, "malformed")      /* too short, too long, or an impossible header */              \
    X(VERSION, "version")          /* of another version */                                        \
    X(CLUSTER, "wrong_cluster")    /* of another cluster */                                        \
    X(NOT_FOR_US, "not_for_us")    /* sealed for another node */                                   \
    X(OURSELVES, "ourselves")      /* says it is from us: reflected, or a second node of our id */ \
    X(KEY, "unknown_key")          /* names a key that is not in the ring */                       \
    X(FORGED, "bad_key")           /* does not open: another key, or changed on the way */         \
    X(REPLAY, "replay")            /* heard before, or older than the window */                    \
    X(STRANGER, "unknown_session") /* well sealed, but of a session not believed; challenged */    \
    X(FLOOD, "too_many_strangers") /* the same, and the second's challenges are used up */         \
    X(ANSWER, "bad_answer")        /* an answer to nothing we asked, or too late */                \
    X(FULL, "too_many_peers")      /* no room for another peer */

enum bw_seal_drop {
#define X(constant, name) BW_SEAL_DROP_##constant,
    BW_SEAL_DROP_MAP(X)
#undef X
        BW_SEAL_DROPS
};

/* A static string. */
const char *bw_seal_drop_name(unsigned drop);

struct bw_seal_options {
    struct bw_keyring *ring; /* borrowed for the seal's life; may be reloaded at any time */
    uint64_t cluster;
    bw_node self;       /* BW_NODE_NONE: an anonymous client */
    uint32_t peers_max; /* nodes that can be known at a time; 1 to BW_ELECTOR_MEMBERS_MAX */
};

struct bw_seal;

/* Returns 0, or BW_EINVAL, BW_ENOMEM, or BW_EIO: no randomness. */
int bw_seal_new(struct bw_seal **out, const struct bw_seal_options *options);
void bw_seal_free(struct bw_seal *seal);

/* The time, on any clock that only goes forward: refills what is limited per second and lets
 * challenges age. Call it before a batch of frames is opened. */
void bw_seal_clock(struct bw_seal *seal, bw_time now);

/* A frame to `to` (BW_NODE_NONE: to whoever is at the address, or to a client). Returns its bytes,
 * or BW_ELIMIT (payload, `cap` or peers_max too small) or BW_EINVAL (kind). */
int bw_seal_make(struct bw_seal *seal, bw_node to, unsigned kind, const void *payload,
                 size_t length, unsigned char *out, size_t cap);
/* The same for a connection, whose frames may arrive earlier or later than datagrams. */
int bw_seal_make_stream(struct bw_seal *seal, bw_node to, unsigned kind, const void *payload,
                        size_t length, unsigned char *out, size_t cap);
/* A frame to keep, sent later or never, by us or by somebody without a key. Make it anew after
 * bw_keyring_reload: who took the old key away cannot open it. */
int bw_seal_make_kept(struct bw_seal *seal, bw_node to, unsigned kind, const void *payload,
                      size_t length, unsigned char *out, size_t cap);
/* The first frame of a meeting: asks `to` to show that it lives, so that what is said afterwards
 * is heard on both sides. Not needed (whoever is spoken to asks by itself), but saves the loss of
 * the first frame. Returns bytes, or an error as make. BW_ELIMIT: also when too many went out. */
int bw_seal_greet(struct bw_seal *seal, bw_node to, unsigned char *out, size_t cap);

enum bw_seal_result {
    BW_SEAL_FRAME,  /* a frame of the caller's kinds */
    BW_SEAL_REPLY,  /* no frame; `reply` goes back to where these bytes came from */
    BW_SEAL_NOTHING /* a hand-shake is done; look at `met` */
};

struct bw_sealed {
    bw_node from;     /* BW_NODE_NONE: a client; also set with REPLY and NOTHING */
    bool unaddressed; /* sent to whoever is at our address */
    /* The session of `from` is believed from this frame on. */
    bool met;
    /* ... and an earlier one was: that process is gone, or another has the same id. */
    bool restarted;
    /* REPLY: it had not believed us, so what was sent to it before was lost: say it again. */
    bool lost;
    unsigned kind;
    const unsigned char *payload; /* until the next call of any function of this seal */
    size_t length;
    size_t reply_length;
    unsigned char reply[BW_SEAL_REPLY_MAX];
    enum bw_seal_drop drop; /* when a frame was dropped: why */
};

/* Returns enum bw_seal_result, or BW_EDENIED: dropped and counted, out->drop says why. A dropped
 * stranger still has a reply: then BW_SEAL_REPLY is returned, and it is counted all the same. */
int bw_seal_open(struct bw_seal *seal, const unsigned char *in, size_t length,
                 struct bw_sealed *out);

/* Does this node's session stand? False: what is sent to it goes, but its answers will not be
 * believed at first. */
bool bw_seal_knows(const struct bw_seal *seal, bw_node node);
/* Makes room: it has left for good. Should it come back, it is met anew; of what was heard from it
 * only kept frames could be heard again. */
void bw_seal_forget(struct bw_seal *seal, bw_node node);
/* The same for every node of which `keeps` says no. Returns how many. */
uint32_t bw_seal_sweep(struct bw_seal *seal, bool (*keeps)(void *context, bw_node node),
                       void *context);

struct bw_seal_counts {
    uint64_t sealed, opened;
    uint64_t greetings; /* hand-shake frames that went out */
    uint64_t met;       /* sessions believed */
    uint64_t dropped[BW_SEAL_DROPS];
    uint32_t peers; /* nodes known now */
};

void bw_seal_counts(const struct bw_seal *seal, struct bw_seal_counts *out);

/* The cluster's number from its name. */
uint64_t bw_seal_cluster(const char *name);

#endif
