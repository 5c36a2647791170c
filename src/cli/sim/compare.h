/* The measurements of `sim compare`: every algorithm under the same four fault scripts, every
 * detector under the same message losses. */
#ifndef BW_CLI_SIM_COMPARE_H
#define BW_CLI_SIM_COMPARE_H

#include "sim/sim.h"

#define BW_COMPARE_LOSSES 3u

struct bw_compare_row { /* means over the runs; times in ms, negative: never */
    const struct bw_elector_ops *algorithm;
    bool guard;
    struct bw_sim_lease lease; /* settings of the algorithm "lease" */
    /* from the crash; see noticed, time_to_leader, time_to_act and time_to_agree in
     * sim/figures/metrics.h */
    double noticed, failover, acts, agrees;
    double messages; /* messages of the electors from the crash to agreement */
    double two_partition, two_pause, two_drift;
    double stale_tried, stale_accepted; /* partition and pause together */
    bool minority_leads, majority_leads, token;
    double changes_drift; /* leader changes under drift, without the one after the crash */
};

struct bw_compare_detector {
    const struct bw_detector_ops *detector;
    double first, all; /* in ms, without message loss */
    double first_lossy;
    double false_rate[BW_COMPARE_LOSSES]; /* false suspicions per member and period */
    double messages;                      /* per member and period */
};

extern const double bw_compare_losses[BW_COMPARE_LOSSES];

/* Both return 0, or an error of the simulated world with the reason in `why`. */
int bw_compare_algorithm(struct bw_sim *sim, uint32_t nodes, uint32_t runs, uint64_t seed,
                         struct bw_compare_row *row, char *why);
int bw_compare_detector(struct bw_sim *sim, uint32_t nodes, uint32_t runs, uint64_t seed,
                        struct bw_compare_detector *row, char *why);

/* Returns the name of the i-th script and writes its text; NULL after the last. */
const char *bw_compare_script(unsigned i, uint32_t nodes, char *text, size_t size);

#endif
