/* Lifeguard's two formulas.
 *
 * Suspicion: max(Min, Max - (Max - Min) log(C + 1) / log(K + 1)), Min = alpha log10(n) periods, Max
 * = beta Min. A false suspicion comes from one slow observer and is heard from few, a true one is
 * soon confirmed by K others: so the first may take its time to be refuted and the second is
 * quick. */
#include "core/detect/swim/lifeguard.h"

#include <math.h>

bw_time bw_lifeguard_suspicion_ns(uint32_t members, bw_time period_ns, double alpha, double beta,
                                  uint32_t confirmations)
{
    double scale = members > 10 ? log10(members) : 1;
    double least = alpha * scale * (double)period_ns;
    uint32_t others = members > 2 ? members - 2 : 0; /* neither the suspect nor the first voice */
    uint32_t voices = others < BW_LIFEGUARD_VOICES ? others : BW_LIFEGUARD_VOICES;
    if (voices == 0 || confirmations >= voices)
        return (bw_time)least;
    double most = beta * least;
    double span = most - (most - least) * log(confirmations + 1.0) / log(voices + 1.0);
    return (bw_time)(span > least ? span : least);
}

void bw_lifeguard_better(struct bw_lifeguard *health)
{
    if (health->score > 0)
        health->score--;
}

void bw_lifeguard_worse(struct bw_lifeguard *health, uint32_t by)
{
    uint32_t room = BW_LIFEGUARD_HEALTH_MAX - health->score;
    health->score += by < room ? by : room;
}
