/* Requests on their way through a store: copied when they come in, found again by id, answered once
 * and never from within a call of the caller's. What every store on a network needs.
 *
 * A store's `request` checks (bw_store_request_check), adds a job and starts it; whatever it learns
 * later ends in one of the answers below, which frees the job. `cancel` and `close` forget jobs;
 * the store's `forget` hook then lets go of what hangs on them (a watch, a pending HTTP request).
 */
#ifndef BW_STORE_JOB_H
#define BW_STORE_JOB_H

#include "store/store.h"

#include <uv.h>

/* Requests unanswered at one time, in one store. */
#define BW_JOBS_MAX 65536u

struct bw_jobs;

struct bw_job {
    struct bw_jobs *jobs;
    struct bw_job *next, *previous;  /* in the store's list of unanswered ones, oldest first */
    struct bw_job *chain;            /* same bucket of the table by id */
    struct bw_store_request request; /* its strings are the job's own */
    void *context;                   /* the store's: what hangs on this job */
    unsigned step;                   /* the store's: how far it is */
    struct bw_store_reply *reply;    /* answered, not yet told */
    char text[];
};

struct bw_jobs {
    struct bw_store_options options;
    void (*forget)(struct bw_job *job); /* a job nobody waits for; may be NULL */
    struct bw_job *first, *last;        /* unanswered */
    struct bw_job *told, **told_end;    /* answered, to be told from the loop */
    struct bw_job **buckets;
    uint32_t count, bucket_count;
    bool closed;
    void *context; /* the store */
    void (*on_closed)(struct bw_jobs *jobs);
    uv_idle_t teller;
};

/* Returns 0 or BW_ENOMEM. `context` is the store, for hooks; handles of the loop are started when
 * needed only. */
int bw_jobs_open(struct bw_jobs *jobs, struct uv_loop_s *loop,
                 const struct bw_store_options *options, void (*forget)(struct bw_job *job),
                 void *context);
/* Forgets all jobs; no answer comes any more. `closed` is called from the loop when the struct may
 * be freed. */
void bw_jobs_close(struct bw_jobs *jobs, void (*closed)(struct bw_jobs *jobs));

/* A copy of the request; NULL: no memory, or too many (BW_ELIMIT for the caller). */
struct bw_job *bw_jobs_add(struct bw_jobs *jobs, const struct bw_store_request *request);
/* The unanswered job of a request id, NULL if there is none. */
struct bw_job *bw_jobs_find(struct bw_jobs *jobs, uint64_t id);
/* The store's `cancel`: forgets the job if it is still there, answered but untold ones included. */
void bw_jobs_cancel(struct bw_jobs *jobs, uint64_t id);

/* The answers; each takes the job away. The record is copied. */
void bw_job_done(struct bw_job *job, const struct bw_store_record *record);
void bw_job_refuse(struct bw_job *job, const struct bw_store_record *record, int error,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
/* UNAVAILABLE: certainly not carried out. UNKNOWN: may have been. */
void bw_job_fail(struct bw_job *job, enum bw_outcome outcome, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* LIST: the candidates are copied. */
void bw_job_list(struct bw_job *job, const struct bw_candidate *candidates, uint32_t count);

#endif
