/* Lease arithmetic: integers only, products in 128 bits, all rounding on the safe side. */
#include "core/lease/lease_deadline.h"

#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/base/drift.h"
#include "core/base/limits.h"

static const char *const texts[] = {[BW_LEASE_RULE_NONE] = "",
#define X(name, text) [BW_LEASE_RULE_##name] = text,
                                    BW_LEASE_RULE_MAP(X)
#undef X
};

const char *bw_lease_rule_text(enum bw_lease_rule rule)
{
    return (unsigned)rule < sizeof texts / sizeof texts[0] ? texts[rule] : "";
}

bw_time bw_lease_span(bw_time ttl_ns, uint32_t drift_ppm)
{
    BW_ASSERT(ttl_ns >= 0 && drift_ppm < BW_PPM);
    if (BW_BUG(lease_forgets_drift))
        return ttl_ns;
    if (BW_BUG(lease_forgets_granters_drift))
        return (bw_time)((__int128)ttl_ns * (BW_PPM - (int32_t)drift_ppm) / BW_PPM);
    return bw_drift_shorten(ttl_ns, drift_ppm);
}

/* The holder's window from sending, with the uncertainty subtracted; at least 0. */
static bw_time window(const struct bw_lease_terms *terms, bw_time uncertainty_ns)
{
    bw_time less = terms->ttl_ns - uncertainty_ns;
    return less > 0 ? bw_lease_span(less, terms->drift_ppm) : 0;
}

/* The window minus the kill time; negative if nothing is left for the work. */
static bw_time usable(const struct bw_lease_terms *terms, bw_time uncertainty_ns)
{
    __int128 left = window(terms, uncertainty_ns);
    left -= terms->kill_after_ns;
    left -= terms->margin_ns;
    return left < -1 ? -1 : (bw_time)left;
}

enum bw_lease_rule bw_lease_check(const struct bw_lease_terms *terms)
{
    if (terms->ttl_ns <= 0)
        return BW_LEASE_RULE_TTL_POSITIVE;
    if (terms->ttl_ns > BW_LEASE_TTL_MAX)
        return BW_LEASE_RULE_TTL_MAX;
    if (terms->kill_after_ns < 0 || terms->margin_ns < 0 || terms->uncertainty_ns < 0)
        return BW_LEASE_RULE_SPANS;
    if ((uint64_t)terms->drift_ppm * 3 >= BW_PPM)
        return BW_LEASE_RULE_DRIFT;
    bw_time half = terms->ttl_ns - terms->ttl_ns / 2;
    if (usable(terms, 0) < half)
        return BW_LEASE_RULE_KILL_TIME;
    if (usable(terms, terms->uncertainty_ns) < half)
        return BW_LEASE_RULE_CLOCK;
    return BW_LEASE_RULE_NONE;
}

static bool too_short(enum bw_lease_rule rule)
{
    return rule == BW_LEASE_RULE_KILL_TIME || rule == BW_LEASE_RULE_CLOCK;
}

/* (T-u)(1-rho)/(1+rho) - k >= T/2 implies T >= (k + u (1-rho)/(1+rho)) 2(1+rho) / (1-3 rho).
 * Rounding inside the rule can require up to 3 ms more when rho is nearly 1/3. */
bw_time bw_lease_ttl_least(const struct bw_lease_terms *terms)
{
    struct bw_lease_terms tried = *terms;
    tried.ttl_ns = BW_MS;
    enum bw_lease_rule broken = bw_lease_check(&tried);
    if (broken != BW_LEASE_RULE_NONE && !too_short(broken))
        return BW_TIME_NEVER;
    __int128 kill = (__int128)terms->kill_after_ns + terms->margin_ns;
    kill += bw_lease_span(terms->uncertainty_ns, terms->drift_ppm);
    int64_t below = BW_PPM - 3 * (int64_t)terms->drift_ppm;
    __int128 least_ms = kill * 2 * (BW_PPM + (int64_t)terms->drift_ppm) / below / BW_MS;
    if (least_ms > BW_LEASE_TTL_MAX / BW_MS)
        return BW_TIME_NEVER;
    tried.ttl_ns = bw_time_max((bw_time)least_ms, 1) * BW_MS;
    while (too_short(bw_lease_check(&tried)))
        tried.ttl_ns += BW_MS;
    return bw_lease_check(&tried) == BW_LEASE_RULE_NONE ? tried.ttl_ns : BW_TIME_NEVER;
}

void bw_lease_plan(struct bw_lease_schedule *out, const struct bw_lease_terms *terms, bw_time sent)
{
    bw_time ttl = terms->ttl_ns;
    bw_time stop_after =
        bw_time_min((bw_time)((__int128)ttl * 2 / 3), usable(terms, terms->uncertainty_ns));
    bw_time span = window(terms, BW_BUG(lease_forgets_uncertainty) ? 0 : terms->uncertainty_ns);
    out->renew = bw_time_add(sent, ttl / 3);
    out->retry = bw_time_add(sent, ttl / 2);
    out->term = bw_time_add(sent, stop_after);
    out->kill = bw_time_add(sent, BW_BUG(lease_kills_at_the_end) ? span : span - terms->margin_ns);
    out->end = bw_time_add(sent, span);
}

bw_time bw_lease_gap_by_expiry(bw_time ttl_ns, bw_time grace_ns, bw_time election_ns)
{
    return bw_time_add(bw_time_add(ttl_ns, grace_ns), election_ns);
}

bw_time bw_lease_gap_by_detector(uint32_t missed, bw_time interval_ns, bw_time election_ns)
{
    __int128 noticed = (__int128)missed * interval_ns;
    if (noticed > BW_TIME_NEVER)
        return BW_TIME_NEVER;
    return bw_time_add((bw_time)noticed, election_ns);
}
