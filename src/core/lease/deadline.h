/* Until when may a lease holder act, and what must be done by when?
 *
 * Model: clocks never jump but run at rates within 1 +- rho of true time; messages take any time
 * and may be lost; the granter counts its whole TTL from the moment it commits the grant. The
 * holder counts from the moment it SENT the request, which is never later, and only
 * T(1-rho)/(1+rho), which is never longer than T on the granter's clock, however the two rates
 * differ (Gray & Cheriton 1989; the bound for two drifting clocks is derived in the documentation).
 *
 * Guarantees: a holder that has stopped by `end` has stopped before the granter can grant the lease
 * to another. Not guaranteed: that a message or disk write the holder started before `end` has
 * arrived by then. That is what fencing tokens are for.
 *
 * Who also declares how wrong its wall clock may be (u, opt-in) writes the end of its lease as an
 * instant that others compare with their own wall clocks: its window is then counted as if T were
 * T - u, since the true time of sending may be u later than its clock said.
 *
 * All spans are nanoseconds on the holder's own clock. */
#ifndef BW_LEASE_DEADLINE_H
#define BW_LEASE_DEADLINE_H

#include "core/base/types.h"

/* What a user chooses. */
struct bw_lease_terms {
    bw_time ttl_ns;         /* T, as the granter counts it */
    uint32_t drift_ppm;     /* rho */
    bw_time kill_after_ns;  /* from TERM to KILL: how long the work may take to end by itself */
    bw_time margin_ns;      /* from KILL to the end: what killing itself may take */
    bw_time uncertainty_ns; /* u: how wrong the own wall clock may be; 0: not declared */
};

/* What follows: instants on the holder's clock for a lease whose request was sent at `sent`.
 * Renewals are sent at T/3 and again at T/2, each waiting T/6: the first miss retries at once, the
 * second begins stepping down, nothing runs at the third. */
struct bw_lease_schedule {
    bw_time renew; /* sent + T/3: send the renewal */
    bw_time retry; /* sent + T/2: no answer yet, send it again */
    bw_time term;  /* min(sent + 2T/3, end - kill_after - margin): tell the work to end */
    bw_time kill;  /* end - margin: kill what is left of it */
    bw_time end;   /* sent + (T-u)(1-rho)/(1+rho): nothing of it may run from here on */
};

#define BW_LEASE_CLOCK_TEXT                                                                        \
    "(ttl - clock-uncertainty) (1 - drift) / (1 + drift) - kill-after - margin >= ttl / 2"

/* What terms must satisfy; each has an inequality that names the settings. */
#define BW_LEASE_RULE_MAP(X)                                                                       \
    X(TTL_POSITIVE, "ttl > 0")                                                                     \
    X(TTL_MAX, "ttl <= 365 days")                                                                  \
    X(SPANS, "kill-after >= 0, margin >= 0 and clock-uncertainty >= 0")                            \
    X(DRIFT, "(1 - drift) / (1 + drift) > 1/2")                                                    \
    X(KILL_TIME, "ttl (1 - drift) / (1 + drift) - kill-after - margin >= ttl / 2")                 \
    X(CLOCK, BW_LEASE_CLOCK_TEXT)

enum bw_lease_rule {
    BW_LEASE_RULE_NONE,
#define X(name, text) BW_LEASE_RULE_##name,
    BW_LEASE_RULE_MAP(X)
#undef X
};

/* How long a holder may act on a lease of T, from sending; rounded down. T >= 0, rho < 100 %. */
bw_time bw_lease_span(bw_time ttl_ns, uint32_t drift_ppm);

/* The first rule that the terms break, or NONE. KILL_TIME and CLOCK say that there would be no time
 * left for a second try between the first miss and the moment the work must be told to end. */
enum bw_lease_rule bw_lease_check(const struct bw_lease_terms *terms);

/* The inequality of a rule as text; "" for NONE. Static. */
const char *bw_lease_rule_text(enum bw_lease_rule rule);

/* The smallest TTL in whole milliseconds that satisfies every rule with the other terms as they
 * are; NEVER if there is none. */
bw_time bw_lease_ttl_least(const struct bw_lease_terms *terms);

/* The schedule of a lease whose request, or last answered renewal, was sent at `sent` >= 0. The
 * terms have been checked. */
void bw_lease_plan(struct bw_lease_schedule *out, const struct bw_lease_terms *terms, bw_time sent);

/* The longest time without a leader after a holder's crash when others wait for its lease to end:
 * T + grace + election. */
bw_time bw_lease_gap_by_expiry(bw_time ttl_ns, bw_time grace_ns, bw_time election_ns);

/* The same when a detector notices: missed heartbeats x interval + election. */
bw_time bw_lease_gap_by_detector(uint32_t missed, bw_time interval_ns, bw_time election_ns);

#endif
