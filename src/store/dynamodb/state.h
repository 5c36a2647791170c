/* Internal state of the DynamoDB store; see store.c. */
#ifndef BW_STORE_DYNAMODB_STATE_H
#define BW_STORE_DYNAMODB_STATE_H

#include "core/base/rng.h"
#include "store/dynamodb/credentials.h"
#include "store/dynamodb/item.h"
#include "store/kit/names.h"

#define DYNAMODB_TYPE_MAX 127u

struct bw_store {
    struct bw_jobs jobs;
    struct dynamodb_settings settings;
    struct dynamodb_asker asker;
    struct bw_http *http;
    uv_timer_t poll;   /* for WATCH */
    struct bw_rng rng; /* for retry delays */
    char session[33];  /* identifies this process */
    unsigned handles;  /* handles still to close */
    bool closed;
};

/* The state of a job. */
struct dynamodb_work {
    struct bw_job *job;
    struct bw_http_request *call;
    void (*then)(struct dynamodb_work *work); /* called after a read */
    struct dynamodb_seen seen;
    struct bw_names names;          /* ELECTIONS */
    char rvn[DYNAMODB_RVN_MAX + 1]; /* version that our next write gives the lock */
    bool locked; /* the lock may be ours but has no token yet: release it on failure */
    bool begun;
    bool written; /* a change of this request may have taken effect */
    unsigned tries;
    uint64_t until_ms, poll_at_ms; /* on the loop's clock */
};

/* The result of a call. */
enum dynamodb_end { DYNAMODB_GOOD, DYNAMODB_CONDITION, DYNAMODB_BAD };

/* Starts the job's operation. */
void bw_dynamodb_start(struct dynamodb_work *work);
/* Frees the job's state: cancels its call and releases a lock without token. */
void bw_dynamodb_free(struct dynamodb_work *work);
/* WATCH: polls once more. */
void bw_dynamodb_poll(struct dynamodb_work *work);

/* ELECTIONS, in election_names.c. */
void bw_dynamodb_elections(struct dynamodb_work *work);

/* Sends a call of the job and frees `body`. If it cannot be sent, answers the job and returns
 * false. */
bool bw_dynamodb_ask(struct dynamodb_work *work, const char *action, char *body,
                     void (*answer)(void *context, const struct bw_http_answer *answer));
/* Sends a call whose answer is not awaited, and frees `body`. */
void bw_dynamodb_send(struct bw_store *store, const char *action, char *body);
enum dynamodb_end bw_dynamodb_end(const struct bw_http_answer *answer);
/* Sets a deadline for the job's further calls; 0: the default. */
void bw_dynamodb_set_time(struct dynamodb_work *work, bw_time within_ns);
struct bw_store *bw_dynamodb_store(const struct dynamodb_work *work);

/* These answer the job and free the work. */
void bw_dynamodb_done(struct dynamodb_work *work);
void bw_dynamodb_list(struct dynamodb_work *work);
void bw_dynamodb_answer_names(struct dynamodb_work *work);
void bw_dynamodb_refuse(struct dynamodb_work *work, int error, const char *why);
/* Fails the job with a call's answer; `writes`: the call was a write. */
void bw_dynamodb_fail(struct dynamodb_work *work, const struct bw_http_answer *answer, bool writes);
void bw_dynamodb_fail_with(struct dynamodb_work *work, enum bw_outcome outcome, int error,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
