/* The head of an HTTP/2 request, whether it is well formed (RFC 9113, 8.1 to 8.3), and the length
 * it promises. Pure.
 *
 * nghttp2 has the same rules and one more: an authority must be an authority. Clients of etcd break
 * it. Those in Go send the URL they were given (`etcdctl --endpoints http://... endpoint status`),
 * those of 3.5.0 a list in brackets. etcd takes them, and here the field decides nothing: so
 * nghttp2's rules are off and these count. A plain field that is none is passed over, as there. */
#ifndef BW_SERVE_H2_HEAD_H
#define BW_SERVE_H2_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bw_h2_head {
    unsigned seen; /* pseudo-header fields, a bit each */
    bool plain;    /* other fields have begun */
    bool ended;    /* what comes now are trailers */
    bool has_length;
    uint64_t length, body; /* what was promised, what has come */
};

enum bw_h2_field { BW_H2_TAKE, BW_H2_PASS, BW_H2_BAD };

enum bw_h2_field bw_h2_head_field(struct bw_h2_head *head, const uint8_t *name, size_t name_length,
                                  const uint8_t *value, size_t value_length);
/* The head is there; false: something is missing. */
bool bw_h2_head_end(struct bw_h2_head *head);
/* So much of the body; false: more than was promised. */
bool bw_h2_head_body(struct bw_h2_head *head, size_t length);
/* All of the request is there; false: less than was promised. */
bool bw_h2_head_whole(const struct bw_h2_head *head);

#endif
