/* Internal state of streams, shared by stream.c (frames, identities, connections to keep) and
 * stream_link.c (the bytes of one connection). */
#ifndef BW_NET_SEALED_STREAM_STATE_H
#define BW_NET_SEALED_STREAM_STATE_H

#include "core/base/rng.h"
#include "net/sealed/stream.h"
#include "net/tls/credentials.h"
#include "os/refuse.h"

#define HEAD_BYTES 4u
#define HOST_MAX   255u
/* The longest frame of an unidentified sender: handshakes are short. */
#define UNIDENTIFIED_FRAME_MAX 1024u

/* Frames of the stream itself. */
enum { KIND_HELLO = BW_SEAL_KIND_MAX + 1, KIND_BYE };

struct waiting { /* a payload queued for its connection */
    struct waiting *next;
    unsigned kind;
    size_t length;
    unsigned char bytes[];
};

struct link { /* one connection */
    struct bw_stream *stream;
    struct link *next;
    uint64_t id;
    bw_node node;    /* as dialled, or as identified; NONE: unknown, or a client */
    bool dialled;    /* this side opened the connection */
    bool called;     /* opened by bw_stream_call */
    bool kept;       /* opened for bw_stream_keep */
    bool up;         /* bytes can be sent */
    bool known;      /* the other side is verified and has sent HELLO */
    bool hello_sent; /* incoming: our HELLO was sent */
    bool bye;        /* the other side announced a clean close (BYE) */
    bool closing;
    struct sockaddr_storage address;
    char host[HOST_MAX + 1]; /* host in the required certificate */
    uv_tcp_t tcp;
    uv_timer_t timer; /* time limit until `known`; then the idle timeout */
    uv_connect_t connect;
    uint32_t handles;
    struct bw_tls *tls; /* NULL: no TLS */
    unsigned char *in;
    size_t in_used, in_size;
    struct waiting *first, *last;
    size_t waiting_bytes;
};

struct keep { /* a connection to keep */
    struct bw_stream *stream;
    struct keep *next;
    bw_node node;
    struct sockaddr_storage address;
    char host[HOST_MAX + 1];
    uv_timer_t timer; /* pause before the next attempt */
    unsigned failures;
};

struct bw_stream {
    struct bw_stream_options options;
    uv_tcp_t listener;
    struct bw_refuser refuser;
    struct link *links;
    struct keep *keeps;
    uint32_t keep_count;
    uint64_t next_id;
    uint32_t handles; /* open handles, including links and keeps; the last one frees the memory */
    bool closing;
    void (*closed)(void *context);
    struct bw_stream_counts counts;
    struct bw_rng rng; /* for retry jitter */
    struct bw_sealed opened;
    unsigned char frame[HEAD_BYTES + BW_SEAL_FRAME_MAX]; /* outgoing frame */
    unsigned char chunk[65536];                          /* incoming bytes */
};

/* ---- stream_link.c ---- */

/* Adds a new connection to the list; NULL: no memory. */
struct link *stream_link_new(struct bw_stream *stream);
/* stream_on_up or stream_on_gone follows from the loop. */
void stream_link_dial(struct link *link);
/* Returns false after closing the connection. */
bool stream_link_accept(struct link *link, uv_stream_t *listener);
/* Writes everything. Otherwise the connection fails (from the loop) and it returns false. */
bool stream_link_write(struct link *link, const unsigned char *bytes, size_t length);
/* Removes the connection from the list; does not call stream_on_gone. */
void stream_link_close(struct link *link);
/* Calls stream_on_time after `ms`. */
void stream_link_time(struct link *link, uint64_t ms);

/* ---- stream.c ---- */

void stream_release(struct bw_stream *stream);
void stream_on_up(struct link *link);
/* Returns false to close the connection. */
bool stream_on_bytes(struct link *link);
/* The connection was closed or could not be made; `why` is the reason. */
void stream_on_gone(struct link *link, const char *why);
void stream_on_time(struct link *link);

#endif
