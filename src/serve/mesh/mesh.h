/* Connections between the nodes of a cluster. Each node opens one connection to each other node and
 * sends only on that one.
 *
 * Frames have a bounded size. The first frame names the protocol versions, the cluster and both
 * nodes, and is answered. Both sides then use the highest version that both support. A foreign node
 * gets the reason and the connection is closed. A new connection from a node replaces the earlier
 * one, so frames of the earlier one never follow frames of the new one.
 *
 *   frame    4 length of the rest, 1 kind, payload
 *   HELLO    4 highest and 4 lowest version, 8 cluster, 4 from, 4 to, 4 port, host of the sender
 *   JOIN     4 highest and 4 lowest version, 4 port, host: asks which member has this address;
 *            the only frame on its connection
 *   ANSWER   4 highest and 4 lowest version, 4 enum bw_mesh_verdict; to JOIN also 8 cluster, 4 id,
 *            the members of the cluster's first start (member_list.h)
 *   others   interpreted by the replica
 *
 * Frames with much data must not delay heartbeats, answers and renewals, so there are two lanes. An
 * URGENT frame is sent before all BULK frames that wait; each lane keeps its order. Of the BULK
 * frames only little is given to the kernel in advance. The receiver sees one stream of frames, so
 * the lanes need no version of the protocol.
 *
 * Not guaranteed: delivery. A frame that cannot be sent is dropped, because Raft repeats its
 * messages. A closed connection is reported at once. */
#ifndef BW_SERVE_MESH_MESH_H
#define BW_SERVE_MESH_MESH_H

#include "core/replica/protocol.h"
#include "net/tls/credentials.h"
#include "serve/replica/replica.h"

struct bw_mesh;

struct bw_mesh_options {
    uv_loop_t *loop;
    uint64_t cluster;
    bw_node self;
    const char *host; /* listen address */
    uint16_t port;
    char own_host[BW_REPLICA_HOST_MAX + 1]; /* address that others use to reach this node */
    uint16_t own_port;
    /* NULL: no TLS. Otherwise both sides show certificates: for the host that the node is known by,
     * or, for a node not known yet, one that is valid for a server. */
    struct bw_credentials *credentials;
    void *context;
    void (*frame)(void *context, bw_node from, enum bw_mesh_frame kind, const unsigned char *bytes,
                  size_t length);
    /* Called when a connection to or from `node` was closed, or was established. */
    void (*closed)(void *context, bw_node node);
    void (*opened)(void *context, bw_node node);
    /* Decides whether a node with this id and address may connect. */
    enum bw_mesh_verdict (*judge)(void *context, const struct bw_replica_member *from);
    /* Called when a node with this address asks which member it is. Sets *id, and writes the
     * members of the cluster's first start to out[BW_MEMBER_LIST_BYTES_MAX]. */
    enum bw_mesh_verdict (*joins)(void *context, const char *host, uint16_t port, bw_node *id,
                                  unsigned char *out, size_t *length);
    /* A node that we connected to refused us with this verdict. */
    void (*refused)(void *context, bw_node node, enum bw_mesh_verdict verdict);
};

int bw_mesh_open(struct bw_mesh **out, const struct bw_mesh_options *options, char *why);
void bw_mesh_close(struct bw_mesh *mesh, void (*closed)(void *context));

/* Connects to a node from now on. Returns 0, BW_ELIMIT or BW_ENOMEM. */
int bw_mesh_add(struct bw_mesh *mesh, const struct bw_replica_member *member);
/* Changes the address of a node and closes the connection to the old one. */
void bw_mesh_move(struct bw_mesh *mesh, const struct bw_replica_member *member);
/* Closes the connections to and from all nodes that are not in `nodes`. */
void bw_mesh_keep(struct bw_mesh *mesh, const bw_node *nodes, uint32_t count);
/* Sets the protocol version that all nodes must support from now on (member_list.h). Closes the
 * connections of nodes that do not support it; these nodes get the reason when they reconnect. */
void bw_mesh_level(struct bw_mesh *mesh, uint32_t level);
bool bw_mesh_knows(const struct bw_mesh *mesh, bw_node node);
/* Sends one frame whose payload consists of all parts. Returns false if the node is not connected,
 * or if too many bytes are queued for it already. */
struct bw_part {
    const void *at;
    size_t length;
};

enum bw_mesh_lane { BW_LANE_URGENT, BW_LANE_BULK };

bool bw_mesh_send(struct bw_mesh *mesh, bw_node to, enum bw_mesh_frame kind, enum bw_mesh_lane lane,
                  const struct bw_part *parts, uint32_t count);
/* Returns true if a connection had more to read in this turn of the loop than a turn allows. */
bool bw_mesh_is_behind(const struct bw_mesh *mesh);
/* Bytes queued for this node. */
/* Bytes sent to the node, and frames that could not be sent. */
void bw_mesh_traffic(const struct bw_mesh *mesh, bw_node node, uint64_t *sent, uint64_t *unsent);
/* The kernel's estimate of the round-trip time. Returns false if the node is not connected. */
bool bw_mesh_round_trip(const struct bw_mesh *mesh, bw_node node, bw_time *out);
size_t bw_mesh_backlog(const struct bw_mesh *mesh, bw_node node);
/* Returns true if there is a connection from this node. */
bool bw_mesh_receives_from(const struct bw_mesh *mesh, bw_node node);
bool bw_mesh_connected(const struct bw_mesh *mesh, bw_node node);
/* Closes the connection from this node. The node connects again. */
void bw_mesh_disconnect_from(struct bw_mesh *mesh, bw_node node);

#endif
