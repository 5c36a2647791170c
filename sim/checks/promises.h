/* Checks the promises of the quorum guard from outside: a leader's window must end before the
 * promises of a majority of the voters expire. A violation shows before two leaders act. */
#ifndef BW_SIM_CHECKS_PROMISES_H
#define BW_SIM_CHECKS_PROMISES_H

#include "core/base/arena.h"
#include "sim/sim.h"

struct bw_promises;

struct bw_promises *bw_promises_take(struct bw_arena *arena, const struct bw_sim_config *config);
void bw_promises_init(struct bw_promises *promises, const struct bw_sim_config *config);
/* Records a message that a node sends. */
void bw_promises_sent(struct bw_promises *promises, bw_time at, const struct bw_message *msg);
/* Returns whether fewer than a majority of the voters have promised to `node` until `until`. */
bool bw_promises_missing(const struct bw_promises *promises, bw_node node, uint32_t election,
                         bw_time until);

#endif
