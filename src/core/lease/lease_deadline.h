/* Deadlines of a lease holder: until when it may act, and when it must renew, stop and kill its
 * work.
 *
 * Model. A clock never jumps, and its rate is within 1 ± rho of true time. Messages may be delayed
 * without bound and may be lost. The granter counts the whole TTL T from the moment it commits the
 * grant. The holder counts from the moment it SENT the request, which is never later. It counts
 * only T(1-rho)/(1+rho), which is never longer than T on the granter's clock, whatever the two
 * rates are.
 *
 * Guarantee. A holder that has stopped by `end` has stopped before the granter can grant the lease
 * to another candidate.
 *
 * Not guaranteed: that a message or disk write started before `end` has arrived by then. Use
 * fencing tokens for that.
 *
 * Opt-in: a holder may declare the error bound u of its wall clock. It then also publishes the end
 * of its lease as a wall-clock time, which other candidates compare with their own clocks. The true
 * time of sending may be u later than its clock showed, so the holder computes its window with T -
 * u instead of T.
 *
 * All durations are nanoseconds on the holder's own clock.
 *
 * Source: Gray and Cheriton, "Leases", SOSP 1989; docs/concepts/leases.md derives the bound for two
 * drifting clocks. */
#ifndef BW_CORE_LEASE_LEASE_DEADLINE_H
#define BW_CORE_LEASE_LEASE_DEADLINE_H

#include "core/base/types.h"

/* The user's settings. */
struct bw_lease_terms {
    bw_time ttl_ns;         /* T, as the granter counts it */
    uint32_t drift_ppm;     /* rho */
    bw_time kill_after_ns;  /* from SIGTERM to SIGKILL: time for the work to end by itself */
    bw_time margin_ns;      /* from SIGKILL to the end: time that killing takes */
    bw_time uncertainty_ns; /* u: error bound of the wall clock; 0: not declared */
};

/* The holder's schedule for a lease whose request was sent at `sent`, on the holder's clock.
 * Renewals are sent at T/3 and at T/2; each is awaited for T/6. The first missed renewal is retried
 * at once. The second starts the step-down.
 *
 * Invariants:
 *   sent < renew < retry <= term <= kill <= end
 *   term <= kill - kill_after
 *   kill = end - margin */
struct bw_lease_schedule {
    bw_time renew; /* sent + T/3: send the renewal */
    bw_time retry; /* sent + T/2: no answer yet, send it again */
    bw_time term;  /* min(sent + 2T/3, end - kill_after - margin): SIGTERM */
    bw_time kill;  /* end - margin: SIGKILL */
    bw_time end;   /* sent + (T-u)(1-rho)/(1+rho): the work must be dead */
};

#define BW_LEASE_CLOCK_TEXT                                                                        \
    "(ttl - clock-uncertainty) (1 - drift) / (1 + drift) - kill-after - margin >= ttl / 2"

/* Rules for the terms. Each text is an inequality that names the settings. */
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

/* Returns the first rule that the terms violate, or NONE. KILL_TIME and CLOCK mean that no time is
 * left for a second renewal before the work must be stopped. */
enum bw_lease_rule bw_lease_check(const struct bw_lease_terms *terms);

/* The inequality of a rule; "" for NONE. Static. */
const char *bw_lease_rule_text(enum bw_lease_rule rule);

/* The smallest TTL, in whole milliseconds, that satisfies every rule with the other terms
 * unchanged; BW_TIME_NEVER if there is none. */
bw_time bw_lease_ttl_least(const struct bw_lease_terms *terms);

/* Computes the schedule of a lease whose request, or last answered renewal, was sent at `sent` >=
 * 0. `terms` must pass bw_lease_check. */
void bw_lease_plan(struct bw_lease_schedule *out, const struct bw_lease_terms *terms, bw_time sent);

/* Maximum time without a leader after a holder's crash, if candidates wait for its lease to expire:
 * T + grace + election. */
bw_time bw_lease_gap_by_expiry(bw_time ttl_ns, bw_time grace_ns, bw_time election_ns);

/* Maximum time without a leader after a holder's crash, if a detector notices the crash: missed
 * heartbeats x interval + election. */
bw_time bw_lease_gap_by_detector(uint32_t missed, bw_time interval_ns, bw_time election_ns);

#endif
