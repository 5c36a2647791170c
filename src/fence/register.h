/* The register's bytes.
 *
 *     offset  bytes  little-endian
 *          0      8  "BWGUARD\n"
 *          8      4  version: 1
 *         12      4  flags: 1 closed; others are 0
 *         16      8  the highest token, above 0
 *         24      4  CRC-32C of the bytes before
 *
 * The file has exactly these 28 bytes. It is only ever replaced as a whole, so half a register is
 * damage, not an interrupted write. */
#ifndef BW_FENCE_REGISTER_H
#define BW_FENCE_REGISTER_H

#include "fence/guard.h"

#define BW_REGISTER_BYTES   28u
#define BW_REGISTER_VERSION 1u

void bw_register_encode(const struct bw_guard_state *state, uint8_t out[BW_REGISTER_BYTES]);

/* 0; BW_EDAMAGED: not a register, cut short, too long, or a bit is wrong; BW_EVERSION: sound, but
 * of a version unknown here (it is put in *version). */
int bw_register_decode(const uint8_t *bytes, size_t length, struct bw_guard_state *state,
                       uint32_t *version);

uint32_t bw_crc32c(const uint8_t *bytes, size_t length);

#endif
