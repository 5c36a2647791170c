/* Requests to the store: every one gets exactly one answer within the time the elector allowed, a
 * late or missing one being UNKNOWN. Timers of the store itself, or of the kernel's TCP, never
 * count (faults.md 13, 15). */
#include "run/supervisor_state.h"

#include "run/proc.h"

#include <stdio.h>
#include <string.h>

static struct pending *find(struct supervisor *s, uint64_t id)
{
    for (unsigned i = 0; i < PENDING_MAX; i++)
        if (s->pending[i].id == id)
            return &s->pending[i];
    return NULL;
}

static void say_state(struct supervisor *s, const struct bw_store_reply *reply)
{
    bool answered = reply->outcome == BW_OUTCOME_DONE || reply->outcome == BW_OUTCOME_REFUSED;
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    if (answered && s->store_away)
        bw_log_event(&s->log, BW_LOG_INFO, "store-back", fields, "the store answers again");
    else if (!answered && !s->store_away)
        bw_log_event(&s->log, BW_LOG_WARNING, "store-away", fields,
                     "the store does not answer (%s); trying on",
                     reply->why[0] ? reply->why : "no answer in time");
    s->store_away = !answered;
    s->store_seen = s->store_seen || answered;
}

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    struct supervisor *s = context;
    struct pending *pending = find(s, reply->id);
    if (!pending || reply->id == 0)
        return;
    pending->id = 0;
    say_state(s, reply);
    bw_supervisor_answer(s, reply);
}

int bw_supervisor_store_open(struct supervisor *s, char *why)
{
    struct bw_store_options options = {.context = s, .reply = on_reply};
    s->ops = bw_store_find(s->config->store, why);
    if (!s->ops)
        return BW_EINVAL;
    return s->ops->open(&s->store, s->config->store, &s->loop, &options, why);
}

static void forward(struct supervisor *s, const struct bw_store_request *request)
{
    struct bw_store_request sent = *request;
    struct pending *pending = find(s, request->id);
    if (sent.op == BW_STORE_ACQUIRE) {
        memcpy(s->acquired_as, s->containment, sizeof s->acquired_as);
        sent.containment = s->acquired_as;
    }
    if (sent.op == BW_STORE_RENEW)
        sent.settled = s->settled;
    if (s->ops->request(s->store, &sent) != 0 && pending) {
        pending->refused = true;
        pending->until = 0;
    }
}

/* A place in the table; a full one drops its oldest watch or note, whose loss costs only time. */
static struct pending *place(struct supervisor *s)
{
    struct pending *free_one = find(s, 0);
    if (free_one)
        return free_one;
    struct pending *oldest = &s->pending[0];
    for (unsigned i = 1; i < PENDING_MAX; i++)
        if (s->pending[i].until < oldest->until)
            oldest = &s->pending[i];
    s->ops->cancel(s->store, oldest->id);
    return oldest;
}

void bw_supervisor_ask(struct supervisor *s, const struct bw_lease_ask *ask)
{
    *place(s) = (struct pending){.id = ask->request.id,
                                 .op = ask->request.op,
                                 .until = bw_time_add(bw_run_now(), ask->within_ns)};
    if (ask->request.op == BW_STORE_ACQUIRE && s->guardian != GUARDIAN_READY)
        s->held_acquire = ask->request; /* strings are the config's: they stay */
    else
        forward(s, &ask->request);
}

void bw_supervisor_acquire_held(struct supervisor *s)
{
    struct bw_store_request request = s->held_acquire;
    s->held_acquire.id = 0;
    if (request.id != 0 && find(s, request.id))
        forward(s, &request);
}

void bw_supervisor_expire(struct supervisor *s, bw_time now)
{
    static struct bw_store_reply reply; /* large, and used by one loop only */
    for (unsigned i = 0; i < PENDING_MAX; i++) {
        struct pending *pending = &s->pending[i];
        if (pending->id == 0 || now < pending->until)
            continue;
        memset(&reply, 0, sizeof reply);
        reply.id = pending->id;
        reply.op = pending->op;
        reply.outcome = pending->refused ? BW_OUTCOME_UNAVAILABLE : BW_OUTCOME_UNKNOWN;
        reply.error = BW_EIO;
        snprintf(reply.why, sizeof reply.why, "%s",
                 pending->refused ? "the store takes no request" : "no answer in time");
        if (s->held_acquire.id == pending->id) { /* it was never sent */
            s->held_acquire.id = 0;
            reply.outcome = BW_OUTCOME_UNAVAILABLE;
        } else if (!pending->refused) {
            s->ops->cancel(s->store, pending->id);
        }
        bool silence = pending->op == BW_STORE_WATCH && !pending->refused;
        pending->id = 0;
        if (!silence) /* a watch without news is no failure */
            say_state(s, &reply);
        bw_supervisor_answer(s, &reply);
    }
}

bw_time bw_supervisor_requests_deadline(const struct supervisor *s)
{
    bw_time next = BW_TIME_NEVER;
    for (unsigned i = 0; i < PENDING_MAX; i++)
        if (s->pending[i].id != 0)
            next = bw_time_min(next, s->pending[i].until);
    return next;
}

bool bw_supervisor_requests_open(const struct supervisor *s)
{
    for (unsigned i = 0; i < PENDING_MAX; i++)
        if (s->pending[i].id != 0 && s->pending[i].op != BW_STORE_WATCH)
            return true;
    return false;
}
