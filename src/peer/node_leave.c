/* Leaving for good. Everybody is told, a few times, for a datagram may be lost.
 *
 * With Raft that is not enough: until the leader has taken the leaver out of the voters, a majority
 * may need it, and of two the one that stays could never lead without the other's vote. So a leaver
 * hands over and goes on as a voter until whoever leads says that it is not counted any more. When
 * nobody says so in time it goes all the same.
 *
 * One that comes back with an empty directory has forgotten its votes. It takes no part before the
 * leader has said the same of it: that its removal is committed. Then it joins as one that was
 * never there, and is a voter again when the log says so. */
#include "peer/node_state.h"

#define FAREWELLS   3u
#define FAREWELL_NS (30 * BW_MS)
#define LEAVE_NS    (3 * BW_SEC)

bool peer_counts_on(const struct bw_peer *p, bw_node id)
{
    if (bw_peer_roster_has(&p->roster, id))
        return true;
    if (!p->raft || !p->instance || !bw_peer_roster_find(&p->roster, id))
        return false;
    for (uint32_t e = 0; e < p->elections; e++)
        if (!peer_raft_without(p, e, id))
            return true;
    return false;
}

static void hand_over(struct bw_peer *p)
{
    for (uint32_t e = 0; e < p->elections; e++) {
        struct peer_queued resign = {
            .kind = BW_EVENT_COMMAND,
            .command = {.kind = BW_COMMAND_RESIGN, .election = (uint16_t)e}};
        if (p->election[e].said.leader == p->options.self)
            peer_enqueue(p, &resign);
    }
}

void peer_leave(struct bw_peer *p)
{
    p->leaving = p->own.left = true;
    p->farewells = FAREWELLS;
    p->farewell_at = 1;
    p->leave_until = peer_now() + LEAVE_NS;
    bw_peer_roster_take(&p->roster, &p->own, true);
    hand_over(p);
}

static bool counted(const struct bw_peer *p)
{
    if (!p->raft || !p->instance || p->dead || bw_peer_roster_members(&p->roster) == 0)
        return false;
    for (uint32_t e = 0; e < p->elections; e++)
        if (!p->election[e].gone)
            return true;
    return false;
}

bool peer_leave_tick(struct bw_peer *p, bw_time now)
{
    if (now < p->farewell_at)
        return true;
    p->farewell_at = now + FAREWELL_NS;
    bool waits = counted(p) && now < p->leave_until;
    if (p->farewells == 0 && !waits)
        return false;
    p->farewells -= p->farewells > 0;
    peer_meet_farewell(p);
    return true;
}

/* A word that somebody has left: whoever leads answers when no majority counts on it any more. */
void peer_leave_heard(struct bw_peer *p, bw_node from, const struct sockaddr *address)
{
    p->out.kind = BW_PEER_ORDER;
    for (uint32_t e = 0; p->raft && p->instance && e < p->elections; e++) {
        p->out.order =
            (struct bw_peer_hand_over){.kind = BW_PEER_GONE, .election = (uint16_t)e, .node = from};
        if (p->election[e].said.leader != p->options.self || !peer_raft_voteless(p, e, from))
            continue;
        if (address)
            peer_send_to(p, address, from);
        else
            peer_send(p, from);
    }
}

/* What is not committed at its leader may be undone; what is, is so everywhere. So one that is not
 * of a cluster yet believes any leader. */
void peer_leave_gone(struct bw_peer *p, bw_node from, uint32_t election)
{
    if (!p->formed || (p->leaving && from == p->election[election].said.leader))
        p->election[election].gone = true;
}

/* The same word as of one that leaves, by an incarnation that never was, so that it changes no
 * roster. */
void peer_leave_ask(struct bw_peer *p)
{
    p->out.kind = BW_PEER_ROSTER;
    p->out.rows.count = 1;
    p->out.rows.at[0] = p->own;
    p->out.rows.at[0].incarnation = 0;
    p->out.rows.at[0].left = true;
    for (uint32_t i = 0; i < p->roster.count; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        if (row->left || row->id == p->options.self)
            continue;
        p->counters.roster_frames++;
        peer_send(p, row->id);
    }
}

bool peer_leave_free(const struct bw_peer *p)
{
    for (uint32_t e = 0; e < p->elections; e++)
        if (!p->election[e].gone)
            return false;
    return true;
}
