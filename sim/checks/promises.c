/* The promises of the quorum guard, as seen on the network.
 *
 * A voter that answers YES at time t on the world's clock is bound for T on its own clock, so until
 * t + T / (1 + rho) or later. A claimant is bound to itself from the moment it sends a claim. */
#include "sim/checks/promises.h"

#include <string.h>

#define ROUNDING BW_US /* clocks are converted with this precision, or better */

struct bw_promises {
    uint32_t slots, voters; /* voters: ids 1..voters */
    bw_time length;         /* T / (1 + rho) */
    bw_time *until;         /* [election][voter][claimant] */
};

static size_t cells(const struct bw_sim_config *config)
{
    size_t slots = config->nodes + config->spare + 1;
    return slots * slots * config->elections;
}

struct bw_promises *bw_promises_take(struct bw_arena *arena, const struct bw_sim_config *config)
{
    struct bw_promises *promises = bw_arena_take(arena, sizeof *promises);
    bw_time *until = bw_arena_take(arena, cells(config) * sizeof *until);
    if (bw_arena_fits(arena))
        promises->until = until;
    return promises;
}

void bw_promises_init(struct bw_promises *promises, const struct bw_sim_config *config)
{
    promises->slots = config->nodes + config->spare + 1;
    promises->voters = config->nodes;
    promises->length = (bw_time)((double)config->promise_ns / (1 + config->drift_bound));
    memset(promises->until, 0, cells(config) * sizeof *promises->until);
}

static bw_time *cell(const struct bw_promises *p, uint32_t election, bw_node voter,
                     bw_node claimant)
{
    return &p->until[((size_t)election * p->slots + voter) * p->slots + claimant];
}

void bw_promises_sent(struct bw_promises *promises, bw_time at, const struct bw_message *msg)
{
    bool yes = msg->kind == BW_MSG_PROMISE && (msg->flags & BW_FLAG_YES);
    if (msg->from >= promises->slots || msg->to >= promises->slots)
        return;
    if (yes)
        *cell(promises, msg->election, msg->from, msg->to) = at + promises->length;
    else if (msg->kind == BW_MSG_CLAIM)
        *cell(promises, msg->election, msg->from, msg->from) = at + promises->length;
}

bool bw_promises_missing(const struct bw_promises *promises, bw_node node, uint32_t election,
                         bw_time until)
{
    uint32_t count = 0;
    for (bw_node voter = 1; voter <= promises->voters; voter++)
        count += *cell(promises, election, voter, node) + ROUNDING >= until;
    return count <= promises->voters / 2;
}
