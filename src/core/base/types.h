/* Scalar types of Bellwether: time, ids, terms, tokens.
 *
 * Time is in nanoseconds on the host's own monotonic clock, which also counts suspended time. That
 * clock is CLOCK_BOOTTIME in production and virtual time in the simulator. Times of two hosts are
 * never compared. Wall clocks have no type here because no decision depends on them. */
#ifndef BW_CORE_BASE_TYPES_H
#define BW_CORE_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t bw_time;   /* an instant or a span, in ns; never negative in an event */
typedef uint32_t bw_node;  /* id of an instance, from 1 */
typedef uint64_t bw_term;  /* term, epoch or round; each election has one sequence of them */
typedef uint64_t bw_token; /* fencing token; only grows; 0: none */
typedef uint64_t bw_index; /* position in the Raft log, from 1; 0: before the first entry */

#define BW_NODE_NONE  ((bw_node)0)
#define BW_TOKEN_NONE ((bw_token)0)
#define BW_TIME_NEVER INT64_MAX

#define BW_US  ((bw_time)1000)
#define BW_MS  ((bw_time)1000000)
#define BW_SEC ((bw_time)1000000000)

/* Returns t + span without overflow. BW_TIME_NEVER stays BW_TIME_NEVER. */
static inline bw_time bw_time_add(bw_time t, bw_time span)
{
    return t >= BW_TIME_NEVER - span ? BW_TIME_NEVER : t + span;
}

static inline bw_time bw_time_min(bw_time a, bw_time b)
{
    return a < b ? a : b;
}

static inline bw_time bw_time_max(bw_time a, bw_time b)
{
    return a > b ? a : b;
}

#endif
