/* Pending requests of a store; see job.h. An idle handle delivers answers in the next turn of the
 * loop, even if other events are ready. */
#include "store/kit/job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u /* must be a power of two */

static struct bw_job **bucket_of(struct bw_jobs *jobs, uint64_t id)
{
    return &jobs->buckets[(id ^ id >> 32) & (jobs->bucket_count - 1)];
}

static void unchain(struct bw_job *job)
{
    struct bw_job **at = bucket_of(job->jobs, job->request.id);
    while (*at != job)
        at = &(*at)->chain;
    *at = job->chain;
}

static void unlink_waiting(struct bw_job *job)
{
    struct bw_jobs *jobs = job->jobs;
    *(job->previous ? &job->previous->next : &jobs->first) = job->next;
    *(job->next ? &job->next->previous : &jobs->last) = job->previous;
    job->next = job->previous = NULL;
    jobs->count--;
}

static void free_job(struct bw_job *job)
{
    if (job->reply) {
        free((void *)job->reply->candidates);
        free((void *)job->reply->elections);
    }
    free(job->reply);
    free(job);
}

/* Delivers one answer at a time, because the reply callback may cancel other jobs or close the
 * store. */
static void deliver(uv_idle_t *deliver_handle)
{
    struct bw_jobs *jobs = deliver_handle->data;
    for (uint32_t i = 0; i < BW_JOBS_MAX && jobs->answered; i++) {
        struct bw_job *job = jobs->answered;
        if (!(jobs->answered = job->next))
            jobs->answered_end = &jobs->answered;
        unchain(job);
        jobs->options.reply(jobs->options.context, job->reply);
        free_job(job);
        if (jobs->closed)
            return;
    }
    if (!jobs->answered)
        uv_idle_stop(deliver_handle);
}

int bw_jobs_open(struct bw_jobs *jobs, struct uv_loop_s *loop,
                 const struct bw_store_options *options, void (*forget)(struct bw_job *job),
                 void *context)
{
    *jobs = (struct bw_jobs){.options = *options, .forget = forget, .context = context};
    jobs->answered_end = &jobs->answered;
    jobs->bucket_count = BUCKETS;
    jobs->buckets = calloc(BUCKETS, sizeof(struct bw_job *));
    if (!jobs->buckets)
        return BW_ENOMEM;
    uv_idle_init(loop, &jobs->deliver_handle);
    jobs->deliver_handle.data = jobs;
    return 0;
}

static void forget(struct bw_job *job)
{
    unlink_waiting(job);
    unchain(job);
    if (job->jobs->forget)
        job->jobs->forget(job);
    free_job(job);
}

static void drop_answer(struct bw_job *job)
{
    struct bw_job **at = &job->jobs->answered;
    while (*at != job)
        at = &(*at)->next;
    if (!(*at = job->next))
        job->jobs->answered_end = at;
    unchain(job);
    free_job(job);
}

static void on_closed(uv_handle_t *handle)
{
    struct bw_jobs *jobs = handle->data;
    jobs->on_closed(jobs);
}

void bw_jobs_close(struct bw_jobs *jobs, void (*closed)(struct bw_jobs *jobs))
{
    jobs->closed = true;
    while (jobs->first)
        forget(jobs->first); /* NOLINT(clang-analyzer-unix.Malloc): it unlinks itself */
    while (jobs->answered)
        drop_answer(jobs->answered); /* NOLINT(clang-analyzer-unix.Malloc) */
    free(jobs->buckets);
    jobs->buckets = NULL;
    jobs->on_closed = closed;
    uv_close((uv_handle_t *)&jobs->deliver_handle, on_closed);
}

/* The strings of a request, in a fixed order for measuring and copying. */
#define STRINGS 4u

static void strings_of(struct bw_store_request *request, const char **at[STRINGS])
{
    at[0] = &request->election;
    at[1] = &request->candidate;
    at[2] = &request->value;
    at[3] = &request->containment;
}

static struct bw_job *copy(const struct bw_store_request *request)
{
    struct bw_store_request same = *request;
    const char **from[STRINGS], **to[STRINGS];
    strings_of(&same, from);
    size_t size = 0;
    for (unsigned i = 0; i < STRINGS; i++)
        size += *from[i] ? strlen(*from[i]) + 1 : 0;
    struct bw_job *job = calloc(1, sizeof *job + size);
    if (!job)
        return NULL;
    job->request = same;
    strings_of(&job->request, to);
    char *at = job->text;
    for (unsigned i = 0; i < STRINGS; i++)
        if (*from[i]) {
            size_t length = strlen(*from[i]) + 1;
            *to[i] = memcpy(at, *from[i], length);
            at += length;
        }
    return job;
}

struct bw_job *bw_jobs_add(struct bw_jobs *jobs, const struct bw_store_request *request)
{
    struct bw_job *job = jobs->count < BW_JOBS_MAX ? copy(request) : NULL;
    if (!job)
        return NULL;
    job->jobs = jobs;
    job->previous = jobs->last;
    *(jobs->last ? &jobs->last->next : &jobs->first) = job;
    jobs->last = job;
    jobs->count++;
    struct bw_job **bucket = bucket_of(jobs, request->id);
    job->chain = *bucket;
    *bucket = job;
    return job;
}

static struct bw_job *find_any(struct bw_jobs *jobs, uint64_t id)
{
    struct bw_job *job = *bucket_of(jobs, id);
    while (job && job->request.id != id)
        job = job->chain;
    return job;
}

struct bw_job *bw_jobs_find(struct bw_jobs *jobs, uint64_t id)
{
    struct bw_job *job = find_any(jobs, id);
    return job && !job->reply ? job : NULL;
}

void bw_jobs_cancel(struct bw_jobs *jobs, uint64_t id)
{
    struct bw_job *job = find_any(jobs, id);
    if (job && job->reply)
        drop_answer(job);
    else if (job)
        forget(job);
}

/* Makes the reply of a job. If memory is exhausted, drops the job and returns NULL; the caller's
 * own timeout then reports UNKNOWN. */
static struct bw_store_reply *answer(struct bw_job *job, enum bw_outcome outcome, int error)
{
    struct bw_store_reply *reply = calloc(1, sizeof *reply);
    if (!reply) {
        forget(job);
        return NULL;
    }
    reply->id = job->request.id;
    reply->op = job->request.op;
    reply->outcome = outcome;
    reply->error = error;
    return reply;
}

static void deliver_later(struct bw_job *job, struct bw_store_reply *reply)
{
    struct bw_jobs *jobs = job->jobs;
    unlink_waiting(job);
    job->reply = reply;
    *jobs->answered_end = job;
    jobs->answered_end = &job->next;
    uv_idle_start(&jobs->deliver_handle, deliver);
}

void bw_job_done(struct bw_job *job, const struct bw_store_record *record)
{
    struct bw_store_reply *reply = answer(job, BW_OUTCOME_DONE, 0);
    if (!reply)
        return;
    reply->record = *record;
    deliver_later(job, reply);
}

static void format_why(struct bw_store_reply *reply, const char *format, va_list arguments)
{
    vsnprintf(reply->why, sizeof reply->why, format, arguments);
}

void bw_job_refuse(struct bw_job *job, const struct bw_store_record *record, int error,
                   const char *format, ...)
{
    struct bw_store_reply *reply = answer(job, BW_OUTCOME_REFUSED, error);
    if (!reply)
        return;
    va_list arguments;
    va_start(arguments, format);
    format_why(reply, format, arguments);
    va_end(arguments);
    reply->record = *record;
    deliver_later(job, reply);
}

void bw_job_fail(struct bw_job *job, enum bw_outcome outcome, int error, const char *format, ...)
{
    struct bw_store_reply *reply = answer(job, outcome, error);
    if (!reply)
        return;
    va_list arguments;
    va_start(arguments, format);
    format_why(reply, format, arguments);
    va_end(arguments);
    deliver_later(job, reply);
}

void bw_job_list(struct bw_job *job, const struct bw_candidate *candidates, uint32_t count)
{
    struct bw_candidate *copies = calloc(count ? count : 1, sizeof *copies);
    if (!copies) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM,
                    "cannot list %u candidates: out of memory", count);
        return;
    }
    struct bw_store_reply *reply = answer(job, BW_OUTCOME_DONE, 0);
    if (!reply) {
        free(copies);
        return;
    }
    memcpy(copies, candidates, count * sizeof *copies);
    reply->candidates = copies;
    reply->count = count;
    deliver_later(job, reply);
}

void bw_job_elections(struct bw_job *job, const struct bw_election_name *names, uint32_t count)
{
    struct bw_election_name *copies = calloc(count ? count : 1, sizeof *copies);
    if (!copies) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM,
                    "cannot list %u elections: out of memory", count);
        return;
    }
    struct bw_store_reply *reply = answer(job, BW_OUTCOME_DONE, 0);
    if (!reply) {
        free(copies);
        return;
    }
    if (count > 0)
        memcpy(copies, names, count * sizeof *copies);
    reply->elections = copies;
    reply->count = count;
    deliver_later(job, reply);
}
