/* Decides which close of a connection ends the leases bound to it, and when; see binding.h. */
#include "core/base/bug.h"
#include "serve/api/binding.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>

static bool is(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A clean close without a hash could be forged, so such a lease is not bound. */
enum bw_bind bw_bind_read(const char *text, size_t length, unsigned char hash[BW_BIND_PROOF])
{
    size_t word = sizeof BW_BIND_WORD - 1;
    if (is(text, length, "connection"))
        return BW_BIND_CONNECTION;
    if (length != word + 2 * (size_t)BW_BIND_PROOF || memcmp(text, BW_BIND_WORD, word) != 0)
        return BW_BIND_NOT;
    for (size_t i = 0; i < BW_BIND_PROOF; i++) {
        int high = digit(text[word + 2 * i]), low = digit(text[word + 2 * i + 1]);
        if (high < 0 || low < 0)
            return BW_BIND_NOT;
        hash[i] = (unsigned char)(high << 4 | low);
    }
    return BW_BIND_CLEAN_CLOSE;
}

bool bw_bind_is_proof(const unsigned char last[BW_BIND_BYTES],
                      const unsigned char hash[BW_BIND_PROOF])
{
    static const unsigned char head[BW_BIND_HEAD] = {0, 0, BW_BIND_PROOF, BW_BIND_FRAME};
    unsigned char own[SHA256_DIGEST_LENGTH];
    if (memcmp(last, head, sizeof head) != 0)
        return false;
    return BW_BUG(binding_takes_any_proof) || (SHA256(last + BW_BIND_HEAD, BW_BIND_PROOF, own) &&
                                               CRYPTO_memcmp(own, hash, BW_BIND_PROOF) == 0);
}

bw_time bw_bind_hold_off(bool loopback, bw_time elsewhere_ns)
{
    if (loopback)
        return BW_BUG(binding_holds_off_for_nothing) ? 1 : BW_BIND_LOOPBACK_NS;
    return elsewhere_ns > 0 ? bw_time_max(elsewhere_ns, BW_BIND_LEAST_NS) : 0;
}

bool bw_bind_ends(enum bw_bind bind, enum bw_close_cause close_cause)
{
    switch (bind) {
    case BW_BIND_NOT:
        return false;
    case BW_BIND_CONNECTION:
        return close_cause != BW_CLOSED_BY_US;
    case BW_BIND_CLEAN_CLOSE:
        return close_cause == BW_CLOSED_CLEANLY ||
               (BW_BUG(binding_takes_a_death_for_a_clean_close) &&
                close_cause == BW_CLOSED_BY_CLIENT);
    }
    return false;
}
