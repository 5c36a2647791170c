/* Internal state of a seal, shared by its files. */
#ifndef BW_NET_SEALED_STATE_H
#define BW_NET_SEALED_STATE_H

#include "net/sealed/node_index.h"
#include "net/sealed/replay.h"
#include "net/sealed/seal.h"

#include <openssl/evp.h>
#include <openssl/kdf.h>

/* Two top bits of a counter. */
enum lane { LANE_DATAGRAM, LANE_STREAM, LANE_KEPT, LANE_OPEN, LANES };

#define LANE_SHIFT   62u
#define COUNTER_MASK ((UINT64_C(1) << LANE_SHIFT) - 1)
#define SENT_LANES   2u /* counted per receiver: DATAGRAM, STREAM */

#define KIND_CHALLENGE 254u
#define KIND_ANSWER    255u

#define NONCE_BYTES  16u
#define SECRET_BYTES 32u
/* Answers to challenges of the current and of the previous time span are accepted. */
#define EPOCH_NS (10 * BW_SEC)

struct header {
    unsigned version, kind, reserved;
    uint32_t key_id;
    uint64_t cluster;
    bw_node from, to;
    unsigned char session[BW_SEAL_SESSION];
    enum lane lane;
    uint64_t counter; /* without the lane */
};

struct session { /* one process of a peer or client */
    bool verified;
    unsigned char id[BW_SEAL_SESSION];
    uint32_t key_id; /* the ring's key that `key` is derived from */
    unsigned char key[BW_KEY_BYTES];
    struct bw_replay window[LANES];
};

struct peer {
    uint32_t generation;        /* sessions verified so far: an answer is valid for one */
    uint64_t sent[SENT_LANES];  /* next counters to it */
    struct session now, before; /* before: its kept frames are still accepted */
};

struct client {
    struct session now;
    uint64_t last_used; /* order of last frames, for replacement */
};

struct budget { /* a limit per second */
    uint32_t left;
    bw_time filled;
};

struct bw_seal {
    struct bw_seal_options options;
    unsigned char session[BW_SEAL_SESSION];
    unsigned char secret[SECRET_BYTES]; /* key of the challenge nonces */
    EVP_CIPHER_CTX *sealing, *opening;
    EVP_KDF_CTX *deriving;
    bool has_key; /* `sealing` is set up for the ring's generation */
    uint32_t ring_generation, key_id;

    uint64_t sent_kept, sent_open;   /* next counters of these lanes */
    uint64_t sent_floor[SENT_LANES]; /* first counters of new nodes, above all removed ones */

    struct bw_node_index index;
    struct peer *peers; /* peers_max of them */
    struct client clients[BW_SEAL_CLIENTS_MAX];
    uint32_t client_generation; /* replaced client sessions */
    uint64_t last_used;
    uint64_t era; /* number of removed nodes */

    bw_time now;
    uint64_t epoch;
    struct budget challenges, answers;
    struct bw_seal_counts counts;
    unsigned char clear[BW_SEAL_PAYLOAD_MAX];
};

/* ---- crypt.c ---- */

/* Derives a session's key from a key of the ring. Returns false if OpenSSL fails. */
bool seal_derive(struct bw_seal *seal, const unsigned char *key, const unsigned char *session,
                 unsigned char *out);
/* Writes header and encrypted payload to `out`. Returns the length or an error. */
int seal_write(struct bw_seal *seal, const struct header *header, const void *payload,
               size_t length, unsigned char *out, size_t cap);
void seal_read_header(struct header *out, const unsigned char *in);
/* Decrypts the payload to seal->clear. Returns false if it was changed or the key is wrong. */
bool seal_unlock(struct bw_seal *seal, const unsigned char *key, const unsigned char *in,
                 size_t length);

/* ---- peers.c ---- */

struct peer *seal_find(const struct bw_seal *seal, bw_node node);
/* NULL: too many nodes. */
struct peer *seal_find_or_add(struct bw_seal *seal, bw_node node);
void seal_remove(struct bw_seal *seal, struct peer *peer);
/* The session that this header names, if it is verified for this lane; else NULL. */
struct session *seal_session(struct bw_seal *seal, const struct header *header);
/* The number of sessions verified before; it binds an answer to its challenge. */
uint32_t seal_generation(const struct bw_seal *seal, bw_node node);
/* Marks the session as verified. Returns false if there are too many peers. */
bool seal_mark_verified(struct bw_seal *seal, const struct header *header, const unsigned char *key,
                        const uint64_t sent[SENT_LANES], bool *restarted);

/* ---- handshake.c ---- */

/* Challenges an unverified sender with out->reply. */
int seal_challenge(struct bw_seal *seal, const struct header *header, struct bw_sealed *out);
/* Process a CHALLENGE or ANSWER whose plaintext is in seal->clear. `key`: of the session, if it is
 * not verified yet. */
int seal_take_challenge(struct bw_seal *seal, const struct header *header, bool verified,
                        size_t length, struct bw_sealed *out);
int seal_take_answer(struct bw_seal *seal, const struct header *header, const unsigned char *key,
                     bool verified, size_t length, struct bw_sealed *out);

/* ---- seal.c ---- */

int seal_drop(struct bw_seal *seal, struct bw_sealed *out, enum bw_seal_drop why);
/* Creates the header of the next frame on this lane. */
struct header seal_next_header(struct bw_seal *seal, struct peer *peer, bw_node to, enum lane lane,
                               unsigned kind);

#endif
