/* Pending requests ("jobs") of a store that talks to a server.
 *
 * A job copies a request, can be found by the request's id, and is answered exactly once, never
 * from within a call of the caller.
 *
 * How a store uses it:
 * - `request` checks the request (bw_store_request_check), adds a job and starts it.
 * - Later the store calls one of bw_job_done, _refuse, _fail, _list, which answers and frees the
 *   job.
 * - `cancel` and `close` forget jobs. The store's `forget` hook then releases what belongs to the
 *   job (a watch, an HTTP request in flight). */
#ifndef BW_STORE_KIT_JOB_H
#define BW_STORE_KIT_JOB_H

#include "store/store.h"

#include <uv.h>

/* Maximum number of unanswered requests of one store. */
#define BW_JOBS_MAX 65536u

struct bw_jobs;

struct bw_job {
    struct bw_jobs *jobs;
    struct bw_job *next, *previous;  /* list of unanswered jobs, oldest first */
    struct bw_job *chain;            /* next job in the same hash bucket */
    struct bw_store_request request; /* with its own copies of the strings */
    void *context;                   /* the store's data for this job */
    unsigned step;                   /* the store's progress with this job */
    struct bw_store_reply *reply;    /* answered, but not yet delivered; NULL: unanswered */
    char text[];
};

struct bw_jobs {
    struct bw_store_options options;
    void (*forget)(struct bw_job *job);      /* a job was cancelled; may be NULL */
    struct bw_job *first, *last;             /* unanswered */
    struct bw_job *answered, **answered_end; /* answered; the loop delivers them */
    struct bw_job **buckets;
    uint32_t count, bucket_count;
    bool closed;
    void *context; /* the store */
    void (*on_closed)(struct bw_jobs *jobs);
    uv_idle_t deliver_handle;
};

/* Returns 0 or BW_ENOMEM. `context` is the store, for its hooks. The loop handle is active only
 * while answers wait for delivery. */
int bw_jobs_open(struct bw_jobs *jobs, struct uv_loop_s *loop,
                 const struct bw_store_options *options, void (*forget)(struct bw_job *job),
                 void *context);
/* Forgets all jobs: no answer follows. The loop calls `closed` when the struct may be freed. */
void bw_jobs_close(struct bw_jobs *jobs, void (*closed)(struct bw_jobs *jobs));

/* Adds a job with a copy of the request. NULL: out of memory, or too many jobs (report
 * BW_ELIMIT). */
struct bw_job *bw_jobs_add(struct bw_jobs *jobs, const struct bw_store_request *request);
/* Returns the unanswered job with this request id, or NULL. */
struct bw_job *bw_jobs_find(struct bw_jobs *jobs, uint64_t id);
/* Implements the store's `cancel`: forgets the job, also if its answer is not yet delivered. */
void bw_jobs_cancel(struct bw_jobs *jobs, uint64_t id);

/* Answer a job; the job must not be used afterwards. The record is copied. */
void bw_job_done(struct bw_job *job, const struct bw_store_record *record);
void bw_job_refuse(struct bw_job *job, const struct bw_store_record *record, int error,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
/* UNAVAILABLE: certainly not carried out. UNKNOWN: may have been carried out. */
void bw_job_fail(struct bw_job *job, enum bw_outcome outcome, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* LIST: the candidates are copied. */
void bw_job_list(struct bw_job *job, const struct bw_candidate *candidates, uint32_t count);
/* ELECTIONS: the names are copied. */
void bw_job_elections(struct bw_job *job, const struct bw_election_name *names, uint32_t count);

#endif
