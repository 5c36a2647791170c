/* The service's door: one port for gRPC over HTTP/2 and for HTTP/1.1 (JSON, health, metrics).
 *
 * What a connection speaks shows in its first bytes. Everything a caller can make grow is bounded
 * (limits below); a caller that goes beyond, or does not read its answers, is hung up on. Answers
 * of one turn of the loop go out together. */
#ifndef BW_SERVE_FRONT_H
#define BW_SERVE_FRONT_H

#include "net/tls/credentials.h"
#include "serve/api/service.h"

#define BW_FRONT_CONNECTIONS_MAX 20000u
#define BW_FRONT_STREAMS_MAX     100u   /* of one connection at one time */
#define BW_FRONT_HEADERS_MAX     65536u /* bytes of one request */
#define BW_FRONT_MESSAGE_MAX     (BW_REQUEST_MAX + 65536u)
/* The account of a connection: bytes of responses that its client has not read. Streams send no
 * more beyond QUEUE_MAX of theirs; beyond QUEUE_MAX of all other responses, reads are held until
 * the client has read; beyond UNREAD_MAX of all of them but the largest, a response is refused with
 * RESOURCE_EXHAUSTED. A single response may be larger than that if nothing else is unread. */
#define BW_FRONT_QUEUE_MAX  ((size_t)8 << 20)
#define BW_FRONT_UNREAD_MAX (4 * BW_FRONT_QUEUE_MAX)
/* A stream's own responses: beyond it none of its further requests is taken. */
#define BW_FRONT_STREAM_QUEUE  ((size_t)256 << 10)
#define BW_FRONT_TURN_BYTES    ((size_t)256 << 10) /* read from a connection in one turn */
#define BW_FRONT_TURN_REQUESTS 8u                  /* of HTTP/1.1, of a connection in one turn */
#define BW_FRONT_IDLE_MS       20000u /* until a new connection has said what it speaks */
#define BW_FRONT_UNREAD_MS     60000u /* a caller reads within */
#define BW_FRONT_STREAM_MS     20000u /* a message comes whole within */
#define BW_FRONT_LEADERLESS_MS 2000u  /* nobody leads: streams that want a leader end */

struct bw_front;

struct bw_front_options {
    uv_loop_t *loop;
    struct bw_service *service;
    const char *host;                   /* an address */
    uint16_t port;                      /* 0: any; see bw_front_port */
    struct bw_credentials *credentials; /* NULL: no TLS */
    bw_time bind_hold_off_ns; /* for connections not from loopback; 0: they are not bound */
};

int bw_front_open(struct bw_front **out, const struct bw_front_options *options, char *why);
uint16_t bw_front_port(const struct bw_front *front);
/* Hangs up on everybody; `closed` comes from the loop. */
void bw_front_close(struct bw_front *front, void (*closed)(void *context), void *context);

#endif
