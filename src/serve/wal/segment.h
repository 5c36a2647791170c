/* Segment files of the log. A segment can be created in pieces, before the log needs it
 * (preallocate.c). After a restart, wal_segments_list finds the existing segments. A segment under
 * construction has a temporary name; it gets its final name when it is durable. */
#ifndef BW_SERVE_WAL_SEGMENT_H
#define BW_SERVE_WAL_SEGMENT_H

#include "serve/wal/format.h"
#include "serve/wal/wal.h"

struct wal_segments {
    int directory; /* file descriptor */
    uint64_t cluster;
    bw_node node;
    size_t bytes; /* size of an ordinary segment */
};

void wal_segment_name(char *name, uint64_t number);

/* Creates a file for a segment of `size` bytes. Returns its descriptor, or -1 with errno. */
int wal_segment_begin(const struct wal_segments *segments, size_t size);
/* Writes zeros from `from` to `to` and makes them durable. Returns 0, or -1 with errno. */
int wal_segment_fill(int fd, size_t from, size_t to);
/* Turns the file of wal_segment_begin into segment `number` of `size` bytes. Its first `filled`
 * bytes are already durable zeros. Returns 0, or -1 with errno after removing the file. */
int wal_segment_finish(const struct wal_segments *segments, int fd, size_t filled, uint64_t number,
                       bw_index before, size_t size);
/* Removes the file that wal_segment_begin created. */
void wal_segment_abandon(const struct wal_segments *segments, int fd);

/* Finds the lowest and the highest number of all segments, and their count. Returns 0 or -1. */
int wal_segments_list(const struct wal_segments *segments, uint64_t *first, uint64_t *last,
                      uint64_t *count);
/* Returns the first of the consecutive segments that end with `last`. */
uint64_t wal_segments_run(const struct wal_segments *segments, uint64_t last);
/* Removes all segments with a number below `number`, durably. Returns 0 or -1 with errno. */
int wal_segments_remove_below(const struct wal_segments *segments, uint64_t number);
/* Checks a head. Returns 0, BW_EVERSION, BW_EDAMAGED, or BW_EDENIED for another cluster or node. */
int wal_head_check(const struct wal_segments *segments, const unsigned char *head, uint64_t number,
                   bw_index *before);

#endif
