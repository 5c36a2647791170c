/* Failure detectors: their published figures. Checks 13 to 17 and 22 of the algorithms page.
 *
 * NFD and gossip run as shipped modules in a loop of their own, because they need a hundred million
 * heartbeats. SWIM and the cut link run in whole simulated groups. */
#include "core/base/rng.h"
#include "core/detect/gossip.h"
#include "core/detect/phi_math.h"
#include "core/detect/swim/lifeguard.h"
#include "sim/figures/figures.h"
#include "sim/sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One detector with its own memory; `at` is NULL without memory. */
struct bench {
    const struct bw_detector_ops *ops;
    void *at;
    struct bw_actions out;
};

static bool bench_open(struct bench *bench, const struct bw_detector_ops *ops,
                       const struct bw_detector_config *config)
{
    size_t bytes = (ops->bytes(config) + 15) / 16 * 16;
    *bench = (struct bench){.ops = ops, .at = aligned_alloc(16, bytes)};
    bench->out.cap = ops->actions_max(config);
    bench->out.at = malloc(bench->out.cap * sizeof *bench->out.at);
    return bench->at && bench->out.at && ops->init(bench->at, config) == 0;
}

static void bench_close(struct bench *bench)
{
    free(bench->at);
    free(bench->out.at);
}

static void bench_step(struct bench *bench, enum bw_event_kind kind, const struct bw_message *msg,
                       bw_time now)
{
    static const struct bw_start fresh;
    struct bw_event event = {.kind = kind, .now = now};
    if (kind == BW_EVENT_START)
        event.start = &fresh;
    else
        event.msg = msg;
    bench->out.count = 0;
    bench->ops->step(bench->at, &event, &bench->out);
}

/* Returns the verdict of the last step, or NULL. */
static const struct bw_action *bench_verdict(const struct bench *bench)
{
    for (uint32_t i = 0; i < bench->out.count; i++)
        if (bench->out.at[i].kind == BW_ACTION_SUSPECT || bench->out.at[i].kind == BW_ACTION_TRUST)
            return &bench->out.at[i];
    return NULL;
}

static struct bw_sim_result play(struct bw_report *report, const struct bw_sim_config *config)
{
    struct bw_sim_result result = {0};
    char why[200];
    if (bw_sim_run(config, &result, why))
        bw_report_equal(report, why, 0, 1);
    return result;
}

/* --- 13: phi --------------------------------------------------------------------------------- */

/* Returns the silence in ms after which a member with 1,200 s of heartbeats, one per second, is
 * suspected. */
static double suspicion_ms(const struct bw_detector_ops *ops)
{
    static const bw_node ids[] = {1, 2};
    struct bw_detector_config config = {.self = 1, .members = ids, .count = 2, .cap = 2};
    bw_detector_defaults(&config, BW_SEC);
    struct bench bench;
    struct bw_message beat = {.kind = BW_MSG_HEARTBEAT, .from = 2, .to = 1};
    bw_time last = 0;
    double silence = -1;
    if (!bench_open(&bench, ops, &config))
        goto out;
    bench_step(&bench, BW_EVENT_START, NULL, 0);
    for (uint64_t i = 1; i <= 1200; i++) {
        last = (bw_time)i * BW_SEC - BW_SEC / 2;
        beat.probe.seq = i;
        bench_step(&bench, BW_EVENT_MESSAGE, &beat, last);
        bench_step(&bench, BW_EVENT_TIMEOUT, NULL, (bw_time)i * BW_SEC);
    }
    while (silence < 0) {
        bw_time now = bench.ops->deadline(bench.at);
        bench_step(&bench, BW_EVENT_TIMEOUT, NULL, now);
        if (bench_verdict(&bench))
            silence = (double)(now - last) / (double)BW_MS;
    }
out:
    bench_close(&bench);
    return silence;
}

static void phi_values(struct bw_report *report, double size)
{
    (void)size;
    static const double normal[] = {.3010, .7995, 1.6430, 2.8697, 4.4993, 6.5426, 9.0059};
    static const double logistic[] = {.3010, .7995, 1.6428, 2.9095, 4.7367, 7.2999, 10.7826};
    char what[96];
    for (int y = 0; y <= 6; y++) {
        snprintf(what, sizeof what, "normal, y=%d", y);
        bw_report_near(report, what, normal[y], bw_phi_normal(y), 1e-3);
        snprintf(what, sizeof what, "logistic, y=%d", y);
        bw_report_near(report, what, logistic[y], bw_phi_logistic(y), 1e-3);
    }
    bw_report_near(report, "steady 1,000 ms beats, logistic: suspected after ms", 4523,
                   suspicion_ms(&bw_detect_phi_logistic), 1);
    bw_report_near(report, "steady beats, exponential: suspected after means", 18.42,
                   suspicion_ms(&bw_detect_phi_exponential) / 1000, 0.005);
}

/* --- 14: NFD-S ------------------------------------------------------------------------------- */

#define NFD_LOSS .01
#define NFD_MEAN .02 /* mean of the exponential delay, in periods of one second */

struct nfd_run {
    struct bench bench;
    struct bw_rng rng;
    uint64_t beat;
    bw_time quickest; /* fastest delivery of a heartbeat */
    bw_time suspected_at, first_at, last_at;
    uint64_t mistakes;
    double mistaken_ns;
};

static bool nfd_open(struct nfd_run *run, double delta, uint64_t seed)
{
    static const bw_node ids[] = {1, 2};
    struct bw_detector_config config = {.self = 1, .members = ids, .count = 2, .cap = 2};
    bw_detector_defaults(&config, BW_SEC);
    config.timeout_ns = (bw_time)(delta * (double)BW_SEC);
    config.fresh_window = 1000; /* the clocks of this check do not drift */
    *run = (struct nfd_run){.quickest = BW_TIME_NEVER, .suspected_at = BW_TIME_NEVER};
    bw_rng_init(&run->rng, seed);
    if (!bench_open(&run->bench, &bw_detect_nfd, &config))
        return false;
    bench_step(&run->bench, BW_EVENT_START, NULL, 0);
    return true;
}

static void nfd_note(struct nfd_run *run, bw_time now)
{
    const struct bw_action *verdict = bench_verdict(&run->bench);
    if (!verdict)
        return;
    if (verdict->kind == BW_ACTION_SUSPECT) {
        run->mistakes++;
        run->suspected_at = run->last_at = now;
        if (run->mistakes == 1)
            run->first_at = now;
        return;
    }
    run->mistaken_ns += (double)(now - run->suspected_at);
    run->suspected_at = BW_TIME_NEVER;
}

static void nfd_wait(struct nfd_run *run, bw_time until)
{
    for (bw_time due; (due = run->bench.ops->deadline(run->bench.at)) <= until;) {
        bench_step(&run->bench, BW_EVENT_TIMEOUT, NULL, due);
        nfd_note(run, due);
    }
}

/* Draws the next heartbeat: sent at its number times eta, then lost or delayed. */
static void nfd_beat(struct nfd_run *run)
{
    uint64_t number = ++run->beat;
    if (bw_rng_chance(&run->rng, NFD_LOSS))
        return;
    bw_time way = (bw_time)(-log(1 - bw_rng_unit(&run->rng)) * NFD_MEAN * (double)BW_SEC);
    bw_time now = (bw_time)number * BW_SEC + way;
    struct bw_message beat = {.kind = BW_MSG_HEARTBEAT, .from = 2, .to = 1};
    beat.probe.seq = number;
    nfd_wait(run, now);
    bench_step(&run->bench, BW_EVENT_MESSAGE, &beat, now);
    nfd_note(run, now);
    run->quickest = bw_time_min(run->quickest, way);
}

static void nfd_mistakes(struct bw_report *report, double delta, double recurrence, double lasts,
                         uint32_t full, double size)
{
    struct nfd_run run;
    char what[96];
    uint32_t wanted = bw_report_runs(full, size, 1000);
    if (!nfd_open(&run, delta, 14))
        goto out;
    while (run.mistakes <= wanted || run.suspected_at != BW_TIME_NEVER)
        nfd_beat(&run);
    double gaps = (double)(run.mistakes - 1) * (double)BW_SEC;
    snprintf(what, sizeof what, "delta=%.1f: T_MR, periods (%llu mistakes)", delta,
             (unsigned long long)run.mistakes);
    bw_report_near_mean(report, what, recurrence, (double)(run.last_at - run.first_at) / gaps,
                        .03 * recurrence, size);
    snprintf(what, sizeof what, "delta=%.1f: T_M, periods", delta);
    bw_report_near_mean(report, what, lasts,
                        run.mistaken_ns / (double)run.mistakes / (double)BW_SEC, .03 * lasts, size);
out:
    bench_close(&run.bench);
}

/* The sender dies right after a heartbeat, which is the worst case. Clocks are not synchronized, so
 * the receiver counts from the fastest delivery it has seen; this is subtracted again here. */
static void nfd_detection(struct bw_report *report, double delta, double size)
{
    bw_time worst = 0;
    char what[96];
    for (uint32_t i = 0; i < bw_report_runs(1000, size, 50); i++) {
        struct nfd_run run;
        if (nfd_open(&run, delta, 1400 + i)) {
            while (run.beat < 300)
                nfd_beat(&run);
            bw_time died = (bw_time)run.beat * BW_SEC;
            nfd_wait(&run, died + 100 * BW_SEC);
            worst = bw_time_max(worst, run.last_at - died - run.quickest);
        }
        bench_close(&run.bench);
    }
    snprintf(what, sizeof what, "delta=%.1f: longest T_D minus the fastest delivery of a heartbeat",
             delta);
    bw_report_at_most(report, what, delta + 1, (double)worst / (double)BW_SEC);
}

static void nfd_quality(struct bw_report *report, double size)
{
    nfd_mistakes(report, .5, 101.0, .530, 100000, size);
    nfd_mistakes(report, 1, 101.0, .0301, 200000, size);
    nfd_mistakes(report, 1.5, 10101, .530, 10000, size);
    nfd_detection(report, .5, size);
    nfd_detection(report, 1, size);
    nfd_detection(report, 1.5, size);
}

/* --- 15: SWIM -------------------------------------------------------------------------------- */

#define SWIM_PERIOD (100 * BW_MS)

static void swim_config(struct bw_sim_config *config, uint32_t n, uint64_t seed)
{
    bw_sim_defaults(config);
    config->algorithm = &bw_elect_lowest;
    config->detector = &bw_detect_swim;
    config->nodes = n;
    config->period_ns = SWIM_PERIOD;
    config->seed = seed;
}

/* One member dies at the start of a period, before the probes of that instant. */
static void swim_detection(struct bw_report *report, uint32_t n, double expected, double size)
{
    uint32_t runs = bw_report_runs(20000, size, 400);
    double periods = 0;
    for (uint32_t i = 0; i < runs; i++) {
        struct bw_sim_config config;
        swim_config(&config, n, i + 1);
        bw_time at = (2 + i % 5) * SWIM_PERIOD;
        struct bw_sim_fault crash = {.kind = BW_FAULT_CRASH, .at = at, .node = 1 + i % n};
        config.faults = &crash;
        config.faults_count = 1;
        bw_time first = BW_TIME_NEVER;
        for (bw_time laps = 1; first == BW_TIME_NEVER && laps <= 8; laps *= 2) {
            config.until = at + laps * 4 * SWIM_PERIOD + SWIM_PERIOD / 2;
            first = play(report, &config).detection_first;
        }
        periods += (double)first / (double)SWIM_PERIOD;
    }
    char what[96];
    snprintf(what, sizeof what, "n=%u: periods to the first suspicion, mean", n);
    bw_report_near_mean(report, what, expected, periods / runs, .02 * expected, size);
}

static void swim_load(struct bw_report *report, uint32_t n)
{
    struct bw_sim_config config;
    swim_config(&config, n, 15);
    const uint32_t periods = 200;
    config.until = periods * SWIM_PERIOD + SWIM_PERIOD / 2;
    struct bw_sim_result result = play(report, &config);
    char what[96];
    snprintf(what, sizeof what, "n=%u: messages sent per member and period without loss", n);
    bw_report_near(report, what, 2.0, (double)result.detector_sent / (n * periods), .05);
}

static void swim_first_detection(struct bw_report *report, double size)
{
    swim_detection(report, 8, 1.515, size);
    swim_detection(report, 32, 1.567, size);
    swim_detection(report, 64, 1.575, size);
    swim_load(report, 8);
    swim_load(report, 32);
    swim_load(report, 64);
}

/* --- 16: Lifeguard --------------------------------------------------------------------------- */

static void lifeguard_suspicion(struct bw_report *report, double size)
{
    (void)size;
    static const double expected[] = {63.22, 36.88, 21.47, 10.54};
    for (uint32_t c = 0; c < 4; c++) {
        char what[96];
        snprintf(what, sizeof what, "n=128, alpha=5, beta=6, %u confirmations: seconds", c);
        double lasts = (double)bw_lifeguard_suspicion_ns(128, BW_SEC, 5, 6, c) / (double)BW_SEC;
        bw_report_near(report, what, expected[c], lasts, .005);
    }
}

/* --- 17: gossip ------------------------------------------------------------------------------ */

#define GOSSIP_N      100u
#define GOSSIP_LIVE   99u /* f = 1 */
#define GOSSIP_ROUNDS 2342u

/* The Markov chain of the paper's section 4: k of the live members know. In each round a random
 * live member gossips to a random other member. This leads to k + 1 with probability k/live *
 * (live - k)/(n - 1). Returns the probability that some members do not know after `rounds`, and
 * the mean. */
static double gossip_chain(uint32_t rounds, double *mean)
{
    double p[GOSSIP_LIVE + 1] = {[1] = 1}, unfinished = 1;
    *mean = 0;
    for (uint32_t k = 1; k < GOSSIP_LIVE; k++)
        *mean += (double)GOSSIP_LIVE * (GOSSIP_N - 1) / ((double)k * (GOSSIP_LIVE - k));
    for (uint32_t r = 0; r < rounds; r++)
        for (uint32_t k = GOSSIP_LIVE - 1; k >= 1; k--) {
            double rise = p[k] * k / GOSSIP_LIVE * (GOSSIP_LIVE - k) / (GOSSIP_N - 1);
            p[k] -= rise;
            p[k + 1] += rise;
        }
    unfinished -= p[GOSSIP_LIVE];
    return unfinished;
}

struct gossip_run {
    struct bench at[GOSSIP_LIVE];
    bool knows[GOSSIP_LIVE];
    uint32_t informed;
};

static void gossip_begin(struct gossip_run *run, struct bw_detector_config *config, uint64_t seed)
{
    memset(run->knows, 0, sizeof run->knows);
    run->knows[0] = true;
    run->informed = 1;
    for (uint32_t i = 0; i < GOSSIP_LIVE; i++) {
        config->self = i + 1;
        config->seed = seed;
        run->at[i].ops->init(run->at[i].at, config);
        bench_step(&run->at[i], BW_EVENT_START, NULL, 0);
    }
}

/* One member's turn: it gossips, and the receiver merges at once. */
static void gossip_round(struct gossip_run *run, uint32_t member)
{
    struct bench *speaker = &run->at[member];
    bench_step(speaker, BW_EVENT_TIMEOUT, NULL, speaker->ops->deadline(speaker->at));
    const struct bw_message *msg = &speaker->out.at[0].msg;
    if (msg->to > GOSSIP_LIVE)
        return; /* the failed member */
    struct bench *listener = &run->at[msg->to - 1];
    bench_step(listener, BW_EVENT_MESSAGE, msg, 0);
    bool knows = bw_gossip_counter(listener->at, 1) > 0;
    run->informed += knows && !run->knows[msg->to - 1];
    run->knows[msg->to - 1] |= knows;
}

static bool gossip_open(struct gossip_run *run, struct bw_detector_config *config, bw_node *ids)
{
    bool ready = true;
    for (uint32_t i = 0; i < GOSSIP_N; i++)
        ids[i] = i + 1;
    *config =
        (struct bw_detector_config){.self = 1, .members = ids, .count = GOSSIP_N, .cap = GOSSIP_N};
    bw_detector_defaults(config, BW_SEC);
    config->fanout = 1;
    /* no member fails here: only the dissemination is measured */
    config->timeout_ns = 1000000 * BW_SEC;
    for (uint32_t i = 0; i < GOSSIP_LIVE; i++)
        ready = bench_open(&run->at[i], &bw_detect_gossip, config) && ready;
    return ready;
}

static void gossip_dissemination(struct bw_report *report, double size)
{
    static struct gossip_run run;
    bw_node ids[GOSSIP_N];
    struct bw_detector_config config;
    uint32_t runs = bw_report_runs(30000, size, 500), beyond = 0;
    double total = 0, mean;
    double chance = gossip_chain(GOSSIP_ROUNDS, &mean);
    struct bw_rng rng;
    bw_rng_init(&rng, 17);
    bool ready = gossip_open(&run, &config, ids);
    for (uint32_t i = 0; ready && i < runs; i++) {
        uint32_t rounds = 0;
        for (gossip_begin(&run, &config, i + 1); run.informed < GOSSIP_LIVE; rounds++)
            gossip_round(&run, (uint32_t)bw_rng_below(&rng, GOSSIP_LIVE));
        total += rounds;
        beyond += rounds > GOSSIP_ROUNDS;
    }
    for (uint32_t i = 0; i < GOSSIP_LIVE; i++)
        bench_close(&run.at[i]);
    char what[96];
    bw_report_at_most(report, "probability to exceed 2,342 rounds, by the paper's chain", 1e-5,
                      chance);
    double most = 1e-5 * runs + 3 * sqrt(1e-5 * runs);
    snprintf(what, sizeof what,
             "runs of %u that exceed 2,342 rounds (limit: 1e-5 plus three sigma)", runs);
    bw_report_at_most(report, what, most, ready ? (double)beyond : (double)NAN);
    bw_report_near_mean(report, "mean rounds until all know, against the chain", mean, total / runs,
                        .01 * mean, size);
}

/* --- 22: one cut link ------------------------------------------------------------------------ */

struct cut_watch {
    uint32_t across; /* suspicions between nodes 1 and 3, whose link is cut */
    uint32_t others; /* all other suspicions */
};

static void cut_suspected(void *context, bw_time at, bw_node node, bw_node target, bool suspect,
                          double level)
{
    struct cut_watch *watch = context;
    (void)at;
    (void)level;
    bool across = (node == 1 && target == 3) || (node == 3 && target == 1);
    watch->across += suspect && across;
    watch->others += suspect && !across;
}

static void one_cut_link(struct bw_report *report, double size)
{
    static const struct bw_sim_fault cuts[] = {
        {.kind = BW_FAULT_CUT, .at = BW_SEC, .node = 1, .peer = 3},
        {.kind = BW_FAULT_CUT, .at = BW_SEC, .node = 3, .peer = 1}};
    uint32_t runs = bw_report_runs(100, size, 5);
    const struct bw_detector_ops *ops;
    for (unsigned i = 0; (ops = bw_detector_at(i)); i++) {
        struct cut_watch watch = {0};
        struct bw_sim_observer observer = {.context = &watch, .suspected = cut_suspected};
        for (uint32_t seed = 1; seed <= runs; seed++) {
            struct bw_sim_config config;
            bw_sim_defaults(&config);
            config.algorithm = &bw_elect_lowest;
            config.detector = ops;
            config.nodes = 3;
            config.seed = seed;
            config.faults = cuts;
            config.faults_count = 2;
            config.until = 20 * BW_SEC;
            config.observer = &observer;
            play(report, &config);
        }
        bool goes_round =
            ops == &bw_detect_swim || ops == &bw_detect_gossip || ops == &bw_detect_heartbeat;
        char what[96];
        snprintf(what, sizeof what, "%s: suspicions across the cut, per run", ops->name);
        bw_report_equal(report, what, goes_round ? 0 : 2, (double)watch.across / runs);
        snprintf(what, sizeof what, "%s: other suspicions", ops->name);
        bw_report_equal(report, what, 0, watch.others);
    }
}

const struct bw_sim_check bw_checks_detect[] = {
    {13, "phi-values", "phi has the published values and suspects accordingly", NULL, phi_values},
    {14, "nfd-quality", "NFD's mistakes recur and last as the paper says, T_D <= delta + eta", NULL,
     nfd_quality},
    {15, "swim-first-detection",
     "SWIM notices a crash after 1.5 to 1.6 periods, at two messages per member and period", NULL,
     swim_first_detection},
    {16, "lifeguard-suspicion", "independent confirmations shorten a suspicion", NULL,
     lifeguard_suspicion},
    {17, "gossip-dissemination", "the slowest of 100,000 disseminations takes 2,342 rounds", NULL,
     gossip_dissemination},
    {22, "one-cut-link",
     "a cut link: ping, deadline, phi suspect; SWIM, gossip and heartbeat route around it", NULL,
     one_cut_link},
    {0},
};
