/* Prints trace hashes of simulated runs, to compare builds with each other: native, WebAssembly,
 * other compilers.
 *
 *     trace-hashes FROM TO
 *
 * For every algorithm it runs the storms of these seeds, and runs with one crash and random latency
 * under each detector. One line per algorithm: name, number of runs, hash over all runs. */
#include "sim/faults/storm.h"
#include "sim/sim.h"
#include "sim/stores/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct line {
    uint64_t runs, hash;
};

static void fold(struct line *line, uint64_t hash)
{
    line->hash = (line->hash ^ hash) * 1099511628211u;
    line->runs++;
}

static int storm(struct bw_sim *sim, const struct bw_elector_ops *ops, uint64_t seed,
                 struct line *line)
{
    struct bw_storm_fixed fixed = bw_storm_any;
    struct bw_storm_result result;
    if (bw_storm_seed(sim, ops, &fixed, seed, NULL, &result) != 0) {
        fprintf(stderr, "%s, storm %" PRIu64 ": %s\n", ops->name, seed, result.text);
        return -1;
    }
    fold(line, result.trace_hash);
    return 0;
}

static int crash(struct bw_sim *sim, const struct bw_elector_ops *ops, uint64_t seed,
                 struct line *line)
{
    struct bw_sim_fault fault = {.kind = BW_FAULT_CRASH, .at = 2 * BW_SEC};
    struct bw_sim_result result;
    struct bw_sim_config config;
    char why[200];
    unsigned detectors = 0;
    while (bw_detector_at(detectors))
        detectors++;
    bw_sim_defaults(&config);
    config.algorithm = ops;
    config.detector =
        ops->traits & BW_TRAIT_OWN_TIMERS ? NULL : bw_detector_at((unsigned)(seed % detectors));
    config.nodes = 3 + (uint32_t)(seed % 5);
    config.seed = seed;
    config.loss = 0.02;
    config.drift = 0.005;
    config.latency =
        (struct bw_sim_latency){.dist = BW_DIST_EXPONENTIAL, .min = BW_MS, .max = 3 * BW_MS};
    config.work_ns = 50 * BW_MS;
    config.faults = &fault;
    config.faults_count = 1;
    config.until = 5 * BW_SEC;
    if (bw_sim_run_in(sim, &config, &result, why) != 0) {
        fprintf(stderr, "%s, crash %" PRIu64 ": %s\n", ops->name, seed, why);
        return -1;
    }
    fold(line, result.trace_hash);
    fold(line, (uint64_t)result.time_to_leader);
    fold(line, (uint64_t)result.split_brain);
    return 0;
}

static int run(struct bw_sim *sim, const struct bw_elector_ops *ops, uint64_t from, uint64_t to)
{
    struct line line = {0};
    bool plain = ops != &bw_sim_registry_ops && !bw_sim_is_lease(ops);
    for (uint64_t seed = from; seed <= to; seed++)
        if (storm(sim, ops, seed, &line) != 0 || (plain && crash(sim, ops, seed, &line) != 0))
            return -1;
    printf("%s %" PRIu64 " %016" PRIx64 "\n", ops->name, line.runs, line.hash);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t from = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t to = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (from < 1 || to < from) {
        fprintf(stderr, "usage: trace-hashes FROM TO\n");
        return 64;
    }
    struct bw_sim *sim = bw_sim_new();
    const struct bw_elector_ops *ops;
    int error = sim ? 0 : -1;
    for (unsigned i = 0; error == 0 && (ops = bw_elector_at(i)); i++)
        error = run(sim, ops, from, to);
    if (error == 0)
        error = run(sim, bw_sim_lease_ops(BW_SIM_STORE_QUORUM), from, to);
    if (error == 0)
        error = run(sim, &bw_sim_registry_ops, from, to);
    bw_sim_free(sim);
    return error == 0 ? 0 : 1;
}
