/* Encoding of numbers and slices in log entries and snapshots.
 *
 * A number is written in groups of seven bits, lowest group first. A slice is its length followed
 * by its bytes. A writer without space, or a reader without bytes, sets `failed`; further calls are
 * harmless. Callers check `failed` once at the end. */
#ifndef BW_CORE_REGISTRY_BYTES_H
#define BW_CORE_REGISTRY_BYTES_H

#include "core/registry/registry.h"

struct bw_writer {
    unsigned char *at;
    size_t used, size;
    bool failed;
};

struct bw_reader {
    const unsigned char *at;
    size_t used, size;
    bool failed;
};

void bw_write_number(struct bw_writer *writer, uint64_t number);
void bw_write_slice(struct bw_writer *writer, struct bw_slice slice);
uint64_t bw_read_number(struct bw_reader *reader);
/* Fails if the number exceeds `max`. */
uint64_t bw_read_below(struct bw_reader *reader, uint64_t max);
int64_t bw_read_positive(struct bw_reader *reader); /* fails if the number exceeds INT64_MAX */
bool bw_read_bool(struct bw_reader *reader);
struct bw_slice bw_read_slice(struct bw_reader *reader); /* borrowed from the reader's bytes */

#endif
