/* How many beats of a link are lost, from the numbers on those that arrive.
 *
 * Beats are numbered, so what did not come is known exactly. The rate is the higher of two: that of
 * the last 64 beats, which follows a link that turns bad within seconds, and that of the last 512
 * to 1,024, which does not forget it after a short run of luck. The first counts one loss more than
 * it saw, because a few beats prove little; a link that lost nothing of either has rate 0.
 *
 * If losses are independent, m beats in a row are lost with probability rate^m: -m log10(rate) is
 * the phi of that silence. Pure. */
#ifndef BW_DETECT_MISSED_H
#define BW_DETECT_MISSED_H

#include "core/base/types.h"

struct bw_missed {
    uint64_t recent;     /* one bit each, 1 lost, the newest lowest */
    uint32_t recent_max; /* how many of them there were, at most 64 */
    uint32_t seen, lost; /* both halved at BW_MISSED_SPAN */
};

#define BW_MISSED_SPAN 1024u

void bw_missed_init(struct bw_missed *missed);
/* A beat came, and `missing` with lower numbers did not. */
void bw_missed_heard(struct bw_missed *missed, uint64_t missing);
/* 0: none lost; below 1. */
double bw_missed_rate(const struct bw_missed *missed);
/* -log10 of that rate: what each missing beat adds to phi. Infinite without loss. */
double bw_missed_weight(const struct bw_missed *missed);

#endif
