/* The supervisor's side of the asker (store/asker/asker.h), which carries the elector's requests to
 * the store and keeps their time: the containment's name goes with an acquire, so that whoever
 * follows us finds our work, and an acquire waits for it. */
#include "run/supervisor/state.h"

#include "core/base/error.h"
#include "run/contain/proc.h"

#include <stdio.h>
#include <string.h>

static void say_unusable(const struct supervisor *s, const char *why)
{
    fprintf(stderr, "%s: %s%s\n", s->config->path, s->config->store_said, why);
}

/* A store that holds something else than an election, or answers what nobody can read, does answer.
 */
static const char *away_said(const struct supervisor *s, int error)
{
    bool answers = error == BW_EDAMAGED || error == BW_EMALFORMED;
    return answers ? "the store answers, but cannot be used" : s->config->store_away_said;
}

static void on_away(void *context, bool away, int error, const char *why)
{
    struct supervisor *s = context;
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    s->store_away = away;
    if (away && !s->store_seen && bw_run_store_refuses(error)) {
        s->store_refuses = true; /* ended when the step is done */
        say_unusable(s, why);
    } else if (away)
        bw_log_event(&s->log, BW_LOG_WARNING, "store-away", fields, "%s (%s)%s",
                     away_said(s, error), why[0] ? why : "no answer in time",
                     s->config->no_wait && !s->elected_once ? "" : "; trying on");
    else
        bw_log_event(&s->log, BW_LOG_INFO, "store-back", fields, "%s", s->config->store_back_said);
}

static void on_event(void *context, const char *event, const char *line)
{
    struct supervisor *s = context;
    bool fine = strcmp(event, "keys-read") == 0 || strcmp(event, "resumed") == 0;
    bw_log_event(&s->log, fine ? BW_LOG_INFO : BW_LOG_ERROR, event, NULL, "%s", line);
    bool ours = strcmp(event, "split-brain") == 0;
    s->splits += ours || strcmp(event, "split-seen") == 0;
    if (ours)
        bw_supervisor_split(s, line);
}

/* For good: what it was is not what we were started for any more. The work ends first. */
static void on_ended(void *context, int error, const char *line)
{
    struct supervisor *s = context;
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    int code = error == BW_EIO        ? BW_RUN_EXIT_DISK
               : error == BW_EDAMAGED ? BW_RUN_EXIT_DATA
               : error == BW_ENOMEM   ? 71
                                      : 64;
    bw_log_event(&s->log, BW_LOG_ERROR, "cannot-go-on", fields, "%s", line);
    bw_supervisor_end(s, code);
}

static void on_words(void *context)
{
    bw_supervisor_words_changed(context);
}

static bool before_request(void *context, struct bw_store_request *request)
{
    struct supervisor *s = context;
    if (request->op == BW_STORE_RENEW)
        request->settled = s->settled;
    if (request->op == BW_STORE_RELEASE && s->finished)
        request->value = BW_STORE_VALUE_DONE;
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

static int make_elector(struct supervisor *s)
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

/* Comparing clocks of two machines is opt-in, and who opts in is told what that means. */
static int say_clocks(struct supervisor *s)
{
    char bound[24];
    bw_time uncertainty = s->config->terms.uncertainty_ns;
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    if (uncertainty == 0)
        return BW_RUN_GO;
    if (!(bw_asker_store_ops(s->asker)->traits & BW_STORE_WALL)) {
        fprintf(stderr,
                "%s: --clock-uncertainty: this store does not keep a lease's end by wall clock\n",
                s->config->path);
        return 64;
    }
    bw_log_event(&s->log, BW_LOG_INFO, "clock-uncertainty", fields,
                 "wall clocks are compared: at most one leads as long as every candidate's is "
                 "right to within what it declared, here %s",
                 bw_log_span(bound, uncertainty));
    return BW_RUN_GO;
}

/* Without a token nothing can reject what a leader that paused writes late: said at every start. */
static void say_no_token(struct supervisor *s)
{
    struct bw_log_field fields[] = {{"store", s->config->store_shown, 0}, BW_LOG_END};
    if (!(bw_asker_store_ops(s->asker)->traits & BW_STORE_TOKEN))
        bw_log_event(&s->log, BW_LOG_WARNING, "no-token", fields,
                     "this store gives no token: BELLWETHER_TOKEN is not set, guards refuse, and "
                     "what a leader that paused writes late is rejected by nobody");
}

/* An option without effect is reported at start, not ignored in silence. */
static void say_no_effect(struct supervisor *s)
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

/* Who chose how peers elect is told at every start what that is worth in a partition. */
static void say_promise(struct supervisor *s)
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

bool bw_run_store_error_lasts(int error)
{
    return error == BW_EINVAL || error == BW_EDAMAGED || error == BW_EVERSION ||
           error == BW_EDENIED || error == BW_EUNSUPPORTED;
}

static int cannot_open(struct supervisor *s, int error, const char *why)
{
    if (bw_run_store_error_lasts(error)) {
        say_unusable(s, why);
        return 64;
    }
    if (!s->store_away)
        on_away(s, true, error, why);
    s->open_at = bw_time_add(bw_run_now(), s->config->retry_ns);
    return s->config->no_wait ? bw_supervisor_give_up(s, false) : BW_RUN_GO;
}

int bw_supervisor_store_open(struct supervisor *s)
{
    char why[BW_WHY_MAX + 1] = "";
    struct bw_asker_options options = {
        .context = s, .away = on_away, .event = on_event, .ended = on_ended, .words = on_words};
    int error = bw_asker_open(&s->asker, s->config->store, &s->loop, &options, why);
    if (error)
        return cannot_open(s, error, why);
    s->open_at = BW_TIME_NEVER;
    if (s->store_away)
        on_away(s, false, 0, "");
    say_promise(s);
    say_no_token(s);
    say_no_effect(s);
    int code = say_clocks(s);
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
    bw_asked_free(s->asked);
    s->asked = NULL;
    if (s->asker)
        bw_asker_close(s->asker);
    s->asker = NULL;
}
