/* Handshakes: an unverified sender must prove that it is running; see seal.h.
 *
 *   CHALLENGE   16 nonce, 16 the challenged session
 *   ANSWER      16 the nonce again, 16 the challenging session, 16 a nonce of our own (or zero),
 *               8 next datagram counter to the challenger, 8 next stream counter
 *
 *       A                                   B
 *       | any frame --------------------->  |  unverified sender: dropped
 *       | <--------------------- CHALLENGE  |
 *       | ANSWER (and a nonce) ---------->  |  B has verified A
 *       | <------------------------ ANSWER  |
 *       A has verified B
 *
 * A nonce is a MAC under a secret of the process. It covers the challenged session, the number of
 * sessions of that node verified before, and a time span. So no memory is kept for senders that
 * never answer, and an answer verifies one session once, for a short time. The counters make sure
 * that a restarted process does not accept frames that were sent before the answer. */
#include "core/base/error.h"
#include "core/base/little.h"
#include "net/sealed/state.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <string.h>

#define CHALLENGE_BYTES (NONCE_BYTES + BW_SEAL_SESSION)
#define ANSWER_BYTES    (2 * NONCE_BYTES + BW_SEAL_SESSION + 16u)

static void make_nonce(const struct bw_seal *seal, bw_node node, const unsigned char *session,
                       uint64_t epoch, unsigned char out[NONCE_BYTES])
{
    unsigned char text[4 + BW_SEAL_SESSION + 4 + 8 + 8], mac[EVP_MAX_MD_SIZE] = {0};
    bw_put32(text, node);
    memcpy(text + 4, session, BW_SEAL_SESSION);
    bw_put32(text + 20, seal_generation(seal, node));
    bw_put64(text + 24, seal->era);
    bw_put64(text + 32, epoch);
    HMAC(EVP_sha256(), seal->secret, SECRET_BYTES, text, sizeof text, mac, NULL);
    memcpy(out, mac, NONCE_BYTES);
}

static bool is_nonce(const struct bw_seal *seal, const struct header *header,
                     const unsigned char *nonce)
{
    unsigned char good[NONCE_BYTES];
    make_nonce(seal, header->from, header->session, seal->epoch, good);
    if (CRYPTO_memcmp(good, nonce, NONCE_BYTES) == 0)
        return true;
    make_nonce(seal, header->from, header->session, seal->epoch - 1, good);
    return CRYPTO_memcmp(good, nonce, NONCE_BYTES) == 0;
}

static bool spend(struct bw_seal *seal, struct budget *budget)
{
    if (seal->now - budget->filled >= BW_SEC) {
        budget->left = BW_SEAL_HANDSHAKES_PER_SECOND;
        budget->filled = seal->now;
    }
    if (budget->left == 0)
        return false;
    budget->left--;
    seal->counts.greetings++;
    return true;
}

static int reply(struct bw_seal *seal, bw_node to, unsigned kind, const unsigned char *payload,
                 size_t length, struct bw_sealed *out)
{
    struct header header = seal_next_header(seal, NULL, to, LANE_OPEN, kind);
    int size = seal_write(seal, &header, payload, length, out->reply, sizeof out->reply);
    if (size < 0)
        return size;
    out->reply_length = (size_t)size;
    return BW_SEAL_REPLY;
}

int seal_challenge(struct bw_seal *seal, const struct header *header, struct bw_sealed *out)
{
    unsigned char payload[CHALLENGE_BYTES];
    if (!spend(seal, &seal->challenges))
        return seal_drop(seal, out, BW_SEAL_DROP_FLOOD);
    seal_drop(seal, out, BW_SEAL_DROP_UNVERIFIED);
    make_nonce(seal, header->from, header->session, seal->epoch, payload);
    memcpy(payload + NONCE_BYTES, header->session, BW_SEAL_SESSION);
    return reply(seal, header->from, KIND_CHALLENGE, payload, sizeof payload, out);
}

int bw_seal_start_handshake(struct bw_seal *seal, bw_node to, unsigned char *out, size_t cap)
{
    /* An empty payload loses nothing: a receiver that has not verified us sends a challenge. */
    if (!spend(seal, &seal->challenges))
        return BW_ELIMIT;
    struct header header = seal_next_header(seal, NULL, to, LANE_OPEN, KIND_CHALLENGE);
    return seal_write(seal, &header, NULL, 0, out, cap);
}

/* Answers `nonce`, and challenges in turn unless the sender is verified. */
static int answer(struct bw_seal *seal, const struct header *header, const unsigned char *nonce,
                  bool verified, struct bw_sealed *out)
{
    unsigned char payload[ANSWER_BYTES] = {0};
    const struct peer *peer = seal_find(seal, header->from);
    const uint64_t *sent = peer ? peer->sent : seal->sent_floor;
    if (!spend(seal, &seal->answers))
        return seal_drop(seal, out, BW_SEAL_DROP_FLOOD);
    memcpy(payload, nonce, NONCE_BYTES);
    memcpy(payload + NONCE_BYTES, header->session, BW_SEAL_SESSION);
    if (!verified)
        make_nonce(seal, header->from, header->session, seal->epoch,
                   payload + NONCE_BYTES + BW_SEAL_SESSION);
    bw_put64(payload + 48, sent[LANE_DATAGRAM]);
    bw_put64(payload + 56, sent[LANE_STREAM]);
    return reply(seal, header->from, KIND_ANSWER, payload, sizeof payload, out);
}

int seal_take_challenge(struct bw_seal *seal, const struct header *header, bool verified,
                        size_t length, struct bw_sealed *out)
{
    if (length == 0) /* the sender asks for a handshake */
        return verified ? BW_SEAL_NOTHING : seal_challenge(seal, header, out);
    if (length != CHALLENGE_BYTES ||
        memcmp(seal->clear + NONCE_BYTES, seal->session, BW_SEAL_SESSION) != 0)
        return seal_drop(seal, out, BW_SEAL_DROP_ANSWER);
    unsigned char nonce[NONCE_BYTES];
    memcpy(nonce, seal->clear, sizeof nonce);
    out->lost = true;
    return answer(seal, header, nonce, verified, out);
}

int seal_take_answer(struct bw_seal *seal, const struct header *header, const unsigned char *key,
                     bool verified, size_t length, struct bw_sealed *out)
{
    static const unsigned char none[NONCE_BYTES];
    const unsigned char *clear = seal->clear;
    if (length != ANSWER_BYTES || memcmp(clear + NONCE_BYTES, seal->session, BW_SEAL_SESSION) != 0)
        return seal_drop(seal, out, BW_SEAL_DROP_ANSWER);
    if (!verified) {
        uint64_t sent[SENT_LANES] = {bw_get64(clear + 48), bw_get64(clear + 56)};
        if (header->lane != LANE_OPEN || !is_nonce(seal, header, clear))
            return seal_drop(seal, out, BW_SEAL_DROP_ANSWER);
        if (!seal_mark_verified(seal, header, key, sent, &out->restarted))
            return seal_drop(seal, out, BW_SEAL_DROP_FULL);
        out->met = true;
    }
    unsigned char nonce[NONCE_BYTES];
    memcpy(nonce, clear + NONCE_BYTES + BW_SEAL_SESSION, sizeof nonce);
    if (memcmp(nonce, none, sizeof none) == 0)
        return BW_SEAL_NOTHING;
    int result = answer(seal, header, nonce, true, out);
    return result == BW_SEAL_REPLY || !out->met ? result : BW_SEAL_NOTHING;
}
