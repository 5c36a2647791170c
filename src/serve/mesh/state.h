/* Internal state of the mesh; only src/serve includes this.
 *
 *   mesh.c       peers: connecting, accepting, members that are added, moved and removed
 *   wire.c       one connection: frames in and out, with or without TLS
 *   handshake.c  the first frames of a connection: identity and versions */
#ifndef BW_SERVE_MESH_STATE_H
#define BW_SERVE_MESH_STATE_H

#include "core/base/rng.h"
#include "os/refuse.h"
#include "serve/mesh/mesh.h"

struct peer { /* an outgoing connection and its retries */
    struct bw_mesh *mesh;
    struct bw_replica_member member;
    bool used, removed, connected;
    unsigned failures;
    struct wire *wire;
    uv_timer_t timer;
    uv_getaddrinfo_t lookup;
    bool resolving;
    uint64_t sent;   /* bytes of payload */
    uint64_t unsent; /* frames that could not be sent */
};

struct wire { /* one TCP connection, in either direction */
    struct bw_mesh *mesh;
    struct peer *peer; /* outgoing: its peer */
    struct wire *next; /* incoming: next in the list */
    bw_node from;      /* incoming: sender, after its HELLO */
    bool closing, hello_sent, up;
    uint32_t version; /* highest version of the other side, after the handshake */
    uint64_t up_ms;
    struct bw_tls *tls; /* NULL: no TLS */
    uv_tcp_t tcp;
    uv_connect_t connect;
    unsigned char *in;
    size_t in_used, in_size;
    bool yielded;                   /* reading continues with the next turn of the loop */
    size_t turn_left;               /* bytes that may still be read in this turn */
    struct frame *bulk, **bulk_end; /* BULK frames that wait, oldest first */
    size_t bulk_bytes;
};

struct bw_mesh {
    struct bw_mesh_options options;
    uint32_t level; /* the version that the cluster relies on */
    struct peer peer[BW_REPLICA_NODES];
    struct wire *incoming;
    uint32_t incoming_count;
    uv_tcp_t listener;
    struct bw_refuser refuser;
    bool behind;      /* a connection yielded in this turn, or in the one before */
    uv_check_t turn;  /* end of a turn of the loop */
    uv_idle_t waker;  /* active while a connection has yielded: the loop does not sleep */
    uint32_t handles; /* open handles; the last one frees the memory */
    bool closing;
    struct bw_rng rng; /* for retry jitter */
    void (*closed)(void *context);
};

/* mesh.c */
void mesh_release(struct bw_mesh *mesh);
struct peer *mesh_find(const struct bw_mesh *mesh, bw_node node);
void mesh_retry_later(struct peer *peer);
void mesh_forget_incoming(struct wire *wire);
/* Closes the connections from this node, except one; NULL: all. */
void mesh_close_incoming(struct bw_mesh *mesh, bw_node node, const struct wire *except);

/* wire.c */
struct wire *wire_new(struct bw_mesh *mesh, struct peer *peer);
void wire_begin(struct wire *wire);
void wire_close(struct wire *wire);
/* A new turn of the loop began: reads again from a connection that has yielded. */
void wire_continue(struct wire *wire);
bool wire_send(struct wire *wire, enum bw_mesh_frame kind, enum bw_mesh_lane lane,
               const struct bw_part *parts, uint32_t count);
/* Bytes that wait to be sent. */
size_t wire_queued(const struct wire *wire);
/* Sends pending TLS records, then the frame. With length 0 it sends only the TLS records. */
bool wire_push_sealed(struct wire *wire, const unsigned char *clear, size_t length);

/* handshake.c */
void wire_handshake(struct wire *wire);
/* Returns false to close the connection. */
bool wire_take_frame(struct wire *wire, enum bw_mesh_frame kind, const unsigned char *bytes,
                     size_t length);

#endif
