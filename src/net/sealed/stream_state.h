/* The inside of streams: what stream.c (frames, whom they are from, which connections there should
 * be) and stream_link.c (one connection's bytes) share. */
#ifndef BW_NET_STREAM_STATE_H
#define BW_NET_STREAM_STATE_H

#include "core/base/rng.h"
#include "net/sealed/stream.h"
#include "net/tls/credentials.h"

#define HEAD_BYTES 4u
#define HOST_MAX   255u
/* The longest frame of somebody who has not been believed yet: hand-shakes are short. */
#define STRANGER_FRAME_MAX 1024u

/* Frames of the stream's own. */
enum { KIND_HELLO = BW_SEAL_KIND_MAX + 1, KIND_BYE };

struct waiting { /* a payload that waits for its connection */
    struct waiting *next;
    unsigned kind;
    size_t length;
    unsigned char bytes[];
};

struct link { /* one connection */
    struct bw_stream *stream;
    struct link *next;
    uint64_t id;
    bw_node node; /* who is there: as dialled, or as it has shown; NONE: not known, or a client */
    bool dialled, called, kept; /* by us; by bw_stream_call; for bw_stream_keep */
    bool up;                    /* bytes can be sent */
    bool known;                 /* the other side is believed, and has said HELLO */
    bool greeted;               /* incoming: our HELLO has gone out */
    bool bye;                   /* the other side closes in good order */
    bool closing;
    struct sockaddr_storage address;
    char host[HOST_MAX + 1]; /* of the certificate that must be shown */
    uv_tcp_t tcp;
    uv_timer_t timer; /* until it is known; then until it is idle */
    uv_connect_t connect;
    uint32_t handles;
    struct bw_tls *tls; /* NULL: in the clear */
    unsigned char *in;
    size_t in_used, in_size;
    struct waiting *first, *last;
    size_t waiting_bytes;
};

struct keep { /* a connection that should be there */
    struct bw_stream *stream;
    struct keep *next;
    bw_node node;
    struct sockaddr_storage address;
    char host[HOST_MAX + 1];
    uv_timer_t timer; /* the pause before the next try */
    unsigned failures;
};

struct bw_stream {
    struct bw_stream_options options;
    uv_tcp_t listener;
    struct link *links;
    struct keep *keeps;
    uint32_t keep_count;
    uint64_t next_id;
    uint32_t handles; /* open ones, of links and keeps as well: the memory goes with the last */
    bool closing;
    void (*closed)(void *context);
    struct bw_stream_counts counts;
    struct bw_rng rng; /* for pauses */
    struct bw_sealed opened;
    unsigned char frame[HEAD_BYTES + BW_SEAL_FRAME_MAX]; /* on its way out */
    unsigned char chunk[65536];                          /* on its way in */
};

/* ---- stream_link.c ---- */

/* A new one in the list; NULL: no memory. */
struct link *stream_link_new(struct bw_stream *stream);
/* stream_on_up or stream_on_gone follows from the loop. */
void stream_link_dial(struct link *link);
/* False: closed again. */
bool stream_link_accept(struct link *link, uv_stream_t *listener);
/* All of it, or the connection fails (from the loop) and false is returned. */
bool stream_link_write(struct link *link, const unsigned char *bytes, size_t length);
/* Out of the list; stream_on_gone is not called. */
void stream_link_close(struct link *link);
/* Calls the timer's hook of stream.c after so long. */
void stream_link_time(struct link *link, uint64_t ms);

/* ---- stream.c ---- */

void stream_release(struct bw_stream *stream);
void stream_on_up(struct link *link);
/* False: hang up. */
bool stream_on_bytes(struct link *link);
/* It closed or could not be made. `why` is a line. */
void stream_on_gone(struct link *link, const char *why);
void stream_on_time(struct link *link);

#endif
