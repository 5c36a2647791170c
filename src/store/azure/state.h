/* The Azure Blob lease store, as its files share it. See store.c. */
#ifndef BW_STORE_AZURE_H
#define BW_STORE_AZURE_H

#include "core/base/rng.h"
#include "store/azure/client.h"
#include "store/azure/text.h"
#include "store/kit/job.h"

#define AZURE_LOST_MAX                                                                             \
    1024u /* leaderships known to be lost: more than elections one process loses at                \
             one time matter to nobody */

struct bw_store {
    struct bw_jobs jobs;
    struct azure_settings settings;
    struct azure_identity identity;
    struct azure_rest rest;
    uv_timer_t poll;   /* for WATCH */
    struct bw_rng rng; /* for pauses */
    unsigned char nonce[16];
    char bound[BW_ELECTION_NAME_MAX + 1]; /* the election of the URL's blob; "": none yet */
    char server[128];                     /* as it calls itself */
    uint64_t lost[AZURE_LOST_MAX];
    uint32_t lost_next;
    unsigned handles; /* that close */
    bool closed;
};

/* What hangs on a job. */
struct azure_work {
    struct bw_job *job;
    struct bw_http_request *call;
    void (*then)(struct azure_work *work); /* behind a reading */
    char blob[AZURE_NAME_MAX + 1], note_blob[AZURE_NAME_MAX + 8];
    bool exists, note_exists;
    struct azure_blob seen; /* the blob */
    char note_etag[AZURE_ETAG_MAX + 1];
    uint64_t lost; /* the request whose leadership its holder gave up for lost; 0: none is known */
    struct bw_store_record kept;  /* as the blob's metadata has it */
    struct bw_store_record shown; /* as readers see it */
    char lease_id[AZURE_LEASE_ID_MAX + 1];
    bool leased; /* the lease may be ours, and nobody counts on it yet: to be given back */
    bool begun;
    bool written; /* something of the request may stand */
    unsigned tries;
    uint64_t until_ms, poll_at_ms; /* on the loop's clock */
};

/* Starts what a job asks for. */
void bw_azure_start(struct azure_work *work);
/* Lets go of what hangs on a job: its call, a lease that nobody counts on. */
void bw_azure_free(struct azure_work *work);
/* WATCH: looks again. */
void bw_azure_look(struct azure_work *work);

/* ---- reading: the blob, its note, and what they mean together ---- */

void bw_azure_read(struct azure_work *work, void (*then)(struct azure_work *work));
/* Is the leadership of the kept record over, although somebody has the lease? */
bool bw_azure_is_lost(const struct azure_work *work);
/* `shown` anew, from the blob, the note and what this process knows. */
void bw_azure_show(struct azure_work *work);

/* ---- for both ---- */

/* Sends a call that belongs to the job. False: it could not be sent, and the job is answered. */
bool bw_azure_ask(struct azure_work *work, struct azure_call *call,
                  void (*answer)(void *context, const struct bw_http_answer *answer));
/* How long the calls of the job may take from now on; 0: as long as any. */
void bw_azure_set_time(struct azure_work *work, bw_time within_ns);
struct bw_store *bw_azure_store(const struct azure_work *work);

/* The answers; each takes the work away with its job. */
void bw_azure_done(struct azure_work *work);
void bw_azure_list(struct azure_work *work);
void bw_azure_refuse(struct azure_work *work, int error, const char *why);
/* As the answer of a call has it; `writes`: the call was to change something. */
void bw_azure_fail(struct azure_work *work, const struct bw_http_answer *answer, bool writes);
void bw_azure_say(struct azure_work *work, enum bw_outcome outcome, int error, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));

#endif
