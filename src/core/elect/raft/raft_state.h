/* Raft's internal state, shared only by the files of this folder.
 *
 * Model: processes crash and restart with their persisted state; links lose, delay, duplicate and
 * reorder messages; clock rates are within 1 +- rho; no Byzantine faults.
 *
 * Sources: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014),
 * cited as §n; Ongaro, "Consensus: Bridging Theory and Practice" (2014), cited as thesis §n.
 *
 * A step sets `now` and `out` and clears `out` at its end; all functions below use them. Only the
 * become_* functions of state.c change `role`. */
#ifndef BW_CORE_ELECT_RAFT_RAFT_STATE_H
#define BW_CORE_ELECT_RAFT_RAFT_STATE_H

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/elect/raft/raft.h"

/* No correct node reaches this term or index: 2^62 elections at one per nanosecond take 146
 * years. */
#define BW_RAFT_NUMBER_MAX ((uint64_t)1 << 62)
/* Maximum number of appends that one reply triggers. More than one, so that the pipeline fills. */
#define BW_RAFT_BURST 2u

enum bw_raft_role {
    BW_RAFT_FOLLOWER,
    BW_RAFT_PRECANDIDATE,
    BW_RAFT_CANDIDATE,
    BW_RAFT_LEADER,
    BW_RAFT_STOPPED
};

struct bw_raft_run { /* entries of one term, from `first` to the next run's first - 1 */
    bw_index first;
    bw_term term;
};

/* The terms of the log, as runs of entries with the same term (log.c).
 *
 * Invariants:
 *   snapshot_index <= last, and last_term is the term of entry `last`
 *   the runs cover the entries from snapshot_index + 1 to `last`, without gaps; no run is empty
 *   `first` and `term` grow from run to run
 *   durable <= last */
struct bw_raft_log {
    bw_index snapshot_index;
    bw_term snapshot_term;
    bw_index last;
    bw_term last_term;
    /* acknowledged by PERSISTED up to here; below snapshot_index: a restore is in progress */
    bw_index durable;
    bw_index rewritten_from; /* after a truncation: the first new entry, not yet durable; 0: none */
    uint32_t runs;
    struct bw_raft_run run[BW_RAFT_TERM_RUNS_MAX];
};

struct bw_raft_group { /* voters first, then learners */
    bw_node id[BW_RAFT_MEMBERS_MAX];
    uint32_t voters, count;
};

/* What a node is in a group, in ascending order of rights. */
enum bw_raft_standing { BW_RAFT_OUTSIDER, BW_RAFT_LEARNER, BW_RAFT_VOTER };

enum bw_raft_progress { BW_RAFT_PROBE, BW_RAFT_REPLICATE, BW_RAFT_SNAPSHOT };

/* One member of the active group, including self. The fields below `granted` are the leader's.
 *
 * Invariants at the leader:
 *   match < next
 *   match <= log.last; the member's log equals the leader's up to `match`
 *   PROBE      no append counts as in flight
 *   REPLICATE  the ring has the last index of each of the `inflight` appends, from `oldest` on
 *   SNAPSHOT   no entries are sent until match >= restoring */
struct bw_raft_peer {
    bw_node id;
    bool voter;
    bool granted; /* granted its vote or pre-vote in this election */
    bool probed;  /* PROBE: an append is unanswered */
    uint8_t progress;
    uint8_t ring; /* index of its in-flight ring */
    uint8_t inflight, oldest;
    /* REPLICATE: maximum number of appends in flight; grows with acknowledgements, halves with
     * rejections */
    uint8_t window;
    bw_index next, match;
    bw_time acked;      /* newest echo received in this term; -1: none */
    bw_time resend_at;  /* SNAPSHOT: when to send it again */
    bw_index restoring; /* SNAPSHOT: its last index, or the minimum if it does not exist yet */
};

struct bw_raft_ring { /* last index of each append in flight */
    bw_index end[BW_RAFT_INFLIGHT_MAX];
};

struct bw_raft_read {
    uint64_t request;
    bw_time asked;
    bw_index index;
};

/* Size of the table of waits: one entry per leader with a known id, and one for all others. Only a
 * storm of elections brings more leaders within one T. */
#define BW_RAFT_BOUNDS 5u

/* A window of an earlier leader that may still be open, as far as this node knows (window.c).
 *
 * Invariants:
 *   a leader has at most one entry
 *   entry 0 covers all leaders with unknown id (`to` is BW_NODE_NONE)
 *   `until` is on this node's clock; an entry with `until` in the past is free
 *   an entry with `term` up to `dead` has ended, too; it stays until then, because a vote or an
 *   append that was sent before its sender learned of the death may still report that window */
struct bw_raft_bound {
    bw_node to;
    bw_term term; /* newest known term in which it led */
    bw_term dead; /* its work in terms up to this one is dead: such windows have ended */
    bw_time until;
    bw_time span; /* full length of the promise; no node waits longer for it, on any clock */
};

/* Invariants between two steps:
 *   log.snapshot_index <= commit <= log.last; neither commit nor term ever decreases in one process
 *   CANDIDATE            vote is self
 *   LEADER               vote and leader are self, and term_start <= log.last
 *   not LEADER           leader is not self, and act_from and act_until are 0
 *   before it wins       (PRECANDIDATE, CANDIDATE) leader is BW_NODE_NONE
 *   peer[] lists the members of `base` as changed by change[0..changes), sorted by id
 *   dirty is false: a step that changes term, vote or promise persists it before it sends anything
 *   out is NULL */
struct bw_raft {
    bw_time now;
    struct bw_actions *out;

    bw_node self;
    uint8_t role;
    bool voter; /* self is a voter in the active group */
    bool dirty; /* term, vote, starts or promised differ from the last PERSIST */
    bool pre_vote, check_quorum, hints, untimed;

    bw_term term;
    bw_node vote;
    bw_node leader;
    /* the node ignores votes until then, because it received from the leader; 0: no leader, or
     * forgotten */
    bw_time ignore_votes_until;
    bw_time election_at;
    bw_time deadline;
    bw_index commit;

    /* As a follower: the index up to which our log equals the leader's, and the state of the
     * reply. */
    bw_index matched;
    bw_time newest_echo;
    bool reply_pending;
    bw_time window_ended; /* echo of the TIMEOUT_NOW that we obey */

    struct bw_raft_bound bound[BW_RAFT_BOUNDS];

    /* As a leader. */
    bw_index term_start; /* index of our first entry in this term */
    bw_time heartbeat_at, won_at;
    bw_time quorum_echo; /* send time that a majority has acknowledged; -1: none */
    bw_time act_from, act_until;
    bw_time resumed_at; /* acknowledgements of messages sent up to then do not extend the window */
    bw_node transfer_to;
    bool released; /* the window was given up for a transfer */
    bw_time transfer_until;
    uint64_t transfer_request;
    bw_time round_at; /* send time of the last round, on which reads rely */
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
    struct bw_raft_group base; /* at the snapshot */
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
void bw_raft_campaign_early(struct bw_raft *raft, bw_node node, bw_node successor);
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
bw_time bw_raft_put_waits(const struct bw_raft *raft, bw_node but, struct bw_message *msg,
                          struct bw_raft_waits *out);
void bw_raft_take_waits(struct bw_raft *raft, const struct bw_raft_waits *waits);
bool bw_raft_window_may_be_open(struct bw_raft *raft, bw_node node);
void bw_raft_window_begin(struct bw_raft *raft);
void bw_raft_window_update(struct bw_raft *raft);
void bw_raft_window_release(struct bw_raft *raft);
void bw_raft_window_resume(struct bw_raft *raft);

/* check_quorum.c */
bw_time bw_raft_lost_at(const struct bw_raft *raft);
void bw_raft_quorum_update(struct bw_raft *raft);
bool bw_raft_check_quorum(struct bw_raft *raft);

/* append.c */
void bw_raft_on_append(struct bw_raft *raft, const struct bw_message *msg);
bool bw_raft_accept_leader(struct bw_raft *raft, const struct bw_message *msg, bw_time echo);
void bw_raft_reply_yes(struct bw_raft *raft, bw_index index, bw_time echo);
void bw_raft_follower_persisted(struct bw_raft *raft);
void bw_raft_commit_to(struct bw_raft *raft, bw_index index);

/* replicate.c */
struct bw_append_part *bw_raft_start_append(struct bw_raft *raft, struct bw_raft_peer *peer,
                                            bw_index prev);
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
enum bw_raft_standing bw_raft_own_standing(const struct bw_raft *raft);
bw_index bw_raft_removed_at(const struct bw_raft *raft, bw_node node);

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
void bw_raft_hand_over(struct bw_raft *raft, enum bw_loss reason, bw_node successor);
bw_node bw_raft_next_in_turn(const struct bw_raft *raft);
void bw_raft_on_timeout_now(struct bw_raft *raft, const struct bw_message *msg);

/* digest.c */
void bw_raft_digest(const void *self, struct bw_digest *out);
void bw_raft_fix_draws(void *self);

#endif
