/* What a host owes Raft: the bytes behind the indexes, durable and attached to messages, applied
 * after commit, snapshots, proposals, and membership changes asked for until they are done. */
#ifndef BW_SIM_RAFT_H
#define BW_SIM_RAFT_H

#include "sim/world/world.h"

/* Before a start: the process's log is what the disk holds; fills in `saved` of sim->configs. */
void bw_sim_raft_load(struct bw_sim *sim, bw_node id);
/* The entries (LOG_APPEND) or the snapshot (LOG_RESTORE) an action of this step speaks of, in
 * scratch memory. */
const void *bw_sim_raft_resolve(struct bw_sim *sim, bw_node id, const struct bw_action *action,
                                const struct bw_event *event, uint64_t extra, size_t *bytes);
/* Carries out a log action or COMMIT. */
void bw_sim_raft_log(struct bw_sim *sim, bw_node id, const struct bw_action *action,
                     const void *data);
/* Puts the bytes behind an APPEND or SNAPSHOT; false: they are gone, and so is the message. */
bool bw_sim_raft_attach(struct bw_sim *sim, bw_node id, struct bw_message *msg, uint64_t *extra);
/* The process hears that a log write is durable. */
void bw_sim_raft_durable(struct bw_sim *sim, struct bw_sim_slot *slot);
/* The next proposal to whoever leads; takes the slot over. */
void bw_sim_raft_propose(struct bw_sim *sim, struct bw_sim_slot *slot);
/* The next read by everybody who believes to lead; takes the slot over. */
void bw_sim_raft_read(struct bw_sim *sim, struct bw_sim_slot *slot);
/* A command was answered: reads are counted, stale ones apart. */
void bw_sim_raft_answered(struct bw_sim *sim, const struct bw_answer *answer);
/* Joining or leaving nodes: one more try; takes the slot over, NULL to begin. */
void bw_sim_raft_change(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Textbook model: every live node's election timer starts anew. */
void bw_sim_raft_fresh_timers(struct bw_sim *sim);

#endif
