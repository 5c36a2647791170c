/* Files of the log: made, also ahead and piece by piece, found again. A segment that is being made
 * has a name of its own, and gets its place in the log when all of it is durable. */
#ifndef BW_SERVE_WAL_SEGMENT_H
#define BW_SERVE_WAL_SEGMENT_H

#include "serve/wal/format.h"
#include "serve/wal/wal.h"

struct wal_segments {
    int directory; /* fd */
    uint64_t cluster;
    bw_node node;
    size_t bytes; /* of an ordinary one */
};

void wal_segment_name(char *name, uint64_t number);

/* Begins one, with room for `size` bytes. Returns its fd or -1 with errno. */
int wal_segment_begin(const struct wal_segments *segments, size_t size);
/* Zeros from `from` to `to`, durable. Returns 0 or -1 with errno. */
int wal_segment_fill(int fd, size_t from, size_t to);
/* The one that was begun becomes segment `number` of `size` bytes, of which `filled` are durable
 * zeros already. Returns 0, or -1 with errno and the file is gone. */
int wal_segment_finish(const struct wal_segments *segments, int fd, size_t filled, uint64_t number,
                       bw_index before, size_t size);
/* The one that was begun is not needed. */
void wal_segment_abandon(const struct wal_segments *segments, int fd);

/* Numbers of the segments that are there: first and last, and how many. Returns 0 or -1. */
int wal_segments_list(const struct wal_segments *segments, uint64_t *first, uint64_t *last,
                      uint64_t *count);
/* The first of the segments that end with `last` and have no gap between them. */
uint64_t wal_segments_run(const struct wal_segments *segments, uint64_t last);
/* Removes all segments with a number below `number`, durably. Returns 0 or -1 with errno. */
int wal_segments_remove_below(const struct wal_segments *segments, uint64_t number);
/* Checks a head as read. Returns 0, BW_EVERSION, BW_EDAMAGED or, of another cluster or node,
 * BW_EDENIED. */
int wal_head_check(const struct wal_segments *segments, const unsigned char *head, uint64_t number,
                   bw_index *before);

#endif
