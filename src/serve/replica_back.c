/* A node that comes back says how far its disk is, and the others compare that with what it told
 * them before.
 *
 * What a node answers follows from what is durable: a term, entries up to an index. If it is back
 * with less, its disk forgot: a copy was put back, or it lied about a sync. It would vote and
 * acknowledge as if it had promised nothing (fault 25), so it is told, and ends. The others
 * remember while they run: the highest term that it spoke in, and, who leads, how far its log was
 * in the same term. A log may be shorter in a later term; then nothing follows from it. */
#include "base/little.h"
#include "serve/replica_state.h"

#include <stdio.h>

#define BACK_BYTES 17u

enum { BACK_HERE, BACK_REFUSED };

/* All of its log: it is never shorter than what is durable, and after a start it is what was. */
static void say(struct bw_replica *r, bw_node to, unsigned char what)
{
    unsigned char bytes[BACK_BYTES] = {what};
    bw_put64(bytes + 1, r->durable.term);
    bw_put64(bytes + 9, bw_raft_last_index(r->raft));
    bw_mesh_send(r->mesh, to, BW_FRAME_BACK, &(struct bw_part){bytes, sizeof bytes}, 1);
}

void replica_back_opened(struct bw_replica *r, bw_node node)
{
    if (!r->meeting)
        say(r, node, BACK_HERE);
}

/* A term in such a message is durable where it comes from. */
void replica_back_note(struct bw_replica *r, const struct bw_message *msg)
{
    struct meeting *with = replica_meeting_with(r, msg->from);
    bool told = msg->kind == BW_MSG_RAFT_APPEND || msg->kind == BW_MSG_RAFT_APPEND_REPLY ||
                msg->kind == BW_MSG_RAFT_VOTE;
    if (with && told && msg->term > with->heard)
        with->heard = msg->term;
}

static bool forgot(struct bw_replica *r, bw_node node, bw_term term, bw_index index)
{
    const struct meeting *with = replica_meeting_with(r, node);
    if (with && term < with->heard)
        return true;
    return r->session.leading && term == r->term && index < bw_raft_match(r->raft, node);
}

void replica_back_heard(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                        size_t length)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    if (length != BACK_BYTES)
        return;
    if (bytes[0] == BACK_HERE && forgot(r, from, bw_get64(bytes + 1), bw_get64(bytes + 9)))
        say(r, from, BACK_REFUSED);
    if (bytes[0] != BACK_REFUSED)
        return;
    snprintf(why, sizeof why,
             "%.300s is older than what this node has promised to the others: it was put back from "
             "a copy, or the disk lost what it said was written. Remove this node from the cluster "
             "and add it anew, with an empty directory",
             r->options.directory);
    r->options.ended(r->options.context, BW_REPLICA_USELESS, why);
}
