/* Carries out the elector's actions in order. If an action requires another step of the elector
 * (for example because the work is already dead when it should be stopped), the asker makes that
 * step after all actions. */
#include "run/supervisor/state.h"

#include "os/clock.h"
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
    s->settled_token = bw_run_token(s->token);
    bw_tally_started(&s->tally, bw_clock_boot());
    if (!s->config->argv)
        return; /* a sidecar has no command to start; the guardian stays armed */
    bw_supervisor_send_or_part(s, (struct bw_wire){.kind = BW_WIRE_START, .token = s->token});
}

/* The work cannot be started, for one of two reasons. Work of an earlier holder does not die; a
 * candidate with more rights may succeed. Or the record names another containment than the one the
 * work would run in. The leadership is released; the record still lists the unconfirmed work. */
void bw_supervisor_cleanup_failed(struct supervisor *s)
{
    s->cleaning_up = false;
    bw_supervisor_step(s, BW_LEASE_CLEANUP_FAILED, false);
}

void bw_supervisor_cleanup(struct supervisor *s, bw_time now)
{
    if (!s->cleaning_up)
        return;
    /* the guardian was replaced in the meantime */
    if (strcmp(s->acquired_as, s->containment) != 0) {
        bw_supervisor_cleanup_failed(s);
        return;
    }
    if (s->fencing)
        return;
    switch (bw_cleanup_step(&s->cleanup, now)) {
    case BW_CLEANUP_BUSY:
        break;
    case BW_CLEANUP_DONE:
        if (!bw_supervisor_standby_over(s))
            break;
        s->cleaning_up = false;
        start_work(s);
        break;
    case BW_CLEANUP_FENCE:
        bw_supervisor_fence(s);
        break;
    case BW_CLEANUP_FAILED:
        bw_supervisor_cleanup_failed(s);
        break;
    }
}

static void on_elected(struct supervisor *s, const struct bw_lease_action *action)
{
    char until[24];
    bw_time now = bw_clock_boot();
    s->elections++;
    s->token = s->armed_token = action->token ? action->token : BW_RUN_NO_TOKEN | s->elections;
    s->schedule = action->schedule;
    s->own_kill_at = BW_TIME_NEVER;
    s->settled = s->stopping = s->stuck_logged = false;
    bw_supervisor_http_elected(s, now);
    bw_tally_elected(&s->tally, now);
    struct bw_log_field fields[] = {{"token", NULL, action->token}, BW_LOG_END};
    bw_log_event(&s->log, BW_LOG_INFO, "elected", fields,
                 "elected with token %llu; the lease lasts %s", (unsigned long long)action->token,
                 bw_log_span(until, s->schedule.end - now));
    bw_supervisor_arm(s);
    bw_notify_line(&s->manager, "STATUS=leading with token %llu",
                   (unsigned long long)action->token);
    /* A store that lists unconfirmed work has already added the previous holder, if necessary. */
    bool clean = action->previous_clean || action->unconfirmed[0];
    bw_cleanup_begin(&s->cleanup, action->unconfirmed, clean ? "" : action->previous,
                     clean ? "" : action->previous_containment, s->config->terms.ttl_ns / 6,
                     &s->log);
    if (s->config->stonith || s->config->fence_agent)
        bw_cleanup_use_fence(&s->cleanup, s->config->id);
    bw_supervisor_hook(s, s->config->on_elected, "elected", action);
    s->cleaning_up = true; /* starts after the actions; ends at once if no work is unconfirmed */
}

static void on_extended(struct supervisor *s, const struct bw_lease_action *action)
{
    s->schedule = action->schedule;
    s->tally.renewed = bw_clock_boot();
    bw_supervisor_arm(s);
}

/* Returns whether a user or the work itself asked for this. */
static bool is_planned(enum bw_lease_loss reason)
{
    return reason == BW_LEASE_RESIGNED || reason == BW_LEASE_TRANSFERRED ||
           reason == BW_LEASE_SHUT_DOWN || reason == BW_LEASE_FINISHED;
}

static void on_step_down(struct supervisor *s, const struct bw_lease_action *action)
{
    char left[24];
    bw_time now = bw_clock_boot();
    const char *reason = bw_lease_loss_name(action->reason);
    struct bw_log_field fields[] = {
        {"token", NULL, action->token}, {"reason", reason, 0}, BW_LOG_END};
    s->schedule = action->schedule;
    s->cleaning_up = false;
    s->stopping = true;
    s->losses[action->reason]++;
    s->own_loss = action->reason;
    bw_supervisor_dashboard_step_down(s, reason);
    bw_log_event(&s->log, is_planned(action->reason) ? BW_LOG_INFO : BW_LOG_WARNING, "step-down",
                 fields, "stepping down: %s; the work must end within %s", reason,
                 bw_log_span(left, bw_time_max(s->schedule.kill - now, 0)));
    bw_notify_line(&s->manager, "STATUS=stepping down: %s", reason);
    bw_supervisor_hook(s, s->config->on_lost, "lost", action);
    if (s->guardian == GUARDIAN_LOST || s->guardian == GUARDIAN_ABSENT)
        return;
    bw_supervisor_send(s,
                       (struct bw_wire){.kind = BW_WIRE_STOP,
                                        .token = s->token,
                                        .at = s->schedule.kill,
                                        .number = s->stop_signal ? s->stop_signal : SIGTERM,
                                        .flags = BW_WIRE_ALL | (uint32_t)s->signal_flags},
                       -1);
    s->own_kill_at = bw_time_add(s->schedule.kill, s->config->terms.margin_ns / 4);
}

static void on_leader(struct supervisor *s, const struct bw_lease_action *action)
{
    struct bw_log_field fields[] = {{"leader", action->leader, 0},
                                    {"token", NULL, action->token},
                                    {"value", action->value, 0},
                                    BW_LOG_END};
    if (action->leader[0])
        bw_log_event(&s->log, BW_LOG_INFO, "leader", fields, "the leader is '%s' (token %llu)%s%s",
                     action->leader, (unsigned long long)action->token,
                     action->value[0] ? ", value " : "", action->value);
    else
        bw_log_event(&s->log, BW_LOG_INFO, "leader", fields, "no leader");
    if (strcmp(action->leader, s->config->id) != 0)
        bw_supervisor_show_leader(s, action->leader);
    bw_tally_leader(&s->tally, action->leader, bw_clock_boot());
    bw_supervisor_leader_changed(s, action);
}

static void log_released(struct supervisor *s, const struct bw_lease_action *action)
{
    static const char *const verbs[] = {[BW_LEASE_END_RELEASED] = "released",
                                        [BW_LEASE_END_LOST] = "lost",
                                        [BW_LEASE_END_UNANSWERED] = "cannot release"};
    const char *reason = bw_lease_loss_name(action->reason);
    struct bw_log_field fields[] = {
        {"token", NULL, action->token}, {"reason", reason, 0}, BW_LOG_END};
    bw_log_event(&s->log, BW_LOG_INFO, "released", fields, "%s token %llu: %s%s",
                 verbs[action->end], (unsigned long long)action->token,
                 action->reason == BW_LEASE_KEPT ? "left over" : reason,
                 action->end == BW_LEASE_END_UNANSWERED
                     ? "; the store did not answer in time, so the lease expires by itself"
                     : "");
}

/* --once, or -n, which implies it. An error: the command was stopped before its end, or did not
 * start, and with --log quiet this line is the only one that says why. */
static void end_once(struct supervisor *s, const char *reason)
{
    struct bw_log_field fields[] = {{"reason", reason, 0}, BW_LOG_END};
    bw_log_event(&s->log, BW_LOG_ERROR, "leadership-lost", fields,
                 "leadership lost (%s), and %s forbids another election; exiting with %d", reason,
                 s->config->no_wait ? "-n" : "--once", BW_RUN_EXIT_LOST);
    bw_supervisor_end(s, BW_RUN_EXIT_LOST);
}

static void on_released(struct supervisor *s, const struct bw_lease_action *action)
{
    if (s->armed_token != BW_TOKEN_NONE && bw_run_token(s->armed_token) == action->token) {
        bw_supervisor_send_or_part(
            s, (struct bw_wire){.kind = BW_WIRE_DISMISS, .token = s->armed_token});
        s->armed_token = BW_TOKEN_NONE;
        if (s->guardian == GUARDIAN_READY)
            bw_supervisor_guardian_prepares(s); /* the next work gets another containment */
    }
    bw_supervisor_dashboard_released(s);
    log_released(s, action);
    bool lost = action->reason != BW_LEASE_FINISHED && action->reason != BW_LEASE_KEPT;
    if (lost && s->config->once && !s->ending)
        end_once(s, bw_lease_loss_name(action->reason));
}

/* At most one of the two leads. But a list shows only one entry for both, and a transfer to the id
 * may reach either. */
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
        break; /* the asker handles it */
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
        s->close_at = bw_time_add(bw_clock_boot(), 200 * BW_MS);
        break;
    }
}

/* -n: the first decision counts. */
static void check_no_wait(struct supervisor *s)
{
    struct bw_lease_status status;
    bw_lease_status(bw_asker_client_lease(s->asked), &status);
    if (!s->config->no_wait || s->ending || s->elected_once)
        return;
    if (strcmp(status.state, "waiting") == 0)
        bw_supervisor_end(s, bw_supervisor_give_up(s, !s->store_down));
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
    check_no_wait(s);
    bw_supervisor_cleanup(s, bw_clock_boot());
}

void bw_supervisor_step(struct supervisor *s, enum bw_lease_event_kind kind, bool yes)
{
    if (s->started)
        bw_asker_client_step(s->asked, kind, yes);
}

void bw_supervisor_end(struct supervisor *s, int code)
{
    if (s->ending)
        return;
    s->ending = true;
    s->exit_code = code;
    bw_notify_send(&s->manager, "STOPPING=1");
    s->give_up_at = BW_TIME_NEVER;
    if (s->started)
        bw_supervisor_step(s, BW_LEASE_STOP, false);
    else
        s->stopped = true;
}

void bw_supervisor_work_dead(struct supervisor *s)
{
    log_token(s, BW_LOG_INFO, "confirmed-dead", s->token,
              s->config->argv ? "the work is confirmed dead" : "no command: there was no work");
    s->token = BW_TOKEN_NONE;
    s->work = 0;
    s->own_kill_at = BW_TIME_NEVER;
    s->cleaning_up = false;
    bw_supervisor_step(s, BW_LEASE_WORK_DEAD, false);
}
