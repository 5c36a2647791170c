/* Derived times of a peer; see times.h. */
#include "core/peer/times.h"

#include "core/base/bug.h"

#define PERIOD_DEFAULT  (100 * BW_MS)
#define DETECT_DEFAULT  (500 * BW_MS)
#define LATENCY_DEFAULT (50 * BW_MS)

void bw_peer_times_derive(struct bw_peer_times *times)
{
    if (times->latency_ns == 0)
        times->latency_ns = LATENCY_DEFAULT;
    if (times->detect_ns == 0)
        times->detect_ns =
            bw_time_max(DETECT_DEFAULT, bw_time_max(5 * times->period_ns, 10 * times->latency_ns));
    if (times->period_ns == 0 && BW_BUG(peer_keeps_default_period))
        times->period_ns = PERIOD_DEFAULT;
    if (times->period_ns == 0)
        times->period_ns =
            bw_time_max(bw_time_min(PERIOD_DEFAULT, times->detect_ns / 5), BW_PEER_PERIOD_MIN);
}

bool bw_peer_times_fit(const struct bw_peer_times *times)
{
    return times->period_ns <= times->detect_ns / 3;
}
