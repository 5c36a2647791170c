/* Random faults under the checkers: one seed, one configuration, one schedule, everything healed at
 * the end. */
#ifndef BW_SIM_STORM_H
#define BW_SIM_STORM_H

#include "sim/sim.h"

struct bw_storm_result {
    uint64_t delivered, events;
    uint64_t trace_hash;
    uint64_t asked, undecided; /* registry: by clients; keys whose history was too hard to judge */
    const char *violation;     /* NULL, or `text` */
    char text[200];
};

struct bw_storm_fixed {                     /* what the seed does not draw */
    const struct bw_detector_ops *detector; /* NULL: drawn too */
    struct bw_sim_lease lease;              /* times below 0 are drawn; else than leases: no use */
    uint32_t shards; /* 0: one election; else so many, spread over the members */
};

/* Nothing is fixed. */
extern const struct bw_storm_fixed bw_storm_any;

/* One seed. `trace` NULL: none. Returns 0, or the error of the world (our own bug, or no memory)
 * with its sentence in result->text. */
int bw_storm_seed(struct bw_sim *sim, const struct bw_elector_ops *algorithm,
                  const struct bw_storm_fixed *fixed, uint64_t seed, FILE *trace,
                  struct bw_storm_result *result);

#endif
