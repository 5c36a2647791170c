/* Internals of the asker: asker.c (store, timer, heap of due clients) and client.c (one client). */
#ifndef BW_STORE_ASKER_STATE_H
#define BW_STORE_ASKER_STATE_H

#include "store/asker/asker.h"

#include <uv.h>

/* Requests of one elector in flight: a read, acquire or release; a watch; two renewals; and a few
 * notes. If there are too many, a note or the oldest request is cancelled. */
#define ASKER_PENDING_MAX 8u
/* Maximum number of causes reported during one outage, so that a store that keeps failing in new
 * ways does not fill the log. */
#define ASKER_REASONS_MAX 4u
/* Maximum number of steps that hooks may queue while the elector makes another step. */
#define ASKER_STEPS_MAX 8u

struct asker_pending {
    uint64_t id; /* 0: free */
    enum bw_store_op op;
    bw_time until;
    bool refused; /* the store did not accept it: the outcome is UNAVAILABLE, not UNKNOWN */
};

struct asker_step {
    enum bw_lease_event_kind kind;
    bool yes;
    char to[BW_CANDIDATE_ID_MAX + 1];
};

struct bw_asker_client {
    struct bw_asker *asker;
    struct bw_asker_client_hooks hooks;
    void *context;
    struct bw_lease *lease; /* NULL: the client has no elector */
    struct bw_lease_config config;
    uint32_t high; /* high half of its request ids, unique in the asker; 0: none yet */
    struct bw_asker_client *chain; /* next client in the same hash bucket */
    uint32_t next_low;             /* without an elector: low half of the last id */
    struct asker_pending pending[ASKER_PENDING_MAX];
    struct bw_store_request held; /* request held back by the `before` hook; id 0: none */
    struct asker_step waiting[ASKER_STEPS_MAX];
    unsigned waiting_count;
    bool stepping;
    bw_time alarm, due;
    uint32_t place; /* index in the heap */
};

struct bw_asker {
    uv_loop_t *loop;
    struct bw_asker_options options;
    const struct bw_store_ops *ops;
    struct bw_store *store;
    uv_poll_t timer;
    uv_prepare_t prepare; /* arms the timer before the loop blocks */
    int timer_fd;
    unsigned handles;
    bw_time armed_at;
    bool away;
    /* hashes of the causes reported in this outage */
    uint32_t reasons[ASKER_REASONS_MAX], reason_count;
    struct bw_asker_client **heap; /* binary heap by `due`, earliest first */
    struct bw_asker_client **buckets;
    uint32_t count, capacity; /* capacity: of heap and buckets */
    struct bw_store_reply late;
};

/* asker.c */
void bw_asker_replied(struct bw_asker *asker, const struct bw_store_reply *reply);
int bw_asker_add(struct bw_asker *asker, struct bw_asker_client *asked);
void bw_asker_remove(struct bw_asker *asker, struct bw_asker_client *asked);
void bw_asker_moved(struct bw_asker *asker, struct bw_asker_client *asked); /* `due` changed */
bool bw_asker_high_taken(const struct bw_asker *asker, uint32_t high);
void bw_asker_set_high(struct bw_asker *asker, struct bw_asker_client *asked, uint32_t high);

/* client.c */
void bw_asker_client_reply(struct bw_asker_client *asked, const struct bw_store_reply *reply);
void bw_asker_client_due(struct bw_asker_client *asked, bw_time now);

#endif
