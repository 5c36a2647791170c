/* Drifting clocks: world time to local time and back. */
#include "sim/world/clock.h"

void bw_sim_clock_init(struct bw_sim_clock *clock, bw_time offset, double drift)
{
    clock->world0 = 0;
    clock->local0 = offset;
    clock->drift = drift;
}

void bw_sim_clock_change(struct bw_sim_clock *clock, bw_time now, double drift)
{
    clock->local0 = bw_sim_clock_local(clock, now);
    clock->world0 = now;
    clock->drift = drift;
}

void bw_sim_clock_jump(struct bw_sim_clock *clock, bw_time now, bw_time span)
{
    bw_sim_clock_change(clock, now, clock->drift);
    clock->local0 += span;
}

bw_time bw_sim_clock_world(const struct bw_sim_clock *clock, bw_time local)
{
    if (local == BW_TIME_NEVER)
        return BW_TIME_NEVER;
    if (local <= clock->local0)
        return clock->world0;
    bw_time d = local - clock->local0;
    if (clock->drift == 0)
        return bw_time_add(clock->world0, d);
    double guess = (double)d / (1.0 + clock->drift);
    if (guess > 4e18)
        return BW_TIME_NEVER;
    /* The division is off by a few ns at most over days: search the exact instant from here. */
    bw_time world = bw_time_add(clock->world0, (bw_time)guess);
    while (world > clock->world0 && bw_sim_clock_local(clock, world - 1) >= local)
        world--;
    while (bw_sim_clock_local(clock, world) < local)
        world++;
    return world;
}
