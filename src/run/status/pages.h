/* Responses of the status endpoint. Pure functions: the view describes one instant.
 *
 *   /healthz  200 leader, 503 not   readiness, routing, "may I act?"
 *   /livez    200                   liveness: the loop runs
 *   /leader   JSON                  current leader, its token and value
 *   /metrics  Prometheus text format
 *   /events   server-sent events     every change of the state below, and every log event
 *   /         HTML                  the dashboard (detail.h)
 *   /state    JSON                  what the dashboard shows
 *
 * The caller sets `leading` only while the deadline of the lease has not passed. An answer is valid
 * for valid_ns, counted from the moment the client SENT its request. */
#ifndef BW_RUN_STATUS_PAGES_H
#define BW_RUN_STATUS_PAGES_H

#include "core/lease/lease.h"
#include "run/status/detail.h"
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
    bw_time changes_at; /* when the clock alone changes `leading`; NEVER: it does not */
    const char *time;   /* wall-clock time for /events; NULL: unknown */
    bool streams_full;  /* no further stream of /events is accepted */
    const struct bw_tally *tally;
    /* Collects the data of /state. NULL: this path does not exist. */
    const struct bw_status_detail *(*detail)(void *context);
    void *detail_context;
    uint32_t counts; /* number of counters of the store */
    struct bw_store_count count[BW_STORE_COUNTS_MAX];
};

/* How long a new sidecar leader waits before its first positive answer. By then, all positive
 * answers of its predecessor have expired: each was valid for kill_after. The wait allows for our
 * clock being fast and the client's clock being slow by the drift bound. */
bw_time bw_http_first_yes_after(const struct bw_lease_terms *terms);

/* The state that /events reports. */
struct bw_status_state {
    bool leading, healthy, stored;
    bw_token token;
    char leader[BW_CANDIDATE_ID_MAX + 1];
    char value[BW_VALUE_MAX + 1];
};

void bw_http_state(const struct bw_status_view *view, struct bw_status_state *out);
bool bw_http_state_equals(const struct bw_status_state *a, const struct bw_status_state *b);

#define BW_HTTP_ANSWER_MAX 65536u /* enough even if every byte of the longest names is escaped */

/* Writes the response. `status` is the result of bw_http_request_parse(), but not MORE. Returns the
 * length, at most BW_HTTP_ANSWER_MAX. */
size_t bw_http_answer(const struct bw_status_view *view, int status,
                      const struct bw_status_request *request, char out[BW_HTTP_ANSWER_MAX]);
/* True if the answer is the start of a stream: the connection stays open for further events. */
bool bw_http_is_stream(const struct bw_status_view *view, int status,
                       const struct bw_status_request *request);
/* Writes the state as one event of the stream. Returns the length. */
size_t bw_http_state_event(const struct bw_status_view *view, char out[BW_HTTP_ANSWER_MAX]);

#endif
