/* The network: how long a message takes, whether it arrives, how often, and who can reach whom.
 *
 * Datagrams in an asynchronous network: delays are drawn one by one, so messages overtake each
 * other; loss, duplication and an extra delay by chance. Partitions are group numbers, one per
 * node; one-way cuts a bit matrix that exists only once there is a cut. */
#ifndef BW_SIM_NET_H
#define BW_SIM_NET_H

#include "core/base/rng.h"
#include "sim/sim.h"

struct bw_sim_net {
    struct bw_rng rng;
    struct bw_sim_latency latency;
    double loss, duplicate, reorder;
    uint32_t cap; /* highest id */
    bool partitioned;
    uint8_t *group; /* cap + 1 of the caller's bytes */
    uint64_t *cuts; /* (cap + 1) rows of `row` words, or NULL; kept from run to run */
    size_t row, cuts_words;
    uint32_t cuts_count;
};

void bw_sim_net_init(struct bw_sim_net *net, const struct bw_sim_config *config, uint32_t cap,
                     uint8_t *group);
void bw_sim_net_deinit(struct bw_sim_net *net);

/* One way's time. */
bw_time bw_sim_net_delay(struct bw_sim_net *net);
/* A message's time: one way, and once more when it is reordered. NEVER: lost by chance. */
bw_time bw_sim_net_draw(struct bw_sim_net *net);

void bw_sim_net_partition(struct bw_sim_net *net, const uint8_t *groups);
/* Returns 0 or BW_ENOMEM. */
int bw_sim_net_cut(struct bw_sim_net *net, bw_node from, bw_node to);
void bw_sim_net_mend(struct bw_sim_net *net, bw_node from, bw_node to);
void bw_sim_net_heal(struct bw_sim_net *net);

/* Can a message go this way? */
bool bw_sim_net_blocked(const struct bw_sim_net *net, bw_node from, bw_node to);

static inline bool bw_sim_net_open(const struct bw_sim_net *net, bw_node from, bw_node to)
{
    return (!net->partitioned && !net->cuts_count) || !bw_sim_net_blocked(net, from, to);
}

#endif
