/* Two wrong but common ways to elect a leader, as electors for the simulator only. Their damage
 * is measured beside the shipped algorithm under the same script. They are not shipped as
 * algorithms. */
#ifndef BW_SIM_FAULTS_ANTIPATTERN_H
#define BW_SIM_FAULTS_ANTIPATTERN_H

#include "core/elect/elector.h"

/* The world passes the wall clock as `now` to electors with this trait, jumps included. */
#define BW_TRAIT_WALL_CLOCK 0x100u

/* "anti-wall-clock": a majority lease that ends by the time of day of each node. "anti-ping": the
 * highest id that answers a ping leads. */
extern const struct bw_elector_ops bw_anti_wall_clock, bw_anti_ping;

/* Returns the elector with this name, or NULL. */
const struct bw_elector_ops *bw_antipattern_find(const char *name);

#endif
