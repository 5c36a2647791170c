/* When a leader may act: the part of Raft that speaks of time.
 *
 * A voter that accepts an APPEND promises to its sender: for T from now on my clock, nobody whom I
 * help to the lead acts. It does not withhold its vote; it tells the candidate how much of the
 * promise is left, and the winner waits that out. So a dead leader is replaced at once and its
 * successor acts when the last promise has ended.
 *   The leader:  act_until = s + T (1 - rho) / (1 + rho), s = when it sent the oldest of a
 * majority's newest acknowledged appends, on its clock (never when the answer came). The winner:
 * act_from = max over the granted votes of receipt + left (1 + rho) / (1 - rho). Any two majorities
 * share a voter and votes follow acknowledgements in term order, so with clock rates within 1 +-
 * rho two windows never overlap in real time, whatever a hint made voters forget. A restarted voter
 * does not know its promises and assumes a whole T; promised_ns is durable for that.
 *
 * Whoever waits and then hears that the one it waits for is dead has its votes given anew, in the
 * next term: by voters that have heard it too and owe the dead nothing any more.
 *
 * A transfer gives the lease back: the leader ends its window, then says so with the flag TRANSFER
 * on every append; a voter that sees the newest such append is free. After an abort only
 * acknowledgements of what was sent later carry a lease again. */
#include "elect/raft/raft_state.h"

static struct bw_raft_bound *bound_of(struct bw_raft *raft, bw_node leader)
{
    for (unsigned i = 0; i < BW_RAFT_BOUNDS; i++)
        if (raft->bound[i].to == leader)
            return &raft->bound[i];
    return NULL;
}

/* A place for another leader: that of the promise that ends first. */
static struct bw_raft_bound *make_place(struct bw_raft *raft, bw_node leader)
{
    struct bw_raft_bound *place = &raft->bound[0];
    for (unsigned i = 1; i < BW_RAFT_BOUNDS; i++)
        if (raft->bound[i].until < place->until)
            place = &raft->bound[i];
    raft->bound_before = bw_time_max(raft->bound_before, place->until);
    *place = (struct bw_raft_bound){.to = leader};
    return place;
}

void bw_raft_bind(struct bw_raft *raft, bw_node leader, bw_time until)
{
    struct bw_raft_bound *bound = bound_of(raft, leader);
    if (!bound)
        bound = make_place(raft, leader);
    bound->until = bw_time_max(bound->until, until);
}

void bw_raft_unbind(struct bw_raft *raft, bw_node leader)
{
    struct bw_raft_bound *bound = bound_of(raft, leader);
    if (bound)
        bound->until = 0;
}

/* `leader` of our term ended its window at `ended` on its clock. If we acknowledged nothing that it
 * sent later, our promise to it is void: it acts again only on acknowledgements of what it sends
 * after an abort. This says to a voter what the flagged append says, when the vote overtakes that.
 */
void bw_raft_window_ended(struct bw_raft *raft, bw_node leader, bw_time ended)
{
    if (ended > 0 && ended >= raft->newest_echo)
        bw_raft_unbind(raft, leader);
}

/* How long promises to others than `candidate` still hold. */
bw_time bw_raft_bound_left(const struct bw_raft *raft, bw_node candidate)
{
    bw_time until = raft->bound_before;
    for (unsigned i = 0; i < BW_RAFT_BOUNDS; i++)
        if (raft->bound[i].to != candidate)
            until = bw_time_max(until, raft->bound[i].until);
    if (BW_BUG(raft_promise_not_told))
        return 0;
    return until > raft->now ? until - raft->now : 0;
}

/* When a leader without its majority gives up (thesis §6.2): one election time-out after what it
 * last acknowledged was sent, and within that not before its window has ended. */
bw_time bw_raft_lost_at(const struct bw_raft *raft)
{
    return bw_time_max(raft->quorum_echo, raft->won_at) +
           bw_time_max(raft->timeout_min, bw_time_min(raft->lease, raft->timeout_max));
}

/* The send time that a majority has acknowledged; we ourselves know everything we sent. */
void bw_raft_quorum_update(struct bw_raft *raft)
{
    bw_time newest[BW_RAFT_MEMBERS_MAX];
    uint32_t count = 0, need = bw_raft_voters(raft) / 2 + 1;
    bool self_counts = false;
    for (uint32_t i = 0; i < raft->peers; i++) {
        const struct bw_raft_peer *peer = &raft->peer[i];
        if (!peer->voter)
            continue;
        if (peer->id == raft->self) {
            self_counts = true;
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && newest[at - 1] < peer->acked; at--)
            newest[at] = newest[at - 1];
        newest[at] = peer->acked;
    }
    need -= self_counts;
    raft->quorum_echo = need == 0 ? raft->now : need <= count ? newest[need - 1] : -1;
}

/* Extends the window as far as acknowledgements carry it, and says so when it is worth saying. */
void bw_raft_window_update(struct bw_raft *raft)
{
    if (raft->released || raft->quorum_echo <= raft->resumed_at)
        return;
    if (!bw_raft_term_committed(raft) && !BW_BUG(raft_acts_before_commit))
        return;
    bw_time until = raft->quorum_echo + raft->lease;
    bool open = raft->act_until > raft->act_from;
    if (raft->act_until <= raft->now)
        raft->act_from = bw_time_max(raft->act_from, raft->now);
    if (until <= raft->act_from || (open && until - raft->act_until < raft->period / 2))
        return;
    raft->act_until = until;
    bw_raft_announce(raft, BW_LOSS_NONE);
}

/* Ends the window now; it stays ended until resume. */
void bw_raft_window_release(struct bw_raft *raft)
{
    raft->released = true;
    if (BW_BUG(raft_transfer_keeps_lease))
        return;
    bool open = raft->act_until > raft->act_from && raft->act_until > raft->now;
    raft->act_until = bw_time_max(raft->act_from, bw_time_min(raft->act_until, raft->now));
    if (open)
        bw_raft_announce(raft, BW_LOSS_NONE);
}

void bw_raft_window_resume(struct bw_raft *raft)
{
    raft->released = false;
    raft->resumed_at = raft->now;
    raft->act_from = bw_time_max(raft->act_from, raft->now);
    raft->act_until = raft->act_from;
}
