/* The byte format of a sealed frame, and its ciphers; see seal.h.
 *
 *    at  bytes
 *     0      1  version
 *     1      1  kind
 *     2      2  zero
 *     4      4  id of the ring's key (keyring.h)
 *     8      8  cluster
 *    16      4  from (0: a client)
 *    20      4  to (0: any node at the address)
 *    24     16  session of the sender's process
 *    40      8  counter; the two top bits are its lane
 *    48      n  payload, encrypted
 *  48+n     16  tag over all of the above
 *
 * Numbers are little-endian. The cipher is AES-256-GCM under HKDF-SHA256(key of the ring, salt =
 * session). The nonce is `to` and the counter. A sender never reuses a counter with the same `to`
 * in a session, and no two processes have the same session. So a nonce is never used twice with a
 * key. */
#include "core/base/error.h"
#include "core/base/little.h"
#include "net/sealed/state.h"

#include <openssl/core_names.h>
#include <openssl/params.h>
#include <string.h>

#define LABEL "bellwether peer frame 1"

bool seal_derive(struct bw_seal *seal, const unsigned char *key, const unsigned char *session,
                 unsigned char *out)
{
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)key, BW_KEY_BYTES),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)session, BW_SEAL_SESSION),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)LABEL, sizeof LABEL - 1),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF_CTX_reset(seal->deriving);
    return EVP_KDF_derive(seal->deriving, out, BW_KEY_BYTES, params) == 1;
}

static void write_header(unsigned char *out, const struct header *header)
{
    memset(out, 0, BW_SEAL_HEADER);
    out[0] = (unsigned char)header->version;
    out[1] = (unsigned char)header->kind;
    bw_put32(out + 4, header->key_id);
    bw_put64(out + 8, header->cluster);
    bw_put32(out + 16, header->from);
    bw_put32(out + 20, header->to);
    memcpy(out + 24, header->session, BW_SEAL_SESSION);
    bw_put64(out + 40, (uint64_t)header->lane << LANE_SHIFT | header->counter);
}

void seal_read_header(struct header *out, const unsigned char *in)
{
    uint64_t counter = bw_get64(in + 40);
    *out = (struct header){.version = in[0],
                           .kind = in[1],
                           .reserved = (unsigned)in[2] | (unsigned)in[3] << 8,
                           .key_id = bw_get32(in + 4),
                           .cluster = bw_get64(in + 8),
                           .from = bw_get32(in + 16),
                           .to = bw_get32(in + 20),
                           .lane = (enum lane)(counter >> LANE_SHIFT),
                           .counter = counter & COUNTER_MASK};
    memcpy(out->session, in + 24, BW_SEAL_SESSION);
}

#define IV_AT 20u /* in the header: `to` and, after the session, the counter */

static void make_iv(unsigned char iv[12], const unsigned char *header)
{
    memcpy(iv, header + IV_AT, 4);
    memcpy(iv + 4, header + 40, 8);
}

/* Sets up the current key: the ring may have changed since the last frame. */
static bool take_key(struct bw_seal *seal)
{
    unsigned char key[BW_KEY_BYTES];
    uint32_t generation = bw_keyring_generation(seal->options.ring);
    if (seal->has_key && seal->ring_generation == generation)
        return true;
    const unsigned char *first = bw_keyring_first(seal->options.ring, &seal->key_id);
    seal->has_key = seal_derive(seal, first, seal->session, key) &&
                    EVP_EncryptInit_ex(seal->sealing, EVP_aes_256_gcm(), NULL, key, NULL) == 1;
    seal->ring_generation = generation;
    OPENSSL_cleanse(key, sizeof key);
    return seal->has_key;
}

int seal_write(struct bw_seal *seal, const struct header *header, const void *payload,
               size_t length, unsigned char *out, size_t cap)
{
    unsigned char iv[12];
    int done;
    if (length > BW_SEAL_PAYLOAD_MAX || cap < length + BW_SEAL_OVERHEAD)
        return BW_ELIMIT;
    if (!take_key(seal))
        return BW_EIO;
    struct header named = *header;
    named.key_id = seal->key_id;
    write_header(out, &named);
    make_iv(iv, out);
    unsigned char *body = out + BW_SEAL_HEADER;
    bool good =
        EVP_EncryptInit_ex(seal->sealing, NULL, NULL, NULL, iv) == 1 &&
        EVP_EncryptUpdate(seal->sealing, NULL, &done, out, BW_SEAL_HEADER) == 1 &&
        (length == 0 || EVP_EncryptUpdate(seal->sealing, body, &done, payload, (int)length) == 1) &&
        EVP_EncryptFinal_ex(seal->sealing, body + length, &done) == 1 &&
        EVP_CIPHER_CTX_ctrl(seal->sealing, EVP_CTRL_GCM_GET_TAG, BW_SEAL_TAG, body + length) == 1;
    seal->counts.sealed += good;
    return good ? (int)(length + BW_SEAL_OVERHEAD) : BW_EIO;
}

bool seal_unlock(struct bw_seal *seal, const unsigned char *key, const unsigned char *in,
                 size_t length)
{
    unsigned char iv[12], tag[BW_SEAL_TAG], none[16];
    size_t size = length - BW_SEAL_OVERHEAD;
    int done;
    make_iv(iv, in);
    memcpy(tag, in + length - BW_SEAL_TAG, BW_SEAL_TAG);
    return EVP_DecryptInit_ex(seal->opening, NULL, NULL, key, iv) == 1 &&
           EVP_DecryptUpdate(seal->opening, NULL, &done, in, BW_SEAL_HEADER) == 1 &&
           (size == 0 || EVP_DecryptUpdate(seal->opening, seal->clear, &done, in + BW_SEAL_HEADER,
                                           (int)size) == 1) &&
           EVP_CIPHER_CTX_ctrl(seal->opening, EVP_CTRL_GCM_SET_TAG, BW_SEAL_TAG, tag) == 1 &&
           EVP_DecryptFinal_ex(seal->opening, none, &done) == 1;
}
