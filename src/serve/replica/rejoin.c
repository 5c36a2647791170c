/* Refuses a node whose disk lost what it had promised.
 *
 * Model. Every answer of a node follows from durable state: a term, and entries up to an index. A
 * returning node reports how much its disk has, and the others compare that with what the node told
 * them before. If it has less, its disk lost data: the directory was restored from a copy, or the
 * disk reported a sync that it did not do. Such a node would vote and acknowledge as if it had
 * promised nothing, so it is refused and ends (fault 25 in docs/reference/faults.md).
 *
 * While they run, the others remember the highest term that the node sent. The leader also
 * remembers how far the node's log was in the same term. In a later term the log may be shorter;
 * then nothing follows from its length.
 *
 * For the time after their own restart they use the log: it records the incarnation of each node
 * (membership.h, incarnation.c), and a directory that is a copy of an earlier incarnation is
 * refused. A refused directory stays refused: its node has received messages of the others
 * meanwhile and would pass the check.
 *
 *   BACK   1 HERE, 8 term, 8 index that are durable
 *          1 PUBLISHED, 8 incarnation, 8 whether the node has published it
 *          1 REFUSED, 16 the fields of the refused PUBLISHED, or zeros */
#include "core/base/bug.h"
#include "core/base/little.h"
#include "serve/replica/state.h"

#include <stdio.h>

#define BACK_BYTES 17u

enum { BACK_HERE, BACK_REFUSED, BACK_PUBLISHED };

static void send_back(struct bw_replica *r, bw_node to, unsigned char what, uint64_t first,
                      uint64_t second)
{
    unsigned char bytes[BACK_BYTES] = {what};
    bw_put64(bytes + 1, first);
    bw_put64(bytes + 9, second);
    bw_mesh_send(r->mesh, to, BW_FRAME_BACK, BW_LANE_URGENT, &(struct bw_part){bytes, sizeof bytes},
                 1);
}

void replica_rejoin_opened(struct bw_replica *r, bw_node node)
{
    struct peer_record *peer = replica_peer(r, node);
    if (r->bootstrapping) {
        /* A founder found nothing on its disk. If it reported that when it connects again, it would
         * look as if it had lost what it has promised since. */
        if (peer && !BW_BUG(rejoin_founder_reports_its_empty_disk))
            peer->reported = true;
        return;
    }
    /* The first report contains the state that was on disk when the node opened it: since then the
     * node may have received entries from a leader, and its disk would not look older than the
     * others remember. Later reports give the whole log, which is never shorter than its durable
     * part. */
    bool first = peer && !peer->reported;
    if (peer)
        peer->reported = true;
    if (first)
        send_back(r, node, BACK_HERE, r->found_term, r->found_index);
    else
        send_back(r, node, BACK_HERE, r->durable.term, bw_raft_last_index(r->raft));
    /* repeat the refusal: the node was not connected when it was refused */
    if (peer && peer->check.refused)
        send_back(r, node, BACK_REFUSED, peer->check.starts, peer->check.published);
    if (r->members.ours.highest >= BW_VERSION_INCARNATIONS)
        send_back(r, node, BACK_PUBLISHED, r->members.starts, r->members.published);
}

/* The sender of such a message has made its term durable. */
void replica_rejoin_note(struct bw_replica *r, const struct bw_message *msg)
{
    struct peer_record *peer = replica_peer(r, msg->from);
    bool durable = msg->kind == BW_MSG_RAFT_APPEND || msg->kind == BW_MSG_RAFT_APPEND_REPLY ||
                   msg->kind == BW_MSG_RAFT_VOTE;
    if (peer && durable && msg->term > peer->highest_term)
        peer->highest_term = msg->term;
}

static bool lost_data(struct bw_replica *r, bw_node node, bw_term term, bw_index index)
{
    const struct peer_record *peer = replica_peer(r, node);
    if (peer && term < peer->highest_term)
        return true;
    return r->router.leading && term == r->term && index < bw_raft_match(r->raft, node);
}

void replica_rejoin_accepted(struct bw_replica *r, bw_node from)
{
    struct peer_record *peer = replica_peer(r, from);
    if (peer)
        bw_membership_accepted(&r->members, from, &peer->check);
}

void replica_rejoin_received(struct bw_replica *r, bw_node from, const unsigned char *bytes,
                             size_t length)
{
    struct peer_record *peer = replica_peer(r, from);
    if (length != BACK_BYTES || !peer)
        return;
    uint64_t first = bw_get64(bytes + 1), second = bw_get64(bytes + 9);
    if (bytes[0] == BACK_REFUSED) {
        if (bw_membership_is_refused(&r->members, first, second != 0))
            replica_rejoin_end(r);
        return;
    }
    if (bytes[0] == BACK_HERE && lost_data(r, from, first, second))
        bw_membership_lost_data(&peer->check);
    if (bytes[0] == BACK_PUBLISHED &&
        bw_membership_reported(&r->members, from, &peer->check, first, second != 0) ==
            BW_INCARNATION_OVERTAKEN)
        bw_mesh_disconnect_from(r->mesh, from);
    if (peer->check.refused)
        send_back(r, from, BACK_REFUSED, peer->check.starts, peer->check.published);
}

/* Checks the node again when it reconnects, perhaps with another directory. Not on the same
 * connection: it reports again when the refusal could not be sent, and may have received messages
 * of others since. */
void replica_rejoin_closed(struct bw_replica *r, bw_node node)
{
    struct peer_record *peer = replica_peer(r, node);
    if (peer && !bw_mesh_receives_from(r->mesh, node))
        peer->check.refused = false;
}

bool replica_rejoin_is_refused(struct bw_replica *r, bw_node node)
{
    const struct peer_record *peer = replica_peer(r, node);
    return peer && peer->check.refused;
}

void replica_rejoin_explain(const struct bw_replica *r, char *why)
{
    snprintf(why, BW_REPLICA_WHY_MAX + 1,
             "%.300s is older than what this node has promised to the others: it was restored from "
             "a copy, or the disk lost synced writes. Remove this node from the cluster and add it "
             "again with an empty directory",
             r->options.directory);
}

void replica_rejoin_end(struct bw_replica *r)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    replica_rejoin_explain(r, why);
    replica_incarnation_refused(r);
    r->options.ended(r->options.context, BW_REPLICA_UNUSABLE, why);
}
