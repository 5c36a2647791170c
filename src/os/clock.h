/* The clocks of this machine, in nanoseconds.
 *
 * bw_clock_boot is the clock of every deadline: CLOCK_BOOTTIME never goes backwards and keeps
 * running while the machine is suspended. A lease that expired during a suspend is therefore seen
 * as expired. bw_clock_wall is for people and for stores that write times of day; it may jump. */
#ifndef BW_OS_CLOCK_H
#define BW_OS_CLOCK_H

#include "core/base/types.h"

#include <time.h>

static inline bw_time bw_clock_read(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (bw_time)now.tv_sec * BW_SEC + now.tv_nsec;
}

static inline bw_time bw_clock_boot(void)
{
    return bw_clock_read(CLOCK_BOOTTIME);
}

static inline bw_time bw_clock_wall(void)
{
    return bw_clock_read(CLOCK_REALTIME);
}

/* For measured durations and for condition variables; stops while the machine is suspended. */
static inline bw_time bw_clock_monotonic(void)
{
    return bw_clock_read(CLOCK_MONOTONIC);
}

#endif
