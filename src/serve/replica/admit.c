/* A node that starts takes part once the others have let it in.
 *
 * The first words between two nodes are the versions that they speak (serve/mesh/greet.c). Until a
 * majority of the members, itself among them, has said that it is one of theirs, it hears nothing
 * else and writes nothing: one whose version does not go with theirs ends with its directory as it
 * was. When nobody can be reached for a moment it goes on alone; then others may be starting too,
 * or it is them who are not well. A node that was let in is not put off any more by one that does
 * not understand it: a single stray of another version must not end those that serve. */
#include "serve/replica/state.h"

#include <stdio.h>

#define ADMIT_MS 500u

/* Of those that the log names; counts as one itself, if it is one. */
static bool is_let_in(struct bw_replica *r)
{
    bw_node ids[2 * BW_RAFT_MEMBERS_MAX];
    uint32_t count = bw_membership_nodes(r->raft, ids), in = 0;
    for (uint32_t i = 0; i < count; i++)
        in += ids[i] == r->options.self || bw_mesh_connected(r->mesh, ids[i]);
    return in > count / 2;
}

static void begin(struct bw_replica *r)
{
    if (r->started || r->meeting || r->closing)
        return;
    uv_timer_stop(&r->hurry);
    replica_start(r);
}

static void on_patience(uv_timer_t *timer)
{
    begin(timer->data);
}

void replica_admit_begin(struct bw_replica *r)
{
    uv_timer_start(&r->hurry, on_patience, ADMIT_MS, 0);
    replica_admit_opened(r);
}

void replica_admit_opened(struct bw_replica *r)
{
    if (r->admitted || r->meeting || !is_let_in(r))
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
                 "node %u speaks an older protocol than this version of bellwether can: upgrade "
                 "the others to a version in between first%s",
                 node, untouched);
    else
        snprintf(why, sizeof why,
                 "node %u and the others rely on a newer protocol than this version of bellwether "
                 "speaks: start the newer version here%s",
                 node, untouched);
    if (!r->admitted)
        r->options.ended(r->options.context, BW_REPLICA_USELESS, why);
    else if (r->misfit != node)
        fprintf(stderr, "bellwether: %s\n", why);
    r->misfit = node;
}
