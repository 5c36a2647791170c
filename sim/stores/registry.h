/* The registry of `bellwether serve` in the world. It consists of Raft as shipped, and on every
 * node the shipped registry (src/core/registry), router (src/core/replica/request_router.h) and
 * membership (src/core/replica/membership.h). The simulated log, disk and network drive them.
 * Virtual clients and an operator use the service; their histories are judged.
 *
 * Shipped code:
 *   - all of Raft and of the registry, entries and snapshots as bytes
 *   - every decision of the router: request numbers, forwarding, batches, rounds for reads and
 *     renewals, replies, ends of leases
 *   - every decision on membership: members, allowed connections, changes
 * Modelled:
 *   - the log's file is the world's disk
 *   - a snapshot travels as a whole with its message, and is written at once instead of by a
 *     forked copy
 *   - a connection between nodes is a sequence of datagrams; a lost one breaks it until a message
 *     from the other side arrives
 *   - an iteration of the event loop is a short delay
 * Not modelled: the wire, watches, users, the first contact of new nodes. */
#ifndef BW_SIM_STORES_REGISTRY_H
#define BW_SIM_STORES_REGISTRY_H

#include "sim/world/world.h"

/* Sets up a run with the algorithm "registry"; does nothing for others. Keeps memory between runs.
 * Returns 0 or BW_ENOMEM. */
int bw_sim_registry_found(struct bw_sim *sim);
void bw_sim_registry_free(struct bw_sim *sim);
void bw_sim_registry_start(struct bw_sim *sim);
/* Judges the histories at the end of the run. Returns NULL, or the violation with its time. */
const char *bw_sim_registry_finish(struct bw_sim *sim, bw_time *at);
/* Returns whether a violation was found already. */
bool bw_sim_registry_found_wrong(const struct bw_sim *sim);

/* Starts a process with the snapshot on its disk, or ends it. */
void bw_sim_registry_boot(struct bw_sim *sim, bw_node id, bw_index applied, uint64_t state);
void bw_sim_registry_crash(struct bw_sim *sim, bw_node id);
/* Replaces all state by a snapshot. */
void bw_sim_registry_restore(struct bw_sim *sim, bw_node id, bw_index applied, uint64_t state);
/* The state is about to be persisted under this hash. */
void bw_sim_registry_save(struct bw_sim *sim, bw_node id, uint64_t state);

/* Returns the hash that represents the bytes of the i-th entry of a proposal that Raft appends; 0:
 * not an entry of the registry. */
uint64_t bw_sim_registry_entry(struct bw_sim *sim, bw_node id, uint64_t request, uint32_t i,
                               bool change);
void bw_sim_registry_apply(struct bw_sim *sim, bw_node id, const struct bw_sim_entry *entry);
void bw_sim_registry_applied(struct bw_sim *sim, bw_node id);
void bw_sim_registry_led(struct bw_sim *sim, bw_node id, const struct bw_announcement *a);
void bw_sim_registry_answered(struct bw_sim *sim, bw_node id, const struct bw_answer *answer);
/* A message of `from` arrived: the connection to it is open again. */
void bw_sim_registry_received(struct bw_sim *sim, bw_node id, bw_node from);

/* Entries were appended to the log; it was truncated, or replaced. */
void bw_sim_registry_learn(struct bw_sim *sim, bw_node id, const struct bw_sim_entry *entries,
                           uint32_t count);
void bw_sim_registry_relearn(struct bw_sim *sim, bw_node id);
/* Returns whether a message is sent at all, or received. */
bool bw_sim_registry_reaches(struct bw_sim *sim, bw_node id, bw_node to);
bool bw_sim_registry_admits(struct bw_sim *sim, bw_node id, bw_node from);
/* The operator wants one more member, or removes this one; a node that lost its data asks to
 * join. */
void bw_sim_registry_add(struct bw_sim *sim);
void bw_sim_registry_remove(struct bw_sim *sim, bw_node id);
void bw_sim_registry_wiped(struct bw_sim *sim, bw_node id);

/* Pending events of the registry; each consumes the slot. */
void bw_sim_registry_frame(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_registry_tick(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_registry_turn(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_registry_operate(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_registry_asked(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_registry_client(struct bw_sim *sim, struct bw_sim_slot *slot);

#endif
