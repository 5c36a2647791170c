/* The internals of a candidate, shared by lease.c (the adapter) and redlock.c (five stores). */
#ifndef BW_SIM_STORES_LEASE_CANDIDATE_H
#define BW_SIM_STORES_LEASE_CANDIDATE_H

#include "core/base/action.h"
#include "sim/stores/lease.h"

#define LEASE_WAITING 16u /* requests in flight at once; the elector has at most five */
#define LEASE_ASKS    32u /* requests of one step */

struct lease_waiting { /* a request whose reply is awaited */
    uint64_t id;       /* 0: free */
    enum bw_store_op op;
    bw_time sent, until;
    /* Redlock: bits by store. */
    uint32_t yes, no, failed;
    struct bw_sim_store_record records[BW_SIM_STORES_MAX];
};

struct candidate {
    bw_node self;
    const struct bw_sim_lease_host *host;
    struct bw_lease *lease;
    uint32_t drift_ppm;
    char name[12];
    struct lease_waiting waiting[LEASE_WAITING];
    struct bw_sim_store_ask asks[LEASE_ASKS]; /* messages of this step point here */
    uint32_t asks_count;
    struct bw_sim_store_record last; /* as last received */
    bw_node dead;                    /* holder that is known to be dead, and its leadership */
    bw_token dead_token;
    uint64_t lock;     /* redlock: the value of our newest lock */
    uint64_t versions; /* redlock: number of combined replies so far */
    bool leads;
    bool dying; /* the work was told to stop; it is dead at dies_at */
    bw_time dies_at, act_until;
    bw_token token;
    enum bw_loss reason;
    bw_node view;      /* leader according to the record */
    bw_node announced; /* leader that was last announced */
    bw_token view_token;
};

/* Sends a request to every store. */
void lease_put(struct candidate *c, const struct bw_sim_store_ask *ask, struct bw_actions *actions);
/* Handles the reply to an awaited request, which is then no longer awaited. */
void lease_answered(struct candidate *c, struct lease_waiting *waiting, enum bw_outcome outcome,
                    const struct bw_sim_store_record *record, bw_time now,
                    struct bw_actions *actions);

/* redlock.c: a store has replied or failed, or the time is over (store = count). */
void lease_redlock_reply(struct candidate *c, struct lease_waiting *waiting, uint32_t store,
                         const struct bw_sim_store_answer *answer, bw_time now,
                         struct bw_actions *actions);

#endif
