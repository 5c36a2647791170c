/* The asker's insides: asker.c (the store, the timer, who is due) and asked.c (one who asks). */
#ifndef BW_STORE_ASKER_STATE_H
#define BW_STORE_ASKER_STATE_H

#include "store/asker/asker.h"

#include <uv.h>

/* Requests of one elector in flight: read or acquire or release, watch, two renewals, and a few
 * notes, of which the oldest make room. */
#define ASKED_PENDING_MAX 8u
/* Reasons of one absence that are told; a store that fails in ever new ways fills no log. */
#define ASKER_REASONS_MAX 4u
/* Steps that wait for the end of another one. */
#define ASKED_STEPS_MAX 8u

struct asked_pending {
    uint64_t id; /* 0: free */
    enum bw_store_op op;
    bw_time until;
    bool refused; /* the store did not take it: UNAVAILABLE, not UNKNOWN */
};

struct asked_step {
    enum bw_lease_event_kind kind;
    bool yes;
    char to[BW_CANDIDATE_ID_MAX + 1];
};

struct bw_asked {
    struct bw_asker *asker;
    struct bw_asked_hooks hooks;
    void *context;
    struct bw_lease *lease; /* NULL: none */
    struct bw_lease_config config;
    uint32_t high;          /* high half of all its request ids, unique in the asker; 0: not yet */
    struct bw_asked *chain; /* same bucket by `high` */
    uint32_t next_low;      /* without an elector: the next id */
    struct asked_pending pending[ASKED_PENDING_MAX];
    struct bw_store_request held; /* held back; id 0: none */
    struct asked_step waiting[ASKED_STEPS_MAX];
    unsigned waiting_count;
    bool stepping;
    bw_time alarm, due;
    uint32_t place; /* in the heap */
};

struct bw_asker {
    uv_loop_t *loop;
    struct bw_asker_options options;
    const struct bw_store_ops *ops;
    struct bw_store *store;
    uv_poll_t timer;
    uv_prepare_t prepare; /* arms the timer before the loop waits */
    int timer_fd;
    unsigned handles;
    bw_time armed_at;
    bool away;
    uint32_t reasons[ASKER_REASONS_MAX], reason_count; /* hashes of those told since it is away */
    struct bw_asked **heap;                            /* by `due`, the earliest first */
    struct bw_asked **buckets;
    uint32_t count, capacity; /* of heap and buckets */
    struct bw_store_reply late;
};

/* asker.c */
void bw_asker_said(struct bw_asker *asker, const struct bw_store_reply *reply);
int bw_asker_add(struct bw_asker *asker, struct bw_asked *asked);
void bw_asker_remove(struct bw_asker *asker, struct bw_asked *asked);
void bw_asker_moved(struct bw_asker *asker, struct bw_asked *asked); /* its `due` changed */
bool bw_asker_high_taken(const struct bw_asker *asker, uint32_t high);
void bw_asker_name(struct bw_asker *asker, struct bw_asked *asked, uint32_t high);

/* asked.c */
void bw_asked_reply(struct bw_asked *asked, const struct bw_store_reply *reply);
void bw_asked_due(struct bw_asked *asked, bw_time now);

#endif
