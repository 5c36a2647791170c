/* The listener of the service: one port for gRPC over HTTP/2 and for HTTP/1.1 (JSON, health,
 * metrics).
 *
 * The first bytes of a connection show its protocol. The limits below bound everything a client can
 * make grow. The server closes the connection of a client that exceeds a limit or does not read its
 * responses. Responses produced in one turn of the loop are sent together. */
#ifndef BW_SERVE_FRONT_FRONT_H
#define BW_SERVE_FRONT_FRONT_H

#include "net/tls/credentials.h"
#include "serve/api/service.h"

#define BW_FRONT_CONNECTIONS_MAX 20000u
#define BW_FRONT_STREAMS_MAX     100u                       /* open streams per connection */
#define BW_FRONT_HEADERS_MAX     65536u                     /* bytes per request */
#define BW_FRONT_MESSAGE_MAX     (BW_REQUEST_MAX + 524288u) /* etcd's limit of a gRPC message */
#define BW_FRONT_BODY_MAX        (BW_FRONT_MESSAGE_MAX / 3 * 4 + 65536u) /* base64 in JSON */
/* Limits of unread bytes per connection: response bytes that the client has not read (account.h).
 *   - While the responses of streaming methods have more than QUEUE_MAX unread bytes, no stream of
 *     this connection gets another response.
 *   - While the responses of all other methods have more than QUEUE_MAX unread bytes, a read whose
 *     response may be large waits; the server builds that response later.
 *   - A response is refused with RESOURCE_EXHAUSTED if, together with all unread responses except
 *     the largest, it would exceed UNREAD_MAX.
 * A single response may be larger than UNREAD_MAX if nothing else is unread. */
#define BW_FRONT_QUEUE_MAX  ((size_t)8 << 20)
#define BW_FRONT_UNREAD_MAX (4 * BW_FRONT_QUEUE_MAX)
/* Limit of unread response bytes per stream. Above it, the server reads no further request from
 * this stream. */
#define BW_FRONT_STREAM_QUEUE ((size_t)256 << 10)
/* bytes read from a connection in one turn of the loop */
#define BW_FRONT_TURN_BYTES ((size_t)256 << 10)
/* HTTP/1.1 requests of a connection in one turn */
#define BW_FRONT_TURN_REQUESTS 8u
/* time for a new connection to send its first bytes, which show the protocol */
#define BW_FRONT_IDLE_MS 20000u
/* time after which a client that reads nothing is disconnected */
#define BW_FRONT_UNREAD_MS 60000u
#define BW_FRONT_STREAM_MS 20000u /* time for a request message to arrive completely */
/* time without a leader after which streams that require one are ended; --detect if longer */
#define BW_FRONT_LEADERLESS_MS 2000u

struct bw_front;

struct bw_front_options {
    uv_loop_t *loop;
    struct bw_service *service;
    const char *host;                   /* numeric IP address */
    uint16_t port;                      /* 0: the kernel chooses, see bw_front_port */
    struct bw_credentials *credentials; /* NULL: no TLS */
    bw_time bind_hold_off_ns; /* for connections not from loopback; 0: do not bind leases to them */
};

int bw_front_open(struct bw_front **out, const struct bw_front_options *options, char *why);
uint16_t bw_front_port(const struct bw_front *front);
/* Closes all connections; calls `closed` from the loop. */
void bw_front_close(struct bw_front *front, void (*closed)(void *context), void *context);

#endif
