/* Sealing and opening; see seal.h. crypt.c has the byte format, peers.c the verified sessions,
 * handshake.c how sessions are verified. */
#include "net/sealed/seal.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/little.h"
#include "net/sealed/state.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(BW_SEAL_WINDOW == BW_REPLAY_BITS, "one window");

static const char *const drop_names[BW_SEAL_DROPS] = {
#define X(constant, name) [BW_SEAL_DROP_##constant] = name,
    BW_SEAL_DROP_MAP(X)
#undef X
};

const char *bw_seal_drop_name(unsigned drop)
{
    return drop < BW_SEAL_DROPS ? drop_names[drop] : "unknown";
}

/* ---- creation ---- */

static bool set_up_ciphers(struct bw_seal *seal)
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    seal->deriving = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    EVP_KDF_free(kdf);
    seal->sealing = EVP_CIPHER_CTX_new();
    seal->opening = EVP_CIPHER_CTX_new();
    return seal->deriving && seal->sealing && seal->opening &&
           EVP_DecryptInit_ex(seal->opening, EVP_aes_256_gcm(), NULL, NULL, NULL) == 1;
}

int bw_seal_new(struct bw_seal **out, const struct bw_seal_options *options)
{
    if (!options->ring || options->peers_max == 0 || options->peers_max > BW_ELECTOR_MEMBERS_MAX)
        return BW_EINVAL;
    struct bw_seal *seal = calloc(1, sizeof *seal);
    if (!seal)
        return BW_ENOMEM;
    seal->options = *options;
    seal->epoch = 1;
    seal->challenges.left = seal->answers.left = BW_SEAL_HANDSHAKES_PER_SECOND;
    seal->peers = calloc(options->peers_max, sizeof *seal->peers);
    int error = bw_node_index_init(&seal->index, options->peers_max);
    if (!error && (!seal->peers || !set_up_ciphers(seal)))
        error = BW_ENOMEM;
    if (!error && (RAND_bytes(seal->session, sizeof seal->session) != 1 ||
                   RAND_bytes(seal->secret, sizeof seal->secret) != 1))
        error = BW_EIO;
    if (error)
        bw_seal_free(seal);
    else
        *out = seal;
    return error;
}

void bw_seal_free(struct bw_seal *seal)
{
    if (!seal)
        return;
    EVP_CIPHER_CTX_free(seal->sealing);
    EVP_CIPHER_CTX_free(seal->opening);
    EVP_KDF_CTX_free(seal->deriving);
    if (seal->peers)
        OPENSSL_cleanse(seal->peers, seal->index.count * sizeof *seal->peers);
    free(seal->peers);
    bw_node_index_deinit(&seal->index);
    OPENSSL_cleanse(seal, sizeof *seal);
    free(seal);
}

void bw_seal_clock(struct bw_seal *seal, bw_time now)
{
    seal->now = now;
    seal->epoch = (uint64_t)(now / EPOCH_NS) + 1;
}

/* ---- sealing ---- */

struct header seal_next_header(struct bw_seal *seal, struct peer *peer, bw_node to, enum lane lane,
                               unsigned kind)
{
    uint64_t *counter = lane == LANE_KEPT   ? &seal->sent_kept
                        : lane == LANE_OPEN ? &seal->sent_open
                                            : &peer->sent[lane];
    struct header header = {.version = BW_SEAL_VERSION,
                            .kind = kind,
                            .cluster = seal->options.cluster,
                            .from = seal->options.self,
                            .to = to,
                            .lane = lane,
                            .counter = (*counter)++};
    memcpy(header.session, seal->session, BW_SEAL_SESSION);
    return header;
}

static int make(struct bw_seal *seal, bw_node to, enum lane lane, unsigned kind,
                const void *payload, size_t length, unsigned char *out, size_t cap)
{
    if (kind > BW_SEAL_KIND_STREAM_MAX)
        return BW_EINVAL;
    if (length > BW_SEAL_PAYLOAD_MAX || cap < length + BW_SEAL_OVERHEAD)
        return BW_ELIMIT; /* before a counter is used up */
    lane = to == BW_NODE_NONE ? LANE_OPEN : lane;
    struct peer *peer = lane < SENT_LANES ? seal_find_or_add(seal, to) : NULL;
    if (lane < SENT_LANES && !peer)
        return BW_ELIMIT;
    struct header header = seal_next_header(seal, peer, to, lane, kind);
    return seal_write(seal, &header, payload, length, out, cap);
}

int bw_seal_make(struct bw_seal *seal, bw_node to, unsigned kind, const void *payload,
                 size_t length, unsigned char *out, size_t cap)
{
    return make(seal, to, LANE_DATAGRAM, kind, payload, length, out, cap);
}

int bw_seal_make_stream(struct bw_seal *seal, bw_node to, unsigned kind, const void *payload,
                        size_t length, unsigned char *out, size_t cap)
{
    return make(seal, to, LANE_STREAM, kind, payload, length, out, cap);
}

int bw_seal_make_kept(struct bw_seal *seal, bw_node to, unsigned kind, const void *payload,
                      size_t length, unsigned char *out, size_t cap)
{
    return make(seal, to, LANE_KEPT, kind, payload, length, out, cap);
}

/* ---- opening ---- */

int seal_drop(struct bw_seal *seal, struct bw_sealed *out, enum bw_seal_drop why)
{
    seal->counts.dropped[why]++;
    out->drop = why;
    return BW_EDENIED;
}

/* Checks the header before anything is decrypted; BW_SEAL_DROPS: valid. */
static enum bw_seal_drop check_header(const struct bw_seal *seal, const struct header *header)
{
    const struct bw_seal_options *options = &seal->options;
    if (header->version != BW_SEAL_VERSION)
        return BW_SEAL_DROP_VERSION;
    if (header->reserved != 0)
        return BW_SEAL_DROP_MALFORMED;
    if (header->cluster != options->cluster)
        return BW_SEAL_DROP_CLUSTER;
    if (header->to != options->self && header->to != BW_NODE_NONE)
        return BW_SEAL_DROP_NOT_FOR_US;
    if (header->from == options->self)
        return BW_SEAL_DROP_OURSELVES;
    if ((header->to == BW_NODE_NONE) && header->lane != LANE_OPEN && header->lane != LANE_KEPT)
        return BW_SEAL_DROP_MALFORMED;
    return BW_SEAL_DROPS;
}

/* Decrypts with the session's key. Derives a key if the sender is unverified or its ring was
 * rotated. Returns false if the frame was dropped, with the reason in out->drop. */
static bool unlock(struct bw_seal *seal, const struct header *header, struct session *session,
                   const unsigned char *in, size_t length, unsigned char key[BW_KEY_BYTES],
                   struct bw_sealed *out)
{
    const unsigned char *of_ring = bw_keyring_find(seal->options.ring, header->key_id);
    if (!of_ring) {
        seal_drop(seal, out, BW_SEAL_DROP_KEY);
        return false;
    }
    bool cached = session && session->key_id == header->key_id;
    if (cached)
        memcpy(key, session->key, BW_KEY_BYTES);
    if ((!cached && !seal_derive(seal, of_ring, header->session, key)) ||
        !seal_unlock(seal, key, in, length)) {
        seal_drop(seal, out, BW_SEAL_DROP_FORGED);
        return false;
    }
    if (session && !cached) {
        session->key_id = header->key_id;
        memcpy(session->key, key, BW_KEY_BYTES);
    }
    return true;
}

/* The frame is authentic, and not a replay if its session is verified. */
static int take(struct bw_seal *seal, const struct header *header, struct session *session,
                const unsigned char *key, size_t length, struct bw_sealed *out)
{
    bool verified = session != NULL;
    if (header->kind == KIND_CHALLENGE)
        return seal_take_challenge(seal, header, verified, length, out);
    if (header->kind == KIND_ANSWER)
        return seal_take_answer(seal, header, key, verified, length, out);
    if (!verified && !BW_BUG(seal_accepts_unknown_senders))
        return seal_challenge(seal, header, out);
    out->unaddressed = header->to == BW_NODE_NONE;
    out->kind = header->kind;
    out->payload = seal->clear;
    out->length = length;
    seal->counts.opened++;
    return BW_SEAL_FRAME;
}

static void clear_result(struct bw_sealed *out)
{
    memset(out, 0, offsetof(struct bw_sealed, reply));
    out->drop = BW_SEAL_DROPS;
}

int bw_seal_open(struct bw_seal *seal, const unsigned char *in, size_t length,
                 struct bw_sealed *out)
{
    struct header header;
    unsigned char key[BW_KEY_BYTES];
    clear_result(out);
    if (length < BW_SEAL_OVERHEAD || length > BW_SEAL_FRAME_MAX)
        return seal_drop(seal, out, BW_SEAL_DROP_MALFORMED);
    seal_read_header(&header, in);
    enum bw_seal_drop wrong = check_header(seal, &header);
    if (wrong != BW_SEAL_DROPS)
        return seal_drop(seal, out, wrong);
    struct session *session = seal_session(seal, &header);
    struct bw_replay *window = session ? &session->window[header.lane] : NULL;
    if (window && !bw_replay_is_new(window, header.counter))
        return seal_drop(seal, out, BW_SEAL_DROP_REPLAY);
    if (!unlock(seal, &header, session, in, length, key, out))
        return BW_EDENIED;
    if (window && !BW_BUG(seal_forgets_what_it_heard))
        bw_replay_note(window, header.counter);
    out->from = header.from;
    int result = take(seal, &header, session, key, length - BW_SEAL_OVERHEAD, out);
    OPENSSL_cleanse(key, sizeof key);
    return result;
}

/* ---- known nodes ---- */

bool bw_seal_knows(const struct bw_seal *seal, bw_node node)
{
    const struct peer *peer = seal_find(seal, node);
    return peer && peer->now.verified;
}

void bw_seal_forget(struct bw_seal *seal, bw_node node)
{
    struct peer *peer = seal_find(seal, node);
    if (peer)
        seal_remove(seal, peer);
}

uint32_t bw_seal_sweep(struct bw_seal *seal, bool (*keeps)(void *context, bw_node node),
                       void *context)
{
    uint32_t before = seal->index.count;
    for (uint32_t i = before; i > 0; i--) /* a row moved here was checked already */
        if (!keeps(context, seal->index.nodes[i - 1]))
            seal_remove(seal, &seal->peers[i - 1]);
    return before - seal->index.count;
}

void bw_seal_counts(const struct bw_seal *seal, struct bw_seal_counts *out)
{
    *out = seal->counts;
    out->peers = seal->index.count;
}

uint64_t bw_seal_cluster(const char *name)
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    bool made = EVP_Digest(name, strlen(name), digest, NULL, EVP_sha256(), NULL) == 1;
    return made ? bw_get64(digest) : 0;
}
