/* What the dashboard of one candidate shows: the page at `/`, and its data at `/state` as JSON.
 * Everything is read-only. The data is collected only while a page asks for it, except for the
 * history of leaderships. Pure functions. */
#ifndef BW_RUN_STATUS_DETAIL_H
#define BW_RUN_STATUS_DETAIL_H

#include "run/status/history.h"
#include "run/status/request.h"
#include "store/store.h"

#define BW_DETAIL_CANDIDATES_MAX 64u
#define BW_DETAIL_MEMBERS_MAX    64u

struct bw_detail_candidate {
    char id[BW_CANDIDATE_ID_MAX + 1];
    int32_t priority;
    bool holder;
    bw_time since; /* when this candidate first saw it */
    bool is_first; /* it was there at the first look */
};

struct bw_status_detail {
    const char *version, *store; /* the store without secrets */
    const char *state;           /* of the elector: "waiting", "leading" and so on */
    bool is_peer, has_command;
    bw_time left_ns, ttl_ns; /* of the current leadership; left NEVER: unknown */
    const struct bw_history *history;
    bool listed;           /* the store lists candidates, and has answered */
    bool can_list;         /* the store lists candidates */
    bool is_queue;         /* they are elected in order */
    uint32_t listed_count; /* all candidates; more than `candidates` means that rows are missing */
    uint32_t candidates;
    const struct bw_detail_candidate *candidate;
    uint32_t member_count; /* all members of a peer's cluster */
    uint32_t members;
    const struct bw_store_member *member;
};

struct bw_page;
struct bw_status_view;

/* Writes the JSON of `/state`. */
void bw_page_put_detail(struct bw_page *page, const struct bw_status_view *view,
                        const struct bw_status_detail *detail);
/* Writes the response with the page, or 304. Returns its length, at most `size`. */
size_t bw_http_dashboard(const struct bw_status_request *request, char *out, size_t size);

#endif
