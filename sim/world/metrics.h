/* The figures of a run: who led when, for how long nobody or two did, how soon a failure was
 * noticed. Of several elections the first is measured. */
#ifndef BW_SIM_METRICS_H
#define BW_SIM_METRICS_H

#include "core/base/arena.h"
#include "sim/sim.h"

struct bw_sim_leading { /* a live node that claims to lead */
    bw_node node;
    bool running;        /* not paused */
    bw_time from, until; /* may act, in the world's time */
};

struct bw_sim_metrics {
    struct bw_sim_result *result;
    bool exclusive; /* the algorithm promises exclusion: leaders are counted by their windows */
    uint32_t slots;
    bw_time last; /* everything is summed up to here */
    struct bw_sim_leading *leading;
    uint32_t leading_count, running_count;
    bw_node previous; /* who began to lead last */
    bw_time gap;      /* for how long nobody has led since */
    /* Time to leader. */
    bw_time since;
    bw_time *claimed; /* [node]: first leadership since then; NEVER: none */
    bw_time first;    /* of anybody */
    /* Detection of the latest victim. */
    bw_node victim;
    bw_time struck;
    uint8_t *state; /* [node]: flags of metrics.c */
    uint32_t live;
    double live_ns;
    bw_time *ends; /* scratch for windows */
};

void bw_sim_metrics_init(struct bw_sim_metrics *metrics, struct bw_arena *arena, uint32_t slots,
                         bool exclusive, struct bw_sim_result *result);

/* The node lives and runs, lives but is paused, or is dead. */
void bw_sim_metrics_node(struct bw_sim_metrics *metrics, bw_time now, bw_node node, bool live,
                         bool running);
/* The node claims to lead, with this window, from now on; `begins`: a new leadership. */
void bw_sim_metrics_leads(struct bw_sim_metrics *metrics, bw_time now, bw_node node, bool begins,
                          bw_time from, bw_time until);
/* It does not, or no longer. */
void bw_sim_metrics_yields(struct bw_sim_metrics *metrics, bw_time now, bw_node node);
/* The leader has been hit: the time to the next one counts from now. */
void bw_sim_metrics_leader_hit(struct bw_sim_metrics *metrics, bw_time now);
/* Something happened to `victim` that others should notice; watchers follow one by one. */
void bw_sim_metrics_strike(struct bw_sim_metrics *metrics, bw_time now, bw_node victim);
void bw_sim_metrics_watcher(struct bw_sim_metrics *metrics, bw_node node);
/* The last victim, if somebody who watches it has not noticed yet; none else. */
bw_node bw_sim_metrics_unnoticed(const struct bw_sim_metrics *metrics);
void bw_sim_metrics_suspected(struct bw_sim_metrics *metrics, bw_time now, bw_node node,
                              bw_node whom, bool suspect);
/* The end of the run; `leader`: the one agreed on, or none. */
void bw_sim_metrics_finish(struct bw_sim_metrics *metrics, bw_time now, bw_node leader,
                           bw_time period_ns);

#endif
