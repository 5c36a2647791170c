/* The register's codec; register.h has the format. */
#include "fence/register.h"

#include "core/base/bug.h"

#include <string.h>

#define CLOSED 1u

static const uint8_t magic[8] = {'B', 'W', 'G', 'U', 'A', 'R', 'D', '\n'};

uint32_t bw_crc32c(const uint8_t *bytes, size_t length)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

static void put(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

void bw_register_encode(const struct bw_guard_state *state, uint8_t out[BW_REGISTER_BYTES])
{
    memcpy(out, magic, sizeof magic);
    put(out + 8, BW_REGISTER_VERSION, 4);
    put(out + 12, state->closed ? CLOSED : 0, 4);
    put(out + 16, state->highest, 8);
    put(out + 24, bw_crc32c(out, 24), 4);
}

int bw_register_decode(const uint8_t *bytes, size_t length, struct bw_guard_state *state,
                       uint32_t *version)
{
    *state = (struct bw_guard_state){0};
    *version = 0;
    if (length < BW_REGISTER_BYTES || memcmp(bytes, magic, sizeof magic) != 0)
        return BW_EDAMAGED;
    if (get(bytes + 24, 4) != bw_crc32c(bytes, 24) && !BW_BUG(fence_trusts_any_checksum))
        return BW_EDAMAGED;
    *version = (uint32_t)get(bytes + 8, 4);
    if (*version != BW_REGISTER_VERSION)
        return BW_EVERSION;
    uint64_t flags = get(bytes + 12, 4), token = get(bytes + 16, 8);
    if (length != BW_REGISTER_BYTES || flags & ~(uint64_t)CLOSED || token == BW_TOKEN_NONE)
        return BW_EDAMAGED;
    state->highest = token;
    state->closed = flags & CLOSED;
    return 0;
}
