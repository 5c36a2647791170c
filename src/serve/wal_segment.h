/* Files of the log: made ahead, found again, removed. */
#ifndef BW_SERVE_WAL_SEGMENT_H
#define BW_SERVE_WAL_SEGMENT_H

#include "serve/wal.h"
#include "serve/wal_format.h"

struct wal_segments {
    int directory; /* fd */
    uint64_t cluster;
    bw_node node;
    size_t bytes; /* of an ordinary one */
};

void wal_segment_name(char *name, uint64_t number);
/* Makes segment `number` of `size` bytes with its head, durable under its own name. Returns its fd
 * or -1 with errno. */
int wal_segment_make(const struct wal_segments *segments, uint64_t number, bw_index before,
                     size_t size);
/* Numbers of the segments that are there: first and last, and how many. Returns 0 or -1. */
int wal_segments_list(const struct wal_segments *segments, uint64_t *first, uint64_t *last,
                      uint64_t *count);
/* Checks a head as read. Returns 0, BW_EVERSION, BW_EDAMAGED or, of another cluster or node,
 * BW_EDENIED. */
int wal_head_check(const struct wal_segments *segments, const unsigned char *head, uint64_t number,
                   bw_index *before);

#endif
