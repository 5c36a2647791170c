/* Checks on leases:
 *   - A holder that counts its lease from the time it sent the request, minus the drift of both
 *     clocks, never overlaps with its successor. A holder that counts from the reply does.
 *   - Redlock's validity.
 *   - The gap after a crash.
 *
 * The overlap check uses the simple model of the algorithms page on the shipped arithmetic. There
 * is one granter and one holder. Clocks run at constant rates within 1 +- 1 %. Requests and replies
 * are delayed by up to a second, and any of them may be lost. The granter extends the lease if a
 * request arrives before its expiry. A successor is granted the lease at the instant it expires. */
#include "sim/figures/figures.h"

#include "core/base/rng.h"
#include "core/lease/lease_deadline.h"
#include "core/lease/redlock_validity.h"
#include "sim/stores/lease.h"

#define TTL       (10 * BW_SEC)
#define DRIFT_PPM 10000u
#define RENEWALS  5

enum count_from { FROM_SENDING, FROM_ANSWER };

/* In true seconds; a clock of rate r shows r times as many. */
struct clocks {
    double holder, granter;
};

static double drawn_rate(struct bw_rng *rng)
{
    double rho = DRIFT_PPM / 1e6;
    switch (bw_rng_below(rng, 4)) { /* extreme rates are the worst cases */
    case 0:
        return 1 - rho;
    case 1:
        return 1 + rho;
    default:
        return 1 - rho + 2 * rho * bw_rng_unit(rng);
    }
}

/* Simulates a lease with a few renewals. Returns how long, in true seconds, the holder acts after
 * its successor was granted the lease. */
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
        found += overlap(&rng, from) > 1e-9; /* allows rounding of doubles */
    return found;
}

static void holder_never_overlaps(struct bw_report *report, double size)
{
    uint32_t schedules = bw_report_runs(100000, size, 10000);
    bw_report_near(report, "holder's limit for T = 10 s, drift 1 %, s", 9.80198,
                   (double)bw_lease_span(TTL, DRIFT_PPM) / 1e9, 1e-5);
    bw_report_equal(report, "overlaps, counting from sending", 0,
                    overlaps(schedules, FROM_SENDING));
    bw_report_at_least(report, "overlaps, counting from the reply (control)", 1,
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

/* ---- the gap: the shipped elector in the simulated world ---- */

struct gaps {
    uint32_t runs, longer, leaderless;
    double nearest; /* the largest gap, as a fraction of its bound */
};

/* Draws the settings and the time of the crash of the leader. */
static void draw_crash(struct bw_rng *rng, struct bw_sim_config *config, struct bw_sim_fault *crash)
{
    struct bw_sim_lease *lease = &config->lease;
    bw_sim_defaults(config);
    lease->store = bw_rng_chance(rng, 0.5) ? BW_SIM_STORE_QUORUM : BW_SIM_STORE_SINGLE;
    lease->expires = bw_rng_chance(rng, 0.3);
    lease->ttl_ns = bw_rng_between(rng, BW_SEC, 15 * BW_SEC);
    lease->grace_ns = bw_rng_between(rng, 0, BW_SEC);
    lease->retry_ns = bw_rng_between(rng, 100 * BW_MS, 2 * BW_SEC);
    lease->kill_after_ns = bw_rng_between(rng, 0, lease->ttl_ns / 4);
    lease->margin_ns = lease->ttl_ns / 50;
    config->algorithm = bw_sim_lease_ops(lease->store);
    config->detector = NULL;
    config->nodes = 2 + (uint32_t)bw_rng_below(rng, 6);
    config->latency.max = bw_rng_between(rng, BW_MS, 50 * BW_MS);
    config->disk_max = bw_rng_between(rng, 0, 10 * BW_MS);
    config->drift = config->drift_bound;
    config->transport_reports = bw_rng_chance(rng, 0.5);
    *crash = (struct bw_sim_fault){.kind = BW_FAULT_CRASH,
                                   .at = bw_rng_between(rng, 300 * BW_MS, 3 * lease->ttl_ns)};
    config->faults = crash;
    config->faults_count = 1;
    config->until = crash->at + 2 * bw_sim_lease_gap(config);
}

static void measure_gaps(struct gaps *gaps)
{
    struct bw_rng rng;
    struct bw_sim *sim = bw_sim_new();
    bw_rng_init(&rng, 21);
    for (uint32_t i = 0; i < gaps->runs; i++) {
        struct bw_sim_config config;
        struct bw_sim_fault crash;
        struct bw_sim_result result;
        char why[200];
        draw_crash(&rng, &config, &crash);
        config.seed = i + 1;
        if (!sim || bw_sim_run_in(sim, &config, &result, why) != 0 || !result.leader_changes) {
            gaps->leaderless++;
            continue;
        }
        double part = (double)result.longest_gap / (double)bw_sim_lease_gap(&config);
        gaps->longer += part > 1;
        gaps->nearest = part > gaps->nearest ? part : gaps->nearest;
    }
    bw_sim_free(sim);
}

static void gap_after_crash(struct bw_report *report, double size)
{
    struct gaps gaps = {.runs = bw_report_runs(5000, size, 200)};
    measure_gaps(&gaps);
    bw_report_equal(report, "crashes without a later leader", 0, gaps.leaderless);
    bw_report_equal(report, "gaps longer than TTL + grace + election time", 0, gaps.longer);
    bw_report_at_most(report, "longest gap, fraction of its bound", 1, gaps.nearest);
    bw_report_at_least(report, "longest gap, fraction of its bound (control)", 0.9, gaps.nearest);
}

const struct bw_sim_check bw_checks_lease[] = {
    {18, "lease-no-overlap",
     "a holder that counts from sending, less drift, never overlaps with its successor", NULL,
     holder_never_overlaps},
    {19, "redlock-validity", "Redlock's validity is the TTL less time taken, less 1 % and 2 ms",
     NULL, redlock_validity},
    {21, "lease-gap",
     "after a holder's crash there is no leader for at most TTL + grace + election time", NULL,
     gap_after_crash},
    {0, NULL, NULL, NULL, NULL},
};
