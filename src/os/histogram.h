/* Histograms of durations for /metrics. Those of `serve` have the bounds of etcd's metrics, so that
 * dashboards and alerts for etcd apply. */
#ifndef BW_OS_HISTOGRAM_H
#define BW_OS_HISTOGRAM_H

#include "core/base/types.h"

#define BW_HISTOGRAM_MAX 16u

struct bw_histogram {
    uint64_t within[BW_HISTOGRAM_MAX]; /* durations up to this bound and above the one before */
    uint64_t count;
    bw_time sum_ns;
};

struct bw_histogram_bounds {
    uint32_t count;
    bw_time at[BW_HISTOGRAM_MAX];
};

/* 1 ms, doubled up to 8.192 s. */
static const struct bw_histogram_bounds bw_bounds_disk = {
    14,
    {BW_MS, 2 * BW_MS, 4 * BW_MS, 8 * BW_MS, 16 * BW_MS, 32 * BW_MS, 64 * BW_MS, 128 * BW_MS,
     256 * BW_MS, 512 * BW_MS, 1024 * BW_MS, 2048 * BW_MS, 4096 * BW_MS, 8192 * BW_MS}};
/* 100 us, doubled up to 3.2768 s. */
static const struct bw_histogram_bounds bw_bounds_peer = {
    16,
    {100000, 200000, 400000, 800000, 1600000, 3200000, 6400000, 12800000, 25600000, 51200000,
     102400000, 204800000, 409600000, 819200000, 1638400000, 3276800000}};
/* The default of Prometheus, 5 ms to 10 s. */
static const struct bw_histogram_bounds bw_bounds_call = {
    11,
    {5 * BW_MS, 10 * BW_MS, 25 * BW_MS, 50 * BW_MS, 100 * BW_MS, 250 * BW_MS, 500 * BW_MS, BW_SEC,
     2500 * BW_MS, 5 * BW_SEC, 10 * BW_SEC}};

/* Times without a leader: 1 ms to 5 min. */
static const struct bw_histogram_bounds bw_bounds_gap = {
    15,
    {BW_MS, 3 * BW_MS, 10 * BW_MS, 30 * BW_MS, 100 * BW_MS, 300 * BW_MS, BW_SEC, 2 * BW_SEC,
     5 * BW_SEC, 10 * BW_SEC, 15 * BW_SEC, 30 * BW_SEC, 60 * BW_SEC, 120 * BW_SEC, 300 * BW_SEC}};

static inline void bw_histogram_add(struct bw_histogram *histogram,
                                    const struct bw_histogram_bounds *bounds, bw_time duration_ns)
{
    uint32_t i = 0;
    while (i < bounds->count && duration_ns > bounds->at[i])
        i++;
    if (i < bounds->count)
        histogram->within[i]++;
    histogram->count++;
    histogram->sum_ns += duration_ns;
}

#endif
