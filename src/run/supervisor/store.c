/* Connects the supervisor with the asker (store/asker/asker.h), which sends the elector's requests
 * to the store and times them. An acquire carries the name of the containment, so that a successor
 * finds our work. It therefore waits until the containment exists. */
#include "run/supervisor/state.h"

#include "core/base/error.h"
#include "os/clock.h"
#include "os/journal.h"
#include "run/contain/proc.h"

#include <stdio.h>
#include <string.h>

static void print_unusable(const struct supervisor *s, const char *why)
{
    bw_print_line(BW_PRIORITY_ERROR, "%s: %s%s", s->config->path, s->config->store_error_prefix,
                  why);
}

/* A store that holds other data than an election, or sends malformed answers, does answer. */
static bool store_answers(int error)
{
    return error == BW_EDAMAGED || error == BW_EMALFORMED;
}

static const char *down_text(const struct supervisor *s, int error)
{
    return store_answers(error) ? "the store answers, but cannot be used"
                                : s->config->store_down_text;
}

static void on_availability(void *context, bool away, int error, const char *why)
{
    struct supervisor *s = context;
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    s->store_down = away;
    if (away)
        snprintf(s->store_why, sizeof s->store_why, "%s", why[0] ? why : "no answer in time");
    if (away && !s->store_seen && bw_run_store_refuses(error)) {
        s->store_refuses = true; /* the run ends after this step */
        print_unusable(s, why);
    } else if (away) {
        /* Every peer waits for others when it starts; that alone is not a fault. */
        bool joining = s->config->promise && !s->store_seen && !store_answers(error);
        bw_log_event(&s->log, joining ? BW_LOG_INFO : BW_LOG_WARNING,
                     joining ? "joining" : "store-unavailable", fields, "%s (%s)%s",
                     down_text(s, error), s->store_why,
                     s->config->no_wait && !s->elected_once ? "" : "; retrying");
    } else {
        bw_log_event(&s->log, BW_LOG_INFO, "store-available", fields, "%s",
                     s->config->store_up_text);
    }
}

static void on_event(void *context, const char *event, const char *line)
{
    struct supervisor *s = context;
    bool fine = strcmp(event, "keys-read") == 0 || strcmp(event, "resumed") == 0 ||
                strcmp(event, "polling") == 0;
    bw_log_event(&s->log, fine ? BW_LOG_INFO : BW_LOG_ERROR, event, NULL, "%s", line);
    bool ours = strcmp(event, "split-brain") == 0;
    s->splits += ours || strcmp(event, "split-seen") == 0;
    if (ours)
        bw_supervisor_split(s, line);
}

/* The store has ended permanently, for example because its data is no longer what this process was
 * started with. The work ends first. */
static void on_ended(void *context, int error, const char *line)
{
    struct supervisor *s = context;
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    int code = error == BW_EIO        ? BW_RUN_EXIT_DISK
               : error == BW_EDAMAGED ? BW_RUN_EXIT_DATA
               : error == BW_ENOMEM   ? 71
                                      : 64;
    bw_log_event(&s->log, BW_LOG_ERROR, "fatal-error", fields, "%s", line);
    bw_supervisor_end(s, code);
}

static void on_death_notices(void *context)
{
    bw_supervisor_death_notices_changed(context);
}

static bool before_request(void *context, struct bw_store_request *request)
{
    struct supervisor *s = context;
    if (request->op == BW_STORE_RENEW || request->op == BW_STORE_RELEASE)
        request->settled = s->settled && request->token == s->settled_token;
    if (request->op == BW_STORE_RELEASE && s->finished)
        request->value = BW_STORE_VALUE_DONE;
    if (request->op == BW_STORE_ACQUIRE)
        s->settled = false; /* of an earlier leadership; this one may end before it is reported */
    if (request->op == BW_STORE_ACQUIRE && s->guardian != GUARDIAN_READY)
        return false;
    bw_tally_asked(&s->tally, request, bw_clock_boot());
    if (request->op != BW_STORE_ACQUIRE)
        return true;
    memcpy(s->acquired_as, s->containment, sizeof s->acquired_as);
    request->containment = s->acquired_as;
    /* a sidecar's guardian knows nothing about the work */
    request->guarded = s->config->argv != NULL;
    return true;
}

static void on_answer(void *context, const struct bw_store_reply *reply)
{
    struct supervisor *s = context;
    bw_tally_answered(&s->tally, reply, bw_clock_boot());
    s->store_seen =
        s->store_seen || reply->outcome == BW_OUTCOME_DONE || reply->outcome == BW_OUTCOME_REFUSED;
    bw_supervisor_dashboard_reply(s, reply);
}

static int make_elector(struct supervisor *s)
{
    static const struct bw_asker_client_hooks hooks = {.act = bw_supervisor_act,
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
    return bw_asker_client_new(&s->asked, s->asker, &config, &hooks, s);
}

/* Checks the option to compare the clocks of two machines, which is off by default, and logs its
 * requirements. */
static int check_clocks(struct supervisor *s)
{
    char bound[24];
    bw_time uncertainty = s->config->terms.uncertainty_ns;
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    if (uncertainty == 0)
        return BW_RUN_GO;
    if (!(bw_asker_store_ops(s->asker)->traits & BW_STORE_WALL)) {
        bw_print_line(BW_PRIORITY_ERROR,
                      "%s: cannot use --clock-uncertainty: this store does not keep the end of a "
                      "lease as wall-clock time",
                      s->config->path);
        return 64;
    }
    bw_log_event(&s->log, BW_LOG_INFO, "clock-uncertainty", fields,
                 "comparing wall clocks: at most one candidate leads only while every clock is "
                 "within its declared uncertainty (here %s)",
                 bw_log_span(bound, uncertainty));
    return BW_RUN_GO;
}

/* Without tokens, no storage can reject late writes of a paused leader. Logged at every start. */
static void log_no_token(struct supervisor *s)
{
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    if (!(bw_asker_store_ops(s->asker)->traits & BW_STORE_TOKEN))
        bw_log_event(&s->log, BW_LOG_WARNING, "no-token", fields,
                     "this store gives no token: BELLWETHER_TOKEN is not set, guards reject all "
                     "writes, and no storage can reject late writes of a paused leader");
}

/* Logs options that have no effect on this store. */
static void log_no_effect(struct supervisor *s)
{
    unsigned traits = bw_asker_store_ops(s->asker)->traits;
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    if (s->config->priority != 0 && !(traits & BW_STORE_LISTS))
        bw_log_event(&s->log, BW_LOG_WARNING, "no-effect", fields,
                     "--priority has no effect: this store does not list candidates");
    if (s->config->preferred && !(traits & BW_STORE_NOTES))
        bw_log_event(&s->log, BW_LOG_WARNING, "no-effect", fields,
                     "--preferred has no effect: this store cannot carry a request to the leader");
}

/* Logs at every start what the chosen election algorithm guarantees in a partition. */
static void log_promise(struct supervisor *s)
{
    const struct bw_store_ops *ops = bw_asker_store_ops(s->asker);
    char about[BW_WHY_MAX + 1] = "";
    if (s->config->promise && ops->about && ops->about(bw_asker_store(s->asker), about))
        bw_log_event(&s->log, BW_LOG_INFO, "promise", NULL, "%s", about);
}

bool bw_run_store_refuses(int error)
{
    return error == BW_EDENIED || error == BW_EUNSUPPORTED || error == BW_EVERSION;
}

bool bw_run_store_error_is_permanent(int error)
{
    return error == BW_EINVAL || error == BW_EDAMAGED || error == BW_EVERSION ||
           error == BW_EDENIED || error == BW_EUNSUPPORTED;
}

static int cannot_open(struct supervisor *s, int error, const char *why)
{
    if (bw_run_store_error_is_permanent(error)) {
        print_unusable(s, why);
        return 64;
    }
    if (!s->store_down)
        on_availability(s, true, error, why);
    s->open_at = bw_time_add(bw_clock_boot(), s->config->retry_ns);
    return s->config->no_wait ? bw_supervisor_give_up(s, false) : BW_RUN_GO;
}

int bw_supervisor_store_open(struct supervisor *s)
{
    char why[BW_WHY_MAX + 1] = "";
    struct bw_asker_options options = {.context = s,
                                       .away = on_availability,
                                       .event = on_event,
                                       .ended = on_ended,
                                       .notices_changed = on_death_notices};
    int error = bw_asker_open(&s->asker, s->config->store, &s->loop, &options, why);
    if (error)
        return cannot_open(s, error, why);
    s->open_at = BW_TIME_NEVER;
    if (s->store_down)
        on_availability(s, false, 0, "");
    log_promise(s);
    log_no_token(s);
    log_no_effect(s);
    int code = check_clocks(s);
    if (code == BW_RUN_GO && make_elector(s) != 0) {
        bw_log_event(&s->log, BW_LOG_ERROR, "start-failed", NULL, "cannot start: out of memory");
        code = 71;
    }
    return code;
}

void bw_supervisor_store_tick(struct supervisor *s, bw_time now)
{
    if (now < s->open_at || s->ending)
        return;
    int code = bw_supervisor_store_open(s);
    if (code != BW_RUN_GO)
        bw_supervisor_end(s, code);
    else
        bw_supervisor_begin(s);
}

void bw_supervisor_store_close(struct supervisor *s)
{
    bw_supervisor_dashboard_close(s);
    bw_asker_client_free(s->asked);
    s->asked = NULL;
    if (s->asker)
        bw_asker_close(s->asker);
    s->asker = NULL;
}
