/* The register's file format.
 *
 *     offset  bytes  little-endian
 *          0      8  "BWGUARD\n"
 *          8      4  version: 1
 *         12      4  flags: 1 closed; others are 0
 *         16      8  the highest token, above 0
 *         24      4  CRC-32C of the bytes before
 *
 * The file has exactly these 28 bytes. It is always replaced as a whole, so a partial register is
 * damage, not an interrupted write. */
#ifndef BW_FENCE_REGISTER_H
#define BW_FENCE_REGISTER_H

#include "fence/guard.h"

#define BW_REGISTER_BYTES   28u
#define BW_REGISTER_VERSION 1u

void bw_register_encode(const struct bw_guard_state *state, uint8_t out[BW_REGISTER_BYTES]);

/* Returns 0; BW_EDAMAGED if the bytes are not a register, truncated, too long or corrupt;
 * BW_EVERSION if they are valid but of an unknown version, which is stored in *version. */
int bw_register_decode(const uint8_t *bytes, size_t length, struct bw_guard_state *state,
                       uint32_t *version);

uint32_t bw_crc32c(const uint8_t *bytes, size_t length);

#endif
