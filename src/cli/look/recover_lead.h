/* Leading an election for the time of a recovery: the lease elector itself, driven on a client's
 * loop, so that a recovery excludes every candidate by the same rules as any leader does. */
#ifndef BW_CLI_RECOVER_LEAD_H
#define BW_CLI_RECOVER_LEAD_H

#include "cli/store/client.h"
#include "core/lease/lease.h"

#define BW_LEAD_ASKS_MAX 16u

struct bw_lead_ask {
    uint64_t id; /* 0: free */
    enum bw_store_op op;
    bw_time until;
};

struct bw_lead {
    struct bw_client *client;
    struct bw_lease *lease;
    struct bw_lead_ask asks[BW_LEAD_ASKS_MAX];
    struct bw_lease_schedule schedule;
    bw_token token;
    bw_time ttl_ns;
    bool elected;  /* leads, or led and must stop: see `losing` */
    bool losing;   /* told to stop: work must be dead by schedule.kill */
    bool busy;     /* work runs */
    bool released; /* the leadership was given back, or was no longer ours */
    bool stopped;  /* nothing more will come */
    bool prepare;
    enum bw_lease_loss reason;
    struct bw_store_record record; /* as granted: owed work */
    char previous[BW_CANDIDATE_ID_MAX + 1], previous_containment[BW_CONTAINMENT_MAX + 1];
    bool previous_clean;
    uint64_t settle_id; /* of the request below */
    bool settled;
};

/* Begins to contend as look->id. 0, BW_ENOMEM or BW_EINVAL. */
int bw_lead_open(struct bw_lead *lead, struct bw_client *client,
                 const struct bw_lease_terms *terms);
void bw_lead_close(struct bw_lead *lead);

/* Runs the loop until done(context) or `until`. False: out of time. A signal ends it as well:
 * client->interrupted. */
bool bw_lead_run(struct bw_lead *lead, bw_time until, bool (*done)(void *context), void *context);

/* Nothing is owed any more: the record forgets it. False: not answered within that time. */
bool bw_lead_settle(struct bw_lead *lead, bw_time within_ns);

/* The work is dead: let go of the leadership and contend no more. Waits until it is answered, or
 * until the lease is over anyway. */
void bw_lead_stop(struct bw_lead *lead);

#endif
