/* The network: the latency of messages, loss, duplication, and which nodes can communicate.
 *
 * Model: datagrams in an asynchronous network. Delays are drawn for each message, so messages
 * overtake each other. Loss, duplication and an extra delay happen by chance. Partitions are group
 * numbers, one per node. One-way cuts are a bit matrix, which is allocated with the first cut. */
#ifndef BW_SIM_WORLD_NET_H
#define BW_SIM_WORLD_NET_H

#include "core/base/rng.h"
#include "sim/sim.h"

struct bw_sim_net {
    struct bw_rng rng;
    struct bw_sim_latency latency;
    double loss, duplicate, reorder;
    uint32_t cap; /* highest id */
    bool partitioned;
    uint8_t *group; /* cap + 1 bytes of the caller */
    uint64_t *cuts; /* (cap + 1) rows of `row` words, or NULL; kept between runs */
    size_t row, cuts_words;
    uint32_t cuts_count;
};

void bw_sim_net_init(struct bw_sim_net *net, const struct bw_sim_config *config, uint32_t cap,
                     uint8_t *group);
void bw_sim_net_deinit(struct bw_sim_net *net);

/* Draws the time of one way. */
bw_time bw_sim_net_delay(struct bw_sim_net *net);
/* Draws the time of a message: one way, twice that if it is reordered. NEVER: lost. */
bw_time bw_sim_net_draw(struct bw_sim_net *net);

void bw_sim_net_partition(struct bw_sim_net *net, const uint8_t *groups);
/* Returns 0 or BW_ENOMEM. */
int bw_sim_net_cut(struct bw_sim_net *net, bw_node from, bw_node to);
void bw_sim_net_mend(struct bw_sim_net *net, bw_node from, bw_node to);
void bw_sim_net_heal(struct bw_sim_net *net);

/* Returns whether messages in this direction are blocked. */
bool bw_sim_net_blocked(const struct bw_sim_net *net, bw_node from, bw_node to);

static inline bool bw_sim_net_open(const struct bw_sim_net *net, bw_node from, bw_node to)
{
    return (!net->partitioned && !net->cuts_count) || !bw_sim_net_blocked(net, from, to);
}

#endif
