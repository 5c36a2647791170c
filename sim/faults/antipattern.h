/* Two ways to elect that people write and should not, as electors for the simulator only. Their
 * damage is measured beside the shipped counterpart under the same script; nothing of this ships as
 * an algorithm. */
#ifndef BW_SIM_ANTIPATTERN_H
#define BW_SIM_ANTIPATTERN_H

#include "core/elect/elector.h"

/* The world gives electors with this trait the wall clock as `now`, jumps included. */
#define BW_TRAIT_WALL_CLOCK 0x100u

/* "anti-wall-clock": a majority lease whose end everybody judges by the time of day.
 * "anti-ping": the highest id that I can ping leads. */
extern const struct bw_elector_ops bw_anti_wall_clock, bw_anti_ping;

/* By name, or NULL. */
const struct bw_elector_ops *bw_antipattern_find(const char *name);

#endif
