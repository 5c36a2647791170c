/* What `sim compare` measures: every algorithm under the same four scripts, every detector under
 * the same losses. */
#ifndef BW_CLI_COMPARE_H
#define BW_CLI_COMPARE_H

#include "sim/sim.h"

#define BW_COMPARE_LOSSES 3u

struct bw_compare_row { /* means over the runs; times in ms, negative: never */
    const struct bw_elector_ops *algorithm;
    bool guard;
    struct bw_sim_lease lease; /* "lease": its settings */
    double noticed;            /* crash to the first suspicion or election */
    double failover;           /* crash to a new leader */
    double acts;               /* crash to a leader that may act */
    double messages;           /* the electors', crash to agreement */
    double two_partition, two_pause, two_drift;
    double stale_tried, stale_accepted; /* in the partition and the pause together */
    bool minority_leads, majority_leads, token;
    double changes_drift; /* leader changes beyond the one crash, under drift */
};

struct bw_compare_detector {
    const struct bw_detector_ops *detector;
    double first, all; /* ms, without loss */
    double first_lossy;
    double false_rate[BW_COMPARE_LOSSES]; /* false suspicions per member and period */
    double messages;                      /* per member and period */
};

extern const double bw_compare_losses[BW_COMPARE_LOSSES];

/* Both return 0, or an error of the world with its sentence in `why`. */
int bw_compare_algorithm(struct bw_sim *sim, uint32_t nodes, uint32_t runs, uint64_t seed,
                         struct bw_compare_row *row, char *why);
int bw_compare_detector(struct bw_sim *sim, uint32_t nodes, uint32_t runs, uint64_t seed,
                        struct bw_compare_detector *row, char *why);

/* The scripts, for showing: the i-th one's name and text; NULL past the last. */
const char *bw_compare_script(unsigned i, uint32_t nodes, char *text, size_t size);

#endif
