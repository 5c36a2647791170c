/* The scalar vocabulary of Bellwether: time, ids, terms, tokens.
 *
 * Time is nanoseconds on the own host's monotonic clock that counts suspend (CLOCK_BOOTTIME in real
 * life, virtual in the simulator). Values of two hosts are never compared. Wall clocks have no type
 * here because they decide nothing. */
#ifndef BW_BASE_TYPES_H
#define BW_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t bw_time;   /* an instant or a span, ns; never negative in an event */
typedef uint32_t bw_node;  /* an instance's id, 1 and up */
typedef uint64_t bw_term;  /* term, epoch or round: one number line per election */
typedef uint64_t bw_token; /* fencing token, only grows; 0 = none */
typedef uint64_t bw_index; /* position in the Raft log, 1 and up; 0 = before the first */

#define BW_NODE_NONE  ((bw_node)0)
#define BW_TOKEN_NONE ((bw_token)0)
#define BW_TIME_NEVER INT64_MAX

#define BW_US  ((bw_time)1000)
#define BW_MS  ((bw_time)1000000)
#define BW_SEC ((bw_time)1000000000)

/* t + span without overflow; NEVER stays NEVER. */
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
