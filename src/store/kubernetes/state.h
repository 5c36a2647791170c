/* The Kubernetes store's own state, shared by its parts: what is known of each election (entry),
 * requests on their way (ops), and the one watch stream that serves all waiting ones (watch).
 *
 * Everything learned from the server, by whichever way, goes through bw_kube_learn;
 * resourceVersions order it, so that a late piece of old news changes nothing. */
#ifndef BW_STORE_KUBERNETES_STORE_H
#define BW_STORE_KUBERNETES_STORE_H

#include "store/kit/job.h"
#include "store/kubernetes/client.h"
#include "store/kubernetes/lease.h"

#define BW_KUBE_ENTRIES_MAX 65536u /* elections one open store may deal with */
#define BW_KUBE_BUCKETS     1024u

struct bw_kube_store;

/* What is known of one election. */
struct bw_kube_entry {
    struct bw_kube_entry *chain;
    struct bw_kube_call *waiting; /* watches that wait for news */
    json_t *lease;                /* as last seen; NULL: never, or gone */
    char uid[64];                 /* of the object last seen */
    bool haunted;                 /* made anew and free, but of the one before nobody let go */
    bool gone;                    /* it was seen, and then deleted: `record` is what it said last */
    uint64_t known;               /* the resourceVersion up to which it is known */
    struct bw_store_record record; /* as kept; version 0: no such Lease was ever seen */
    uint64_t lead_request;         /* of our own leadership */
    bw_token lead_token;           /* 0: we do not lead */
    uint64_t lead_renewed_ms;
    uint32_t synced; /* with the stream of this serial: nothing has been missed since */
    char name[BW_KUBE_NAME_MAX + 1];
    char election[];
};

/* One request on its way. */
struct bw_kube_call {
    struct bw_kube_store *store;
    struct bw_job *job;
    struct bw_kube_entry *entry;
    struct bw_http_request *http;          /* NULL: waits for the stream */
    struct bw_kube_call *next, **previous; /* in the entry's list, while it waits */
    uint64_t floor;                        /* a read cannot show less than this */
    uint32_t tries;
    bool creates;
    bool begun; /* something was asked of the server */
};

struct bw_kube_stream {
    struct bw_http_request *http; /* NULL: not running */
    struct bw_kube_entry *only;   /* what it asks for; NULL: all Leases of the namespace */
    uint64_t since;               /* resourceVersion it has seen everything up to */
    uint64_t expected;            /* one that it should show soon; 0: none */
    uint64_t expected_ms, started_ms, idle_ms;
    uint32_t serial; /* grows when one breaks */
    bool expired;    /* the server has forgotten `since`: read all again */
};

struct bw_kube_store {
    struct bw_jobs jobs;
    struct bw_kube_api api;
    struct bw_kube_stream stream;
    uv_timer_t ticker;
    struct bw_kube_entry *buckets[BW_KUBE_BUCKETS];
    uint32_t entries, watches;        /* watches: calls that wait */
    char lease[BW_KUBE_NAME_MAX + 1]; /* the URL's one Lease; "": named after the election */
    char *only_election;              /* the one it serves */
    char suffix[BW_KUBE_SUFFIX + 1];  /* tells this process' holders from others of the same id */
    uint32_t open_parts;              /* that are to be closed before the memory goes */
};

uint64_t bw_kube_now_ms(void);

/* ---- entry ---- */

/* NULL: no memory, or too many. */
struct bw_kube_entry *bw_kube_entry_get(struct bw_kube_store *store, const char *election);
struct bw_kube_entry *bw_kube_entry_find(struct bw_kube_store *store, const char *name);
void bw_kube_entries_free(struct bw_kube_store *store);

enum bw_kube_source { BW_KUBE_ASKED, BW_KUBE_STREAMED };

/* A Lease as the server shows it; NULL: at this version there is none. Returns 0, or an error of
 * bw_kube_lease_read. Waiting watches that it is news to are answered. */
int bw_kube_learn(struct bw_kube_store *store, struct bw_kube_entry *entry, json_t *lease,
                  uint64_t version, enum bw_kube_source source);
/* The server has forgotten what it has shown before: what it shows now counts. */
void bw_kube_rewind(struct bw_kube_store *store, struct bw_kube_entry *entry, uint64_t version);
/* Is it held by the request's candidate, in this process, under the request's token? */
bool bw_kube_leads(const struct bw_kube_store *store, const struct bw_kube_entry *entry,
                   const struct bw_store_request *request);
/* The record as others see it. */
struct bw_store_record bw_kube_show(const struct bw_kube_entry *entry);
/* ID_SUFFIX */
void bw_kube_identity(const struct bw_kube_store *store, char identity[BW_KUBE_IDENTITY_MAX + 1],
                      const char *candidate);

/* ---- ops ---- */

void bw_kube_start(struct bw_kube_call *call);
/* Reads the Lease, then goes on with the call. */
void bw_kube_read(struct bw_kube_call *call);
/* The job is about to be answered, or nobody waits for it: lets go of all that hangs on it. */
void bw_kube_call_free(struct bw_kube_call *call);

/* ---- watch ---- */

/* The entry has just been read, at this resourceVersion of the whole: wait for news of it. */
void bw_kube_wait(struct bw_kube_call *call, uint64_t version);
bool bw_kube_is_synced(const struct bw_kube_store *store, const struct bw_kube_entry *entry);
/* News came another way: the stream is expected to tell it too. */
void bw_kube_expect(struct bw_kube_store *store, const struct bw_kube_entry *entry);
/* It cannot have seen more than this. */
void bw_kube_stream_rewind(struct bw_kube_store *store, uint64_t version);
void bw_kube_stream_close(struct bw_kube_store *store);

#endif
