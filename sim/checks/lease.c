/* Checks on leases: a holder that counts from sending, less the drift of both clocks, never
 * overlaps its successor; one that counts from the answer does; Redlock's validity.
 *
 * The model of the overlap check is the plain one of the algorithms page, on the shipped
 * arithmetic: one granter, one holder, clocks at constant rates within 1 +- 1 %, requests and
 * answers delayed by up to a second, any of them lost. The granter extends the lease when a request
 * arrives before its expiry, and a successor is granted the lease the instant it expires. */
#include "sim/checks/checks.h"

#include "base/rng.h"
#include "lease/deadline.h"
#include "lease/validity.h"

#define TTL       (10 * BW_SEC)
#define DRIFT_PPM 10000u
#define RENEWALS  5

enum count_from { FROM_SENDING, FROM_ANSWER };

/* True seconds; a clock of rate r shows r times as many. */
struct clocks {
    double holder, granter;
};

static double drawn_rate(struct bw_rng *rng)
{
    double rho = DRIFT_PPM / 1e6;
    switch (bw_rng_below(rng, 4)) { /* the corners are where it hurts */
    case 0:
        return 1 - rho;
    case 1:
        return 1 + rho;
    default:
        return 1 - rho + 2 * rho * bw_rng_unit(rng);
    }
}

/* Plays a lease with a few renewals; returns how long, in true seconds, the holder acts after its
 * successor was granted the lease. */
static double overlap(struct bw_rng *rng, enum count_from from)
{
    struct clocks rate = {drawn_rate(rng), drawn_rate(rng)};
    double span = (double)bw_lease_span(TTL, DRIFT_PPM) / 1e9;
    double sent = 0, holder_end = 0, granter_end = 0;
    for (int i = 0; i <= RENEWALS; i++) {
        double arrives = sent + bw_rng_unit(rng), answered = arrives + bw_rng_unit(rng);
        bool lost = i > 0 && bw_rng_chance(rng, 0.2);
        bool late = i > 0 && arrives >= granter_end;
        if (!lost && !late) {
            granter_end = arrives + (double)TTL / 1e9 / rate.granter;
            double counted = from == FROM_SENDING ? sent : answered;
            if (!bw_rng_chance(rng, 0.2) && (i == 0 || answered < holder_end))
                holder_end = counted + span / rate.holder;
        }
        sent += (double)TTL / 3e9 / rate.holder;
    }
    return holder_end - granter_end;
}

static uint32_t overlaps(uint32_t schedules, enum count_from from)
{
    struct bw_rng rng;
    bw_rng_init(&rng, 18);
    uint32_t found = 0;
    for (uint32_t i = 0; i < schedules; i++)
        found += overlap(&rng, from) > 1e-9; /* the rounding of doubles, not of the lease */
    return found;
}

static void holder_never_overlaps(struct bw_report *report, double size)
{
    uint32_t schedules = bw_report_runs(100000, size, 10000);
    bw_report_near(report, "holder's limit for T = 10 s, drift 1 %, s", 9.80198,
                   (double)bw_lease_span(TTL, DRIFT_PPM) / 1e9, 1e-5);
    bw_report_equal(report, "overlaps, counting from sending", 0,
                    overlaps(schedules, FROM_SENDING));
    bw_report_at_least(report, "overlaps, counting from the answer (control)", 1,
                       overlaps(schedules, FROM_ANSWER));
}

static void redlock_validity(struct bw_report *report, double size)
{
    (void)size;
    bw_report_equal(report, "TTL 10,000 ms, 150 ms elapsed: ms left", 9748,
                    (double)bw_redlock_validity(10000 * BW_MS, 150 * BW_MS) / 1e6);
    bw_report_equal(report, "TTL 2,000 ms, 50 ms elapsed: ms left", 1928,
                    (double)bw_redlock_validity(2000 * BW_MS, 50 * BW_MS) / 1e6);
}

const struct bw_sim_check bw_checks_lease[] = {
    {18, "lease-no-overlap",
     "a holder that counts from sending, less drift, never overlaps its successor", NULL,
     holder_never_overlaps},
    {19, "redlock-validity", "Redlock's validity is the TTL less time taken, less 1 % and 2 ms",
     NULL, redlock_validity},
    {21, "lease-gap", "after a holder's crash nobody leads for at most TTL + grace + election time",
     "RUN: the lease elector", NULL},
    {0, NULL, NULL, NULL, NULL},
};
