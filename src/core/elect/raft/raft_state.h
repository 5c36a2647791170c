/* Raft's insides, shared by the files of this folder and by nobody else.
 *
 * The model: processes crash and restart with what they had persisted, links lose, delay, duplicate
 * and reorder, clocks run at rates within 1 +- rho, nobody lies. Sources: Ongaro and Ousterhout,
 * "In Search of an Understandable Consensus Algorithm" (2014), cited as §n; Ongaro, "Consensus:
 * Bridging Theory and Practice" (2014), cited as thesis §n.
 *
 * One step sets `now` and `out` and clears `out` again; everything below reads them. Only the
 * become_* functions of state.c change `role`. */
#ifndef BW_ELECT_RAFT_STATE_H
#define BW_ELECT_RAFT_STATE_H

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/elect/raft/raft.h"

/* No honest term or index comes near: 2^62 elections at one per nanosecond take 146 years. */
#define BW_RAFT_NUMBER_MAX ((uint64_t)1 << 62)
/* Appends a reply may set off to one follower: more than one, so that the pipeline fills up. */
#define BW_RAFT_BURST 2u

enum bw_raft_role {
    BW_RAFT_FOLLOWER,
    BW_RAFT_PRECANDIDATE,
    BW_RAFT_CANDIDATE,
    BW_RAFT_LEADER,
    BW_RAFT_STOPPED
};

struct bw_raft_run { /* entries of one term from `first` to the next run's first - 1 */
    bw_index first;
    bw_term term;
};

struct bw_raft_log {
    bw_index snapshot_index;
    bw_term snapshot_term;
    bw_index last;
    bw_term last_term;
    bw_index durable; /* up to here acknowledged by PERSISTED; below snapshot_index: a restore is in
                         flight */
    bw_index rewritten_from; /* a truncation's first new write is in flight; 0 = none */
    uint32_t runs;
    struct bw_raft_run run[BW_RAFT_TERM_RUNS_MAX];
};

struct bw_raft_group { /* voters first, then learners */
    bw_node id[BW_RAFT_MEMBERS_MAX];
    uint32_t voters, count;
};

enum bw_raft_progress { BW_RAFT_PROBE, BW_RAFT_REPLICATE, BW_RAFT_SNAPSHOT };

struct bw_raft_peer { /* one member of the active group, self included; sorted by id */
    bw_node id;
    bool voter;
    bool granted; /* this election's vote or pre-vote */
    bool probed;  /* PROBE: one is out and unanswered */
    uint8_t progress;
    uint8_t ring; /* which in-flight ring is its */
    uint8_t flying, oldest;
    uint8_t window; /* REPLICATE: appends that may be in flight; grows with answers, halves with
                       refusals */
    bw_index next, match;
    bw_time acked;      /* newest echo given back in this term */
    bw_time resend_at;  /* SNAPSHOT */
    bw_index restoring; /* SNAPSHOT: up to where */
};

struct bw_raft_ring { /* last index of each append in flight */
    bw_index end[BW_RAFT_INFLIGHT_MAX];
};

struct bw_raft_read {
    uint64_t request;
    bw_time asked;
    bw_index index;
};

/* Leaders by name in the table of waits, and one entry for all others. More take turns within one T
 * only in a storm. */
#define BW_RAFT_BOUNDS 5u

/* A window of an earlier leader that may still be open, as far as this node knows (window.c).
 *   - A node has at most one entry. Entry 0 is for leaders that cannot be named (`to` is NONE).
 *   - `until` is on this node's clock; in the past: the entry is free. */
struct bw_raft_bound {
    bw_node to;
    bw_term term; /* the newest in which it led, as far as we know */
    bw_time until;
    bw_time span; /* length of the whole promise: no wait for it is longer, on any clock */
};

struct bw_raft {
    bw_time now;
    struct bw_actions *out;

    bw_node self;
    uint8_t role;
    bool voter; /* self, in the active group */
    bool dirty; /* term, vote, starts or promised differ from the last PERSIST */
    bool pre_vote, check_quorum, hints, untimed;

    bw_term term;
    bw_node vote;
    bw_node leader;
    bw_time heard_until; /* votes are ignored until then: the leader was heard; 0 = not, or
                            forgotten */
    bw_time election_at;
    bw_time deadline;
    bw_index commit;

    /* Towards a leader: how far our log is known to be its log, and what it is owed. */
    bw_index matched;
    bw_time newest_echo;
    bool owes_reply;
    bw_time window_ended; /* what the TIMEOUT_NOW that we obey says */

    struct bw_raft_bound bound[BW_RAFT_BOUNDS];

    /* Leading. */
    bw_index term_start; /* our first entry */
    bw_time heartbeat_at, won_at;
    bw_time quorum_echo; /* a majority has acknowledged what was sent then or later */
    bw_time act_from, act_until;
    bw_time resumed_at; /* acknowledgements of what was sent up to then carry no lease */
    bw_node transfer_to;
    bool released; /* the lease was given back for a transfer */
    bw_time transfer_until;
    uint64_t transfer_request;
    bw_time round_at; /* when the last round that all reads may count on was sent */
    uint32_t reads, first_read;

    struct bw_rng rng;
    bw_time timeout_min, timeout_max, period, jitter;
    bw_time promise, lease; /* T, and T (1 - rho) / (1 + rho) */
    double stretch;         /* (1 + rho) / (1 - rho) */
    uint32_t batch_max;
    bool together; /* see elector.h */
    uint32_t starts;
    bw_time promised;

    uint32_t peers, rings_used;
    struct bw_raft_peer peer[BW_RAFT_MEMBERS_MAX];
    struct bw_raft_log log;
    struct bw_raft_group base; /* as of the snapshot */
    uint32_t changes;
    struct bw_raft_change change[BW_RAFT_CHANGES_MAX];
    struct bw_raft_read read[BW_RAFT_READS_MAX];
    struct bw_raft_ring ring[BW_RAFT_MEMBERS_MAX];
};

/* log.c */
bw_term bw_raft_log_term(const struct bw_raft_log *log, bw_index index);
bw_index bw_raft_log_run_end(const struct bw_raft_log *log, uint32_t run);
uint32_t bw_raft_log_run_of(const struct bw_raft_log *log, bw_index index);
bw_index bw_raft_log_find(const struct bw_raft_log *log, bw_index index, bw_term term);
bool bw_raft_log_append(struct bw_raft_log *log, bw_term term, uint32_t count);
void bw_raft_log_truncate(struct bw_raft_log *log, bw_index from);
void bw_raft_log_compact(struct bw_raft_log *log, bw_index index);
void bw_raft_log_restore(struct bw_raft_log *log, bw_index index, bw_term term);
bool bw_raft_log_persisted(struct bw_raft_log *log, bw_index index, bw_term term);
int bw_raft_log_load(struct bw_raft_log *log, const struct bw_raft_saved *saved);
static inline bool bw_raft_log_full(const struct bw_raft_log *log)
{
    return log->runs >= BW_RAFT_TERM_RUNS_MAX;
}
static inline bool bw_raft_log_restoring(const struct bw_raft_log *log)
{
    return log->durable < log->snapshot_index;
}

/* step.c */
void bw_raft_step(struct bw_raft *raft, const struct bw_event *event, struct bw_actions *actions);

/* emit.c */
void bw_raft_flush(struct bw_raft *raft);
struct bw_message *bw_raft_send(struct bw_raft *raft, enum bw_message_kind kind, bw_node to);
void bw_raft_announce(struct bw_raft *raft, enum bw_loss reason);
void bw_raft_answer(struct bw_raft *raft, uint64_t request, int error, bw_index index);
void bw_raft_trace(struct bw_raft *raft, enum bw_trace_code code, bw_node node, uint64_t a,
                   uint64_t b);
struct bw_log_action *bw_raft_log_action(struct bw_raft *raft, enum bw_action_kind kind,
                                         bw_index first, bw_term term);

/* state.c */
void bw_raft_become_follower(struct bw_raft *raft, bw_term term, bw_node leader,
                             enum bw_loss reason);
void bw_raft_become_precandidate(struct bw_raft *raft);
void bw_raft_become_candidate(struct bw_raft *raft);
void bw_raft_become_leader(struct bw_raft *raft);
void bw_raft_become_stopped(struct bw_raft *raft);

/* election.c */
void bw_raft_timer_reset(struct bw_raft *raft);
void bw_raft_campaign(struct bw_raft *raft, bool transfer);
void bw_raft_candidate_ask(struct bw_raft *raft, uint8_t flags);
bool bw_raft_elected(const struct bw_raft *raft);
void bw_raft_election_timeout(struct bw_raft *raft);
void bw_raft_look_early(struct bw_raft *raft, bw_node node, bw_node heir);
void bw_raft_ask_again(struct bw_raft *raft);
bool bw_raft_leader_alive(const struct bw_raft *raft);

/* vote.c */
void bw_raft_on_prevote(struct bw_raft *raft, const struct bw_message *msg);
void bw_raft_on_prevote_reply(struct bw_raft *raft, const struct bw_message *msg);
void bw_raft_on_vote(struct bw_raft *raft, const struct bw_message *msg);
void bw_raft_on_vote_reply(struct bw_raft *raft, const struct bw_message *msg);

/* window.c */
void bw_raft_bind(struct bw_raft *raft, bw_node leader, bw_term term, bw_time left, bw_time span);
void bw_raft_unbind(struct bw_raft *raft, bw_node leader);
void bw_raft_confirmed_dead(struct bw_raft *raft, bw_node node, bw_term term);
void bw_raft_window_ended(struct bw_raft *raft, bw_node leader, bw_time ended);
bw_time bw_raft_tell_waits(const struct bw_raft *raft, bw_node but, struct bw_message *msg,
                           struct bw_raft_waits *out);
void bw_raft_take_waits(struct bw_raft *raft, const struct bw_raft_waits *waits);
bool bw_raft_is_waited_for(struct bw_raft *raft, bw_node node);
void bw_raft_window_begin(struct bw_raft *raft);
bw_time bw_raft_lost_at(const struct bw_raft *raft);
void bw_raft_quorum_update(struct bw_raft *raft);
void bw_raft_window_update(struct bw_raft *raft);
void bw_raft_window_release(struct bw_raft *raft);
void bw_raft_window_resume(struct bw_raft *raft);

/* append.c */
void bw_raft_on_append(struct bw_raft *raft, const struct bw_message *msg);
bool bw_raft_accept_leader(struct bw_raft *raft, const struct bw_message *msg, bw_time echo);
void bw_raft_reply_yes(struct bw_raft *raft, bw_index index, bw_time echo);
void bw_raft_follower_persisted(struct bw_raft *raft);
void bw_raft_commit_to(struct bw_raft *raft, bw_index index);

/* replicate.c */
void bw_raft_send_append(struct bw_raft *raft, struct bw_raft_peer *peer, bool entries);
void bw_raft_replicate(struct bw_raft *raft, struct bw_raft_peer *peer);
void bw_raft_replicate_all(struct bw_raft *raft);
void bw_raft_broadcast(struct bw_raft *raft);
void bw_raft_heartbeat(struct bw_raft *raft, struct bw_raft_peer *peer);

/* progress.c */
void bw_raft_on_append_reply(struct bw_raft *raft, const struct bw_message *msg);
void bw_raft_progress_reset(struct bw_raft_peer *peer, bw_index next);
void bw_raft_probe_from(struct bw_raft_peer *peer, bw_index next);
void bw_raft_commit_update(struct bw_raft *raft);
bool bw_raft_term_committed(const struct bw_raft *raft);

/* propose.c */
void bw_raft_propose(struct bw_raft *raft, const struct bw_command *command);

/* read.c */
void bw_raft_read_ask(struct bw_raft *raft, const struct bw_command *command);
void bw_raft_read_serve(struct bw_raft *raft);
void bw_raft_read_fail(struct bw_raft *raft);

/* member.c */
void bw_raft_group_apply(struct bw_raft_group *group, unsigned op, bw_node node);
void bw_raft_group_sync(struct bw_raft *raft);
struct bw_raft_peer *bw_raft_peer_find(struct bw_raft *raft, bw_node id);
bool bw_raft_change_add(struct bw_raft *raft, bw_index index, unsigned op, bw_node node);
void bw_raft_change_rollback(struct bw_raft *raft, bw_index from);
void bw_raft_change_compact(struct bw_raft *raft, bw_index index);
int bw_raft_group_load(struct bw_raft *raft, const struct bw_elector_config *config);
uint32_t bw_raft_voters(const struct bw_raft *raft);

/* change.c */
void bw_raft_change_ask(struct bw_raft *raft, const struct bw_command *command);
void bw_raft_change_committed(struct bw_raft *raft);

/* snapshot.c */
void bw_raft_send_snapshot(struct bw_raft *raft, struct bw_raft_peer *peer);
void bw_raft_on_snapshot(struct bw_raft *raft, const struct bw_message *msg);
void bw_raft_compact(struct bw_raft *raft, const struct bw_command *command);

/* transfer.c */
void bw_raft_transfer_ask(struct bw_raft *raft, const struct bw_command *command);
void bw_raft_transfer_progress(struct bw_raft *raft);
void bw_raft_transfer_timeout(struct bw_raft *raft);
void bw_raft_transfer_heartbeat(struct bw_raft *raft);
void bw_raft_step_aside(struct bw_raft *raft);
void bw_raft_hand_over(struct bw_raft *raft, enum bw_loss reason, bw_node heir);
void bw_raft_on_timeout_now(struct bw_raft *raft, const struct bw_message *msg);

#endif
