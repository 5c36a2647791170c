/* SipHash-1-3; see siphash.h. The names v0..v3 and the rounds are those of the paper. */
#include "core/hash/siphash.h"

#include "core/base/little.h"

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, unsigned k)
{
    return x << k | x >> (64 - k);
}

static void sip_round(struct state *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 = rotate(s->v2, 32);
}

static void add_word(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

uint64_t bw_siphash(const struct bw_hash_key *key, const unsigned char *bytes, size_t length)
{
    struct state s = {.v0 = key->at[0] ^ 0x736f6d6570736575u,
                      .v1 = key->at[1] ^ 0x646f72616e646f6du,
                      .v2 = key->at[0] ^ 0x6c7967656e657261u,
                      .v3 = key->at[1] ^ 0x7465646279746573u};
    uint64_t last = (uint64_t)length << 56;
    size_t whole = length & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8)
        add_word(&s, bw_get64(bytes + i));
    for (size_t i = whole; i < length; i++)
        last |= (uint64_t)bytes[i] << 8 * (i - whole);
    add_word(&s, last);
    s.v2 ^= 0xff;
    for (unsigned i = 0; i < 3; i++)
        sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint64_t bw_siphash_number(const struct bw_hash_key *key, uint64_t number)
{
    unsigned char bytes[8];
    bw_put64(bytes, number);
    return bw_siphash(key, bytes, sizeof bytes);
}
