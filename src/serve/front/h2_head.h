/* Checks whether the head of an HTTP/2 request is well formed (RFC 9113, sections 8.1 to 8.3) and
 * whether the body has the announced length. Pure.
 *
 * nghttp2 enforces the same rules plus one: the value of :authority must be a valid authority.
 * Clients of etcd violate it: Go clients send the URL they were given (`etcdctl --endpoints
 * http://... endpoint status`), and those of 3.5.0 send a list in brackets. etcd accepts them, and
 * this server does not use the field. Therefore nghttp2's rules are off and these apply. An invalid
 * regular field is ignored, as in nghttp2. */
#ifndef BW_SERVE_FRONT_H2_HEAD_H
#define BW_SERVE_FRONT_H2_HEAD_H

#include "serve/front/origin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BW_H2_AUTHORITY_MAX 96u

struct bw_h2_head {
    unsigned seen; /* pseudo-header fields, a bit each */
    bool regular;  /* a regular field has arrived */
    bool ended;    /* the head is complete: further fields are trailers */
    bool has_length;
    bool accepts_gzip, has_page; /* has_page: If-None-Match names the current dashboard */
    enum bw_origin origin;
    char authority[BW_H2_AUTHORITY_MAX]; /* not terminated */
    size_t authority_length;
    uint64_t length, body; /* announced content-length; bytes received */
};

enum bw_h2_field { BW_H2_TAKE, BW_H2_PASS, BW_H2_BAD };

enum bw_h2_field bw_h2_head_field(struct bw_h2_head *head, const uint8_t *name, size_t name_length,
                                  const uint8_t *value, size_t value_length);
/* The head is complete. Returns false if a mandatory field is missing. */
bool bw_h2_head_end(struct bw_h2_head *head);
/* Counts `length` bytes of the body. Returns false if there are more than announced. */
bool bw_h2_head_body(struct bw_h2_head *head, size_t length);
/* The request is complete. Returns false if the body is shorter than announced. */
bool bw_h2_head_whole(const struct bw_h2_head *head);

#endif
