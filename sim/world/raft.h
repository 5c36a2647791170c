/* The host's duties for Raft: it keeps the bytes of log entries durable, attaches them to messages,
 * applies them after commit, writes snapshots, makes proposals, and requests membership changes
 * until they are done. */
#ifndef BW_SIM_WORLD_RAFT_H
#define BW_SIM_WORLD_RAFT_H

#include "sim/world/world.h"

/* Before a start: loads the process's log from the disk and fills in `saved` of sim->configs. */
void bw_sim_raft_load(struct bw_sim *sim, bw_node id);
/* Returns the entries (LOG_APPEND) or the snapshot (LOG_RESTORE) that an action of this step refers
 * to, in scratch memory. */
const void *bw_sim_raft_resolve(struct bw_sim *sim, bw_node id, const struct bw_action *action,
                                const struct bw_event *event, uint64_t extra, size_t *bytes);
/* Executes a log action or COMMIT. */
void bw_sim_raft_log(struct bw_sim *sim, bw_node id, const struct bw_action *action,
                     const void *data);
/* Attaches the bytes to an APPEND or SNAPSHOT. Returns false if they no longer exist; then the
 * message is dropped. */
bool bw_sim_raft_attach(struct bw_sim *sim, bw_node id, struct bw_message *msg, uint64_t *extra);
/* Notifies the process that a log write is durable. */
void bw_sim_raft_durable(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Sends the next proposal to the leader; consumes the slot. */
void bw_sim_raft_propose(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Sends the next read to every node that claims to lead; consumes the slot. */
void bw_sim_raft_read(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Handles the answer to a command: counts reads, and stale reads separately. */
void bw_sim_raft_answered(struct bw_sim *sim, const struct bw_answer *answer);
/* Retries the membership changes of joining or leaving nodes; consumes the slot, NULL to begin. */
void bw_sim_raft_change(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Returns whether a node that knows the newest commit knows that `id` is not in the group. */
bool bw_sim_raft_removed(struct bw_sim *sim, bw_node id);
/* Returns the number of voters, according to the newest commit that a running node knows. */
uint32_t bw_sim_raft_voters(struct bw_sim *sim);
/* Textbook model: restarts every live node's election timer. */
void bw_sim_raft_fresh_timers(struct bw_sim *sim);

#endif
