/* `sim run --json`: prints one object. Figures are means per run unless their name says otherwise.
 * With one run they are that run's figures, and integers stay integers. */
#include "cli/sim/run.h"

#include <jansson.h>
#include <math.h>

/* Writes integers without a fraction, so that an exact count is recognizable. */
static json_t *number(double value)
{
    if (fabs(value - round(value)) < 1e-9 && fabs(value) < 9e15)
        return json_integer((json_int_t)llround(value));
    return json_real(value);
}

static json_t *stats(struct bw_summary_samples *samples)
{
    struct bw_sim_stats s = bw_summary_stats(samples);
    if (samples->count == 0)
        return json_null();
    return json_pack("{s:f,s:f,s:f,s:f,s:f}", "min", s.min, "mean", s.mean, "median", s.median,
                     "p99", s.p99, "max", s.max);
}

/* Adds up message kinds that share a name, such as ELECTION of a ring and of the bully
 * algorithm. */
static json_t *by_kind(const struct bw_summary *summary)
{
    json_t *kinds = json_object();
    for (unsigned kind = 1; kind < BW_SIM_KINDS; kind++) {
        if (summary->sum.by_kind[kind] == 0)
            continue;
        const char *name = bw_message_name(kind);
        double mean = bw_summary_mean(summary, summary->sum.by_kind[kind]);
        json_t *before = json_object_get(kinds, name);
        json_object_set_new(kinds, name, number(mean + json_number_value(before)));
    }
    return kinds;
}

static json_t *messages(const struct bw_summary *summary)
{
    return json_pack(
        "{s:o,s:o,s:o,s:o}", "sent", number(bw_summary_mean(summary, summary->sum.sent)),
        "delivered", number(bw_summary_mean(summary, summary->sum.delivered)), "failed",
        number(bw_summary_mean(summary, summary->sum.failed_sends)), "by_kind", by_kind(summary));
}

static json_t *per_member_period(const struct bw_summary *summary, uint64_t total)
{
    uint64_t periods = summary->sum.member_periods;
    return periods ? json_real((double)total / (double)periods) : json_null();
}

static json_t *detector(const struct bw_sim_run_options *options, struct bw_summary *summary)
{
    struct bw_sim_stats first = bw_summary_stats(&summary->detection_first);
    bool any = summary->detection_first.count > 0;
    return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o}", "name", bw_run_detector_name(&options->config),
                     "detection_ms", any ? json_real(first.mean) : json_null(),
                     "detection_first_ms", stats(&summary->detection_first), "detection_all_ms",
                     stats(&summary->detection_all), "false_suspicions_per_member_period",
                     per_member_period(summary, summary->sum.false_suspicions),
                     "messages_per_member_period",
                     per_member_period(summary, summary->sum.detector_sent));
}

static json_t *tally(const struct bw_summary_tally *tally)
{
    json_t *object = json_object();
    char name[24];
    for (uint32_t i = 0; i < tally->count; i++) {
        snprintf(name, sizeof name, "%llu", (unsigned long long)tally->value[i]);
        json_object_set_new(object, name, json_integer((json_int_t)tally->times[i]));
    }
    return object;
}

static void put_setup(json_t *root, const struct bw_sim_run_options *options)
{
    const struct bw_sim_config *c = &options->config;
    json_object_set_new(root, "algorithm", json_string(c->algorithm ? c->algorithm->name : "none"));
    json_object_set_new(root, "detector_name", json_string(bw_run_detector_name(c)));
    json_object_set_new(root, "guarded", json_boolean(c->guard));
    json_object_set_new(root, "nodes", json_integer(c->nodes));
    json_object_set_new(root, "runs", json_integer(options->runs));
    json_object_set_new(root, "seed", json_integer((json_int_t)c->seed));
    if (bw_sim_is_lease(c->algorithm)) {
        json_object_set_new(root, "store_model", json_string(bw_sim_store_name(c->lease.store)));
        json_object_set_new(root, "ttl_ms", number((double)c->lease.ttl_ns / 1e6));
        json_object_set_new(root, "worst_gap_ms", number((double)bw_sim_lease_gap(c) / 1e6));
    }
}

static void put_leaders(json_t *root, struct bw_summary *summary)
{
    bool agreed = summary->same_leader && summary->leader != BW_NODE_NONE;
    json_object_set_new(root, "leader", agreed ? json_integer(summary->leader) : json_null());
    json_object_set_new(root, "max_leaders_at_once", json_integer(summary->sum.max_leaders));
    json_object_set_new(root, "messages", messages(summary));
    json_object_set_new(root, "time_to_leader_ms", stats(&summary->to_leader));
    json_object_set_new(root, "noticed_ms", stats(&summary->noticed));
    json_object_set_new(root, "time_to_act_ms", stats(&summary->to_act));
    json_object_set_new(root, "time_to_agree_ms", stats(&summary->to_agree));
    json_object_set_new(root, "leaderless_ms", stats(&summary->leaderless));
    json_object_set_new(root, "none_acted_ms", stats(&summary->none_acted));
    json_object_set_new(root, "longest_gap_ms", number(summary->gap_max_ms));
    json_object_set_new(root, "runs_without_leader", json_integer(summary->runs - summary->led));
    json_object_set_new(root, "split_brain_ms", number(summary->split_ms / summary->runs));
    json_object_set_new(root, "split_brain_max_ms", number(summary->split_max_ms));
    json_object_set_new(root, "term", number(summary->term / summary->runs));
    json_object_set_new(root, "runs_by_leader", tally(&summary->leaders));
    json_object_set_new(root, "runs_by_term", tally(&summary->terms));
    json_object_set_new(
        root, "stale_writes",
        json_pack("{s:o,s:o}", "tried", number(bw_summary_mean(summary, summary->sum.stale_tried)),
                  "accepted", number(bw_summary_mean(summary, summary->sum.stale_accepted))));
    json_object_set_new(root, "writes",
                        number(bw_summary_mean(summary, summary->sum.writes_tried)));
}

static void put_totals(json_t *root, const struct bw_sim_run_options *options,
                       struct bw_summary *summary)
{
    const struct bw_sim_result *sum = &summary->sum;
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)sum->trace_hash);
    json_object_set_new(root, "elections", number(bw_summary_mean(summary, sum->elections)));
    json_object_set_new(root, "leader_changes",
                        number(bw_summary_mean(summary, sum->leader_changes)));
    json_object_set_new(root, "committed", number(bw_summary_mean(summary, sum->committed)));
    if (options->config.algorithm == &bw_sim_registry_ops)
        json_object_set_new(root, "clients",
                            json_pack("{s:o,s:o,s:o,s:o,s:I}", "asked",
                                      number(bw_summary_mean(summary, sum->asked)), "answered",
                                      number(bw_summary_mean(summary, sum->asked_ok)), "unknown",
                                      number(bw_summary_mean(summary, sum->asked_unknown)),
                                      "leases_ended",
                                      number(bw_summary_mean(summary, sum->leases_ended)),
                                      "undecided", (json_int_t)sum->undecided));
    json_object_set_new(root, "events", number(bw_summary_mean(summary, sum->events)));
    json_object_set_new(root, "virtual_ms", number(summary->virtual_ms / summary->runs));
    json_object_set_new(root, "wall_ms", json_real(summary->wall_ms / summary->runs));
    json_object_set_new(root, "trace_hash", json_string(hash));
    json_object_set_new(root, "detector", detector(options, summary));
    json_object_set_new(root, "violation",
                        summary->violations ? json_string(summary->violation) : json_null());
}

int bw_run_print_json(const struct bw_sim_run_options *options, struct bw_summary *summary)
{
    json_t *root = json_object();
    if (!root)
        return -1;
    put_setup(root, options);
    put_leaders(root, summary);
    put_totals(root, options, summary);
    int error = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
    json_decref(root);
    putchar('\n');
    return error;
}
