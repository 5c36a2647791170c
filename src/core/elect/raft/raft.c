/* Raft's elector interface: sizes, init, queries. raft_state.h states the model and the sources.
 *
 * Guarantees, if fewer than half of the voters fail permanently and disks are durable:
 * - at most one leader per term; its token is the term
 * - committed entries never change
 * - the windows of two leaders never overlap in real time, if clock rates are within 1 +- drift
 * - after all faults end, the group elects a leader
 *
 * Not guaranteed: a bound on the duration of an election, progress without a majority, or that a
 * leader knows at once that it was deposed. */
#include "core/elect/raft/raft_state.h"

#include <string.h>

#define BATCH_DEFAULT 256u

static size_t raft_bytes(const struct bw_elector_config *config)
{
    (void)config;
    return sizeof(struct bw_raft);
}

/* Enough for a reply to every read, two rounds to all members, a burst, and the actions of a role
 * change. */
static uint32_t raft_actions_max(const struct bw_elector_config *config)
{
    (void)config;
    return BW_RAFT_READS_MAX + 4 * BW_RAFT_MEMBERS_MAX + 64;
}

static bool valid(const struct bw_elector_config *config)
{
    return config->self != BW_NODE_NONE && config->timeout_min_ns > 0 &&
           config->timeout_max_ns >= config->timeout_min_ns && config->period_ns > 0 &&
           config->promise_ns >= 0 && config->drift_ppm < 1000000u &&
           (config->count == 0 || config->members);
}

static void configure(struct bw_raft *raft, const struct bw_elector_config *config)
{
    double rho = (double)config->drift_ppm / 1e6;
    raft->self = config->self;
    raft->pre_vote = config->pre_vote;
    raft->check_quorum = config->check_quorum;
    raft->hints = config->hints;
    raft->untimed = config->untimed;
    raft->timeout_min = config->timeout_min_ns;
    raft->timeout_max = config->timeout_max_ns;
    raft->period = config->period_ns;
    raft->together = config->together;
    raft->jitter =
        bw_time_min(config->timeout_min_ns / 2,
                    config->latency_ns > 0 ? 4 * config->latency_ns : config->timeout_min_ns / 4);
    /* A promise longer than the election timeout makes the winner of an election wait. It is for
     * work that takes longer to stop than a dead leader takes to be noticed. */
    raft->promise = config->promise_ns > 0 ? config->promise_ns : config->timeout_min_ns;
    raft->lease = (bw_time)((double)raft->promise * (1 - rho) / (1 + rho));
    raft->stretch = (1 + rho) / (1 - rho);
    raft->batch_max = config->batch_max > 0 ? config->batch_max : BATCH_DEFAULT;
    bw_rng_init(&raft->rng, config->seed);
}

static int raft_init(void *memory, const struct bw_elector_config *config)
{
    struct bw_raft *raft = memory;
    static const struct bw_raft_saved nothing;
    if (!valid(config))
        return BW_EINVAL;
    memset(raft, 0, offsetof(struct bw_raft, log));
    raft->log.runs = raft->changes = 0;
    configure(raft, config);
    raft->role = BW_RAFT_STOPPED;
    raft->deadline = BW_TIME_NEVER;
    int error = bw_raft_log_load(&raft->log, config->saved ? config->saved : &nothing);
    if (error)
        return error;
    raft->commit = raft->log.snapshot_index;
    return bw_raft_group_load(raft, config);
}

static void raft_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    bw_raft_step(self, event, actions);
}

static bw_time raft_deadline(const void *self)
{
    return ((const struct bw_raft *)self)->deadline;
}

static void raft_status(const void *self, struct bw_elector_status *out)
{
    static const char *const names[] = {"follower", "pre-candidate", "candidate", "leader",
                                        "stopped"};
    const struct bw_raft *raft = self;
    bool leading = raft->role == BW_RAFT_LEADER;
    *out = (struct bw_elector_status){
        .leader = raft->leader,
        .leading = leading,
        .electing = raft->role == BW_RAFT_PRECANDIDATE || raft->role == BW_RAFT_CANDIDATE,
        .term = raft->term,
        .token = raft->leader ? raft->term : BW_TOKEN_NONE,
        .act_from = leading ? raft->act_from : 0,
        .act_until = leading ? raft->act_until : 0,
        .state = names[raft->role],
    };
}

static bool raft_ready(const void *self, bw_node node)
{
    const struct bw_raft *raft = self;
    return bw_raft_is_voter(raft, node) && bw_raft_is_responsive(raft, node, raft->now);
}

const struct bw_elector_ops bw_elect_raft = {
    .name = "raft",
    .promise = "Only the side with a majority of the voters has a leader; at most one leader may "
               "act at any time.",
    .traits = BW_TRAIT_TOKEN | BW_TRAIT_OWN_TIMERS,
    .bytes = raft_bytes,
    .actions_max = raft_actions_max,
    .init = raft_init,
    .step = raft_step,
    .deadline = raft_deadline,
    .status = raft_status,
    .ready = raft_ready,
    .digest = bw_raft_digest,
    .fix_draws = bw_raft_fix_draws,
};

bw_index bw_raft_last_index(const struct bw_raft *raft)
{
    return raft->log.last;
}

bw_index bw_raft_commit_index(const struct bw_raft *raft)
{
    return raft->commit;
}

bw_index bw_raft_snapshot_index(const struct bw_raft *raft)
{
    return raft->log.snapshot_index;
}

bw_index bw_raft_match(struct bw_raft *raft, bw_node node)
{
    const struct bw_raft_peer *peer = bw_raft_peer_find(raft, node);
    return peer && raft->role == BW_RAFT_LEADER ? peer->match : 0;
}

uint32_t bw_raft_terms(const struct bw_raft *raft)
{
    return raft->log.runs;
}

bw_term bw_raft_term_at(const struct bw_raft *raft, bw_index index)
{
    return bw_raft_log_term(&raft->log, index);
}

bool bw_raft_is_voter(const struct bw_raft *raft, bw_node node)
{
    for (uint32_t i = 0; i < raft->peers; i++)
        if (raft->peer[i].id == node)
            return raft->peer[i].voter;
    return false;
}

uint32_t bw_raft_changes(const struct bw_raft *raft)
{
    return raft->changes;
}

bool bw_raft_is_changing(const struct bw_raft *raft)
{
    return raft->changes > 0 && raft->change[raft->changes - 1].index > raft->commit;
}

static const struct bw_raft_peer *peer_of(const struct bw_raft *raft, bw_node node)
{
    for (uint32_t i = 0; i < raft->peers; i++)
        if (raft->peer[i].id == node)
            return &raft->peer[i];
    return NULL;
}

bool bw_raft_is_heartbeat_due(const struct bw_raft *raft, bw_time now)
{
    if (raft->role != BW_RAFT_LEADER || now < raft->heartbeat_at)
        return false;
    if (raft->transfer_to != BW_NODE_NONE && now >= raft->transfer_until)
        return false;
    return !raft->check_quorum || now < bw_raft_lost_at(raft);
}

bool bw_raft_is_responsive(const struct bw_raft *raft, bw_node node, bw_time now)
{
    const struct bw_raft_peer *peer = peer_of(raft, node);
    if (raft->role != BW_RAFT_LEADER || !peer)
        return false;
    return node == raft->self || (peer->acked >= 0 && peer->acked + raft->timeout_max > now);
}

bool bw_raft_is_caught_up(const struct bw_raft *raft, bw_node node, bw_time now)
{
    const struct bw_raft_peer *peer = peer_of(raft, node);
    return raft->role == BW_RAFT_LEADER && peer && peer->progress == BW_RAFT_REPLICATE &&
           peer->acked + raft->timeout_min > now && peer->match + raft->batch_max >= raft->commit;
}
