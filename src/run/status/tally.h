/* What a candidate has seen of its election since it started, for /metrics. Pure: the caller passes
 * the time. */
#ifndef BW_RUN_STATUS_TALLY_H
#define BW_RUN_STATUS_TALLY_H

#include "core/lease/record.h"
#include "os/histogram.h"

struct bw_tally {
    char leader[BW_CANDIDATE_ID_MAX + 1]; /* the last one seen; "": none so far */
    bw_time vacant_since;          /* no leader since then; 0: there is one, or none so far */
    bw_time failed_over_since;     /* our work has not started since then; 0: it has */
    bw_time renewed;               /* when our lease was last confirmed; 0: never */
    uint64_t request;              /* id of the request that waits for its answer; 0: none */
    bw_time asked;                 /* when that request was sent */
    uint64_t leader_changes;       /* another leader than the last one */
    struct bw_histogram gaps;      /* times without a leader */
    struct bw_histogram failovers; /* from the end of the former leader to our work */
    struct bw_histogram answers;   /* of the store to acquire, renew and release */
};

/* `leader` leads from now on; "": no one does. */
void bw_tally_leader(struct bw_tally *tally, const char *leader, bw_time now);
/* This candidate is elected; then its work may start. */
void bw_tally_elected(struct bw_tally *tally, bw_time now);
void bw_tally_started(struct bw_tally *tally, bw_time now);
/* A request was sent to the store; a reply came. */
void bw_tally_asked(struct bw_tally *tally, const struct bw_store_request *request, bw_time now);
void bw_tally_answered(struct bw_tally *tally, const struct bw_store_reply *reply, bw_time now);

#endif
