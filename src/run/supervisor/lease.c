/* The elector's actions, carried out in the order they come. A step that is wanted meanwhile (the
 * work is already dead when it is told to end) is made by the asker after the actions. */
#include "run/supervisor/state.h"

#include "run/contain/proc.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static void log_token(struct supervisor *s, enum bw_log_level level, const char *event,
                      bw_token token, const char *sentence)
{
    bw_token shown = bw_run_token(token);
    struct bw_log_field fields[] = {{"token", NULL, shown}, BW_LOG_END};
    bw_log_event(&s->log, level, event, fields, "%s (token %llu)", sentence,
                 (unsigned long long)shown);
}

static void start_work(struct supervisor *s)
{
    s->settled = true;
    if (!s->config->argv)
        return; /* a sidecar: the guardian stays armed, and nothing of ours runs */
    bw_supervisor_tell(s, (struct bw_wire){.kind = BW_WIRE_START, .token = s->token}, -1);
}

/* Not ours to start: something of an earlier holder lives and does not die, and somebody with more
 * rights may succeed; or the record names another containment than the work would have. The lead is
 * given back; the record still says what is owed. */
void bw_supervisor_cannot_clear(struct supervisor *s)
{
    s->clearing_now = false;
    bw_supervisor_step(s, BW_LEASE_UNCLEARED, false);
}

void bw_supervisor_clear(struct supervisor *s, bw_time now)
{
    if (!s->clearing_now)
        return;
    if (strcmp(s->acquired_as, s->containment) != 0) { /* the guardian was replaced meanwhile */
        bw_supervisor_cannot_clear(s);
        return;
    }
    if (s->fencing)
        return;
    switch (bw_clearing_step(&s->clearing, now)) {
    case BW_CLEARING_BUSY:
        break;
    case BW_CLEARING_DONE:
        if (!bw_supervisor_standby_over(s))
            break;
        s->clearing_now = false;
        start_work(s);
        break;
    case BW_CLEARING_FENCE:
        bw_supervisor_fence(s);
        break;
    case BW_CLEARING_FAILED:
        bw_supervisor_cannot_clear(s);
        break;
    }
}

static void on_elected(struct supervisor *s, const struct bw_lease_action *action)
{
    char until[24];
    bw_time now = bw_run_now();
    s->elections++;
    s->token = s->armed_token = action->token ? action->token : BW_RUN_NO_TOKEN | s->elections;
    s->schedule = action->schedule;
    s->strike_at = BW_TIME_NEVER;
    s->settled = s->told_to_end = s->stuck_said = false;
    bw_supervisor_http_elected(s, now);
    struct bw_log_field fields[] = {{"token", NULL, action->token}, BW_LOG_END};
    bw_log_event(&s->log, BW_LOG_INFO, "elected", fields, "elected with token %llu for %s",
                 (unsigned long long)action->token, bw_log_span(until, s->schedule.end - now));
    bw_supervisor_arm(s);
    /* A store that keeps what is owed has put the previous holder there, if it belongs there. */
    bool clean = action->previous_clean || action->owed[0];
    bw_clearing_begin(&s->clearing, action->owed, clean ? "" : action->previous,
                      clean ? "" : action->previous_containment, s->config->terms.ttl_ns / 6,
                      &s->log);
    if (s->config->stonith || s->config->fence_agent)
        bw_clearing_use_fence(&s->clearing, s->config->id);
    bw_supervisor_hook(s, s->config->on_elected, "elected", action);
    s->clearing_now = true; /* done after the actions; at once when nothing is owed */
}

static void on_extended(struct supervisor *s, const struct bw_lease_action *action)
{
    s->schedule = action->schedule;
    bw_supervisor_arm(s);
}

static void on_step_down(struct supervisor *s, const struct bw_lease_action *action)
{
    char left[24];
    bw_time now = bw_run_now();
    const char *reason = bw_lease_loss_name(action->reason);
    struct bw_log_field fields[] = {
        {"token", NULL, action->token}, {"reason", reason, 0}, BW_LOG_END};
    s->schedule = action->schedule;
    s->clearing_now = false;
    s->told_to_end = true;
    s->losses[action->reason]++;
    bw_log_event(&s->log, action->reason == BW_LEASE_SHUT_DOWN ? BW_LOG_INFO : BW_LOG_WARNING,
                 "step-down", fields, "stepping down: %s; the work is told to end within %s",
                 reason, bw_log_span(left, bw_time_max(s->schedule.kill - now, 0)));
    bw_supervisor_hook(s, s->config->on_lost, "lost", action);
    if (s->guardian == GUARDIAN_LOST || s->guardian == GUARDIAN_ABSENT)
        return;
    bw_supervisor_tell(s,
                       (struct bw_wire){.kind = BW_WIRE_STOP,
                                        .token = s->token,
                                        .at = s->schedule.kill,
                                        .number = s->stop_signal ? s->stop_signal : SIGTERM,
                                        .flags = BW_WIRE_ALL | (uint32_t)s->signal_flags},
                       -1);
    s->strike_at = bw_time_add(s->schedule.kill, s->config->terms.margin_ns / 4);
}

static void on_leader(struct supervisor *s, const struct bw_lease_action *action)
{
    struct bw_log_field fields[] = {{"leader", action->leader, 0},
                                    {"token", NULL, action->token},
                                    {"value", action->value, 0},
                                    BW_LOG_END};
    if (action->leader[0])
        bw_log_event(&s->log, BW_LOG_INFO, "leader", fields, "'%s' leads (token %llu)%s%s",
                     action->leader, (unsigned long long)action->token,
                     action->value[0] ? ", value " : "", action->value);
    else
        bw_log_event(&s->log, BW_LOG_INFO, "leader", fields, "nobody leads");
    bw_supervisor_hook(s, s->config->on_leader_change, "leader-change", action);
}

static void on_released(struct supervisor *s, const struct bw_lease_action *action)
{
    const char *reason = bw_lease_loss_name(action->reason);
    struct bw_log_field fields[] = {
        {"token", NULL, action->token}, {"reason", reason, 0}, BW_LOG_END};
    if (s->armed_token != BW_TOKEN_NONE && bw_run_token(s->armed_token) == action->token) {
        bw_supervisor_tell(s, (struct bw_wire){.kind = BW_WIRE_DISMISS, .token = s->armed_token},
                           -1);
        s->armed_token = BW_TOKEN_NONE;
        if (s->guardian == GUARDIAN_READY)
            s->guardian = GUARDIAN_STARTING; /* the next work has another containment */
    }
    bw_log_event(&s->log, BW_LOG_INFO, "released", fields, "token %llu is given back: %s",
                 (unsigned long long)action->token, reason);
    bool lost = action->reason != BW_LEASE_FINISHED && action->reason != BW_LEASE_KEPT;
    if (lost && s->config->once)
        bw_supervisor_end(s, BW_RUN_EXIT_LOST);
}

/* At most one of the two leads. But a list shows one for both, and a transfer to the id may reach
 * either. */
static void on_duplicate(struct supervisor *s)
{
    bw_log_event(&s->log, BW_LOG_WARNING, "duplicate-id", NULL,
                 "another candidate with id '%s' is running in this election; give each candidate "
                 "its own --id",
                 s->config->id);
}

void bw_supervisor_act(void *supervisor, const struct bw_lease_action *action)
{
    struct supervisor *s = supervisor;
    switch (action->kind) {
    case BW_LEASE_ASK:
        break; /* the asker's */
    case BW_LEASE_ELECTED:
        s->elected_once = true;
        on_elected(s, action);
        break;
    case BW_LEASE_EXTENDED:
        on_extended(s, action);
        break;
    case BW_LEASE_STEP_DOWN:
        on_step_down(s, action);
        break;
    case BW_LEASE_LEADER:
        on_leader(s, action);
        break;
    case BW_LEASE_PREPARE:
        s->prepare_due = true;
        break;
    case BW_LEASE_RELEASED:
        on_released(s, action);
        break;
    case BW_LEASE_DUPLICATE:
        on_duplicate(s);
        break;
    case BW_LEASE_STOPPED:
        s->stopped = true;
        s->close_at = bw_time_add(bw_run_now(), 200 * BW_MS);
        break;
    }
}

/* -n: the first decision counts. */
static void judge_no_wait(struct supervisor *s)
{
    struct bw_lease_status status;
    bw_lease_status(bw_asked_lease(s->asked), &status);
    if (!s->config->no_wait || s->ending || s->elected_once)
        return;
    if (strcmp(status.state, "waiting") == 0)
        bw_supervisor_end(s, bw_supervisor_give_up(s, !s->store_away));
}

void bw_supervisor_stepped(void *supervisor)
{
    struct supervisor *s = supervisor;
    if (s->prepare_due) {
        s->prepare_due = false;
        bw_supervisor_prepare(s);
    }
    if (s->store_refuses)
        bw_supervisor_end(s, 64);
    judge_no_wait(s);
    bw_supervisor_clear(s, bw_run_now());
}

void bw_supervisor_step(struct supervisor *s, enum bw_lease_event_kind kind, bool yes)
{
    if (s->started)
        bw_asked_step(s->asked, kind, yes);
}

void bw_supervisor_end(struct supervisor *s, int code)
{
    if (s->ending)
        return;
    s->ending = true;
    s->exit_code = code;
    s->give_up_at = BW_TIME_NEVER;
    if (s->started)
        bw_supervisor_step(s, BW_LEASE_STOP, false);
    else
        s->stopped = true;
}

void bw_supervisor_work_dead(struct supervisor *s)
{
    log_token(s, BW_LOG_INFO, "confirmed-dead", s->token, "the work is confirmed dead");
    s->token = BW_TOKEN_NONE;
    s->work = 0;
    s->strike_at = BW_TIME_NEVER;
    s->clearing_now = false;
    bw_supervisor_step(s, BW_LEASE_WORK_DEAD, false);
}
