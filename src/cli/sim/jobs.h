/* Many independent items on all cores: forked workers take the next item from a shared counter and
 * send fixed-size results back through a pipe each. A worker that dies takes one item with it; that
 * is told, and another worker goes on. */
#ifndef BW_CLI_JOBS_H
#define BW_CLI_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BW_JOBS_MAX 256u

struct bw_jobs {
    uint64_t count; /* items 0..count-1 */
    unsigned workers;
    size_t result_bytes;
    void *context;
    void (*begin)(void *context);                                   /* in each worker, once */
    void (*work)(void *context, uint64_t item, void *result);       /* in a worker */
    void (*done)(void *context, uint64_t item, const void *result); /* here, as they arrive */
    void (*died)(void *context, uint64_t item, int signal);         /* here */
    bool (*tick)(void *context); /* here, some times a second; false: hand out no more */
};

unsigned bw_jobs_cores(void);

/* Returns 0; -1 with errno when no worker could be started; 1 when interrupted by SIGINT or
 * SIGTERM. */
int bw_jobs_run(const struct bw_jobs *jobs);

#endif
