/* Adds up runs; see summary.h. Percentiles use the nearest rank. */
#include "cli/sim/summary.h"

#include "core/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int samples_init(struct bw_summary_samples *samples, uint32_t cap)
{
    samples->at = malloc(cap * sizeof *samples->at);
    samples->cap = cap;
    samples->count = 0;
    return samples->at ? 0 : BW_ENOMEM;
}

static void samples_add(struct bw_summary_samples *samples, bw_time span)
{
    if (span != BW_TIME_NEVER && samples->count < samples->cap)
        samples->at[samples->count++] = (double)span / 1e6;
}

#define SAMPLES 8u

static void list_samples(struct bw_summary *s, struct bw_summary_samples *out[SAMPLES])
{
    struct bw_summary_samples *all[SAMPLES] = {
        &s->noticed,    &s->to_leader,  &s->to_act,          &s->to_agree,
        &s->leaderless, &s->none_acted, &s->detection_first, &s->detection_all};
    memcpy(out, all, sizeof all);
}

int bw_summary_init(struct bw_summary *summary, uint32_t runs)
{
    memset(summary, 0, sizeof *summary);
    summary->same_leader = true;
    struct bw_summary_samples *all[SAMPLES];
    list_samples(summary, all);
    int error = 0;
    for (unsigned i = 0; i < SAMPLES && error == 0; i++)
        error = samples_init(all[i], runs);
    if (error != 0)
        bw_summary_deinit(summary);
    return error;
}

void bw_summary_deinit(struct bw_summary *summary)
{
    struct bw_summary_samples *all[SAMPLES];
    list_samples(summary, all);
    for (unsigned i = 0; i < SAMPLES; i++)
        free(all[i]->at);
    memset(summary, 0, sizeof *summary);
}

static void tally(struct bw_summary_tally *tally, uint64_t value)
{
    for (uint32_t i = 0; i < tally->count; i++)
        if (tally->value[i] == value) {
            tally->times[i]++;
            return;
        }
    if (tally->count == BW_SUMMARY_VALUES_MAX)
        return;
    tally->value[tally->count] = value;
    tally->times[tally->count++] = 1;
}

static void add_counters(struct bw_sim_result *sum, const struct bw_sim_result *result)
{
    sum->sent += result->sent;
    sum->delivered += result->delivered;
    sum->failed_sends += result->failed_sends;
    for (unsigned i = 0; i < BW_SIM_KINDS; i++)
        sum->by_kind[i] += result->by_kind[i];
    sum->detector_sent += result->detector_sent;
    sum->elections += result->elections;
    sum->leader_changes += result->leader_changes;
    sum->writes_tried += result->writes_tried;
    sum->stale_tried += result->stale_tried;
    sum->stale_accepted += result->stale_accepted;
    sum->false_suspicions += result->false_suspicions;
    sum->member_periods += result->member_periods;
    sum->events += result->events;
    sum->committed += result->committed;
    sum->asked += result->asked;
    sum->asked_ok += result->asked_ok;
    sum->asked_unknown += result->asked_unknown;
    sum->leases_ended += result->leases_ended;
    sum->undecided += result->undecided;
    sum->trace_hash = (sum->trace_hash ^ result->trace_hash) * 1099511628211ull;
    if (result->max_leaders > sum->max_leaders)
        sum->max_leaders = result->max_leaders;
}

void bw_summary_add(struct bw_summary *summary, const struct bw_sim_result *result, uint64_t seed,
                    double wall_ms)
{
    double split_ms = (double)result->split_brain / 1e6;
    if (summary->runs > 0 && result->leader != summary->leader)
        summary->same_leader = false;
    summary->runs++;
    summary->leader = result->leader;
    summary->led += result->time_to_leader != BW_TIME_NEVER;
    summary->split_ms += split_ms;
    summary->split_max_ms = fmax(summary->split_max_ms, split_ms);
    summary->gap_max_ms = fmax(summary->gap_max_ms, (double)result->longest_gap / 1e6);
    summary->virtual_ms += (double)result->virtual_ns / 1e6;
    summary->wall_ms += wall_ms;
    summary->term += (double)result->term;
    summary->never_detected += result->detection_all == BW_TIME_NEVER;
    add_counters(&summary->sum, result);
    samples_add(&summary->to_leader, result->time_to_leader);
    samples_add(&summary->noticed, result->noticed);
    samples_add(&summary->to_act, result->time_to_act);
    samples_add(&summary->to_agree, result->time_to_agree);
    samples_add(&summary->leaderless, result->leaderless);
    samples_add(&summary->none_acted, result->none_acted);
    samples_add(&summary->detection_first, result->detection_first);
    samples_add(&summary->detection_all, result->detection_all);
    tally(&summary->leaders, result->leader);
    tally(&summary->terms, result->term);
    if (!result->violation || summary->violations++ > 0)
        return;
    summary->violation_seed = seed;
    snprintf(summary->violation, sizeof summary->violation, "%s", result->violation);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct bw_sim_stats bw_summary_stats(struct bw_summary_samples *samples)
{
    struct bw_sim_stats stats = {0};
    uint32_t n = samples->count;
    double sum = 0;
    if (n == 0)
        return stats;
    qsort(samples->at, n, sizeof *samples->at, by_size);
    for (uint32_t i = 0; i < n; i++)
        sum += samples->at[i];
    stats.min = samples->at[0];
    stats.max = samples->at[n - 1];
    stats.mean = sum / n;
    stats.median = n % 2 ? samples->at[n / 2] : (samples->at[n / 2 - 1] + samples->at[n / 2]) / 2;
    stats.p99 = samples->at[(uint32_t)ceil(0.99 * n) - 1];
    return stats;
}

double bw_summary_mean(const struct bw_summary *summary, uint64_t total)
{
    return summary->runs ? (double)total / summary->runs : 0;
}
