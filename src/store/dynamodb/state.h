/* The DynamoDB store, as its files share it. See store.c. */
#ifndef BW_STORE_DYNAMODB_H
#define BW_STORE_DYNAMODB_H

#include "core/base/rng.h"
#include "store/dynamodb/item.h"
#include "store/dynamodb/keys.h"
#include "store/kit/job.h"

#define DYNAMODB_TYPE_MAX 127u

struct bw_store {
    struct bw_jobs jobs;
    struct dynamodb_settings settings;
    struct dynamodb_asker asker;
    struct bw_http *http;
    uv_timer_t poll;   /* for WATCH */
    struct bw_rng rng; /* for pauses */
    char session[33];  /* this process' */
    unsigned handles;  /* that close */
    bool closed;
};

/* What hangs on a job. */
struct dynamodb_work {
    struct bw_job *job;
    struct bw_http_request *call;
    void (*then)(struct dynamodb_work *work); /* behind a reading */
    struct dynamodb_seen seen;
    char rvn[DYNAMODB_RVN_MAX + 1]; /* what our next write of the lock gives it */
    bool locked; /* the lock may be ours, and nobody counts on it yet: to be given back */
    bool begun;
    bool written; /* something of the request may stand */
    unsigned tries;
    uint64_t until_ms, poll_at_ms; /* on the loop's clock */
};

/* What a call came to. */
enum dynamodb_end { DYNAMODB_GOOD, DYNAMODB_CONDITION, DYNAMODB_BAD };

/* Starts what a job asks for. */
void bw_dynamodb_start(struct dynamodb_work *work);
/* Lets go of what hangs on a job: its call, a lock that nobody counts on. */
void bw_dynamodb_free(struct dynamodb_work *work);
/* WATCH: looks again. */
void bw_dynamodb_look(struct dynamodb_work *work);

/* Sends a call that belongs to the job and frees `body`. False: it could not be sent, and the job
 * is answered. */
bool bw_dynamodb_ask(struct dynamodb_work *work, const char *action, char *body,
                     void (*answer)(void *context, const struct bw_http_answer *answer));
/* The same for a call nobody waits for. */
void bw_dynamodb_tell(struct bw_store *store, const char *action, char *body);
enum dynamodb_end bw_dynamodb_end(const struct bw_http_answer *answer);
/* How long the calls of the job may take from now on; 0: as long as any. */
void bw_dynamodb_set_time(struct dynamodb_work *work, bw_time within_ns);
struct bw_store *bw_dynamodb_store(const struct dynamodb_work *work);

/* The answers; each takes the work away with its job. */
void bw_dynamodb_done(struct dynamodb_work *work);
void bw_dynamodb_list(struct dynamodb_work *work);
void bw_dynamodb_refuse(struct dynamodb_work *work, int error, const char *why);
/* As the answer of a call has it; `writes`: the call was to change something. */
void bw_dynamodb_fail(struct dynamodb_work *work, const struct bw_http_answer *answer, bool writes);
void bw_dynamodb_say(struct dynamodb_work *work, enum bw_outcome outcome, int error,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
