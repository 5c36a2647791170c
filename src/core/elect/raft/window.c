/* When a leader may act: the part of Raft that depends on time.
 *
 * A voter that accepts an APPEND promises its sender: for T from now on my clock, no other leader
 * that I vote for acts. The voter does not withhold its vote. It reports the remaining time of the
 * promise to the candidate, and the winner waits until it has passed. So a dead leader is replaced
 * at once, and its successor acts when the last promise has ended.
 * The leader's window ends at act_until = s + T (1 - rho) / (1 + rho). Each voter has a newest
 * append that it acknowledged; s is the send time of the oldest of these among a majority. It is on
 * the leader's clock, and it is never the time of the reply.
 *
 * INVARIANT: no leader acts while a window of an earlier leader may be open. On every node, the
 * table `bound` holds each such window that the node knows of:
 * - The node accepted an APPEND: the window of the sender, for T.
 * - The node led: its own last window.
 * - The node won votes: every wait that these votes reported.
 * - The node accepted an APPEND or a SNAPSHOT of a leader that itself still waits: every wait of
 *   that leader. So a voter that joined later, and promised nothing to the earlier leader, learns
 *   of its window.
 * - The node restarted: the longest promise that it may have given, to an unknown leader.
 * An entry ends when its time has passed, when the work of that leader is confirmed dead, or when
 * that leader itself gave up its window. Nothing that happens to another leader ends it. A leader's
 * window begins when all entries of its table have ended, except its own; only bw_raft_window_begin
 * decides this. An id denotes one process: change.c does not add a node whose id other nodes
 * still wait for.
 *
 * Proof. Let W be a window of leader L, and M a leader of a later term. Among the leaders from L up
 * to but excluding M, let P be the last that committed an entry of its own term. P exists: L
 * committed one, otherwise it had no window. The leaders between P and M did not change the
 * membership, because a change needs such a commit first. So the group that elected M is one of P's
 * last two groups, which differ by one server (thesis §4.1). Hence one of M's voters acknowledged
 * that commit of P in P's term.
 * - If P is L, this voter promised to L itself, for an APPEND sent no earlier than the one from
 *   which W counts.
 * - Otherwise the voter adopted the waits of P, and by induction P waited for W.
 * - A voter that restarted in between waits for a whole T.
 *
 * Waits in messages. A message carries the remaining time when it is made. The receiver counts it
 * from receipt, lengthened by (1 + rho) / (1 - rho), so neither delay nor drift shortens it. No
 * node waits longer than the whole promise T on its own clock. This suffices: W lasts at most T /
 * (1 + rho) of real time from its append, and T on any clock lasts at least that. So waits do not
 * grow from leader to leader.
 *
 * Transfer. The leader ends its window and then sets the flag TRANSFER on every append. A voter
 * that receives the newest such append is free of its promise to that leader, and of no other
 * promise. After an abort, only acknowledgements of messages sent later extend the window again. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

static struct bw_raft_bound *bound_of(struct bw_raft *raft, bw_node leader)
{
    for (unsigned i = 0; i < BW_RAFT_BOUNDS; i++)
        if (raft->bound[i].to == leader)
            return &raft->bound[i];
    return NULL;
}

/* When the window ends; 0: it has ended, because the work is dead. */
static bw_time end_of(const struct bw_raft_bound *bound)
{
    return bound->dead > 0 && bound->term <= bound->dead ? 0 : bound->until;
}

static void raise_bound(struct bw_raft_bound *bound, bw_term term, bw_time until, bw_time span)
{
    bound->term = term > bound->term ? term : bound->term;
    bound->until = bw_time_max(bound->until, until);
    bound->span = bw_time_max(bound->span, span);
}

/* Makes an entry for another leader. It replaces the entry whose window ends first. If that window
 * is still open, the node goes on to wait for it in entry 0, whatever it learns about that leader
 * later. */
static struct bw_raft_bound *make_place(struct bw_raft *raft, bw_node leader)
{
    struct bw_raft_bound *place = &raft->bound[1];
    for (unsigned i = 2; i < BW_RAFT_BOUNDS; i++)
        if (end_of(&raft->bound[i]) < end_of(place))
            place = &raft->bound[i];
    if (end_of(place) > raft->now)
        raise_bound(&raft->bound[0], 0, place->until, place->span);
    *place = (struct bw_raft_bound){.to = leader};
    return place;
}

/* Records that a window of `leader` in `term` may be open for `left` on our clock. A restarted node
 * assumes that a window is open for `promised`, so `promised` must be at least `span`. */
void bw_raft_bind(struct bw_raft *raft, bw_node leader, bw_term term, bw_time left, bw_time span)
{
    struct bw_raft_bound *bound = bound_of(raft, leader);
    if (raft->untimed)
        return;
    if (!bound)
        bound = make_place(raft, leader);
    else if (end_of(bound) == 0) /* a window after the one that has ended */
        *bound = (struct bw_raft_bound){.to = leader};
    raise_bound(bound, term, raft->now + left, span);
    if (raft->promised < span) {
        raft->promised = span;
        raft->dirty = true;
    }
}

/* `leader` gave up its window. It cannot give up the windows that it waits for itself. */
void bw_raft_unbind(struct bw_raft *raft, bw_node leader)
{
    struct bw_raft_bound *bound = bound_of(raft, leader);
    if (bound && BW_ALWAYS(leader != BW_NODE_NONE))
        bound->until = 0;
    for (unsigned i = 0; BW_BUG(raft_handover_ends_waits) && i < BW_RAFT_BOUNDS; i++)
        raft->bound[i].until = 0;
}

/* The work that `node` ran as leader of terms up to `term` is dead; 0: of all terms so far. A
 * window of a later term stays, because the report of an old death may be late. */
void bw_raft_confirmed_dead(struct bw_raft *raft, bw_node node, bw_term term)
{
    struct bw_raft_bound *bound = node == BW_NODE_NONE ? NULL : bound_of(raft, node);
    if (!bound)
        return;
    if (term == 0 || BW_BUG(raft_old_death_frees))
        bound->until = 0;
    else if (term > bound->dead)
        bound->dead = term;
}

/* Whether the window that another node reports has ended, because that work is dead. */
static bool is_over(struct bw_raft *raft, const struct bw_raft_wait *wait)
{
    const struct bw_raft_bound *bound = bound_of(raft, wait->node);
    return bound && wait->term > 0 && wait->term <= bound->dead && !BW_BUG(raft_forgets_a_death);
}

/* `leader` of our term ended its window at `ended` on its clock. If we acknowledged nothing that it
 * sent later, our promise to it is void: after an abort, only acknowledgements of later messages
 * let it act again. The vote request of the successor carries this, in case it overtakes the append
 * with the flag TRANSFER. */
void bw_raft_window_ended(struct bw_raft *raft, bw_node leader, bw_time ended)
{
    if (ended > 0 && ended >= raft->newest_echo)
        bw_raft_unbind(raft, leader);
}

/* The entry with the longest wait after `before`, in descending order; NULL: no more. Skips the
 * entry of `but`. */
static const struct bw_raft_bound *next_wait(const struct bw_raft *raft, bw_node but,
                                             const struct bw_raft_bound *before)
{
    const struct bw_raft_bound *next = NULL;
    for (const struct bw_raft_bound *b = raft->bound; b < raft->bound + BW_RAFT_BOUNDS; b++) {
        bool listed =
            before && (b->until > before->until || (b->until == before->until && b <= before));
        if (end_of(b) <= raft->now || listed || (b->to == but && BW_ALWAYS(but != BW_NODE_NONE)))
            continue;
        if (!next || b->until > next->until)
            next = b;
    }
    return next;
}

/* Writes to `out` the remaining wait for each node whose window may be open, except for `but`, and
 * marks `msg` if there is any. `out` has an entry with the node's id for each of the longest waits;
 * its last entry combines those that do not fit. Returns the longest wait. */
bw_time bw_raft_put_waits(const struct bw_raft *raft, bw_node but, struct bw_message *msg,
                          struct bw_raft_waits *out)
{
    const struct bw_raft_bound *b =
        BW_BUG(raft_promise_not_reported) ? NULL : next_wait(raft, but, NULL);
    bw_time longest = b ? b->until - raft->now : 0;
    for (; b; b = next_wait(raft, but, b)) {
        uint32_t i = out->count < BW_RAFT_WAITS_MAX ? out->count++ : BW_RAFT_WAITS_MAX - 1;
        bool several = out->at[i].left_ns > 0; /* the last one combines all that do not fit */
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
        if (wait->left_ns <= 0 || wait->left_ns > span || span > BW_TIME_NEVER / 4 ||
            is_over(raft, wait))
            continue;
        bw_time left = (bw_time)((double)wait->left_ns * raft->stretch) + 1;
        bw_raft_bind(raft, wait->node, wait->term, bw_time_min(left, span), span);
    }
}

/* Whether a window of `node` may still be open. */
bool bw_raft_window_may_be_open(struct bw_raft *raft, bw_node node)
{
    const struct bw_raft_bound *bound = bound_of(raft, node);
    return bound && end_of(bound) > raft->now;
}

/* The earliest time at which we may act, according to the table: see INVARIANT above. No other
 * function sets the beginning of a window that has not begun. */
void bw_raft_window_begin(struct bw_raft *raft)
{
    bw_time from = raft->now;
    for (unsigned i = 0; i < BW_RAFT_BOUNDS; i++)
        if (raft->bound[i].to != raft->self)
            from = bw_time_max(from, end_of(&raft->bound[i]));
    raft->act_from = raft->act_until = from;
}

/* Extends the window as far as acknowledgements allow, and announces it if the gain is large
 * enough. */
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

/* Ends the window now, until bw_raft_window_resume. */
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
