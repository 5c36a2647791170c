/* Numbers and slices as bytes, for log entries and snapshots: numbers in groups of seven bits,
 * lowest first; slices with their length before them. A writer that runs out of room, or a reader
 * that runs out of bytes, says so once and goes on harmlessly: callers look at `failed` at the end.
 */
#ifndef BW_REGISTRY_BYTES_H
#define BW_REGISTRY_BYTES_H

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
/* At most `max`, else it fails. */
uint64_t bw_read_below(struct bw_reader *reader, uint64_t max);
int64_t bw_read_positive(struct bw_reader *reader); /* fits int64_t */
bool bw_read_bool(struct bw_reader *reader);
struct bw_slice bw_read_slice(struct bw_reader *reader); /* borrowed from the reader's bytes */

#endif
