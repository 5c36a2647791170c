/* Internal state of the Azure Blob lease store; see store.c. */
#ifndef BW_STORE_AZURE_STATE_H
#define BW_STORE_AZURE_STATE_H

#include "core/base/rng.h"
#include "store/azure/client.h"
#include "store/azure/text.h"
#include "store/kit/names.h"

#define AZURE_LOST_MAX 1024u /* remembered lost leaderships; older ones are overwritten */

struct bw_store {
    struct bw_jobs jobs;
    struct azure_settings settings;
    struct azure_identity identity;
    struct azure_rest rest;
    uv_timer_t poll;   /* for WATCH */
    struct bw_rng rng; /* for retry delays */
    unsigned char nonce[16];
    char bound[BW_ELECTION_NAME_MAX + 1]; /* election of the URL's blob; "": none yet */
    char server[128];                     /* the Server header */
    uint64_t lost[AZURE_LOST_MAX];
    uint32_t lost_next;
    unsigned handles; /* handles still to close */
    bool closed;
};

/* The state of a job. */
struct azure_work {
    struct bw_job *job;
    struct bw_http_request *call;
    void (*then)(struct azure_work *work); /* called after a read */
    char blob[AZURE_NAME_MAX + 1], note_blob[AZURE_NAME_MAX + 8];
    bool exists, note_exists;
    struct azure_blob seen; /* the blob's properties */
    struct bw_names names;  /* ELECTIONS */
    char note_etag[AZURE_ETAG_MAX + 1];
    uint64_t lost; /* request of the leadership that its holder reported lost; 0: none */
    struct bw_store_record kept;  /* the record in the blob's metadata */
    struct bw_store_record shown; /* the record as readers see it */
    char lease_id[AZURE_LEASE_ID_MAX + 1];
    bool leased; /* the lease may be ours but has no record yet: release it on failure */
    bool begun;
    bool written; /* a change of this request may have taken effect */
    unsigned tries;
    uint64_t until_ms, poll_at_ms; /* on the loop's clock */
};

/* Starts the job's operation. */
void bw_azure_start(struct azure_work *work);
/* Frees the job's state: cancels its call and releases a lease without record. */
void bw_azure_free(struct azure_work *work);
/* WATCH: polls once more. */
void bw_azure_poll(struct azure_work *work);

/* ELECTIONS, in election_names.c. */
void bw_azure_elections(struct azure_work *work);

/* ---- reading the blob and its note ---- */

void bw_azure_read(struct azure_work *work, void (*then)(struct azure_work *work));
/* True if the holder in the record has lost its lease: it reported that in the note's blob, or it
 * is in this process and noticed it. */
bool bw_azure_is_lost(const struct azure_work *work);
/* Computes `shown` from the blob, the note and what this process knows. */
void bw_azure_show(struct azure_work *work);

/* ---- shared by ops.c, read.c and election_names.c ---- */

/* Sends a call of the job. If it cannot be sent, answers the job and returns false. */
bool bw_azure_ask(struct azure_work *work, struct azure_call *call,
                  void (*answer)(void *context, const struct bw_http_answer *answer));
/* Sets a deadline for the job's further calls; 0: the default. */
void bw_azure_set_time(struct azure_work *work, bw_time within_ns);
struct bw_store *bw_azure_store(const struct azure_work *work);

/* These answer the job and free the work. */
void bw_azure_done(struct azure_work *work);
void bw_azure_list(struct azure_work *work);
void bw_azure_answer_names(struct azure_work *work);
void bw_azure_refuse(struct azure_work *work, int error, const char *why);
/* Fails the job with a call's answer; `writes`: the call was a write. */
void bw_azure_fail(struct azure_work *work, const struct bw_http_answer *answer, bool writes);
void bw_azure_fail_with(struct azure_work *work, enum bw_outcome outcome, int error,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
