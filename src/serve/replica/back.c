/* A node that comes back says how far its disk is, and the others compare that with what it told
 * them before.
 *
 * What a node answers follows from what is durable: a term, entries up to an index. If it is back
 * with less, its disk forgot: a copy was put back, or it lied about a sync. It would vote and
 * acknowledge as if it had promised nothing (fault 25), so it is told, and ends. The others
 * remember while they run: the highest term that it spoke in, and, who leads, how far its log was
 * in the same term. A log may be shorter in a later term; then nothing follows from it.
 *
 * What they do not remember after a start of their own stands in the log: which life each node
 * lives (membership.h, life.c). A directory from a copy of an earlier life is refused by
 * that. Who was refused does not try again: it heard the others meanwhile, and would pass.
 *
 *   BACK   1 HERE or REFUSED, 8 term, 8 index that are durable
 *          1 BORN, 8 which life it is, 8 whether it said so in the log */
#include "core/base/little.h"
#include "serve/replica/state.h"

#include <stdio.h>

#define BACK_BYTES 17u

enum { BACK_HERE, BACK_REFUSED, BACK_BORN };

static void say(struct bw_replica *r, bw_node to, unsigned char what, uint64_t first,
                uint64_t second)
{
    unsigned char bytes[BACK_BYTES] = {what};
    bw_put64(bytes + 1, first);
    bw_put64(bytes + 9, second);
    bw_mesh_send(r->mesh, to, BW_FRAME_BACK, &(struct bw_part){bytes, sizeof bytes}, 1);
}

void replica_back_opened(struct bw_replica *r, bw_node node)
{
    struct meeting *with = replica_meeting_with(r, node);
    if (r->meeting)
        return;
    /* The first time, what was on the disk when it was opened: somebody who leads may have been
     * heard since, and then the disk is no older than what is remembered of it. After that all of
     * its log: it is never shorter than what is durable. */
    bool first = with && !with->spoken;
    if (with)
        with->spoken = true;
    if (first)
        say(r, node, BACK_HERE, r->found_term, r->found_index);
    else
        say(r, node, BACK_HERE, r->durable.term, bw_raft_last_index(r->raft));
    if (with && with->deaf) /* there was no way to tell it when it was judged */
        say(r, node, BACK_REFUSED, 0, 0);
    if (r->members.ours.highest >= BW_VERSION_LIVES)
        say(r, node, BACK_BORN, r->members.starts, r->members.born);
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
    struct meeting *with = replica_meeting_with(r, from);
    if (length != BACK_BYTES || !with)
        return;
    uint64_t first = bw_get64(bytes + 1), second = bw_get64(bytes + 9);
    if (bytes[0] == BACK_HERE)
        with->deaf |= forgot(r, from, first, second);
    if (bytes[0] == BACK_BORN)
        with->deaf |= bw_membership_is_stale(&r->members, from, first, second != 0);
    if (bytes[0] == BACK_REFUSED)
        replica_back_end(r);
    else if (with->deaf)
        say(r, from, BACK_REFUSED, 0, 0);
}

/* It is judged anew when it connects anew: perhaps with another directory. On the same connection
 * it says again how far it is when it could not be told that it is refused, and may have heard
 * others since. */
void replica_back_closed(struct bw_replica *r, bw_node node)
{
    struct meeting *with = replica_meeting_with(r, node);
    if (with && !bw_mesh_hears(r->mesh, node))
        with->deaf = false;
}

bool replica_back_is_deaf(struct bw_replica *r, bw_node node)
{
    const struct meeting *with = replica_meeting_with(r, node);
    return with && with->deaf;
}

void replica_back_explain(const struct bw_replica *r, char *why)
{
    snprintf(why, BW_REPLICA_WHY_MAX + 1,
             "%.300s is older than what this node has promised to the others: it was put back from "
             "a copy, or the disk lost what it said was written. Remove this node from the cluster "
             "and add it anew, with an empty directory",
             r->options.directory);
}

void replica_back_end(struct bw_replica *r)
{
    char why[BW_REPLICA_WHY_MAX + 1];
    replica_back_explain(r, why);
    replica_life_refused(r);
    r->options.ended(r->options.context, BW_REPLICA_USELESS, why);
}
