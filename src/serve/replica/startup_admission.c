/* A starting node takes part once the other nodes have admitted it.
 *
 * The handshake of a connection compares protocol versions (serve/mesh/handshake.c). Until a
 * majority of the members, counting this node, has accepted it, the node processes no other
 * messages and writes nothing. So a node with an incompatible version ends and leaves its directory
 * unchanged.
 *
 * After ADMIT_MS without such a majority the node starts anyway: the others may be starting too, or
 * may be unhealthy. An admitted node ignores later refusals by version: a single node of another
 * version must not stop the nodes that serve. */
#include "serve/replica/state.h"

#include "os/journal.h"

#include <stdio.h>

#define ADMIT_MS 500u

/* Counts the members named by the log that accepted this node, including itself if it is a
 * member. */
static bool is_admitted(struct bw_replica *r)
{
    bw_node ids[2 * BW_RAFT_MEMBERS_MAX];
    uint32_t count = bw_membership_nodes(r->raft, ids), in = 0;
    for (uint32_t i = 0; i < count; i++)
        in += ids[i] == r->options.self || bw_mesh_connected(r->mesh, ids[i]);
    return in > count / 2;
}

static void begin(struct bw_replica *r)
{
    if (r->started || r->bootstrapping || r->closing)
        return;
    uv_timer_stop(&r->start_timer);
    replica_start(r);
}

static void on_admit_timeout(uv_timer_t *timer)
{
    begin(timer->data);
}

void replica_admit_begin(struct bw_replica *r)
{
    uv_timer_start(&r->start_timer, on_admit_timeout, ADMIT_MS, 0);
    replica_admit_opened(r);
}

void replica_admit_opened(struct bw_replica *r)
{
    if (r->admitted || r->bootstrapping || !is_admitted(r))
        return;
    r->admitted = true;
    begin(r);
}

void replica_admit_refused(struct bw_replica *r, bw_node node, enum bw_mesh_verdict verdict)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    const char *untouched = r->started ? "" : "; nothing was changed here";
    if (verdict == BW_MESH_TOO_NEW)
        snprintf(why, sizeof why,
                 "cannot join: node %u speaks an older protocol than this version of bellwether "
                 "supports; "
                 "upgrade the others to an intermediate version first%s",
                 node, untouched);
    else
        snprintf(
            why, sizeof why,
            "cannot join: node %u and the others rely on a newer protocol than this version of "
            "bellwether speaks; start the newer version here%s",
            node, untouched);
    if (!r->admitted)
        r->options.ended(r->options.context, BW_REPLICA_UNUSABLE, why);
    else if (r->incompatible != node)
        bw_print_line(BW_PRIORITY_WARNING, "bellwether: %s", why);
    r->incompatible = node;
}
