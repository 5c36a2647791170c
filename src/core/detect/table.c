/* The detectors by name, and what suits a period. */
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

/* Akka beats each second with a floor of 100 ms and a pause of 3 s. A third of the period for the
 * direct ack leaves a third for helpers and one for their answers. Gossip to three is enough for a
 * small group to hear of everybody each period. The hard limit of phi+deadline lies above what phi
 * asks of a steady link and below what it asks of a bad one. Four neighbours make groups up to five
 * complete. */
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
    config->fresh_window = 25; /* clocks 1 % off lag by one period over twice that */
    config->indirect = 3;
    config->suspicion_min = 5;
    config->suspicion_max = 6;
    config->fanout = 3;
    config->neighbours = 4;
    config->stand_still = 4;
    config->dedupe = true;
}
