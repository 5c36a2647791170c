/* The nodes of a cluster talking to each other: one connection in each direction, so that each node
 * speaks on the one it opened. Frames of a bounded size; the first names version, cluster and both
 * nodes, and a stranger is hung up on.
 *
 *   frame    4 length of the rest, 1 kind, payload
 *   HELLO    4 version, 8 cluster, 4 from, 4 to
 *   others   the replica's business
 *
 * What cannot be sent is dropped: Raft repeats itself. A connection that closes is told at once. */
#ifndef BW_SERVE_MESH_H
#define BW_SERVE_MESH_H

#include "net/credentials.h"
#include "serve/replica.h"

#define BW_MESH_VERSION   1u
#define BW_MESH_FRAME_MAX ((size_t)128 << 20) /* an append of 64 of the largest entries */

enum bw_peer_frame {
    BW_FRAME_HELLO = 1,
    BW_FRAME_RAFT,    /* 4 length of the message, message (codec.h), entries */
    BW_FRAME_ASK,     /* 8 request, 1 enum bw_replica_kind, proposal's bytes or 8 lease */
    BW_FRAME_TOLD,    /* 8 request, 4 error, 8 index, 8 ttl_ns */
    BW_FRAME_PIECE,   /* 8 index of the snapshot, 8 offset, 1 last, bytes */
    BW_FRAME_MEET,    /* 8 who asks: a number of its directory */
    BW_FRAME_WELCOME, /* 8 that number, 1 yes */
    BW_FRAME_KINDS
};

struct bw_mesh;

struct bw_mesh_options {
    uv_loop_t *loop;
    uint64_t cluster;
    bw_node self;
    const char *host; /* where to listen */
    uint16_t port;
    /* NULL: in the clear. Else both sides show certificates: for the host that the node is known
     * by, or, of a node not known yet, one that a server may show. */
    struct bw_credentials *credentials;
    void *context;
    void (*frame)(void *context, bw_node from, enum bw_peer_frame kind, const unsigned char *bytes,
                  size_t length);
    /* A connection to or from this node closed, or is there (again). */
    void (*closed)(void *context, bw_node node);
    void (*opened)(void *context, bw_node node);
};

int bw_mesh_open(struct bw_mesh **out, const struct bw_mesh_options *options, char *why);
void bw_mesh_close(struct bw_mesh *mesh, void (*closed)(void *context));

/* A node to be connected to from now on. Returns 0, BW_ELIMIT or BW_ENOMEM. */
int bw_mesh_add(struct bw_mesh *mesh, const struct bw_replica_member *member);
void bw_mesh_remove(struct bw_mesh *mesh, bw_node node);

/* The parts together are one frame's payload. False: not connected, or too much waits already. */
struct bw_part {
    const void *at;
    size_t length;
};

bool bw_mesh_send(struct bw_mesh *mesh, bw_node to, enum bw_peer_frame kind,
                  const struct bw_part *parts, uint32_t count);
/* Bytes that wait to be sent to it. */
size_t bw_mesh_backlog(const struct bw_mesh *mesh, bw_node node);
bool bw_mesh_connected(const struct bw_mesh *mesh, bw_node node);

#endif
