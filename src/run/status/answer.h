/* What the status endpoint says: requests in, bytes out. Pure; the view is taken at one instant.
 *
 *   /healthz  200 leader, 503 not       readiness, routing, "may I?"
 *   /livez    200                       liveness: the loop turns
 *   /leader   JSON                      who leads, with which token and value
 *   /metrics  Prometheus text format
 *
 * `leading` is decided from the deadline by whoever makes the view. An answer is good for valid_ns
 * counted from when the asker SENT its request: on the way it only gets older. */
#ifndef BW_RUN_HTTP_ANSWER_H
#define BW_RUN_HTTP_ANSWER_H

#include "core/lease/lease.h"
#include "run/status/request.h"

#define BW_HTTP_LOSSES BW_LEASE_LOSSES

struct bw_http_view {
    const char *election, *id;
    bool leading;
    bw_time valid_ns;                /* leading: how long this answer is good for; else 0 */
    const char *leader;              /* as last seen; "": none known */
    const char *value;               /* of that leader */
    bw_token token;                  /* of that leadership */
    bool healthy, stored;            /* fit to lead; the store answers */
    uint64_t elections;              /* times this candidate was elected */
    uint64_t losses[BW_HTTP_LOSSES]; /* by reason */
    uint64_t splits;                 /* two leaders seen */
    uint32_t counts;                 /* what the store counts */
    struct bw_store_count count[BW_STORE_COUNTS_MAX];
};

/* How long a new sidecar leader waits before its first yes, so that its predecessor's, each good
 * for kill_after, are over: our clock may be fast and the asker's slow by the drift bound. */
bw_time bw_http_yes_after(const struct bw_lease_terms *terms);

#define BW_HTTP_ANSWER_MAX 32768u /* every byte of the longest names escaped fits */

/* `status`: what bw_http_request_parse() returned, not MORE. Returns the length; never above
 * BW_HTTP_ANSWER_MAX. */
size_t bw_http_answer(const struct bw_http_view *view, int status,
                      const struct bw_http_request *request, char out[BW_HTTP_ANSWER_MAX]);

#endif
