/* Loss rate of one link; see loss_rate.h. */
#include "core/detect/loss_rate.h"
#include "core/detect/portable_math.h"

#include <math.h>

#define RECENT 64u

void bw_missed_init(struct bw_missed *missed)
{
    *missed = (struct bw_missed){0};
}

static void note(struct bw_missed *missed, uint64_t lost)
{
    missed->recent = missed->recent << 1 | lost;
    missed->recent_max += missed->recent_max < RECENT;
    missed->lost += (uint32_t)lost;
    if (++missed->seen == BW_MISSED_SPAN) {
        missed->seen /= 2;
        missed->lost /= 2;
    }
}

void bw_missed_received(struct bw_missed *missed, uint64_t missing)
{
    for (uint64_t i = 0; i < missing && i < RECENT; i++)
        note(missed, 1);
    note(missed, 0);
}

static uint32_t bits(uint64_t word)
{
    uint32_t count = 0;
    for (; word; word &= word - 1)
        count++;
    return count;
}

double bw_missed_rate(const struct bw_missed *missed)
{
    uint32_t few = bits(missed->recent);
    double recent = few > 0 ? (few + 1.0) / (missed->recent_max + 1.0) : 0;
    double ever = missed->seen > 0 ? (double)missed->lost / missed->seen : 0;
    return recent > ever ? recent : ever;
}

double bw_missed_weight(const struct bw_missed *missed)
{
    double rate = bw_missed_rate(missed);
    return rate > 0 ? -bw_log10(rate) : INFINITY;
}
