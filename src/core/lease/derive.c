/* Derived terms of a lease; see derive.h. The largest valid values are found by bisection on
 * bw_lease_check, so that they follow its rounding. */
#include "core/lease/derive.h"

#include "core/base/bug.h"
#include "core/base/drift.h"
#include "core/base/limits.h"

#define MARGIN_MIN (50 * BW_MS)
#define MARGIN_MAX BW_SEC

bw_time bw_lease_margin(bw_time ttl_ns)
{
    return bw_time_min(bw_time_max(ttl_ns / 20, MARGIN_MIN), MARGIN_MAX);
}

/* The margin grows with the TTL, so this iterates until the TTL stops growing. */
bw_time bw_lease_ttl_needed(const struct bw_lease_terms *terms)
{
    struct bw_lease_terms tried = *terms;
    bw_time least = 0;
    tried.margin_ns = MARGIN_MIN;
    for (unsigned i = 0; i < 64; i++) {
        bw_time next = bw_lease_ttl_least(&tried);
        if (next == BW_TIME_NEVER)
            return next;
        if (next <= least)
            return least;
        least = next;
        tried.margin_ns = bw_lease_margin(least);
    }
    return BW_TIME_NEVER;
}

enum term { TERM_KILL_AFTER, TERM_UNCERTAINTY, TERM_DRIFT };

static bool fits(const struct bw_lease_terms *terms, enum term term, int64_t value)
{
    struct bw_lease_terms tried = *terms;
    if (term == TERM_KILL_AFTER)
        tried.kill_after_ns = value;
    else if (term == TERM_UNCERTAINTY)
        tried.uncertainty_ns = value;
    else
        tried.drift_ppm = (uint32_t)value;
    return bw_lease_check(&tried) == BW_LEASE_RULE_NONE;
}

/* The largest value from 0 to `high` that fits; negative if 0 does not. If a value fits, every
 * smaller one does. */
static int64_t most(const struct bw_lease_terms *terms, enum term term, int64_t high)
{
    int64_t low = 0;
    if (!fits(terms, term, 0))
        return -1;
    while (low < high) {
        int64_t middle = high - (high - low) / 2;
        if (fits(terms, term, middle))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

bw_time bw_lease_kill_after_most(const struct bw_lease_terms *terms)
{
    return most(terms, TERM_KILL_AFTER, BW_LEASE_TTL_MAX);
}

bw_time bw_lease_uncertainty_most(const struct bw_lease_terms *terms)
{
    return most(terms, TERM_UNCERTAINTY, BW_LEASE_TTL_MAX);
}

int64_t bw_lease_drift_most(const struct bw_lease_terms *terms)
{
    return most(terms, TERM_DRIFT, BW_PPM / 3);
}

/* A TTL that is longer than the default is a whole number of seconds, as people write it. */
static bw_time round_up(bw_time ttl_ns)
{
    return ttl_ns > BW_LEASE_TTL_MAX ? ttl_ns : (ttl_ns + BW_SEC - 1) / BW_SEC * BW_SEC;
}

static bw_time derive_ttl(const struct bw_lease_terms *terms, const struct bw_lease_given *given)
{
    bw_time most_ns = given->ttl_max_ns ? given->ttl_max_ns : BW_LEASE_TTL_MAX;
    bw_time needed = given->margin_ns ? bw_lease_ttl_least(terms) : bw_lease_ttl_needed(terms);
    bw_time renewed = given->renew_ns > BW_LEASE_TTL_MAX / 3 ? BW_TIME_NEVER : 3 * given->renew_ns;
    needed = bw_time_max(needed, renewed);
    if (needed <= given->ttl_default_ns)
        return given->ttl_default_ns;
    return bw_time_min(round_up(needed), most_ns);
}

/* The default if it fits, otherwise a fifth of the TTL, or what the drift leaves of it. */
static bw_time derive_kill_after(const struct bw_lease_terms *terms,
                                 const struct bw_lease_given *given)
{
    bw_time longest = bw_lease_kill_after_most(terms);
    if (given->kill_default_ns <= longest || BW_BUG(lease_keeps_default_kill_after))
        return given->kill_default_ns;
    return bw_time_max(bw_time_min(terms->ttl_ns / 5, longest), 0);
}

void bw_lease_derive(struct bw_lease_terms *out, const struct bw_lease_given *given)
{
    bool kill_given = given->kill_after_ns >= 0;
    *out = (struct bw_lease_terms){.ttl_ns = given->ttl_ns,
                                   .drift_ppm = given->drift_ppm,
                                   .kill_after_ns =
                                       kill_given ? given->kill_after_ns : given->kill_default_ns,
                                   .margin_ns = given->margin_ns,
                                   .uncertainty_ns = given->uncertainty_ns};
    if (given->ttl_ns == 0)
        out->ttl_ns =
            BW_BUG(lease_keeps_default_ttl) ? given->ttl_default_ns : derive_ttl(out, given);
    if (given->margin_ns == 0)
        out->margin_ns = bw_lease_margin(out->ttl_ns);
    if (!kill_given)
        out->kill_after_ns = derive_kill_after(out, given);
}
