/* What a replica measures for /metrics: round trips to other nodes, and traffic between nodes. */
#include "core/base/bug.h"
#include "serve/replica/state.h"

#include <malloc.h>

#define SAMPLE_MS 4000u /* etcd's interval */
/* Bytes of entries, added or dropped, after which it is worth returning free memory to the
 * system. */
#define TRIM_BYTES ((uint64_t)8 << 20)

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

/* While large changes go on, bw_command_serve lets the heap keep free memory: new pages cost more
 * than the changes themselves. Entries that a snapshot has replaced free as much as they took. */
void replica_return_memory(struct bw_replica *r)
{
    uint64_t changed = bw_log_end(&r->log) + r->log.base_end;
    if (BW_BUG(measure_forgets_dropped_entries))
        changed = bw_log_end(&r->log);
    bool quiet = changed - r->measured < TRIM_BYTES;
    r->measured = changed;
    if (!quiet || changed - r->trimmed < TRIM_BYTES)
        return;
    r->trimmed = changed;
    malloc_trim(0);
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
    replica_return_memory(r);
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
