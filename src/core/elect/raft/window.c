/* When a leader may act: the part of Raft that speaks of time.
 *
 * A voter that accepts an APPEND promises to its sender: for T from now on my clock, no other
 * leader that I vote for acts. It does not withhold its vote; it tells the candidate how much of
 * the promise is left, and the winner waits that out. So a dead leader is replaced at once and its
 * successor acts when the last promise has ended.
 *   The leader:  act_until = s + T (1 - rho) / (1 + rho), s = when it sent the oldest of a
 * majority's newest acknowledged appends, on its clock (never when the answer came).
 *
 * THE INVARIANT: no leader acts while a window of an earlier leader may be open. The table `bound`
 * keeps, on every node, each such window that the node knows of:
 *   - the node accepted an APPEND: the sender's window, for T;
 *   - it led: its own last window;
 *   - it won votes: every wait that the votes told;
 *   - it accepted an APPEND or a SNAPSHOT of a leader that itself still waits: every wait of that
 *     leader. This is how a voter that joined later, and promised nothing to the earlier leader,
 *     comes to know of its window;
 *   - it restarted: the longest promise it may have given, to a leader that it cannot name.
 * An entry ends by time, or when the work of that leader is confirmed dead, or when that leader
 * itself gave its window back. Nothing that happens to any other leader ends it. A leader's window
 * begins when every entry of its table has ended, except its own: bw_raft_window_begin is the only
 * place that decides this. A name stands for one process: change.c adds no node under a name that
 * is still waited for.
 *
 * Why that is enough. Let W be a window of leader L, and M a leader of a later term. Of the leaders
 * from L up to M, M excluded, let P be the last that committed an entry of its own term; L did, or
 * it had no window. Leaders between P and M changed no membership, because a change needs such a
 * commit first. So the group that elected M is one of P's last two, which differ by one server
 * (thesis 4.1), and one of M's voters acknowledged that commit of P, in P's term. If P is L, this
 * voter promised to L itself, by an APPEND sent no earlier than the one that W counts from. If not,
 * the voter accepted the waits of P, and P by induction waited for W. A voter that restarted in
 * between waits for a whole T.
 *
 * A wait travels as what is left of it when the message is made, and counts from receipt,
 * lengthened by (1 + rho) / (1 - rho): neither the journey nor drift shortens it. No node waits for
 * longer than the whole promise T on its own clock: W lasts at most T / (1 + rho) of real time from
 * its append, and T on any clock at least that. So a wait does not grow from leader to leader.
 *
 * A transfer gives the lease back: the leader ends its window, then says so with the flag TRANSFER
 * on every append; a voter that sees the newest such append is free of the promise to that leader,
 * and of no other. After an abort only acknowledgements of what was sent later carry a lease again.
 */
#include "core/elect/raft/raft_state.h"

static struct bw_raft_bound *bound_of(struct bw_raft *raft, bw_node leader)
{
    for (unsigned i = 0; i < BW_RAFT_BOUNDS; i++)
        if (raft->bound[i].to == leader)
            return &raft->bound[i];
    return NULL;
}

static void raise_bound(struct bw_raft_bound *bound, bw_term term, bw_time until, bw_time span)
{
    bound->term = term > bound->term ? term : bound->term;
    bound->until = bw_time_max(bound->until, until);
    bound->span = bw_time_max(bound->span, span);
}

/* A place for another leader: that of the window that ends first. If it has not ended, it is waited
 * for without a name, whatever is heard of that leader. */
static struct bw_raft_bound *make_place(struct bw_raft *raft, bw_node leader)
{
    struct bw_raft_bound *place = &raft->bound[1];
    for (unsigned i = 2; i < BW_RAFT_BOUNDS; i++)
        if (raft->bound[i].until < place->until)
            place = &raft->bound[i];
    if (place->until > raft->now)
        raise_bound(&raft->bound[0], 0, place->until, place->span);
    *place = (struct bw_raft_bound){.to = leader};
    return place;
}

/* A window of `leader` in `term` may be open for `left` on our clock. A restarted node assumes that
 * it is open for `promised`, so that must be at least `span`. */
void bw_raft_bind(struct bw_raft *raft, bw_node leader, bw_term term, bw_time left, bw_time span)
{
    struct bw_raft_bound *bound = bound_of(raft, leader);
    if (raft->untimed)
        return;
    if (!bound)
        bound = make_place(raft, leader);
    raise_bound(bound, term, raft->now + left, span);
    if (raft->promised < span) {
        raft->promised = span;
        raft->dirty = true;
    }
}

/* `leader` gave its window back. What it waits for itself is not its own to give back. */
void bw_raft_unbind(struct bw_raft *raft, bw_node leader)
{
    struct bw_raft_bound *bound = bound_of(raft, leader);
    if (bound && leader != BW_NODE_NONE)
        bound->until = 0;
    for (unsigned i = 0; i < BW_RAFT_BOUNDS && BW_BUG(raft_handover_ends_waits); i++)
        raft->bound[i].until = 0;
}

/* What `node` ran as leader of terms up to `term` is dead; 0: of all terms. A window of a later
 * term stays: news of an old death may be late. */
void bw_raft_confirmed_dead(struct bw_raft *raft, bw_node node, bw_term term)
{
    struct bw_raft_bound *bound = node == BW_NODE_NONE ? NULL : bound_of(raft, node);
    if (bound && (term == 0 || bound->term <= term || BW_BUG(raft_old_death_frees)))
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

/* The entry with the longest wait after `before`, in the order of the waits; NULL: no more. Leaves
 * out what concerns `but`. */
static const struct bw_raft_bound *next_wait(const struct bw_raft *raft, bw_node but,
                                             const struct bw_raft_bound *before)
{
    const struct bw_raft_bound *next = NULL;
    for (const struct bw_raft_bound *b = raft->bound; b < raft->bound + BW_RAFT_BOUNDS; b++) {
        bool told =
            before && (b->until > before->until || (b->until == before->until && b <= before));
        if (b->until <= raft->now || told || (b->to == but && but != BW_NODE_NONE))
            continue;
        if (!next || b->until > next->until)
            next = b;
    }
    return next;
}

/* Puts into `msg` every wait that does not concern `but`, the longest by name; returns the longest.
 */
bw_time bw_raft_tell_waits(const struct bw_raft *raft, bw_node but, struct bw_message *msg,
                           struct bw_raft_waits *out)
{
    const struct bw_raft_bound *b =
        BW_BUG(raft_promise_not_told) ? NULL : next_wait(raft, but, NULL);
    bw_time longest = b ? b->until - raft->now : 0;
    for (; b; b = next_wait(raft, but, b)) {
        uint32_t i = out->count < BW_RAFT_WAITS_MAX ? out->count++ : BW_RAFT_WAITS_MAX - 1;
        bool several = out->at[i].left_ns > 0; /* the last is for all that have no place */
        out->at[i].node = several ? BW_NODE_NONE : b->to;
        out->at[i].term = several ? 0 : b->term;
        out->at[i].left_ns = bw_time_max(out->at[i].left_ns, b->until - raft->now);
        out->span_ns = bw_time_max(out->span_ns, bw_time_max(b->span, b->until - raft->now));
        msg->flags |= BW_FLAG_WAITS;
    }
    return longest;
}

void bw_raft_take_waits(struct bw_raft *raft, const struct bw_raft_waits *waits)
{
    bw_time span = waits->span_ns;
    for (uint32_t i = 0; i < waits->count && i < BW_RAFT_WAITS_MAX; i++) {
        const struct bw_raft_wait *wait = &waits->at[i];
        if (wait->left_ns <= 0 || wait->left_ns > span || span > BW_TIME_NEVER / 4)
            continue;
        bw_time left = (bw_time)((double)wait->left_ns * raft->stretch) + 1;
        bw_raft_bind(raft, wait->node, wait->term, bw_time_min(left, span), span);
    }
}

/* A window of `node` may still be open. */
bool bw_raft_is_waited_for(struct bw_raft *raft, bw_node node)
{
    const struct bw_raft_bound *bound = bound_of(raft, node);
    return bound && bound->until > raft->now;
}

/* The earliest instant at which we may act, from the table: see THE INVARIANT above. Nothing else
 * sets the begin of a window that has not begun. */
void bw_raft_window_begin(struct bw_raft *raft)
{
    bw_time from = raft->now;
    for (unsigned i = 0; i < BW_RAFT_BOUNDS; i++)
        if (raft->bound[i].to != raft->self)
            from = bw_time_max(from, raft->bound[i].until);
    raft->act_from = raft->act_until = from;
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
    if (raft->act_until <= raft->now)
        bw_raft_window_begin(raft);
    bool open = raft->act_until > raft->act_from;
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
    bw_raft_window_begin(raft);
}
