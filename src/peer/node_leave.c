/* Leaves the cluster permanently. The leaver announces it to all members several times, because
 * datagrams may be lost.
 *
 * With Raft, this is not enough. Until the leader has removed the leaver from the voters, a
 * majority may need its vote; of two voters, the remaining one could never lead without it. So the
 * leaver hands over and stays a voter until the leader confirms that its vote no longer counts. If
 * no confirmation arrives in time, it leaves anyway.
 *
 * A node that comes back with an empty directory has lost its votes. It takes no part until the
 * leader confirms that its removal is committed. Then it joins like a new node, and becomes a voter
 * again through the log. */
#include "os/clock.h"
#include "peer/node_state.h"

#define LEAVE_NOTICES   3u
#define LEAVE_NOTICE_NS (30 * BW_MS)
#define LEAVE_NS        (3 * BW_SEC)

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
        if (p->election[e].announced.leader == p->options.self)
            peer_enqueue(p, &resign);
    }
}

void peer_leave(struct bw_peer *p)
{
    p->leaving = p->own.left = true;
    p->leave_notices = LEAVE_NOTICES;
    p->leave_notice_at = 1;
    p->leave_until = bw_clock_boot() + LEAVE_NS;
    bw_peer_roster_take(&p->roster, &p->own, true);
    hand_over(p);
}

static bool vote_counts(const struct bw_peer *p)
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
    if (now < p->leave_notice_at)
        return true;
    p->leave_notice_at = now + LEAVE_NOTICE_NS;
    bool waits = vote_counts(p) && now < p->leave_until;
    if (p->leave_notices == 0 && !waits)
        return false;
    p->leave_notices -= p->leave_notices > 0;
    peer_meet_announce_leave(p);
    return true;
}

/* A node announces that it has left. The leader answers once no majority counts its vote any
 * more. */
void peer_leave_received(struct bw_peer *p, bw_node from, const struct sockaddr *address)
{
    p->out.kind = BW_PEER_ORDER;
    for (uint32_t e = 0; p->raft && p->instance && e < p->elections; e++) {
        p->out.order =
            (struct bw_peer_hand_over){.kind = BW_PEER_GONE, .election = (uint16_t)e, .node = from};
        if (p->election[e].announced.leader != p->options.self || !peer_raft_voteless(p, e, from))
            continue;
        if (address)
            peer_send_to(p, address, from);
        else
            peer_send(p, from);
    }
}

/* An uncommitted removal may be undone; a committed one is final everywhere. So a node that is not
 * yet a member of a cluster believes any leader. */
void peer_leave_gone(struct bw_peer *p, bw_node from, uint32_t election)
{
    if (!p->formed || (p->leaving && from == p->election[election].announced.leader))
        p->election[election].gone = true;
}

/* Sends the same announcement as a leaver, but with incarnation 0, so that it changes no roster. */
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
