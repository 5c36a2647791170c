/* Random faults under the checkers. One seed gives one configuration and one schedule, and all
 * faults end before the run does. */
#ifndef BW_SIM_FAULTS_STORM_H
#define BW_SIM_FAULTS_STORM_H

#include "sim/sim.h"

struct bw_storm_result {
    uint64_t delivered, events;
    uint64_t trace_hash;
    /* registry: client requests; keys whose history exceeded the checker's bound */
    uint64_t asked, undecided;
    const char *violation; /* NULL, or `text` */
    char text[200];
};

struct bw_storm_fixed {                     /* what the seed does not draw */
    const struct bw_detector_ops *detector; /* NULL: drawn */
    struct bw_sim_lease lease;              /* times below 0 are drawn; only for leases */
    uint32_t shards; /* 0: one election; else the number of elections, spread over the members */
};

/* Nothing is fixed. */
extern const struct bw_storm_fixed bw_storm_any;

/* Runs one seed. `trace` NULL: no trace. Returns 0, or an error of the world (our own bug, or no
 * memory) with the reason in result->text. */
int bw_storm_seed(struct bw_sim *sim, const struct bw_elector_ops *algorithm,
                  const struct bw_storm_fixed *fixed, uint64_t seed, FILE *trace,
                  struct bw_storm_result *result);

#endif
