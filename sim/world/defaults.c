/* The default configuration of a run. */
#include "sim/sim.h"

#include <string.h>

void bw_sim_defaults(struct bw_sim_config *config)
{
    memset(config, 0, sizeof *config);
    config->algorithm = &bw_elect_bully;
    config->detector = &bw_detect_deadline;
    config->nodes = 5;
    config->elections = 1;
    config->seed = 1;
    config->latency =
        (struct bw_sim_latency){.dist = BW_DIST_UNIFORM, .min = BW_MS, .max = 5 * BW_MS};
    config->drift_bound = 0.01;
    config->lease = (struct bw_sim_lease){.ttl_ns = 10 * BW_SEC,
                                          .grace_ns = 500 * BW_MS,
                                          .retry_ns = BW_SEC,
                                          .kill_after_ns = 2 * BW_SEC,
                                          .margin_ns = 200 * BW_MS};
    config->registry = (struct bw_sim_registry_config){
        .clients = 8, .pace_ns = 20 * BW_MS, .ttl_min = 300 * BW_MS, .ttl_max = 2 * BW_SEC};
    config->transport_reports = true;
    config->period_ns = 100 * BW_MS;
    config->propose_count = 1;
    config->limit = 600 * BW_SEC;
}
