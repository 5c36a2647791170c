/* The byte format of the log. Numbers are little-endian.
 *
 *   segment   wal-NNNNNNNNNNNNNNNN.log, NN... its number in hexadecimal, from 1 without gaps
 *             head of 4096 bytes, then consecutive batches, then zeros
 *   head      8  "BWWAL\0\0\1"      the last byte is the version
 *             8  cluster
 *             4  node
 *             4  0
 *             8  number of the segment
 *             8  index of the last entry before this segment
 *             8  checksum of the above
 *   batch     4  length of the records, a multiple of 8
 *             4  checksum of the length, seeded with cluster, node, segment and offset
 *             8  checksum of the records, with the same seed
 *             .. records, masked: no sector that was written is all zeros
 *   record    1  kind, 1 change, 2 0, 4 length of its bytes without padding
 *             .. fields by kind, bytes, zeros up to a multiple of 8
 *             ENTRY     8 index, 8 term, 4 node, 4 0, bytes
 *             STATE     struct bw_durable field by field, 8 bytes each
 *             TRUNCATE  8 from
 *             SNAPSHOT  8 index, 8 term */
#ifndef BW_SERVE_WAL_FORMAT_H
#define BW_SERVE_WAL_FORMAT_H

#include "core/base/little.h"
#include "core/base/types.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define WAL_HEAD        4096u
#define WAL_HEAD_USED   48u
#define WAL_SECTOR      512u
#define WAL_BATCH_HEAD  16u
#define WAL_RECORD_HEAD 8u
#define WAL_ENTRY_HEAD  24u
#define WAL_STATE_BYTES 56u
#define WAL_NAME_MAX    32u

enum wal_record { WAL_ENTRY = 1, WAL_STATE, WAL_TRUNCATE, WAL_SNAPSHOT };

struct wal_place {
    uint64_t cluster;
    bw_node node;
    uint64_t segment;
    uint64_t offset;
};

static inline uint64_t wal_seed(const struct wal_place *place)
{
    unsigned char bytes[32];
    bw_put64(bytes, place->cluster);
    bw_put64(bytes + 8, place->node);
    bw_put64(bytes + 16, place->segment);
    bw_put64(bytes + 24, place->offset);
    return XXH3_64bits(bytes, sizeof bytes);
}

static inline uint32_t wal_length_sum(uint64_t seed, uint32_t length)
{
    unsigned char bytes[4];
    bw_put32(bytes, length);
    return (uint32_t)XXH3_64bits_withSeed(bytes, sizeof bytes, seed);
}

static inline uint64_t wal_records_sum(uint64_t seed, const unsigned char *records, size_t length)
{
    return XXH3_64bits_withSeed(records, length, seed);
}

/* Masks or unmasks: XORs each word with its own pattern, derived from the offset. `length` is a
 * multiple of 8. */
static inline void wal_mask(uint64_t seed, unsigned char *to, const unsigned char *from,
                            size_t length)
{
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word;
        seed += 0x9e3779b97f4a7c15u;
        memcpy(&word, from + i, 8);
        word ^= seed;
        memcpy(to + i, &word, 8);
    }
}

#endif
