/* The nodes of a cluster talking to each other: one connection in each direction, so that each node
 * speaks on the one it opened. Frames of a bounded size; the first names versions, cluster and both
 * nodes, and is answered: what is said then is said in the highest version that both know. A
 * stranger is told why it is none of ours, and hung up on.
 *
 *   frame    4 length of the rest, 1 kind, payload
 *   HELLO    4 highest and 4 lowest version, 8 cluster, 4 from, 4 to, 4 port, host of the sender
 *   JOIN     4 highest and 4 lowest version, 4 port, host: who am I? the only one on its connection
 *   ANSWER   4 highest and 4 lowest version, 4 enum bw_mesh_verdict; to JOIN also 8 cluster, 4 id,
 *            the members of the cluster's first start (roster.h)
 *   others   the replica's business
 *
 * What cannot be sent is dropped: Raft repeats itself. A connection that closes is told at once. */
#ifndef BW_SERVE_MESH_H
#define BW_SERVE_MESH_H

#include "core/replica/protocol.h"
#include "net/tls/credentials.h"
#include "serve/replica/replica.h"

struct bw_mesh;

struct bw_mesh_options {
    uv_loop_t *loop;
    uint64_t cluster;
    bw_node self;
    const char *host; /* where to listen */
    uint16_t port;
    char own_host[BW_REPLICA_HOST_MAX + 1]; /* where others reach us, told to them */
    uint16_t own_port;
    /* NULL: in the clear. Else both sides show certificates: for the host that the node is known
     * by, or, of a node not known yet, one that a server may show. */
    struct bw_credentials *credentials;
    void *context;
    void (*frame)(void *context, bw_node from, enum bw_peer_frame kind, const unsigned char *bytes,
                  size_t length);
    /* A connection to or from this node closed, or is there (again). */
    void (*closed)(void *context, bw_node node);
    void (*opened)(void *context, bw_node node);
    /* A node that says it is reached there connects: is it one of us? */
    enum bw_mesh_verdict (*judge)(void *context, const struct bw_replica_member *from);
    /* Who is to be reached there asks which member it is: its number, and the first members into
     * `out` of BW_ROSTER_BYTES_MAX. */
    enum bw_mesh_verdict (*joins)(void *context, const char *host, uint16_t port, bw_node *id,
                                  unsigned char *out, size_t *length);
    /* What a node that we connected to says of us, other than OK. */
    void (*refused)(void *context, bw_node node, enum bw_mesh_verdict verdict);
};

int bw_mesh_open(struct bw_mesh **out, const struct bw_mesh_options *options, char *why);
void bw_mesh_close(struct bw_mesh *mesh, void (*closed)(void *context));

/* A node to be connected to from now on. Returns 0, BW_ELIMIT or BW_ENOMEM. */
int bw_mesh_add(struct bw_mesh *mesh, const struct bw_replica_member *member);
/* The same at another address: what is connected is hung up on. */
void bw_mesh_move(struct bw_mesh *mesh, const struct bw_replica_member *member);
/* Nobody else is connected to, either way. */
void bw_mesh_keep(struct bw_mesh *mesh, const bw_node *nodes, uint32_t count);
/* The cluster relies on this version from now on (roster.h): who does not speak it is told so, and
 * hung up on. */
void bw_mesh_level(struct bw_mesh *mesh, uint32_t level);
bool bw_mesh_knows(const struct bw_mesh *mesh, bw_node node);
/* The parts together are one frame's payload. False: not connected, or too much waits already. */
struct bw_part {
    const void *at;
    size_t length;
};

bool bw_mesh_send(struct bw_mesh *mesh, bw_node to, enum bw_peer_frame kind,
                  const struct bw_part *parts, uint32_t count);
/* Bytes that wait to be sent to it. */
size_t bw_mesh_backlog(const struct bw_mesh *mesh, bw_node node);
/* Is there a connection from this node? */
bool bw_mesh_hears(const struct bw_mesh *mesh, bw_node node);
bool bw_mesh_connected(const struct bw_mesh *mesh, bw_node node);

#endif
