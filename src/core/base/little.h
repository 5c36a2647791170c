/* Little-endian integers, as Bellwether's own files and frames store them. */
#ifndef BW_CORE_BASE_LITTLE_H
#define BW_CORE_BASE_LITTLE_H

#include <stdint.h>

static inline void bw_put32(unsigned char *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static inline void bw_put64(unsigned char *at, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static inline uint32_t bw_get32(const unsigned char *at)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; i++)
        value |= (uint32_t)at[i] << 8 * i;
    return value;
}

static inline uint64_t bw_get64(const unsigned char *at)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

#endif
