/* An elector whose step is a function that the test sets. */
#ifndef BW_TESTS_UNIT_SIM_SIM_PROBE_H
#define BW_TESTS_UNIT_SIM_SIM_PROBE_H

#include "unit/unit.h"

#include "core/base/error.h"
#include "sim/sim.h"

struct probe {
    bw_node self;
    uint32_t members;
    bw_time deadline;
    uint64_t a, b; /* free for use by the test */
};

static void (*probe_plan)(struct probe *self, const struct bw_event *event,
                          struct bw_actions *actions);

static size_t probe_bytes(const struct bw_elector_config *config)
{
    (void)config;
    return sizeof(struct probe);
}

static uint32_t probe_actions_max(const struct bw_elector_config *config)
{
    return 4 * config->cap + 64;
}

static int probe_init(void *memory, const struct bw_elector_config *config)
{
    *(struct probe *)memory =
        (struct probe){.self = config->self, .members = config->count, .deadline = BW_TIME_NEVER};
    return 0;
}

static void probe_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    probe_plan(self, event, actions);
}

static bw_time probe_deadline(const void *self)
{
    return ((const struct probe *)self)->deadline;
}

static void probe_status(const void *self, struct bw_elector_status *out)
{
    (void)self;
    memset(out, 0, sizeof *out);
}

static const struct bw_elector_ops probe = {.name = "probe",
                                            .promise = "whatever the test wants",
                                            .traits = BW_TRAIT_MAY_SPLIT,
                                            .bytes = probe_bytes,
                                            .actions_max = probe_actions_max,
                                            .init = probe_init,
                                            .step = probe_step,
                                            .deadline = probe_deadline,
                                            .status = probe_status};

/* A world of `nodes` such electors, without a detector, with 10 ms latency, for one second. */
static inline struct bw_sim_config probe_world(uint32_t nodes)
{
    struct bw_sim_config config;
    bw_sim_defaults(&config);
    config.algorithm = &probe;
    config.detector = NULL;
    config.nodes = nodes;
    config.latency.min = config.latency.max = 10 * BW_MS;
    config.until = BW_SEC;
    return config;
}

static inline struct bw_sim_result probe_run(const struct bw_sim_config *config)
{
    struct bw_sim_result result;
    char why[200];
    int error = bw_sim_run(config, &result, why);
    if (error)
        fail_msg("%s", why);
    return result;
}

static inline void probe_names(struct bw_actions *actions, bw_node leader, bw_time act_from,
                               bw_time act_until)
{
    bw_actions_announce(
        actions, &(struct bw_announcement){
                     .leader = leader, .term = 1, .act_from = act_from, .act_until = act_until});
}

#endif
