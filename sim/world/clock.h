/* A node's monotonic clock. It starts at any value, runs at its own rate, and never jumps by
 * itself.
 *
 * local(w) = local0 + d + floor(d * drift) with d = w - world0. A change of rate starts a new piece
 * where the old one ended. The inverse gives the first world instant at which the clock shows a
 * value or more, so a timer that was set by local time never fires early. */
#ifndef BW_SIM_WORLD_CLOCK_H
#define BW_SIM_WORLD_CLOCK_H

#include "core/base/types.h"

#define BW_SIM_DRIFT_MIN (-0.9)
#define BW_SIM_DRIFT_MAX 10.0

struct bw_sim_clock {
    bw_time world0, local0;
    double drift; /* rate - 1 */
};

void bw_sim_clock_init(struct bw_sim_clock *clock, bw_time offset, double drift);
/* From `now` on the clock shows `span` more. For the one elector that uses the time of day. */
void bw_sim_clock_jump(struct bw_sim_clock *clock, bw_time now, bw_time span);
/* From world time `now` on the rate is 1 + drift. */
void bw_sim_clock_change(struct bw_sim_clock *clock, bw_time now, double drift);

static inline bw_time bw_sim_clock_local(const struct bw_sim_clock *clock, bw_time world)
{
    bw_time d = world - clock->world0;
    if (clock->drift != 0) {
        double extra = (double)d * clock->drift;
        bw_time whole = (bw_time)extra;
        d += whole - (extra < (double)whole);
    }
    return clock->local0 + d;
}

/* Returns the first world instant, not before the start of the current piece, at which the clock
 * shows `local` or more. Maps NEVER to NEVER. */
bw_time bw_sim_clock_world(const struct bw_sim_clock *clock, bw_time local);

#endif
