/* Raft beyond the elector interface: the log as found on disk, and what callers may ask of a
 * running one.
 *
 * The module keeps no entry bytes. It knows the log as runs of terms, the membership changes in it,
 * and indexes; the caller holds the bytes by index, attaches them to APPEND and SNAPSHOT messages
 * when it encodes them, and applies them after COMMIT. So a step costs the same for an entry of 10
 * bytes and of 1 MB. */
#ifndef BW_ELECT_RAFT_RAFT_H
#define BW_ELECT_RAFT_RAFT_H

#include "core/elect/elector.h"

struct bw_raft_change { /* a membership change in the log above the snapshot */
    bw_index index;
    uint8_t op; /* enum bw_change_op */
    bw_node node;
};

/* What a restarting node found: a snapshot (index 0 = none; its membership is then the configured
 * one), and above it runs of entries from snapshot_index + 1 on. All arrays are borrowed for init.
 */
struct bw_raft_saved {
    bw_index snapshot_index;
    bw_term snapshot_term;
    const bw_node *members; /* as of the snapshot: voters first, then learners */
    uint32_t voters, learners;
    const struct bw_term_run *runs;
    uint32_t runs_count;
    const struct bw_raft_change *changes;
    uint32_t changes_count;
};

struct bw_raft;

/* Draws a follower's or candidate's election time-out anew, from `now` on: the simulator's textbook
 * model of split votes lets all timers start together. Nothing happens to a leader. */
void bw_raft_restart_timer(struct bw_raft *raft, bw_time now);

/* Facts for callers and checkers. term_at gives 0 for an index the log does not hold. */
bw_index bw_raft_last_index(const struct bw_raft *raft);
bw_index bw_raft_commit_index(const struct bw_raft *raft);
bw_index bw_raft_snapshot_index(const struct bw_raft *raft);
/* How far another member's log is durable, as a leader was told; 0 if it leads not. */
bw_index bw_raft_match(struct bw_raft *raft, bw_node node);
/* Terms whose entries are in the log: BW_RAFT_TERM_RUNS_MAX at the most, and then it takes part in
 * no election before a snapshot. */
uint32_t bw_raft_terms(const struct bw_raft *raft);
bw_term bw_raft_term_at(const struct bw_raft *raft, bw_index index);
bool bw_raft_is_voter(const struct bw_raft *raft, bw_node node);
/* Membership changes above the snapshot, up to BW_RAFT_CHANGES_MAX; and whether the last of them is
 * not committed. */
uint32_t bw_raft_changes(const struct bw_raft *raft);
bool bw_raft_is_changing(const struct bw_raft *raft);
/* At a leader: the member answered what was sent within the longest election time-out; so does the
 * leader itself. */
bool bw_raft_is_heard(const struct bw_raft *raft, bw_node node, bw_time now);
/* At a leader: a learner that gets entries as they come, and so may be promoted. */
bool bw_raft_is_caught_up(const struct bw_raft *raft, bw_node node, bw_time now);
/* The membership as of `index` (at or above the snapshot, at most the last): voters first, then
 * learners, into `out` with room for BW_RAFT_MEMBERS_MAX; returns the total and sets *voters. */
uint32_t bw_raft_members_at(const struct bw_raft *raft, bw_index index, bw_node *out,
                            uint32_t *voters);

#endif
