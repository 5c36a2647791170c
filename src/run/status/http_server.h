/* A small HTTP/1.1 server on a libuv loop. Each connection carries one request. The view for the
 * answer is taken when the request is complete. GET /events starts a stream: the connection stays
 * open, and the server sends every change of the state and every log event as server-sent events.
 *
 * Limits: BW_HTTP_CONNECTIONS_MAX connections at a time (a new one closes the oldest, so that slow
 * clients cannot keep out a probe), BW_HTTP_REQUEST_MAX bytes per request, BW_HTTP_WITHIN_NS from
 * the first byte to the last. At most BW_HTTP_STREAMS_MAX of the connections are streams; further
 * ones get 503. A stream has one buffer of BW_HTTP_ANSWER_MAX bytes. It is closed when an event
 * does not fit there, when the client reads nothing for BW_HTTP_PING_NS while events wait, or when
 * the client sends more than BW_HTTP_CHATTER_MAX bytes.
 *
 * There is no TLS and no access control: listen only where this host or this pod can connect. */
#ifndef BW_RUN_STATUS_HTTP_SERVER_H
#define BW_RUN_STATUS_HTTP_SERVER_H

#include "run/status/pages.h"

#include <uv.h>

#define BW_HTTP_CONNECTIONS_MAX 64u
#define BW_HTTP_WITHIN_NS       (5 * BW_SEC)
#define BW_HTTP_STREAMS_MAX     16u
#define BW_HTTP_PING_NS         (5 * BW_SEC) /* between two comments that keep a stream alive */
#define BW_HTTP_CHATTER_MAX     4096u

struct bw_status_server; /* opaque */

/* Fills in everything except `time` and `streams_full`. */
typedef void bw_status_fill_view(void *context, struct bw_status_view *view);

/* Starts to listen. `fill_view` is called once per request. Returns 0, or an error with a
 * sentence. */
int bw_status_open(struct bw_status_server **out, uv_loop_t *loop, const char *address,
                   bw_status_fill_view *fill_view, void *context, char *why, size_t size);
/* The listening address as given, with the actual port. */
const char *bw_status_address(const struct bw_status_server *http);
/* Sends the JSON of a log event to all streams. */
void bw_status_publish(struct bw_status_server *http, const char *json, size_t length);
/* Sends the state to all streams if it has changed. Call it before the loop waits. */
void bw_status_update(struct bw_status_server *http);
void bw_status_tick(struct bw_status_server *http, bw_time now);
bw_time bw_status_deadline(const struct bw_status_server *http);
/* Closes the server. The loop must run once more; then all memory is freed. NULL is ignored. */
void bw_status_close(struct bw_status_server *http);

#endif
