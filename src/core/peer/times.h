/* The three times of a peer: the interval between heartbeats, the silence after which a peer is
 * suspected, and the maximum latency of a message. Times that the user did not give follow from
 * those that the user gave.
 *
 * - The detection time is 500 ms, or more: five periods, so that a few lost heartbeats are not
 *   taken for a failure; ten latencies, as in bw_elector_defaults.
 * - The period is 100 ms, or a fifth of the detection time if that is less.
 * - The latency is a property of the network, so it follows from nothing: 50 ms. */
#ifndef BW_CORE_PEER_TIMES_H
#define BW_CORE_PEER_TIMES_H

#include "core/base/types.h"

#define BW_PEER_PERIOD_MIN BW_MS
#define BW_PEER_DETECT_MIN (3 * BW_PEER_PERIOD_MIN)
#define BW_PEER_TIME_MAX   (BW_SEC * 3600 * 168) /* of a period or a latency: a week */
#define BW_PEER_DETECT_MAX (10 * BW_PEER_TIME_MAX)

/* 0: not given. */
struct bw_peer_times {
    bw_time period_ns, detect_ns, latency_ns;
};

/* Fills in the times that are 0. Given times must be within the limits above. */
void bw_peer_times_derive(struct bw_peer_times *times);

/* Two late heartbeats must not be taken for a failure: detect_ns >= 3 periods. Holds for derived
 * times unless the user gave both. */
bool bw_peer_times_fit(const struct bw_peer_times *times);

#endif
