/* Defaults that follow from a latency bound and a period. */
#include "core/elect/elector.h"

void bw_elector_defaults(struct bw_elector_config *config, bw_time latency_ns, bw_time period_ns)
{
    config->latency_ns = latency_ns;
    config->period_ns = period_ns;
    config->answer_ns = 2 * latency_ns + latency_ns / 2 + BW_MS;
    /* An announcement comes after a cascade of replies, or after laps of a ring: the slowest ring
     * needs 6n hops. */
    config->announce_ns = 3 * config->answer_ns + 8 * (bw_time)config->count * latency_ns;
    config->timeout_min_ns = bw_time_max(3 * period_ns, 10 * latency_ns);
    config->timeout_max_ns = 2 * config->timeout_min_ns;
    config->promise_ns = 0;
    config->forgive_ns = 3600 * BW_SEC;
    config->penalty_free = 1;
    config->drift_ppm = 10000;
    config->batch_max = 64;
    config->announce = true;
    config->pre_vote = true;
    config->check_quorum = true;
    config->hints = true;
}

bw_time bw_elector_promise(const struct bw_elector_config *config)
{
    return config->promise_ns ? config->promise_ns
                              : bw_time_max(10 * config->period_ns, 20 * config->latency_ns);
}
