/* Measurements for `sim compare`. The fault scripts are in the language of `sim run --script`, so
 * that users can repeat any row by hand. */
#include "cli/sim/compare.h"

#include "cli/options/options.h"
#include "sim/stores/lease.h"

#include <string.h>

#define HIT  (5 * BW_SEC)  /* time of the fault in each script */
#define HEAL (12 * BW_SEC) /* end of partition and pause */
#define END  (20 * BW_SEC)

const double bw_compare_losses[BW_COMPARE_LOSSES] = {0, 0.05, 0.2};

/* ---- observations of one run ---- */

struct probe {
    struct bw_sim_observer observer;
    uint32_t nodes;
    bw_node small; /* node ids above this one are in the partition's minority */
    uint64_t sent;
    bool minority, majority, token;
};

static void on_sent(void *context, bw_time at, const struct bw_message *msg, bw_time arrives)
{
    struct probe *p = context;
    (void)arrives;
    p->sent += at >= HIT && !bw_message_for_detector(msg->kind);
}

static void on_announced(void *context, bw_time at, bw_node node, uint32_t election,
                         const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    struct probe *p = context;
    if (election != 0 || a->leader != node || a->reason != BW_LOSS_NONE)
        return;
    p->token |= a->token != BW_TOKEN_NONE;
    /* Counts a node that acts on its side of the split. Starts long enough after the cut that older
     * promises have expired and older messages have arrived. */
    bw_time from = bw_time_max(act_from, at), settled = HIT + (HEAL - HIT) / 2;
    bool promised_before = at < HIT + HIT / 50 && act_until != BW_TIME_NEVER;
    if (at >= HEAL || act_until <= settled || from >= HEAL || promised_before)
        return;
    p->minority |= node > p->small;
    p->majority |= node <= p->small;
}

static void probe_init(struct probe *p, uint32_t nodes)
{
    *p = (struct probe){.nodes = nodes, .small = nodes / 2 + 1};
    p->observer =
        (struct bw_sim_observer){.context = p, .sent = on_sent, .announced = on_announced};
}

/* ---- scripts ---- */

static const char *const names[] = {"crash", "partition", "pause", "drift"};
enum { SCRIPT_CRASH, SCRIPT_PARTITION, SCRIPT_PAUSE, SCRIPT_DRIFT, SCRIPTS };

static void partition_line(uint32_t nodes, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "at 5s..12s partition ");
    for (bw_node id = 1; id <= nodes && used < size; id++)
        used += (size_t)snprintf(text + used, size - used, "%s%u",
                                 id == 1               ? ""
                                 : id == nodes / 2 + 2 ? "/"
                                                       : ",",
                                 id);
    if (used < size)
        snprintf(text + used, size - used, "\n");
}

const char *bw_compare_script(unsigned i, uint32_t nodes, char *text, size_t size)
{
    switch (i) {
    case SCRIPT_CRASH:
        snprintf(text, size, "at 5s crash leader\n");
        break;
    case SCRIPT_PARTITION:
        partition_line(nodes, text, size);
        break;
    case SCRIPT_PAUSE:
        snprintf(text, size, "at 5s..12s pause leader\n");
        break;
    case SCRIPT_DRIFT:
        snprintf(text, size, "drift 1%%\nat 5s crash leader\n");
        break;
    default:
        return NULL;
    }
    return names[i];
}

static void configure(struct bw_sim_config *c, uint32_t nodes, const struct bw_compare_row *row)
{
    bw_sim_defaults(c);
    c->algorithm = row->algorithm;
    c->guard = row->guard;
    if (bw_sim_is_lease(row->algorithm))
        c->lease = row->lease;
    if (!bw_sim_store_observed(&c->lease)) /* the store judges expiry by itself */
        c->lease.uncertainty_ns = 0;
    c->detector = row->algorithm->traits & BW_TRAIT_OWN_TIMERS ? NULL : &bw_detect_deadline;
    c->nodes = nodes;
    c->work_ns = 50 * BW_MS;
}

static int run_script(struct bw_sim *sim, unsigned which, struct bw_sim_config *c, char *why,
                      struct bw_sim_result *result)
{
    char text[8192];
    struct bw_script script;
    bw_script_init(&script);
    bw_compare_script(which, c->nodes, text, sizeof text);
    if (which == SCRIPT_DRIFT)
        c->drift = c->drift_bound;
    c->until = which == SCRIPT_CRASH ? 0 : END;
    const char *events = strstr(text, "at ");
    int error = bw_script_parse(&script, events, names[which], why);
    if (error == 0)
        error = bw_script_finish(&script, c, why);
    if (error == 0)
        error = bw_sim_run_in(sim, c, result, why);
    bw_script_deinit(&script);
    return error;
}

/* ---- algorithms ---- */

struct mean {
    double sum;
    uint32_t count;
};

static void mean_add(struct mean *mean, bw_time at, bw_time since)
{
    if (at == BW_TIME_NEVER)
        return;
    mean->sum += (double)(at - since) / 1e6;
    mean->count++;
}

static double mean_of(const struct mean *mean)
{
    return mean->count ? mean->sum / mean->count : -1;
}

struct means {
    struct mean noticed, leads, acts, agrees;
};

static int one_seed(struct bw_sim *sim, uint32_t nodes, uint64_t seed, struct bw_compare_row *row,
                    struct means *means, char *why)
{
    for (unsigned which = 0; which < SCRIPTS; which++) {
        struct bw_sim_config config;
        struct bw_sim_result result;
        struct probe probe;
        configure(&config, nodes, row);
        probe_init(&probe, nodes);
        config.seed = seed;
        config.observer = &probe.observer;
        int error = run_script(sim, which, &config, why, &result);
        if (error != 0)
            return error;
        double two = (double)result.split_brain / 1e6;
        row->two_partition += which == SCRIPT_PARTITION ? two : 0;
        row->two_pause += which == SCRIPT_PAUSE ? two : 0;
        row->two_drift += which == SCRIPT_DRIFT ? two : 0;
        if (which == SCRIPT_PARTITION || which == SCRIPT_PAUSE) {
            row->stale_tried += (double)result.stale_tried;
            row->stale_accepted += (double)result.stale_accepted;
        }
        if (which == SCRIPT_PARTITION) {
            row->minority_leads |= probe.minority;
            row->majority_leads |= probe.majority;
        }
        if (which == SCRIPT_DRIFT)
            row->changes_drift += (double)result.leader_changes;
        if (which != SCRIPT_CRASH)
            continue;
        row->token |= probe.token;
        row->messages += (double)probe.sent;
        mean_add(&means->noticed, result.noticed, 0);
        mean_add(&means->leads, result.time_to_leader, 0);
        mean_add(&means->acts, result.time_to_act, 0);
        mean_add(&means->agrees, result.time_to_agree, 0);
    }
    return 0;
}

int bw_compare_algorithm(struct bw_sim *sim, uint32_t nodes, uint32_t runs, uint64_t seed,
                         struct bw_compare_row *row, char *why)
{
    struct means means;
    memset(&means, 0, sizeof means);
    for (uint32_t r = 0; r < runs; r++) {
        int error = one_seed(sim, nodes, seed + r, row, &means, why);
        if (error != 0)
            return error;
    }
    row->noticed = mean_of(&means.noticed);
    row->failover = mean_of(&means.leads);
    row->acts = mean_of(&means.acts);
    row->agrees = mean_of(&means.agrees);
    row->messages /= runs;
    row->two_partition /= runs;
    row->two_pause /= runs;
    row->two_drift /= runs;
    row->stale_tried /= runs;
    row->stale_accepted /= runs;
    row->changes_drift = row->changes_drift / runs - 1;
    return 0;
}

/* ---- detectors ---- */

static int one_loss(struct bw_sim *sim, uint32_t nodes, uint32_t runs, uint64_t seed, unsigned loss,
                    struct bw_compare_detector *row, char *why)
{
    struct mean first = {0}, all = {0};
    uint64_t wrong = 0, periods = 0, sent = 0;
    for (uint32_t r = 0; r < runs; r++) {
        struct bw_sim_config c;
        struct bw_sim_result result;
        struct bw_sim_fault crash = {.kind = BW_FAULT_CRASH, .at = END, .node = nodes};
        bw_sim_defaults(&c);
        /* the algorithm with the least cost beside the measured detector */
        c.algorithm = &bw_elect_lowest;
        c.detector = row->detector;
        c.nodes = nodes;
        c.loss = bw_compare_losses[loss];
        c.seed = seed + r;
        c.faults = &crash;
        c.faults_count = 1;
        c.until = 2 * END;
        int error = bw_sim_run_in(sim, &c, &result, why);
        if (error != 0)
            return error;
        mean_add(&first, result.detection_first, 0);
        mean_add(&all, result.detection_all, 0);
        wrong += result.false_suspicions;
        periods += result.member_periods;
        sent += result.detector_sent;
    }
    row->false_rate[loss] = periods ? (double)wrong / (double)periods : 0;
    if (loss == 0) {
        row->first = mean_of(&first);
        row->all = mean_of(&all);
        row->messages = periods ? (double)sent / (double)periods : 0;
    } else {
        row->first_lossy = mean_of(&first);
    }
    return 0;
}

int bw_compare_detector(struct bw_sim *sim, uint32_t nodes, uint32_t runs, uint64_t seed,
                        struct bw_compare_detector *row, char *why)
{
    int error = 0;
    for (unsigned loss = 0; loss < BW_COMPARE_LOSSES && error == 0; loss++)
        error = one_loss(sim, nodes, runs, seed, loss, row, why);
    return error;
}
