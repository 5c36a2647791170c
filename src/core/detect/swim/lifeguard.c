/* Lifeguard's formulas: LHA-Suspicion and the local health multiplier.
 *
 * Suspicion: max(Min, Max - (Max - Min) log(C + 1) / log(K + 1)), Min = alpha log10(n) periods, Max
 * = beta Min. A false suspicion comes from one slow observer and gets few confirmations, so it
 * leaves much time for a refutation. A true suspicion soon gets K confirmations and ends fast. */
#include "core/detect/swim/lifeguard.h"
#include "core/detect/portable_math.h"

#include <math.h>

bw_time bw_lifeguard_suspicion_ns(uint32_t members, bw_time period_ns, double alpha, double beta,
                                  uint32_t confirmations)
{
    double scale = members > 10 ? bw_log10(members) : 1;
    double least = alpha * scale * (double)period_ns;
    /* neither the suspect nor the first reporter */
    uint32_t others = members > 2 ? members - 2 : 0;
    uint32_t reports = others < BW_LIFEGUARD_CONFIRMATIONS ? others : BW_LIFEGUARD_CONFIRMATIONS;
    if (reports == 0 || confirmations >= reports)
        return (bw_time)least;
    double most = beta * least;
    double span = most - (most - least) * bw_log(confirmations + 1.0) / bw_log(reports + 1.0);
    return (bw_time)(span > least ? span : least);
}

void bw_lifeguard_better(struct bw_lifeguard *health)
{
    if (health->score > 0)
        health->score--;
}

void bw_lifeguard_worse(struct bw_lifeguard *health, uint32_t by)
{
    uint32_t max = BW_LIFEGUARD_HEALTH_MAX - health->score;
    health->score += by < max ? by : max;
}
