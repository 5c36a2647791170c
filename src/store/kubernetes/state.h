/* Internal state of the Kubernetes store: the known state of each election (entry), requests in
 * progress (ops), and the one watch stream for all waiting requests (watch).
 *
 * All information from the server, from any source, goes through bw_kube_learn. resourceVersions
 * order it, so a late and older message changes nothing. */
#ifndef BW_STORE_KUBERNETES_STATE_H
#define BW_STORE_KUBERNETES_STATE_H

#include "store/kit/job.h"
#include "store/kubernetes/client.h"
#include "store/kubernetes/lease.h"

#define BW_KUBE_ENTRIES_MAX 65536u /* elections per open store */
#define BW_KUBE_BUCKETS     1024u

struct bw_kube_store;

/* The known state of one election. */
struct bw_kube_entry {
    struct bw_kube_entry *chain;
    struct bw_kube_call *waiting; /* watches that wait for a change */
    json_t *lease;                /* as last seen; NULL: never seen, or deleted */
    char uid[64];                 /* uid of the object seen last */
    bool orphaned;  /* the Lease was deleted while held and created again without a holder */
    bool gone;      /* the Lease was seen and then deleted; `record` is its last content */
    uint64_t known; /* the state is known up to this resourceVersion */
    struct bw_store_record record; /* as stored; version 0: no such Lease was ever seen */
    uint64_t lead_request;         /* request of our own leadership */
    bw_token lead_token;           /* 0: this process does not lead */
    uint64_t lead_renewed_ms;
    uint32_t synced; /* serial of the stream that has delivered all changes since */
    char name[BW_KUBE_NAME_MAX + 1];
    char election[];
};

/* One request in progress. ELECTIONS has `names` and no entry, all others have an entry. */
struct bw_kube_call {
    struct bw_kube_store *store;
    struct bw_job *job;
    struct bw_kube_entry *entry;
    struct bw_election_name *names;
    uint32_t name_count;
    struct bw_http_request *http;          /* NULL: waits for the stream */
    struct bw_kube_call *next, **previous; /* in the entry's list, while it waits */
    /* a read that shows a lower version means that the server lost state */
    uint64_t floor;
    uint32_t tries;
    bool creates;
    bool by_name; /* the read in progress is a GET of the Lease, not a list */
    bool begun;   /* this call has already sent something to the server */
};

struct bw_kube_stream {
    struct bw_http_request *http; /* NULL: not running */
    struct bw_kube_entry *only;   /* the only Lease it watches; NULL: all Leases of the namespace */
    uint64_t since;               /* all changes up to this resourceVersion were received */
    uint64_t expected;            /* a version that it should report soon; 0: none */
    uint64_t expected_ms, started_ms, idle_ms;
    uint32_t serial; /* incremented when a stream breaks */
    bool expired;    /* the server no longer has `since`: read everything again */
};

struct bw_kube_store {
    struct bw_jobs jobs;
    struct bw_kube_api api;
    struct bw_kube_stream stream;
    uv_timer_t ticker;
    struct bw_kube_entry *buckets[BW_KUBE_BUCKETS];
    uint32_t entries, watches; /* watches: calls that wait */
    /* The Role lacks these verbs, as a 403 has shown. Without `list` the store reads Leases by
     * name. Without either of them, waiting requests poll. */
    bool no_list, no_watch, reported_polling;
    uint64_t watch_again_ms, watch_again_in_ms; /* no_watch: when to try again, and the interval */
    /* the Lease that the URL names; "": named after the election */
    char lease[BW_KUBE_NAME_MAX + 1];
    char *only_election; /* the election that this Lease serves */
    /* distinguishes holders of this process from others with the same id */
    char suffix[BW_KUBE_SUFFIX + 1];
    uint32_t open_parts; /* parts to close before the memory is freed */
};

uint64_t bw_kube_now_ms(void);

/* ---- entry ---- */

/* Returns NULL if memory is exhausted or there are too many elections. */
struct bw_kube_entry *bw_kube_entry_get(struct bw_kube_store *store, const char *election);
struct bw_kube_entry *bw_kube_entry_find(struct bw_kube_store *store, const char *name);
void bw_kube_entries_free(struct bw_kube_store *store);

enum bw_kube_source { BW_KUBE_ASKED, BW_KUBE_STREAMED };

/* Takes a Lease as the server shows it; NULL: no Lease exists at this version. Returns 0, or an
 * error of bw_kube_lease_read. Answers the watches for which this is a change. */
int bw_kube_learn(struct bw_kube_store *store, struct bw_kube_entry *entry, json_t *lease,
                  uint64_t version, enum bw_kube_source source);
/* The server lost state that it had shown: its current state counts from now on. */
void bw_kube_rewind(struct bw_kube_store *store, struct bw_kube_entry *entry, uint64_t version);
/* True if the request's candidate holds the Lease, in this process, with the request's token. */
bool bw_kube_leads(const struct bw_kube_store *store, const struct bw_kube_entry *entry,
                   const struct bw_store_request *request);
/* The record as readers see it. */
struct bw_store_record bw_kube_show(const struct bw_kube_entry *entry);
/* Writes ID_SUFFIX. */
void bw_kube_identity(const struct bw_kube_store *store, char identity[BW_KUBE_IDENTITY_MAX + 1],
                      const char *candidate);

/* ---- ops ---- */

void bw_kube_start(struct bw_kube_call *call);
/* Reads the Lease, then continues the call. */
void bw_kube_read(struct bw_kube_call *call);
/* Frees the call and everything it uses. Called before its job is answered, or when the job was
 * forgotten. */
void bw_kube_call_free(struct bw_kube_call *call);

/* ---- election_names ---- */

void bw_kube_elections(struct bw_kube_store *store, struct bw_job *job);

/* ---- watch ---- */

/* Lets a WATCH wait for a change after `version`, the resourceVersion of the collection at which
 * its entry was just read. */
void bw_kube_wait(struct bw_kube_call *call, uint64_t version);
/* The Role lacks verbs that a stream needs: ends the stream, reports that once, and polls for the
 * requests that wait. */
void bw_kube_poll_instead(struct bw_kube_store *store);
bool bw_kube_is_synced(const struct bw_kube_store *store, const struct bw_kube_entry *entry);
/* Notes a change that was learned from another source, which the stream must report soon. */
void bw_kube_expect(struct bw_kube_store *store, const struct bw_kube_entry *entry);
/* Resets the position of the stream after the server lost state: it is now at this version. */
void bw_kube_stream_rewind(struct bw_kube_store *store, uint64_t version);
void bw_kube_stream_close(struct bw_kube_store *store);

#endif
