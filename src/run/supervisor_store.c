/* The supervisor's side of the asker (store/asker.h), which carries the elector's requests to the
 * store and keeps their time: the containment's name goes with an acquire, so that whoever follows
 * us finds our work, and an acquire waits for it. */
#include "run/supervisor_state.h"

#include "run/proc.h"

#include <string.h>

static void on_away(void *context, bool away, const char *why)
{
    struct supervisor *s = context;
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    s->store_away = away;
    if (away)
        bw_log_event(&s->log, BW_LOG_WARNING, "store-away", fields,
                     "the store does not answer (%s); trying on",
                     why[0] ? why : "no answer in time");
    else
        bw_log_event(&s->log, BW_LOG_INFO, "store-back", fields, "the store answers again");
}

static bool before_request(void *context, struct bw_store_request *request)
{
    struct supervisor *s = context;
    if (request->op == BW_STORE_RENEW)
        request->settled = s->settled;
    if (request->op != BW_STORE_ACQUIRE)
        return true;
    if (s->guardian != GUARDIAN_READY)
        return false;
    memcpy(s->acquired_as, s->containment, sizeof s->acquired_as);
    request->containment = s->acquired_as;
    return true;
}

static void on_answer(void *context, const struct bw_store_reply *reply)
{
    struct supervisor *s = context;
    s->store_seen =
        s->store_seen || reply->outcome == BW_OUTCOME_DONE || reply->outcome == BW_OUTCOME_REFUSED;
}

int bw_supervisor_store_open(struct supervisor *s, char *why)
{
    struct bw_asker_options options = {.context = s, .away = on_away};
    return bw_asker_open(&s->asker, s->config->store, &s->loop, &options, why);
}

int bw_supervisor_elector_open(struct supervisor *s)
{
    static const struct bw_asked_hooks hooks = {.act = bw_supervisor_act,
                                                .before = before_request,
                                                .answer = on_answer,
                                                .stepped = bw_supervisor_stepped};
    const struct bw_run_config *c = s->config;
    struct bw_lease_config config = {.election = c->election,
                                     .candidate = c->id,
                                     .value = c->value,
                                     .terms = c->terms,
                                     .retry_ns = c->retry_ns,
                                     .grace_ns = c->grace_ns,
                                     .renew_ns = c->renew_ns,
                                     .priority = (int32_t)c->priority,
                                     .preferred = c->preferred};
    return bw_asked_new(&s->asked, s->asker, &config, &hooks, s);
}

void bw_supervisor_store_close(struct supervisor *s)
{
    bw_asked_free(s->asked);
    s->asked = NULL;
    if (s->asker)
        bw_asker_close(s->asker);
    s->asker = NULL;
}
