/* Refuses invalid settings with a reason that says what is valid. */
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
        return refuse(why, BW_EINVAL, "invalid nodes 0: expected at least 1");
    if (cap > BW_DETECTOR_MEMBERS_MAX)
        return refuse(why, BW_ELIMIT, "invalid nodes %llu: expected at most %u",
                      (unsigned long long)cap, BW_DETECTOR_MEMBERS_MAX);
    if (!c->algorithm)
        return c->guard ? refuse(why, BW_EINVAL, "quorum needs an algorithm to guard") : 0;
    if (!c->elections || c->elections > BW_ELECTIONS_MAX)
        return refuse(why, BW_EINVAL, "invalid elections %u: expected 1 to %u", c->elections,
                      BW_ELECTIONS_MAX);
    if (c->spread && !bw_sim_can_spread(c->algorithm))
        return refuse(why, BW_EINVAL, "shards: the elections of %s cannot be spread",
                      c->algorithm->name);
    if (c->spread && !c->detector)
        return refuse(why, BW_EINVAL,
                      "shards need a detector, because they move between live members");
    uint32_t most = bw_sim_is_raft(c->algorithm) ? BW_RAFT_MEMBERS_MAX : BW_ELECTOR_MEMBERS_MAX;
    if (cap > most)
        return refuse(why, BW_ELIMIT, "invalid nodes %llu: %s supports at most %u",
                      (unsigned long long)cap, c->algorithm->name, most);
    if (c->guard && !(c->algorithm->traits & BW_TRAIT_GUARDABLE))
        return refuse(why, BW_EINVAL, "quorum: %s never elects two leaders and needs no guard",
                      c->algorithm->name);
    if (c->quorum > c->nodes)
        return refuse(why, BW_EINVAL, "invalid quorum %u: there are only %u nodes", c->quorum,
                      c->nodes);
    if (c->quorum && c->quorum < c->nodes / 2 + 1)
        return refuse(why, BW_EINVAL, "invalid quorum %u: a majority of %u nodes is %u", c->quorum,
                      c->nodes, c->nodes / 2 + 1);
    return 0;
}

static int check_chance(const char *name, double p, char *why)
{
    if (p >= 0 && p <= 1)
        return 0;
    return refuse(why, BW_EINVAL, "invalid %s %g: expected 0 to 1", name, p);
}

static int check_latency(const struct bw_sim_latency *latency, char *why)
{
    if (latency->min < 0 || latency->max < latency->min || latency->max > 3600 * BW_SEC)
        return refuse(why, BW_EINVAL,
                      "invalid latency: expected a range from 0 to 1 h, smaller value first");
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
        error = refuse(why, BW_EINVAL, "invalid drift %g: expected 0 to 0.5", c->drift);
    if (!error && !(c->drift_bound >= 0 && c->drift_bound <= 0.5))
        error = refuse(why, BW_EINVAL, "invalid drift bound %g: expected 0 to 0.5", c->drift_bound);
    return error;
}

static int check_times(const struct bw_sim_config *c, char *why)
{
    if (c->period_ns < BW_US || c->period_ns > 3600 * BW_SEC)
        return refuse(why, BW_EINVAL, "invalid period: expected 1 us to 1 h");
    if (c->timeout_min < 0 || c->timeout_max < c->timeout_min)
        return refuse(why, BW_EINVAL, "invalid timeout: expected a range, smaller value first");
    if (c->disk_min < 0 || c->disk_max < c->disk_min)
        return refuse(why, BW_EINVAL,
                      "invalid disk latency: expected a range, smaller value first");
    if (c->until < 0 || c->limit < 0 || c->work_ns < 0 || c->propose_ns < 0 || c->promise_ns < 0 ||
        c->read_ns < 0)
        return refuse(why, BW_EINVAL,
                      "until, limit, work, propose, read and promise must not be negative");
    if (!c->until && !c->limit)
        return refuse(why, BW_EINVAL, "until and limit are both 0: set one of them");
    if (!c->until && !c->algorithm && !c->faults_count)
        return refuse(why, BW_EINVAL,
                      "without an algorithm and without faults the run never ends: set until");
    if (c->propose_ns && (!c->propose_count || c->propose_count > 1024))
        return refuse(why, BW_EINVAL, "invalid propose count %u: expected 1 to 1024",
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
            error = refuse(why, BW_EINVAL, "initiator %u is crashed and cannot start an election",
                           c->initiator);
    return error;
}

/* Returns whether the node of `join` may have left before. */
static bool has_left(const struct bw_sim_config *c, const struct bw_sim_fault *join)
{
    for (const struct bw_sim_fault *f = c->faults; f < join; f++) {
        bool goes =
            f->kind == BW_FAULT_LEAVE || f->kind == BW_FAULT_REMOVE || f->kind == BW_FAULT_WIPE;
        if (goes && (f->node == join->node || f->node == BW_NODE_NONE))
            return true;
    }
    return false;
}

static int check_fault(const struct bw_sim_config *c, const struct bw_sim_fault *fault, char *why)
{
    const char *name = bw_sim_fault_name(fault->kind);
    uint32_t cap = c->nodes + c->spare + bw_sim_stores(c);
    if ((unsigned)fault->kind > BW_FAULT_ABLE)
        return refuse(why, BW_EINVAL, "unknown kind of fault: %u", (unsigned)fault->kind);
    if (fault->node > cap || fault->peer > cap)
        return refuse(why, BW_EINVAL, "%s: node %u does not exist; ids are 1 to %u", name,
                      fault->node > cap ? fault->node : fault->peer, cap);
    if (fault->at < 0)
        return refuse(why, BW_EINVAL, "%s: the time is before the start", name);
    switch (fault->kind) {
    case BW_FAULT_PARTITION:
        return fault->groups ? 0 : refuse(why, BW_EINVAL, "partition: missing groups");
    case BW_FAULT_LOSS:
        return check_chance("loss", fault->rate, why);
    case BW_FAULT_LATENCY:
        return check_latency(&fault->latency, why);
    case BW_FAULT_DRIFT:
        if (!(fault->rate >= BW_SIM_DRIFT_MIN && fault->rate <= BW_SIM_DRIFT_MAX))
            return refuse(why, BW_EINVAL, "invalid drift %g: expected %g to %g", fault->rate,
                          BW_SIM_DRIFT_MIN, BW_SIM_DRIFT_MAX);
        return 0;
    case BW_FAULT_DISK_SLOW:
        return fault->span >= 0
                   ? 0
                   : refuse(why, BW_EINVAL, "disk-slow: the duration must not be negative");
    default:
        return 0;
    }
}

int bw_sim_validate_fault(const struct bw_sim_config *c, const struct bw_sim_fault *fault,
                          char *why)
{
    struct bw_sim_fault now = *fault;
    now.at = 0;
    return check_fault(c, &now, why);
}

static int check_join(const struct bw_sim_config *c, const struct bw_sim_fault *fault, char *why)
{
    if (fault->kind == BW_FAULT_JOIN && fault->node <= c->nodes && !c->peer_rules &&
        !has_left(c, fault))
        return refuse(why, BW_EINVAL, "join: node %u is already a member", fault->node);
    return 0;
}

static int check_faults(const struct bw_sim_config *c, char *why)
{
    if (c->faults_count > BW_SIM_FAULTS_MAX)
        return refuse(why, BW_ELIMIT, "too many faults: %u, at most %u", c->faults_count,
                      BW_SIM_FAULTS_MAX);
    for (uint32_t i = 0; i < c->faults_count; i++) {
        if (i && c->faults[i].at < c->faults[i - 1].at)
            return refuse(why, BW_EINVAL, "faults must be sorted by time");
        int error = check_fault(c, &c->faults[i], why);
        if (!error)
            error = check_join(c, &c->faults[i], why);
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
        return refuse(why, BW_EINVAL, "lease: the algorithm does not match the store model");
    if (lease->retry_ns <= 0 || lease->grace_ns < 0 || lease->lag_ns < 0)
        return refuse(why, BW_EINVAL, "retry must be positive; grace and lag must not be negative");
    if (lease->uncertainty_ns > 0 && !bw_sim_store_observed(lease))
        return refuse(why, BW_EINVAL,
                      "clock-uncertainty needs a store whose leases candidates observe: quorum or "
                      "single, without store-expires");
    if (rule == BW_LEASE_RULE_NONE)
        return 0;
    bw_time least = bw_lease_ttl_least(&terms);
    bool too_short = rule == BW_LEASE_RULE_KILL_TIME || rule == BW_LEASE_RULE_CLOCK;
    if (too_short && least != BW_TIME_NEVER)
        return refuse(why, BW_EINVAL, "ttl is too short (rule: %s): use at least %lld ms",
                      bw_lease_rule_text(rule), (long long)(least / BW_MS));
    return refuse(why, BW_EINVAL, "invalid lease settings: expected %s", bw_lease_rule_text(rule));
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
