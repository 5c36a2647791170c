/* Estimates the loss rate of a link from the numbers of the beats that arrive. Pure.
 *
 * Beats are numbered, so the number of missing ones is exact. The rate is the higher of two rates.
 * The rate of the last 64 beats follows within seconds when a link becomes bad. The rate of the
 * last 512 to 1,024 beats remembers losses through a short run without any. The first rate counts
 * one loss more than it saw, because few beats prove little. If both windows are free of loss, the
 * rate is 0.
 *
 * If losses are independent, m beats in a row are lost with probability rate^m. So the phi of that
 * silence is -m log10(rate). */
#ifndef BW_CORE_DETECT_LOSS_RATE_H
#define BW_CORE_DETECT_LOSS_RATE_H

#include "core/base/types.h"

struct bw_missed {
    uint64_t recent;     /* one bit per beat, 1: lost; the newest is the lowest bit */
    uint32_t recent_max; /* number of valid bits, at most 64 */
    uint32_t seen, lost; /* both are halved at BW_MISSED_SPAN */
};

#define BW_MISSED_SPAN 1024u

void bw_missed_init(struct bw_missed *missed);
/* A beat arrived, and `missing` beats before it did not. */
void bw_missed_received(struct bw_missed *missed, uint64_t missing);
/* The loss rate: 0 without loss, always below 1. */
double bw_missed_rate(const struct bw_missed *missed);
/* -log10(rate), which each missing beat adds to phi. Infinite without loss. */
double bw_missed_weight(const struct bw_missed *missed);

#endif
