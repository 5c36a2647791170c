/* Measures the speed of the simulator on one core, against its three targets.
 *
 *     steady   Raft, 5 nodes, 100 ms heartbeats, no faults: at least 10,000 times real time
 *     storm    Raft under random faults with all checkers: at least 2,000,000 messages per second
 *     crowd    SWIM with 10,000 members for ten periods: within a minute and 8 GB
 *
 * Prints one line per target and returns 1 if one is missed. Arguments: the targets to measure;
 * none: all. */
#include "sim/faults/storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* CPU time of this process: other processes do not count. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run(const struct bw_sim_config *config, struct bw_sim_result *result)
{
    char why[200];
    if (bw_sim_run(config, result, why)) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
}

static bool steady(void)
{
    struct bw_sim_config config;
    struct bw_sim_result result;
    bw_sim_defaults(&config);
    config.algorithm = &bw_elect_raft;
    config.detector = NULL;
    config.until = 36000 * BW_SEC;
    double start = now_s();
    run(&config, &result);
    double wall = now_s() - start, times = (double)config.until / (double)BW_SEC / wall;
    printf("steady  %10.0f times real time (at least 10000), %.0f ns per delivered message\n",
           times, wall * 1e9 / (double)result.delivered);
    return times >= 10000;
}

static bool storm(void)
{
    struct bw_sim *sim = bw_sim_new();
    struct bw_storm_result result;
    uint64_t delivered = 0, events = 0;
    double start = now_s(), wall = 0;
    for (uint64_t seed = 1; sim && wall < 5; seed++) {
        if (bw_storm_seed(sim, &bw_elect_raft, &bw_storm_any, seed, NULL, &result) ||
            result.violation) {
            fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, result.text);
            return false;
        }
        delivered += result.delivered;
        events += result.events;
        wall = now_s() - start;
    }
    bw_sim_free(sim);
    printf("storm   %10.0f messages per second (at least 2000000), %.0f events per second\n",
           (double)delivered / wall, (double)events / wall);
    return (double)delivered / wall >= 2e6;
}

static bool crowd(void)
{
    struct bw_sim_config config;
    struct bw_sim_result result;
    struct rusage usage;
    bw_sim_defaults(&config);
    config.algorithm = NULL;
    config.detector = &bw_detect_swim;
    config.nodes = 10000;
    config.until = 10 * config.period_ns;
    double start = now_s();
    run(&config, &result);
    double wall = now_s() - start;
    getrusage(RUSAGE_SELF, &usage);
    double gb = (double)usage.ru_maxrss / 1e6;
    printf("crowd   %10.1f s for ten periods of 10000 members (at most 60), %.1f GB (at most 8), "
           "%.2f messages per member and period\n",
           wall, gb, (double)result.detector_sent / (double)result.member_periods);
    return wall <= 60 && gb <= 8;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        bool (*run)(void);
    } all[] = {{"steady", steady}, {"storm", storm}, {"crowd", crowd}};
    bool met = true;
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        bool wanted = argc == 1;
        for (int k = 1; k < argc; k++)
            wanted = wanted || strcmp(argv[k], all[i].name) == 0;
        if (wanted)
            met = all[i].run() && met;
    }
    return met ? 0 : 1;
}
