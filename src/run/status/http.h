/* A small HTTP/1.1 server on a libuv loop: one request per connection, answered from a view that is
 * taken when the request is whole.
 *
 * Bounded: BW_HTTP_CONNECTIONS_MAX at a time (the oldest goes when another comes, so that slow
 * clients cannot shut a probe out), BW_HTTP_REQUEST_MAX bytes each, BW_HTTP_WITHIN_NS from the
 * first byte to the last. No TLS and no access control: it listens where only this host, or this
 * pod, can ask. */
#ifndef BW_RUN_HTTP_H
#define BW_RUN_HTTP_H

#include "run/status/answer.h"

#include <uv.h>

#define BW_HTTP_CONNECTIONS_MAX 64u
#define BW_HTTP_WITHIN_NS       (5 * BW_SEC)

struct bw_http; /* opaque */

typedef void bw_http_look(void *context, struct bw_http_view *view);

/* Listens. `look` is called once for each request. Returns 0, or an error with a sentence. */
int bw_http_open(struct bw_http **out, uv_loop_t *loop, const char *address, bw_http_look *look,
                 void *context, char *why, size_t size);
/* Where it listens: as given, with the port that was free. */
const char *bw_http_where(const struct bw_http *http);
void bw_http_tick(struct bw_http *http, bw_time now);
bw_time bw_http_deadline(const struct bw_http *http);
/* The loop must turn once more after it; then all is freed. NULL: nothing. */
void bw_http_close(struct bw_http *http);

#endif
