/* Data of the supervisor for the dashboard of the status endpoint.
 *
 * The history of leaderships is kept from the start, in a block of fixed size, also for the local
 * history (history.c). Everything else is collected only while a page asks: the first request for
 * `/state` allocates the lists, and at most every ASK_NS a request makes the store list the
 * candidates and return the record. A response contains what is known by then; it never waits for
 * the store. */
#include "run/supervisor/state.h"

#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_NS     BW_SEC
#define TIMEOUT_NS (2 * BW_SEC)

struct dashboard_lists {
    struct bw_detail_candidate candidate[BW_DETAIL_CANDIDATES_MAX];
    struct bw_store_member member[BW_DETAIL_MEMBERS_MAX];
};

struct dashboard {
    struct supervisor *supervisor;
    struct bw_history history;
    struct bw_asker_client *client; /* sends the requests for the page; NULL: none yet */
    bw_time asked_at;
    struct bw_status_detail detail;
    struct dashboard_lists *lists; /* NULL: no page has asked yet */
};

void bw_supervisor_dashboard_open(struct supervisor *s)
{
    s->dashboard = calloc(1, sizeof *s->dashboard);
    if (s->dashboard)
        s->dashboard->supervisor = s;
}

/* ---- the history ---- */

static void take_record(struct dashboard *d, const struct bw_store_reply *reply)
{
    bool certain = reply->outcome == BW_OUTCOME_DONE || reply->outcome == BW_OUTCOME_REFUSED;
    bool holds = reply->op == BW_STORE_ACQUIRE || reply->op == BW_STORE_RENEW ||
                 reply->op == BW_STORE_RELEASE || reply->op == BW_STORE_READ ||
                 reply->op == BW_STORE_WATCH;
    if (!certain || !holds)
        return;
    unsigned changes = bw_history_record(&d->history, &reply->record, bw_clock_boot());
    bw_supervisor_history_changed(d->supervisor, &d->history, changes);
}

void bw_supervisor_dashboard_reply(struct supervisor *s, const struct bw_store_reply *reply)
{
    if (s->dashboard)
        take_record(s->dashboard, reply);
}

void bw_supervisor_dashboard_step_down(struct supervisor *s, const char *reason)
{
    if (s->dashboard)
        bw_history_step_down(&s->dashboard->history, s->config->id, reason);
}

void bw_supervisor_dashboard_released(struct supervisor *s)
{
    struct dashboard *d = s->dashboard;
    if (d)
        bw_supervisor_history_changed(
            s, &d->history, bw_history_give_up(&d->history, s->config->id, bw_clock_boot()));
}

/* ---- the candidates ---- */

static const struct bw_detail_candidate *known(const struct bw_detail_candidate *rows,
                                               uint32_t count, const char *id)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(rows[i].id, id) == 0)
            return &rows[i];
    return NULL;
}

static void take_list(struct dashboard *d, const struct bw_store_reply *reply)
{
    struct bw_detail_candidate before[BW_DETAIL_CANDIDATES_MAX];
    uint32_t old = d->detail.candidates;
    memcpy(before, d->lists->candidate, sizeof before);
    d->detail.candidates = 0;
    d->detail.listed_count = reply->count;
    for (uint32_t i = 0; i < reply->count && i < BW_DETAIL_CANDIDATES_MAX; i++) {
        const struct bw_candidate *from = &reply->candidates[i];
        const struct bw_detail_candidate *same = known(before, old, from->id);
        struct bw_detail_candidate *to = &d->lists->candidate[d->detail.candidates++];
        *to = (struct bw_detail_candidate){.priority = from->priority,
                                           .holder = from->holder,
                                           .since = same ? same->since : bw_clock_boot(),
                                           .is_first = same ? same->is_first : !d->detail.listed};
        snprintf(to->id, sizeof to->id, "%s", from->id);
    }
    d->detail.listed = true;
}

static void on_answer(void *context, const struct bw_store_reply *reply)
{
    struct dashboard *d = context;
    if (reply->op == BW_STORE_LIST && reply->outcome == BW_OUTCOME_DONE)
        take_list(d, reply);
    else
        take_record(d, reply);
}

static void ask_store(struct dashboard *d)
{
    static const struct bw_asker_client_hooks hooks = {.answer = on_answer, .display = true};
    struct supervisor *s = d->supervisor;
    struct bw_store_request request = {.op = BW_STORE_READ, .election = s->config->election};
    if (!d->client && bw_asker_client_new(&d->client, s->asker, NULL, &hooks, d) != 0) {
        d->client = NULL;
        return;
    }
    if (bw_asker_client_is_waiting(d->client))
        return; /* a slow store gets no further request */
    bw_asker_client_request(d->client, &request, TIMEOUT_NS);
    request.op = BW_STORE_LIST;
    if (d->detail.can_list)
        bw_asker_client_request(d->client, &request, TIMEOUT_NS);
}

/* ---- the state ---- */

/* Time left of the current leadership. Of another's, the store tells it if it can. */
static void fill_lease(struct dashboard *d, const struct bw_lease_status *status, bw_time now)
{
    const struct supervisor *s = d->supervisor;
    const struct bw_history *history = &d->history;
    d->detail.ttl_ns = status->leading ? s->config->terms.ttl_ns : history->ttl_ns;
    d->detail.left_ns = status->leading ? s->schedule.end - now
                        : history->left_ns == BW_TIME_NEVER
                            ? BW_TIME_NEVER
                            : history->left_ns - (now - history->left_at);
}

static void collect(struct dashboard *d, bw_time now)
{
    struct supervisor *s = d->supervisor;
    const struct bw_store_ops *ops = bw_asker_store_ops(s->asker);
    d->detail.can_list = ops->traits & BW_STORE_LISTS;
    d->detail.is_queue = ops->traits & BW_STORE_QUEUE;
    if (d->asked_at && now - d->asked_at < ASK_NS)
        return;
    d->asked_at = now;
    ask_store(d);
    if (ops->members) {
        d->detail.member_count = ops->members(bw_asker_store(s->asker), s->config->election,
                                              d->lists->member, BW_DETAIL_MEMBERS_MAX);
        d->detail.members = d->detail.member_count < BW_DETAIL_MEMBERS_MAX ? d->detail.member_count
                                                                           : BW_DETAIL_MEMBERS_MAX;
    }
}

const struct bw_status_detail *bw_supervisor_detail(void *dashboard)
{
    struct dashboard *d = dashboard;
    struct supervisor *s = d->supervisor;
    struct bw_lease_status status = {.state = "starting", .leader = "", .value = ""};
    bw_time now = bw_clock_boot();
    if (!d->lists)
        d->lists = calloc(1, sizeof *d->lists);
    if (s->started)
        bw_lease_status(bw_asker_client_lease(s->asked), &status);
    d->detail.version = BW_VERSION;
    d->detail.store = s->config->store_shown;
    d->detail.state = status.state;
    d->detail.is_peer = s->config->promise;
    d->detail.has_command = s->config->argv != NULL;
    d->detail.history = &d->history;
    if (d->lists) {
        d->detail.candidate = d->lists->candidate;
        d->detail.member = d->lists->member;
    }
    if (d->lists && s->asker && s->started && !s->ending)
        collect(d, now);
    fill_lease(d, &status, now);
    return &d->detail;
}

void bw_supervisor_dashboard_close(struct supervisor *s)
{
    if (!s->dashboard)
        return;
    bw_asker_client_free(s->dashboard->client);
    free(s->dashboard->lists);
    free(s->dashboard);
    s->dashboard = NULL;
}
