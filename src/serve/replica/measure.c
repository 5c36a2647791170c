/* What a replica measures for /metrics: round trips to other nodes, and traffic between nodes. */
#include "serve/replica/state.h"

#define SAMPLE_MS 4000u /* etcd's interval */

static struct bw_replica_peer_figures *figures_of(struct bw_replica *r, bw_node node)
{
    for (uint32_t i = 0; i < BW_REPLICA_NODES; i++) {
        if (r->figures[i].node == BW_NODE_NONE)
            r->figures[i].node = node;
        if (r->figures[i].node == node)
            return &r->figures[i];
    }
    return NULL;
}

void replica_measure_received(struct bw_replica *r, bw_node from, size_t length)
{
    struct bw_replica_peer_figures *figures = figures_of(r, from);
    if (figures)
        figures->received += length;
}

/* Nodes that left keep their row until the process ends, like the series of etcd. */
void replica_measure(struct bw_replica *r)
{
    bw_node nodes[2 * BW_RAFT_MEMBERS_MAX];
    bw_time rtt_ns;
    uint64_t now = uv_now(r->options.loop);
    if (now < r->measure_at)
        return;
    r->measure_at = now + SAMPLE_MS;
    uint32_t count = bw_membership_nodes(r->raft, nodes);
    for (uint32_t i = 0; i < count; i++) {
        struct bw_replica_peer_figures *figures =
            nodes[i] == r->options.self ? NULL : figures_of(r, nodes[i]);
        if (figures && bw_mesh_round_trip(r->mesh, nodes[i], &rtt_ns))
            bw_histogram_add(&figures->round_trips, &bw_bounds_peer, rtt_ns);
    }
}

void bw_replica_peer(const struct bw_replica *r, bw_node node, struct bw_replica_peer *out)
{
    *out = (struct bw_replica_peer){.connected = bw_mesh_connected(r->mesh, node)};
    if (r->router.leading)
        out->match = bw_raft_match(r->raft, node);
    bw_mesh_round_trip(r->mesh, node, &out->round_trip_ns);
}

void bw_replica_figures(struct bw_replica *r, struct bw_replica_figures *out)
{
    bw_wal_syncs(r->wal, &out->syncs);
    out->applies = r->applies;
    out->peers = 0;
    for (uint32_t i = 0; i < BW_REPLICA_NODES && r->figures[i].node; i++) {
        struct bw_replica_peer_figures *peer = &out->peer[out->peers++];
        *peer = r->figures[i];
        bw_mesh_traffic(r->mesh, peer->node, &peer->sent, &peer->unsent);
    }
}
