/* Delays, message loss and reachability. */
#include "sim/world/net.h"

#include "core/base/error.h"
#include "core/detect/portable_math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void bw_sim_net_init(struct bw_sim_net *net, const struct bw_sim_config *config, uint32_t cap,
                     uint8_t *group)
{
    bw_rng_init(&net->rng, config->seed ^ 0x6e6574776f726b21u);
    net->latency = config->latency;
    net->loss = config->loss;
    net->duplicate = config->duplicate;
    net->reorder = config->reorder;
    net->cap = cap;
    net->group = group;
    net->partitioned = false;
    net->cuts_count = 0;
    net->row = cap / 64 + 1;
}

void bw_sim_net_deinit(struct bw_sim_net *net)
{
    free(net->cuts);
    net->cuts = NULL;
}

bw_time bw_sim_net_delay(struct bw_sim_net *net)
{
    const struct bw_sim_latency *latency = &net->latency;
    if (latency->dist == BW_DIST_UNIFORM)
        return bw_rng_between(&net->rng, latency->min, latency->max);
    double mean = (double)(latency->max - latency->min);
    return latency->min + (bw_time)(-bw_log1p(-bw_rng_unit(&net->rng)) * mean);
}

bw_time bw_sim_net_draw(struct bw_sim_net *net)
{
    if (net->loss > 0 && bw_rng_chance(&net->rng, net->loss))
        return BW_TIME_NEVER;
    bw_time delay = bw_sim_net_delay(net);
    if (net->reorder > 0 && bw_rng_chance(&net->rng, net->reorder))
        delay += bw_sim_net_delay(net);
    return delay;
}

void bw_sim_net_partition(struct bw_sim_net *net, const uint8_t *groups)
{
    memcpy(net->group, groups, net->cap + 1);
    net->partitioned = true;
}

static uint64_t *word(const struct bw_sim_net *net, bw_node from, bw_node to)
{
    return &net->cuts[from * net->row + to / 64];
}

/* Grows the matrix of cut links if it is too small, and clears it if no link is cut. */
static int provide(struct bw_sim_net *net)
{
    size_t words = net->row * (net->cap + 1);
    if (net->cuts_words < words) {
        uint64_t *cuts = realloc(net->cuts, words * sizeof *cuts);
        if (!cuts)
            return BW_ENOMEM;
        net->cuts = cuts;
        net->cuts_words = words;
    }
    if (!net->cuts_count)
        memset(net->cuts, 0, words * sizeof *net->cuts);
    return 0;
}

int bw_sim_net_cut(struct bw_sim_net *net, bw_node from, bw_node to)
{
    int error = provide(net);
    if (error)
        return error;
    uint64_t bit = (uint64_t)1 << to % 64;
    net->cuts_count += !(*word(net, from, to) & bit);
    *word(net, from, to) |= bit;
    return 0;
}

void bw_sim_net_mend(struct bw_sim_net *net, bw_node from, bw_node to)
{
    uint64_t bit = (uint64_t)1 << to % 64;
    if (!net->cuts_count || !(*word(net, from, to) & bit))
        return;
    *word(net, from, to) &= ~bit;
    net->cuts_count--;
}

void bw_sim_net_heal(struct bw_sim_net *net)
{
    net->partitioned = false;
    net->cuts_count = 0;
}

bool bw_sim_net_blocked(const struct bw_sim_net *net, bw_node from, bw_node to)
{
    if (from == to)
        return false;
    if (net->partitioned && (!net->group[from] || net->group[from] != net->group[to]))
        return true;
    return net->cuts_count && (*word(net, from, to) >> to % 64 & 1);
}
