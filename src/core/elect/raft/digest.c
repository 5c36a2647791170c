/* The digest of Raft's state for the explorer (core/explore/digest.h), and the removal of its
 * random draws. Fields that belong to another role are left out: become_* and start_election set
 * them again before their next use. */
#include "core/explore/digest.h"
#include "core/elect/raft/raft_state.h"

static void add_log(const struct bw_raft_log *log, struct bw_digest *out)
{
    bw_digest_add(out, log->snapshot_index << 32 | log->last);
    bw_digest_add(out, log->snapshot_term << 32 | log->last_term);
    bw_digest_add(out, log->durable << 32 | log->rewritten_from);
    bw_digest_add(out, log->runs);
    for (uint32_t i = 0; i < log->runs; i++)
        bw_digest_add(out, log->run[i].first << 32 | log->run[i].term);
}

static void add_group(const struct bw_raft *raft, struct bw_digest *out)
{
    bw_digest_add(out, (uint64_t)raft->base.voters << 32 | raft->base.count);
    for (uint32_t i = 0; i < raft->base.count; i++)
        bw_digest_add(out, raft->base.id[i]);
    bw_digest_add(out, raft->changes);
    for (uint32_t i = 0; i < raft->changes; i++)
        bw_digest_add(out, raft->change[i].index << 32 | (uint64_t)raft->change[i].op << 24 |
                               raft->change[i].node);
}

static bool is_dead(const struct bw_raft_bound *bound)
{
    return bound->until == 0 || (bound->dead > 0 && bound->term <= bound->dead);
}

/* A window that has ended still matters: later reports about its leader change the entry. */
static void add_bound(const struct bw_raft_bound *bound, struct bw_digest *out)
{
    bool dead = is_dead(bound);
    bw_digest_add(out, (uint64_t)bound->to << 1 | dead);
    bw_digest_add(out, bound->dead);
    bw_digest_add(out, dead ? 0 : bound->term);
    bw_digest_time(out, bound->until);
    bw_digest_add(out, dead && bound->until <= out->now ? 0 : (uint64_t)bound->span);
}

/* The table of waits, sorted by leader. The order of its rows has no effect, except for row 0 and
 * for the rows of dead windows, of which the first gives way to another leader. */
static void add_waits(const struct bw_raft *raft, struct bw_digest *out)
{
    bw_node done = BW_NODE_NONE;
    const struct bw_raft_bound *any = &raft->bound[0];
    bw_digest_time(out, any->until);
    bw_digest_add(out, any->until > raft->now ? (uint64_t)any->span : 0);
    for (;;) {
        const struct bw_raft_bound *next = NULL;
        for (unsigned i = 1; i < BW_RAFT_BOUNDS; i++) {
            const struct bw_raft_bound *bound = &raft->bound[i];
            if (bound->to > done && (!next || bound->to < next->to))
                next = bound;
        }
        if (!next)
            break;
        done = next->to;
        add_bound(next, out);
    }
    for (unsigned i = 1; i < BW_RAFT_BOUNDS; i++)
        if (raft->bound[i].to != BW_NODE_NONE && is_dead(&raft->bound[i]))
            bw_digest_add(out, raft->bound[i].to);
    bw_digest_add(out, 0);
}

static void add_progress(const struct bw_raft *raft, const struct bw_raft_peer *peer,
                         struct bw_digest *out)
{
    bw_digest_add(out, peer->next << 32 | peer->match);
    bw_digest_add(out, (uint64_t)peer->window << 24 | (uint64_t)peer->inflight << 16 |
                           (uint64_t)peer->progress << 8 | peer->probed);
    bw_digest_age(out, peer->acked);
    bw_digest_add(out, peer->restoring);
    if (peer->progress == BW_RAFT_SNAPSHOT)
        bw_digest_time(out, peer->resend_at);
    for (unsigned i = 0; i < peer->inflight; i++)
        bw_digest_add(out, raft->ring[peer->ring].end[(peer->oldest + i) % BW_RAFT_INFLIGHT_MAX]);
}

static void add_reads(const struct bw_raft *raft, struct bw_digest *out)
{
    bool waits = raft->reads > 0 || raft->quorum_echo < raft->round_at;
    bw_digest_add(out, raft->reads);
    bw_digest_age(out, waits || raft->round_at == out->now ? raft->round_at : -1);
    for (uint32_t i = 0; i < raft->reads; i++) {
        const struct bw_raft_read *read = &raft->read[(raft->first_read + i) % BW_RAFT_READS_MAX];
        bw_digest_add(out, read->request);
        bw_digest_age(out, read->asked);
        bw_digest_add(out, read->index);
    }
}

static void add_leader(const struct bw_raft *raft, struct bw_digest *out)
{
    bw_digest_add(out, raft->term_start);
    bw_digest_time(out, raft->heartbeat_at);
    bool young = raft->won_at + raft->timeout_min > out->now || raft->quorum_echo < raft->won_at;
    bw_digest_age(out, young ? raft->won_at : -1);
    bw_digest_age(out, raft->quorum_echo);
    bw_digest_time(out, raft->act_from);
    bw_digest_time(out, raft->act_until);
    bw_digest_add(out, raft->act_until > bw_time_max(raft->act_from, out->now));
    bw_digest_age(out, raft->resumed_at);
    bw_digest_add(out, (uint64_t)raft->transfer_to << 1 | raft->released);
    bw_digest_time(out, raft->transfer_to ? raft->transfer_until : 0);
    bw_digest_time(out, bw_raft_lost_at(raft));
    add_reads(raft, out);
    for (uint32_t i = 0; i < raft->peers; i++)
        add_progress(raft, &raft->peer[i], out);
}

static void add_follower(const struct bw_raft *raft, struct bw_digest *out)
{
    bw_digest_time(out, raft->ignore_votes_until);
    bw_digest_time(out, raft->election_at);
    bw_digest_add(out, raft->matched << 1 | raft->reply_pending);
    bw_digest_age(out, raft->newest_echo > 0 ? raft->newest_echo : -1);
    bw_digest_age(out, raft->window_ended > 0 ? raft->window_ended : -1);
    for (uint32_t i = 0; i < raft->peers; i++)
        bw_digest_add(out, raft->role == BW_RAFT_FOLLOWER ? 0 : raft->peer[i].granted);
}

void bw_raft_digest(const void *self, struct bw_digest *out)
{
    const struct bw_raft *raft = self;
    bw_digest_add(out, (uint64_t)raft->role << 32 | raft->vote);
    bw_digest_add(out, raft->term << 32 | raft->leader);
    bw_digest_add(out, raft->commit << 1 | raft->dirty);
    bw_digest_add(out, (uint64_t)raft->promised);
    add_log(&raft->log, out);
    add_group(raft, out);
    add_waits(raft, out);
    if (raft->role == BW_RAFT_LEADER)
        add_leader(raft, out);
    else
        add_follower(raft, out);
}

/* The generator in state 0 returns 0 for ever, so each draw yields its lower bound. */
void bw_raft_fix_draws(void *self)
{
    ((struct bw_raft *)self)->rng = (struct bw_rng){{0}};
}
