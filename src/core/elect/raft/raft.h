/* Raft beyond the elector interface: the log found on disk, and queries to a running node.
 *
 * The module holds no entry bytes. It knows the terms of the log as runs, the membership changes in
 * the log, and indexes. The caller stores the bytes by index, attaches them to APPEND and SNAPSHOT
 * messages when it encodes them, and applies them after COMMIT. So a step costs the same for an
 * entry of 10 bytes and of 1 MB. */
#ifndef BW_CORE_ELECT_RAFT_RAFT_H
#define BW_CORE_ELECT_RAFT_RAFT_H

#include "core/elect/elector.h"

struct bw_raft_change { /* a membership change in the log above the snapshot */
    bw_index index;
    uint8_t op; /* enum bw_change_op */
    bw_node node;
};

/* The state that a restarting node found on disk: a snapshot, and above it runs of entries from
 * snapshot_index + 1 on. snapshot_index 0 means that there is no snapshot; the membership is then
 * the configured one. All arrays are borrowed for init. */
struct bw_raft_saved {
    bw_index snapshot_index;
    bw_term snapshot_term;
    const bw_node *members; /* at the snapshot: voters first, then learners */
    uint32_t voters, learners;
    const struct bw_term_run *runs;
    uint32_t runs_count;
    const struct bw_raft_change *changes;
    uint32_t changes_count;
};

struct bw_raft;

/* Draws a new election timeout from `now` on, for a follower or candidate; does nothing for a
 * leader. The simulator uses it for the textbook model of split votes, in which all timers start
 * together. */
void bw_raft_restart_timer(struct bw_raft *raft, bw_time now);

/* Queries for callers and checkers. term_at returns 0 for an index that the log does not hold. */
bw_index bw_raft_last_index(const struct bw_raft *raft);
bw_index bw_raft_commit_index(const struct bw_raft *raft);
bw_index bw_raft_snapshot_index(const struct bw_raft *raft);
/* At a leader: the index up to which the log of `node` is known to be durable; 0 at other nodes. */
bw_index bw_raft_match(struct bw_raft *raft, bw_node node);
/* The number of term runs in the log. At BW_RAFT_TERM_RUNS_MAX the node does not campaign before
 * the next snapshot. */
uint32_t bw_raft_terms(const struct bw_raft *raft);
bw_term bw_raft_term_at(const struct bw_raft *raft, bw_index index);
bool bw_raft_is_voter(const struct bw_raft *raft, bw_node node);
/* The number of membership changes above the snapshot, at most BW_RAFT_CHANGES_MAX; and whether the
 * last one is still uncommitted. */
uint32_t bw_raft_changes(const struct bw_raft *raft);
bool bw_raft_is_changing(const struct bw_raft *raft);
/* At a leader: whether the member acknowledged a message that was sent within the longest election
 * timeout. True for the leader itself. */
bool bw_raft_is_responsive(const struct bw_raft *raft, bw_node node, bw_time now);
/* Whether this node leads and its next heartbeat is due, and a TIMEOUT event would only send it:
 * false once the leader would step down because no quorum has answered, or would end a transfer. */
bool bw_raft_is_heartbeat_due(const struct bw_raft *raft, bw_time now);
/* At a leader: whether the member receives entries as they are appended, so that a learner may be
 * promoted. */
bool bw_raft_is_caught_up(const struct bw_raft *raft, bw_node node, bw_time now);
/* At a leader: whether a member waits for a snapshot that is newer than the last one. The caller
 * then makes a snapshot of all committed entries, and reports it with COMPACT. */
bool bw_raft_needs_snapshot(const struct bw_raft *raft);
/* The membership at `index`, which is at or above the snapshot and at most the last index. Writes
 * voters first, then learners, to `out`, which holds BW_RAFT_MEMBERS_MAX ids. Returns the number of
 * members and sets *voters. */
uint32_t bw_raft_members_at(const struct bw_raft *raft, bw_index index, bw_node *out,
                            uint32_t *voters);

#endif
