/* A Raft log as a host keeps it: a snapshot and the entries above it. Each entry is a hash that
 * stands for its bytes. A node has two logs: the one that its process sees, and the durable one
 * that survives a crash. */
#ifndef BW_SIM_WORLD_RAFT_LOG_H
#define BW_SIM_WORLD_RAFT_LOG_H

#include "core/elect/raft/raft.h"

#define BW_SIM_LOG_MAX (1u << 24)

struct bw_sim_entry {
    uint64_t hash;
    bw_term term;
    bw_node node; /* membership change */
    uint8_t op;   /* enum bw_change_op */
};

struct bw_sim_snapshot {
    bw_index index; /* 0: none */
    bw_term term;
    uint64_t state; /* hash of everything that was applied up to index */
    uint32_t voters, learners;
    bw_node members[BW_RAFT_MEMBERS_MAX];
};

struct bw_sim_log {
    struct bw_sim_snapshot snapshot;
    bw_index base; /* the first entry is base + 1 */
    struct bw_sim_entry *at;
    uint32_t count, cap;
};

/* A log starts as zero bytes; clear empties it and keeps its memory. */
void bw_sim_log_clear(struct bw_sim_log *log);
void bw_sim_log_deinit(struct bw_sim_log *log);

static inline bw_index bw_sim_log_last(const struct bw_sim_log *log)
{
    return log->base + log->count;
}

/* Returns the entry at `index`, or NULL if the log does not contain it. */
const struct bw_sim_entry *bw_sim_log_at(const struct bw_sim_log *log, bw_index index);
/* Writes the entries first .. first+count-1 and truncates everything after them. Returns 0,
 * BW_EINVAL (a gap), BW_ELIMIT or BW_ENOMEM. */
int bw_sim_log_append(struct bw_sim_log *log, bw_index first, const struct bw_sim_entry *entries,
                      uint32_t count);
void bw_sim_log_truncate(struct bw_sim_log *log, bw_index first);
/* Drops the entries up to `index`. */
void bw_sim_log_compact(struct bw_sim_log *log, bw_index index);
/* Replaces the whole log by the snapshot. */
void bw_sim_log_restore(struct bw_sim_log *log, const struct bw_sim_snapshot *snapshot);
int bw_sim_log_copy(struct bw_sim_log *to, const struct bw_sim_log *from);

/* Returns the hash of the state after one more entry. */
uint64_t bw_sim_log_apply(uint64_t state, bw_index index, const struct bw_sim_entry *entry);

#endif
