/* Responses of the status endpoint. Pure functions: the view describes one instant.
 *
 *   /healthz  200 leader, 503 not   readiness, routing, "may I act?"
 *   /livez    200                   liveness: the loop runs
 *   /leader   JSON                  current leader, its token and value
 *   /metrics  Prometheus text format
 *
 * The caller sets `leading` only while the deadline of the lease has not passed. An answer is valid
 * for valid_ns, counted from the moment the client SENT its request. */
#ifndef BW_RUN_STATUS_PAGES_H
#define BW_RUN_STATUS_PAGES_H

#include "core/lease/lease.h"
#include "run/status/request.h"
#include "run/status/tally.h"
#include "store/store.h"

#define BW_HTTP_LOSSES BW_LEASE_LOSSES

struct bw_status_view {
    const char *election, *id;
    bool leading;
    bw_time valid_ns;                /* leading: how long this answer is valid; else 0 */
    const char *leader;              /* as last seen; "": unknown */
    const char *value;               /* value of that leader */
    bw_token token;                  /* token of that leadership */
    bool healthy, stored;            /* healthy enough to lead; the store answers */
    bool drained;                    /* by `bellwether drain` */
    uint64_t elections;              /* number of times this candidate was elected */
    uint64_t losses[BW_HTTP_LOSSES]; /* by reason */
    uint64_t splits;                 /* number of times two leaders were seen */
    bw_time now;                     /* the time of this view, for the tally */
    const struct bw_tally *tally;
    uint32_t counts; /* number of counters of the store */
    struct bw_store_count count[BW_STORE_COUNTS_MAX];
};

/* How long a new sidecar leader waits before its first positive answer. By then, all positive
 * answers of its predecessor have expired: each was valid for kill_after. The wait allows for our
 * clock being fast and the client's clock being slow by the drift bound. */
bw_time bw_http_first_yes_after(const struct bw_lease_terms *terms);

#define BW_HTTP_ANSWER_MAX 65536u /* enough even if every byte of the longest names is escaped */

/* Writes the response. `status` is the result of bw_http_request_parse(), but not MORE. Returns the
 * length, at most BW_HTTP_ANSWER_MAX. */
size_t bw_http_answer(const struct bw_status_view *view, int status,
                      const struct bw_status_request *request, char out[BW_HTTP_ANSWER_MAX]);

#endif
