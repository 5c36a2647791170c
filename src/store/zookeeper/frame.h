/* Checks a server's frame before the client library reads it. The library needs this check: it
 * allocates memory for any length, aborts the program at an unexpected reply, and reads past the
 * end of fields. Pure.
 *
 * All numbers are big-endian.
 *
 *   frame    length (4 bytes, of what follows), then header and body
 *   header   xid (4; -1 event, -2 ping, -4 auth, -8 watches), zxid (8), err (4; if not 0, no body)
 *   text     length (4; -1: none), bytes
 *   stat     68 bytes
 *   event    type (4), state (4), text
 *   data     text, stat
 *   names    count (4), texts
 *   multi    per part: type (4), done (1), err (4), then by type: -1 error (4), 1 text, 5 stat,
 *            2 and 13 nothing; after the last part one more with done = 1 */
#ifndef BW_STORE_ZOOKEEPER_FRAME_H
#define BW_STORE_ZOOKEEPER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Servers send at most jute.maxbuffer bytes, 1 MiB by default. */
#define BW_ZK_FRAME_MAX (4u << 20)
#define BW_ZK_HEADER    16u

enum bw_zk_shape {
    BW_ZK_NOTHING,
    BW_ZK_TEXT,
    BW_ZK_STAT,
    BW_ZK_DATA,
    BW_ZK_NAMES,
    BW_ZK_TEXT_STAT,
    BW_ZK_MULTI
};

/* The oldest call without a reply. */
struct bw_zk_expected {
    bool any;
    enum bw_zk_shape shape;
    unsigned parts; /* BW_ZK_MULTI: number of its parts */
};

uint32_t bw_zk_frame_length(const unsigned char length[4]);
/* Checks the header of a frame. */
bool bw_zk_frame_begins(const unsigned char *header, uint32_t length,
                        const struct bw_zk_expected *expected);
/* Checks a whole frame, without its length field. */
bool bw_zk_frame_is_good(const unsigned char *frame, size_t length,
                         const struct bw_zk_expected *expected);

#endif
