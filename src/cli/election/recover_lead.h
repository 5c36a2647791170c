/* Leads an election during a recovery. Uses the lease elector itself, driven by a client's loop, so
 * that a recovery excludes other candidates by the same rules as any leader. */
#ifndef BW_CLI_ELECTION_RECOVER_LEAD_H
#define BW_CLI_ELECTION_RECOVER_LEAD_H

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
    bool elected;  /* leads, or led and must stop (see `losing`) */
    bool losing;   /* must stop: work must be dead by schedule.kill */
    bool busy;     /* work runs */
    bool released; /* leadership was released, or had already been lost */
    bool stopped;  /* the elector has stopped */
    bool prepare;
    enum bw_lease_loss reason;
    struct bw_store_record record; /* as granted, with unconfirmed work of earlier holders */
    char previous[BW_CANDIDATE_ID_MAX + 1], previous_containment[BW_CONTAINMENT_MAX + 1];
    bool previous_clean;
    uint64_t settle_id; /* id of the settle request */
    bool settled;
};

/* Starts as candidate look->id. Returns 0, BW_ENOMEM or BW_EINVAL. */
int bw_lead_open(struct bw_lead *lead, struct bw_client *client,
                 const struct bw_lease_terms *terms);
void bw_lead_close(struct bw_lead *lead);

/* Runs the loop until done(context) returns true or until the time `until`. Returns false on
 * timeout. A signal also ends it and sets client->interrupted. */
bool bw_lead_run(struct bw_lead *lead, bw_time until, bool (*done)(void *context), void *context);

/* Records in the store that all earlier work is confirmed dead. Returns false if the store did not
 * confirm it within `within_ns`. */
bool bw_lead_settle(struct bw_lead *lead, bw_time within_ns);

/* Releases leadership and ends the candidacy; the caller's work must be dead. Waits until the store
 * confirms the release or the lease has expired. */
void bw_lead_stop(struct bw_lead *lead);

#endif
