/* An HTTP/2 client connection (RFC 9113) on nghttp2: streams over one link.
 *
 * `up` comes when the server has spoken HTTP/2 (its SETTINGS are here), so a port that merely
 * accepts connections is no server. Everything a server can make grow is bounded: headers of one
 * stream, what is not yet sent, and by nghttp2 itself floods of SETTINGS, PING and CONTINUATION; a
 * server that goes beyond is hung up on. No hook is called from within a call; what calls ask for
 * is sent together on the next turn of the loop. */
#ifndef BW_NET_H2_H
#define BW_NET_H2_H

#include "net/grpc/link.h"

/* Header bytes of one stream, both blocks together. */
#define BW_H2_HEADERS_MAX 65536u
/* Bytes of one stream that wait to be sent. */
#define BW_H2_STREAM_QUEUE_MAX (2u << 20)

struct bw_h2;
struct bw_h2_stream;

struct bw_h2_options {
    uv_loop_t *loop;
    const char *host;
    uint16_t port;
    struct bw_tls_config *tls; /* NULL: in the clear */
    uint64_t within_ms;        /* until `up` */
    void *context;
    void (*up)(void *context);
    /* Once. Streams are not told one by one: they are gone with the connection. */
    void (*down)(void *context, const char *why);
};

/* NULL: no memory. */
struct bw_h2 *bw_h2_open(const struct bw_h2_options *options);
/* No hook is called any more. May be called from hooks. */
void bw_h2_close(struct bw_h2 *h2);

struct bw_h2_header {
    const char *name, *value; /* the name in lower case */
};

struct bw_h2_hooks {
    void (*header)(void *context, const char *name, const char *value, size_t value_length);
    void (*data)(void *context, const uint8_t *bytes, size_t length);
    /* The last one of a stream, which is then gone; an error code of RFC 9113, 0: it ended well. */
    void (*ended)(void *context, uint32_t code);
};

/* A POST to `path`; the hooks must outlive the stream. Only when up. NULL: no memory, or the server
 * takes no more. */
struct bw_h2_stream *bw_h2_post(struct bw_h2 *h2, const char *path,
                                const struct bw_h2_header *headers, size_t count,
                                const struct bw_h2_hooks *hooks, void *context);
/* More of the body; `last` ends it. Returns 0 or BW_ELIMIT. */
int bw_h2_send(struct bw_h2_stream *stream, const uint8_t *bytes, size_t length, bool last);
/* Nobody wants it any more: RST_STREAM(CANCEL), and no hook is called. */
void bw_h2_cancel(struct bw_h2_stream *stream);

/* Now, for instants here: the loop's own idea of it stands still while its owner is busy. */
uint64_t bw_h2_now_ms(void);

/* When something last came from the server. */
uint64_t bw_h2_heard(const struct bw_h2 *h2);
/* Its socket, as bw_link_fd. */
int bw_h2_fd(const struct bw_h2 *h2);
/* Asks for a sign of life. Servers punish clients that do so often: no more than every 5 s. */
void bw_h2_ping(struct bw_h2 *h2);

#endif
