/* The inside of the mesh; nobody outside src/serve includes this.
 *
 *   mesh.c        who is connected to: dialing, accepting, members that come, move and go
 *   wire.c   one connection: frames in and out, sealed or in the clear
 *   greet.c  its first words: who is there, which versions, is it one of us? */
#ifndef BW_SERVE_MESH_STATE_H
#define BW_SERVE_MESH_STATE_H

#include "core/base/rng.h"
#include "serve/mesh/mesh.h"

struct peer { /* outgoing */
    struct bw_mesh *mesh;
    struct bw_replica_member member;
    bool used, removed, connected;
    unsigned failures;
    struct wire *wire;
    uv_timer_t timer;
    uv_getaddrinfo_t lookup;
    bool looking;
};

struct wire { /* one TCP connection, either way */
    struct bw_mesh *mesh;
    struct peer *peer; /* outgoing: whose */
    struct wire *next; /* incoming: in the list */
    bw_node from;      /* incoming: who, once it said so */
    bool closing, greeted, up;
    uint32_t version; /* the highest that the other side speaks, once it said so */
    uint64_t up_ms;
    struct bw_tls *tls; /* NULL: in the clear */
    uv_tcp_t tcp;
    uv_connect_t connect;
    unsigned char *in;
    size_t in_used, in_size;
};

struct bw_mesh {
    struct bw_mesh_options options;
    uint32_t level; /* what the cluster relies on */
    struct peer peer[BW_REPLICA_NODES];
    struct wire *incoming;
    uint32_t incoming_count;
    uv_tcp_t listener;
    uint32_t handles; /* open ones: the memory goes with the last */
    bool closing;
    struct bw_rng rng; /* for pauses */
    void (*closed)(void *context);
};

/* mesh.c */
void mesh_release(struct bw_mesh *mesh);
struct peer *mesh_find(const struct bw_mesh *mesh, bw_node node);
void mesh_try_later(struct peer *peer);
void mesh_forget_incoming(struct wire *wire);

/* wire.c */
struct wire *wire_new(struct bw_mesh *mesh, struct peer *peer);
void wire_begin(struct wire *wire);
void wire_close(struct wire *wire);
bool wire_send(struct wire *wire, enum bw_peer_frame kind, const struct bw_part *parts,
               uint32_t count);
/* Takes the frame; what TLS has to say itself goes before it. Without one it is that alone. */
bool wire_push_sealed(struct wire *wire, const unsigned char *clear, size_t length);

/* greet.c */
void wire_greet(struct wire *wire);
/* False: hang up. */
bool wire_take_frame(struct wire *wire, enum bw_peer_frame kind, const unsigned char *bytes,
                     size_t length);

#endif
