/* The registry of `bellwether serve` in the world: Raft as it ships, and on every node the shipped
 * registry (src/core/registry) under the shipped session (src/core/replica/session.h) and
 * membership (src/core/replica/membership.h), fed from the simulated log, disk and network; virtual
 * clients and an operator around it, their histories judged.
 *
 * Shared with what ships: all of Raft, the registry, entries and snapshots as bytes, and every
 * decision of the session: numbers of requests, passing on, batches, rounds for reads and renewals,
 * answers, the ends of leases; who is a member, who may connect, which change is made. Modelled:
 * the log's file is the world's disk, a snapshot travels whole with its message and is made at once
 * instead of by a forked copy, a connection between nodes is datagrams of which a lost one breaks
 * it until the other is heard again, the turn of the loop is a moment's delay. Not here: the wire,
 * watches, users, the first meeting of new nodes. */
#ifndef BW_SIM_REGISTRY_H
#define BW_SIM_REGISTRY_H

#include "sim/world/world.h"

/* For a run with the algorithm "registry"; nothing happens in others. Memory is kept from run to
 * run. Returns 0 or BW_ENOMEM. */
int bw_sim_registry_found(struct bw_sim *sim);
void bw_sim_registry_free(struct bw_sim *sim);
void bw_sim_registry_start(struct bw_sim *sim);
/* The end of the run: histories are judged. NULL, or what was found, with its time. */
const char *bw_sim_registry_finish(struct bw_sim *sim, bw_time *at);
/* Something was found already. */
bool bw_sim_registry_found_wrong(const struct bw_sim *sim);

/* A process begins with what the snapshot on its disk says, or ends. */
void bw_sim_registry_boot(struct bw_sim *sim, bw_node id, bw_index applied, uint64_t state);
void bw_sim_registry_crash(struct bw_sim *sim, bw_node id);
/* A snapshot replaces all. */
void bw_sim_registry_restore(struct bw_sim *sim, bw_node id, bw_index applied, uint64_t state);
/* The state is about to be written down under this hash. */
void bw_sim_registry_save(struct bw_sim *sim, bw_node id, uint64_t state);

/* What stands for the bytes of the i-th entry of a proposal that Raft appends; 0: not one of ours.
 */
uint64_t bw_sim_registry_entry(struct bw_sim *sim, bw_node id, uint64_t request, uint32_t i,
                               bool change);
void bw_sim_registry_apply(struct bw_sim *sim, bw_node id, const struct bw_sim_entry *entry);
void bw_sim_registry_applied(struct bw_sim *sim, bw_node id);
void bw_sim_registry_led(struct bw_sim *sim, bw_node id, const struct bw_announcement *a);
void bw_sim_registry_answered(struct bw_sim *sim, bw_node id, const struct bw_answer *answer);
/* A message of `from` arrived: the way to it is open again. */
void bw_sim_registry_heard(struct bw_sim *sim, bw_node id, bw_node from);

/* Entries were appended to the log; it was cut, or replaced. */
void bw_sim_registry_learn(struct bw_sim *sim, bw_node id, const struct bw_sim_entry *entries,
                           uint32_t count);
void bw_sim_registry_relearn(struct bw_sim *sim, bw_node id);
/* Is a message sent at all; is it heard? */
bool bw_sim_registry_reaches(struct bw_sim *sim, bw_node id, bw_node to);
bool bw_sim_registry_admits(struct bw_sim *sim, bw_node id, bw_node from);
/* The operator wants a member more, or this one gone; a node that lost its data asks to join. */
void bw_sim_registry_add(struct bw_sim *sim);
void bw_sim_registry_remove(struct bw_sim *sim, bw_node id);
void bw_sim_registry_wiped(struct bw_sim *sim, bw_node id);

/* Pending events of ours; each takes the slot over. */
void bw_sim_registry_frame(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_registry_tick(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_registry_turn(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_registry_operate(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_registry_asked(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_registry_client(struct bw_sim *sim, struct bw_sim_slot *slot);

#endif
