/* Death proofs; see death_proof.h. */
#include "net/death_proof.h"

#include "core/base/bug.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

static void write_hex(char *out, const unsigned char bytes[SHA256_DIGEST_LENGTH])
{
    for (unsigned i = 0; i < SHA256_DIGEST_LENGTH; i++)
        sprintf(out + (size_t)2 * i, "%02x", bytes[i]);
}

bool bw_death_proof(const unsigned char secret[BW_BIND_PROOF], uint64_t token,
                    char proof[BW_DEATH_PROOF_TEXT + 1])
{
    unsigned char message[8], mac[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    for (unsigned i = 0; i < sizeof message; i++)
        message[i] = (unsigned char)(token >> (56 - 8 * i));
    if (!HMAC(EVP_sha256(), secret, BW_BIND_PROOF, message, sizeof message, mac, &length) ||
        length != SHA256_DIGEST_LENGTH)
        return false;
    write_hex(proof, mac);
    return true;
}

bool bw_death_hash(const char proof[BW_DEATH_PROOF_TEXT + 1], char hash[BW_DEATH_PROOF_TEXT + 1])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    if (!SHA256((const unsigned char *)proof, BW_DEATH_PROOF_TEXT, digest))
        return false;
    write_hex(hash, digest);
    return true;
}

bool bw_death_is_proved(const void *value, size_t length, const char *hash)
{
    char proof[BW_DEATH_PROOF_TEXT + 1] = "", own[BW_DEATH_PROOF_TEXT + 1];
    if (length != BW_DEATH_PROOF_TEXT || strlen(hash) != BW_DEATH_PROOF_TEXT)
        return false;
    memcpy(proof, value, BW_DEATH_PROOF_TEXT);
    return bw_death_hash(proof, own) &&
           (strcmp(own, hash) == 0 || BW_BUG(death_proof_of_any_leadership));
}
