/* An HTTP/2 client connection (RFC 9113) with nghttp2: streams over one link.
 *
 * `up` is called when the server's SETTINGS have arrived, so a port that merely accepts connections
 * does not count as a server. Everything a server can make grow is bounded: headers of one stream,
 * unsent bytes, and (by nghttp2 itself) floods of SETTINGS, PING and CONTINUATION. A server that
 * exceeds a bound is disconnected. No hook is called from within a call to this interface.
 * Everything requested in one turn of the loop is sent together. */
#ifndef BW_NET_GRPC_H2_H
#define BW_NET_GRPC_H2_H

#include "net/grpc/link.h"

/* Maximum size of the headers of one response, including the trailers. */
#define BW_H2_HEADERS_MAX 65536u
/* Maximum number of unsent bytes of one stream. */
#define BW_H2_STREAM_QUEUE_MAX (2u << 20)

struct bw_h2;
struct bw_h2_stream;

struct bw_h2_options {
    uv_loop_t *loop;
    const char *host;
    uint16_t port;
    struct bw_tls_config *tls; /* NULL: no TLS */
    uint64_t within_ms;        /* time limit until the server accepts the connection */
    uint64_t setup_ms;         /* time limit from then on until `up` */
    void *context;
    void (*up)(void *context);
    /* The connection ended; called once. All its streams end with it, without a call of `ended`. */
    void (*down)(void *context, const char *why);
};

/* Starts to connect. Returns NULL without memory. */
struct bw_h2 *bw_h2_open(const struct bw_h2_options *options);
/* Closes the connection. No hook is called afterwards. A hook may call this function. */
void bw_h2_close(struct bw_h2 *h2);

struct bw_h2_header {
    const char *name, *value; /* the name in lower case */
};

struct bw_h2_hooks {
    void (*header)(void *context, const char *name, const char *value, size_t value_length);
    void (*data)(void *context, const uint8_t *bytes, size_t length);
    /* The last hook of a stream, which must not be used afterwards. `code` is an error code of RFC
     * 9113; 0: the stream ended normally. */
    void (*ended)(void *context, uint32_t code);
};

/* Starts a POST to `path`. Call it only after `up`. The hooks must outlive the stream. Returns NULL
 * without memory, or if the server accepts no more streams. */
struct bw_h2_stream *bw_h2_post(struct bw_h2 *h2, const char *path,
                                const struct bw_h2_header *headers, size_t count,
                                const struct bw_h2_hooks *hooks, void *context);
/* Sends the next part of the body; `last`: it is the last part. Returns 0 or BW_ELIMIT. */
int bw_h2_send(struct bw_h2_stream *stream, const uint8_t *bytes, size_t length, bool last);
/* Cancels a stream with RST_STREAM(CANCEL); no hook is called. */
void bw_h2_cancel(struct bw_h2_stream *stream);

/* The current time. Unlike the loop's cached time, it advances while a callback runs. */
uint64_t bw_h2_now_ms(void);

/* When something last arrived from the server. */
uint64_t bw_h2_received_ms(const struct bw_h2 *h2);
/* The socket of the connection; see bw_link_fd. */
int bw_h2_fd(const struct bw_h2 *h2);
/* Sends a PING. Servers disconnect clients that do so more often than every 5 s. */
void bw_h2_ping(struct bw_h2 *h2);

#endif
