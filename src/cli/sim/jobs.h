/* Processes many independent items on all cores. Forked workers take the next item from a shared
 * counter and send fixed-size results back, each through its own pipe. If a worker dies, its
 * current item fails, `died` is called, and a new worker continues. */
#ifndef BW_CLI_SIM_JOBS_H
#define BW_CLI_SIM_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BW_JOBS_MAX 256u

struct bw_sim_jobs {
    uint64_t count; /* items 0..count-1 */
    unsigned workers;
    size_t result_bytes;
    void *context;
    void (*begin)(void *context);                             /* called once in each worker */
    void (*work)(void *context, uint64_t item, void *result); /* called in a worker */
    /* called here, as results arrive */
    void (*done)(void *context, uint64_t item, const void *result);
    void (*died)(void *context, uint64_t item, int signal); /* called here */
    /* called here several times a second; false: hand out no more items */
    bool (*tick)(void *context);
};

unsigned bw_sim_jobs_cores(void);

/* Returns 0; -1 with errno if no worker could be started; 1 if interrupted by SIGINT or SIGTERM. */
int bw_sim_jobs_run(const struct bw_sim_jobs *jobs);

#endif
