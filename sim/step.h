/* Runs the world step by step: the caller decides how far time goes, injects faults between steps
 * and looks at nodes and messages.
 *
 *     bw_sim_begin(sim, &config, &result, why);
 *     bw_sim_step_until(sim, 2 * BW_SEC);
 *     bw_sim_inject(sim, &crash);
 *     bw_sim_step_until(sim, 5 * BW_SEC);
 *     bw_sim_end(sim);
 *
 * A run is a function of its configuration and of the faults with their times: the same steps give
 * the same trace, however the time between two faults is cut into steps. A fault injected at time t
 * has the same effect as one of the configuration with `at` t, unless another event was scheduled
 * for the same nanosecond before. */
#ifndef BW_SIM_STEP_H
#define BW_SIM_STEP_H

#include "sim/sim.h"

/* Starts a run. `config` (with all that it borrows), `result` and `why` (200 bytes) must stay valid
 * until bw_sim_end. Ends an earlier run of `sim` that was not ended. Returns 0, or an error of
 * bw_sim_run. The other functions need a run that began; they return BW_EINVAL without one. */
int bw_sim_begin(struct bw_sim *sim, const struct bw_sim_config *config,
                 struct bw_sim_result *result, char *why);

/* Handles all events before `at`; then the time is `at`. `until` and `limit` of the configuration
 * do not end the run. Returns 0; BW_EINVAL if `at` is in the past or later than a year; or the
 * error that ended the run, with the reason in `why`. After an error only bw_sim_end is useful. */
int bw_sim_step_until(struct bw_sim *sim, bw_time at);
/* Handles the next event. Returns as bw_sim_step_until. */
int bw_sim_step(struct bw_sim *sim);

/* Carries out a fault now; `at` is ignored. The groups of a partition are borrowed for the call.
 * Returns 0; BW_EINVAL with the reason in `why` if the fault is invalid, or impossible now (a crash
 * of a dead node): then nothing has changed. */
int bw_sim_inject(struct bw_sim *sim, const struct bw_sim_fault *fault);

/* Brings the figures in `result` up to date. The run goes on. */
void bw_sim_measure(struct bw_sim *sim);
/* Completes the figures, runs the last checks, and ends the run. Returns 0, or the error that ended
 * the run before. */
int bw_sim_end(struct bw_sim *sim);

bw_time bw_sim_now(const struct bw_sim *sim);
/* Returns when the next event is due; NEVER: none is. */
bw_time bw_sim_next(const struct bw_sim *sim);
/* Returns whether a run without `until` would be over: see `until` of the configuration. */
bool bw_sim_is_over(struct bw_sim *sim);
/* Returns the highest id of the run, stores included. */
uint32_t bw_sim_ids(const struct bw_sim *sim);

struct bw_sim_view { /* of one node, in one election; times on the world's clock */
    bool store;      /* a store of leases, not a candidate */
    bool member;     /* configured or joined, and has not left */
    bool up, paused;
    bool leads, electing;
    bool acts;      /* leads, runs, and is within its window */
    bw_node leader; /* the leader that it follows, or none */
    bw_term term;
    bw_token token;              /* if it leads */
    bw_time act_from, act_until; /* its window, if it leads */
    const char *state;           /* the algorithm's name of its state; NULL if it is down */
    uint32_t waiting;            /* number of events that wait until it resumes */
};

/* Returns false if there is no such node or election. */
bool bw_sim_view(const struct bw_sim *sim, bw_node node, uint32_t election,
                 struct bw_sim_view *view);
/* Returns whether the detector of `node` suspects `target`. */
bool bw_sim_suspects(const struct bw_sim *sim, bw_node node, bw_node target);

struct bw_sim_flight { /* a message that was sent and has not arrived */
    bw_time sent, arrives;
    const struct bw_message *msg; /* valid until the next step */
};

/* Iterates over the messages in flight, in no order. `cursor` starts as 0. Returns false after the
 * last one. Do not step during the iteration. */
bool bw_sim_flight_next(const struct bw_sim *sim, uint32_t *cursor, struct bw_sim_flight *flight);

#endif
