/* The table of detectors, and their defaults. */
#include "core/detect/detector.h"

#include <string.h>

static const struct bw_detector_ops *const all[] = {
    &bw_detect_ping,
    &bw_detect_deadline,
    &bw_detect_phi,
    &bw_detect_phi_logistic,
    &bw_detect_phi_exponential,
    &bw_detect_phi_deadline,
    &bw_detect_nfd,
    &bw_detect_swim,
    &bw_detect_gossip,
    &bw_detect_heartbeat,
};

const struct bw_detector_ops *bw_detector_at(unsigned i)
{
    return i < sizeof all / sizeof all[0] ? all[i] : NULL;
}

const struct bw_detector_ops *bw_detector_find(const char *name)
{
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

/* Reasons for the defaults:
 * - Akka sends a heartbeat each second, with a minimum deviation of 100 ms and a pause of 3 s.
 * - A third of the period for the direct ack leaves a third for the helpers' pings and one for
 *   their acks.
 * - Gossip to three members suffices for a small group to get all counters each period.
 * - The limit of phi+deadline is above what phi allows on a steady link and below what it allows on
 *   a bad one.
 * - Four neighbours make groups of up to five members complete. */
void bw_detector_defaults(struct bw_detector_config *config, bw_time period_ns)
{
    config->period_ns = period_ns;
    config->timeout_ns = 4 * period_ns;
    config->ack_ns = period_ns / 3;
    config->threshold = 8;
    config->min_sd_ns = period_ns / 10;
    config->pause_ns = 3 * period_ns;
    config->limit_ns = 6 * period_ns;
    config->window = 1000;
    /* two clocks that are each 1 % off diverge by one period in 2 * 25 beats */
    config->fresh_window = 25;
    config->indirect = 3;
    config->suspicion_min = 5;
    config->suspicion_max = 6;
    config->fanout = 3;
    config->neighbours = 4;
    config->stand_still = 4;
    config->dedupe = true;
}
