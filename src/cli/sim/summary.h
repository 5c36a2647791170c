/* Figures over many runs of one configuration: means, and the distribution of times. */
#ifndef BW_CLI_SIM_SUMMARY_H
#define BW_CLI_SIM_SUMMARY_H

#include "sim/sim.h"

struct bw_summary_samples {
    double *at;
    uint32_t count, cap;
};

#define BW_SUMMARY_VALUES_MAX 64u

struct bw_summary_tally { /* number of runs with this leader or term */
    uint64_t value[BW_SUMMARY_VALUES_MAX];
    uint64_t times[BW_SUMMARY_VALUES_MAX];
    uint32_t count;
};

struct bw_summary {
    uint32_t runs, led, never_detected; /* led: number of runs that had a leader */
    struct bw_sim_result sum;           /* sums of the counters; its times are not summed */
    double split_ms, split_max_ms, gap_max_ms, virtual_ms, wall_ms, false_rate, detector_rate, term;
    bool same_leader;
    bw_node leader; /* of the last run */
    /* in ms; see sim/figures/metrics.h */
    struct bw_summary_samples noticed, to_leader, to_act, to_agree, leaderless, none_acted;
    struct bw_summary_samples detection_first, detection_all;
    struct bw_summary_tally leaders, terms;
    uint32_t violations;
    char violation[240];
    uint64_t violation_seed;
};

/* Returns 0 or BW_ENOMEM. */
int bw_summary_init(struct bw_summary *summary, uint32_t runs);
void bw_summary_deinit(struct bw_summary *summary);
void bw_summary_add(struct bw_summary *summary, const struct bw_sim_result *result, uint64_t seed,
                    double wall_ms);
/* Sorts the samples and returns their statistics, all zero without samples. */
struct bw_sim_stats bw_summary_stats(struct bw_summary_samples *samples);
/* Returns a counter's mean per run. */
double bw_summary_mean(const struct bw_summary *summary, uint64_t total);

#endif
