/* Settings that make no sense are refused with a sentence that says what would. */
#include "sim/world/world.h"

#include "core/base/error.h"

#include <stdarg.h>
#include <stdio.h>

static int refuse(char *why, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(char *why, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, BW_SIM_WHY, format, arguments);
    va_end(arguments);
    return error;
}

bool bw_sim_can_spread(const struct bw_elector_ops *algorithm)
{
    return algorithm && algorithm != &bw_elect_lowest && algorithm != &bw_sim_registry_ops &&
           !bw_sim_is_lease(algorithm);
}

static int check_group(const struct bw_sim_config *c, char *why)
{
    uint64_t cap = (uint64_t)c->nodes + c->spare;
    if (!c->nodes)
        return refuse(why, BW_EINVAL, "nodes is 0; there must be at least 1");
    if (cap > BW_DETECTOR_MEMBERS_MAX)
        return refuse(why, BW_ELIMIT, "nodes is %llu; at most %u", (unsigned long long)cap,
                      BW_DETECTOR_MEMBERS_MAX);
    if (!c->algorithm)
        return c->guard ? refuse(why, BW_EINVAL, "quorum needs an algorithm to guard") : 0;
    if (!c->elections || c->elections > BW_ELECTIONS_MAX)
        return refuse(why, BW_EINVAL, "elections is %u; it must be 1 to %u", c->elections,
                      BW_ELECTIONS_MAX);
    if (c->spread && !bw_sim_can_spread(c->algorithm))
        return refuse(why, BW_EINVAL, "shards: those of %s cannot be spread", c->algorithm->name);
    if (c->spread && !c->detector)
        return refuse(why, BW_EINVAL, "shards are spread over who is alive: a detector is needed");
    uint32_t most = bw_sim_is_raft(c->algorithm) ? BW_RAFT_MEMBERS_MAX : BW_ELECTOR_MEMBERS_MAX;
    if (cap > most)
        return refuse(why, BW_ELIMIT, "nodes is %llu; %s takes at most %u", (unsigned long long)cap,
                      c->algorithm->name, most);
    if (c->guard && !(c->algorithm->traits & BW_TRAIT_GUARDABLE))
        return refuse(why, BW_EINVAL, "quorum: %s needs no guard and takes none",
                      c->algorithm->name);
    if (c->quorum > c->nodes)
        return refuse(why, BW_EINVAL, "quorum is %u, more than the %u nodes there are", c->quorum,
                      c->nodes);
    if (c->quorum && c->quorum < c->nodes / 2 + 1)
        return refuse(why, BW_EINVAL, "quorum is %u; a majority of %u nodes is %u", c->quorum,
                      c->nodes, c->nodes / 2 + 1);
    return 0;
}

static int check_chance(const char *name, double p, char *why)
{
    if (p >= 0 && p <= 1)
        return 0;
    return refuse(why, BW_EINVAL, "%s is %g; it must be 0 to 1", name, p);
}

static int check_latency(const struct bw_sim_latency *latency, char *why)
{
    if (latency->min < 0 || latency->max < latency->min || latency->max > 3600 * BW_SEC)
        return refuse(why, BW_EINVAL, "latency must be a range within 0 to 1 h, smaller first");
    return 0;
}

static int check_network(const struct bw_sim_config *c, char *why)
{
    int error = check_latency(&c->latency, why);
    if (!error)
        error = check_chance("loss", c->loss, why);
    if (!error)
        error = check_chance("duplicate", c->duplicate, why);
    if (!error)
        error = check_chance("reorder", c->reorder, why);
    if (!error && !(c->drift >= 0 && c->drift <= 0.5))
        error = refuse(why, BW_EINVAL, "drift is %g; it must be 0 to 0.5", c->drift);
    if (!error && !(c->drift_bound >= 0 && c->drift_bound <= 0.5))
        error = refuse(why, BW_EINVAL, "drift bound is %g; it must be 0 to 0.5", c->drift_bound);
    return error;
}

static int check_times(const struct bw_sim_config *c, char *why)
{
    if (c->period_ns < BW_US || c->period_ns > 3600 * BW_SEC)
        return refuse(why, BW_EINVAL, "period must be 1 us to 1 h");
    if (c->timeout_min < 0 || c->timeout_max < c->timeout_min)
        return refuse(why, BW_EINVAL, "timeout must be a range, smaller first");
    if (c->disk_min < 0 || c->disk_max < c->disk_min)
        return refuse(why, BW_EINVAL, "disk must be a range, smaller first");
    if (c->until < 0 || c->limit < 0 || c->work_ns < 0 || c->propose_ns < 0 || c->promise_ns < 0 ||
        c->read_ns < 0)
        return refuse(why, BW_EINVAL,
                      "until, limit, work, propose, read and promise cannot be negative");
    if (!c->until && !c->limit)
        return refuse(why, BW_EINVAL, "without until there must be a limit");
    if (!c->until && !c->algorithm && !c->faults_count)
        return refuse(why, BW_EINVAL,
                      "without an algorithm or a fault there is no end: until must be given");
    if (c->propose_ns && (!c->propose_count || c->propose_count > 1024))
        return refuse(why, BW_EINVAL, "propose count is %u; it must be 1 to 1024",
                      c->propose_count);
    return 0;
}

static int check_list(const char *name, const bw_node *list, uint32_t count, uint32_t most,
                      char *why)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] < 1 || list[i] > most)
            return refuse(why, BW_EINVAL, "%s: node %u does not exist; ids are 1 to %u", name,
                          list[i], most);
    return 0;
}

static int check_lists(const struct bw_sim_config *c, char *why)
{
    int error = check_list("crashed", c->crashed, c->crashed_count, c->nodes, why);
    if (!error)
        error = check_list("candidates", c->candidates, c->candidates_count, c->nodes, why);
    if (!error)
        error = check_list("alternatives", c->alternatives, c->alternatives_count, c->nodes, why);
    bool one = c->initiator != BW_INITIATOR_NONE && c->initiator != BW_INITIATOR_ALL;
    if (!error && one)
        error = check_list("initiator", &c->initiator, 1, c->nodes, why);
    if (!error)
        error = check_list("initiator", c->initiators, c->initiators_count, c->nodes, why);
    for (uint32_t i = 0; !error && one && i < c->crashed_count; i++)
        if (c->crashed[i] == c->initiator)
            error = refuse(why, BW_EINVAL, "initiator %u is crashed and cannot start anything",
                           c->initiator);
    return error;
}

static int check_fault(const struct bw_sim_config *c, const struct bw_sim_fault *fault, char *why)
{
    const char *name = bw_sim_fault_name(fault->kind);
    uint32_t cap = c->nodes + c->spare + bw_sim_stores(c);
    if (fault->node > cap || fault->peer > cap)
        return refuse(why, BW_EINVAL, "%s: node %u does not exist; ids are 1 to %u", name,
                      fault->node > cap ? fault->node : fault->peer, cap);
    if (fault->at < 0)
        return refuse(why, BW_EINVAL, "%s: its time is before the start", name);
    switch (fault->kind) {
    case BW_FAULT_PARTITION:
        return fault->groups ? 0 : refuse(why, BW_EINVAL, "partition: which groups?");
    case BW_FAULT_LOSS:
        return check_chance("loss", fault->rate, why);
    case BW_FAULT_LATENCY:
        return check_latency(&fault->latency, why);
    case BW_FAULT_DRIFT:
        if (!(fault->rate >= BW_SIM_DRIFT_MIN && fault->rate <= BW_SIM_DRIFT_MAX))
            return refuse(why, BW_EINVAL, "drift: %g; it must be %g to %g", fault->rate,
                          BW_SIM_DRIFT_MIN, BW_SIM_DRIFT_MAX);
        return 0;
    case BW_FAULT_DISK_SLOW:
        return fault->span >= 0 ? 0 : refuse(why, BW_EINVAL, "disk-slow: a negative span");
    case BW_FAULT_JOIN:
        if (fault->node <= c->nodes)
            return refuse(why, BW_EINVAL, "join: node %u is a member already", fault->node);
        return 0;
    default:
        return 0;
    }
}

static int check_faults(const struct bw_sim_config *c, char *why)
{
    if (c->faults_count > BW_SIM_FAULTS_MAX)
        return refuse(why, BW_ELIMIT, "%u faults; at most %u", c->faults_count, BW_SIM_FAULTS_MAX);
    for (uint32_t i = 0; i < c->faults_count; i++) {
        if (i && c->faults[i].at < c->faults[i - 1].at)
            return refuse(why, BW_EINVAL, "faults must be sorted by time");
        int error = check_fault(c, &c->faults[i], why);
        if (error)
            return error;
    }
    return 0;
}

static int check_lease(const struct bw_sim_config *c, char *why)
{
    const struct bw_sim_lease *lease = &c->lease;
    struct bw_lease_terms terms = {.ttl_ns = lease->ttl_ns,
                                   .drift_ppm = (uint32_t)(c->drift_bound * 1e6 + 0.5),
                                   .kill_after_ns = lease->kill_after_ns,
                                   .margin_ns = lease->margin_ns,
                                   .uncertainty_ns = lease->uncertainty_ns};
    enum bw_lease_rule rule = bw_lease_check(&terms);
    if (!bw_sim_is_lease(c->algorithm))
        return 0;
    if (c->algorithm != bw_sim_lease_ops(lease->store))
        return refuse(why, BW_EINVAL, "lease: the algorithm is not the store model's");
    if (lease->retry_ns <= 0 || lease->grace_ns < 0 || lease->lag_ns < 0)
        return refuse(why, BW_EINVAL, "retry must be more than 0; grace and lag not negative");
    if (lease->uncertainty_ns > 0 && !bw_sim_store_observed(lease))
        return refuse(why, BW_EINVAL,
                      "clock-uncertainty is for stores whose leases candidates judge: quorum or "
                      "single, without store-expires");
    if (rule == BW_LEASE_RULE_NONE)
        return 0;
    bw_time least = bw_lease_ttl_least(&terms);
    bool too_short = rule == BW_LEASE_RULE_KILL_TIME || rule == BW_LEASE_RULE_CLOCK;
    if (too_short && least != BW_TIME_NEVER)
        return refuse(why, BW_EINVAL, "ttl is too short: %s must hold; at least %lld ms",
                      bw_lease_rule_text(rule), (long long)(least / BW_MS));
    return refuse(why, BW_EINVAL, "lease: %s must hold", bw_lease_rule_text(rule));
}

int bw_sim_validate(const struct bw_sim_config *config, char *why)
{
    int error = check_group(config, why);
    if (!error)
        error = check_lease(config, why);
    if (!error)
        error = check_network(config, why);
    if (!error)
        error = check_times(config, why);
    if (!error)
        error = check_lists(config, why);
    return error ? error : check_faults(config, why);
}
