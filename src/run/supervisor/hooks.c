/* Processes beside the work: hooks that report changes, the standby command, and health checks that
 * decide whether this candidate may lead. lease.c decides when a hook runs. */
#include "run/supervisor/state.h"

#include "os/clock.h"
#include "run/contain/proc.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* A recovery waits for the work of every leader to end, and for the hooks of users. */
#define RECOVERY_LIMIT_NS (3600 * BW_SEC)

/* ---- hooks ---- */

int bw_supervisor_start(struct supervisor *s, struct bw_child_order *order,
                        struct bw_hook_environment *environment)
{
    const char *entries[] = {environment->leader, environment->value, environment->reason,
                             environment->event, environment->token[0] ? environment->token : NULL};
    memcpy(order->entries, entries, sizeof entries);
    int error = bw_child_start(&s->children, order);
    if (error)
        bw_log_event(&s->log, BW_LOG_ERROR, "hook-failed", NULL, "cannot run %.200s: %s",
                     order->shell ? order->shell : order->program, bw_error_text(error));
    return error;
}

void bw_supervisor_hook_environment(struct bw_hook_environment *environment, const char *event,
                                    const char *leader, const char *value, bw_token token,
                                    const char *reason)
{
    snprintf(environment->event, sizeof environment->event, "BELLWETHER_EVENT=%s", event);
    snprintf(environment->leader, sizeof environment->leader, "BELLWETHER_LEADER=%s", leader);
    snprintf(environment->value, sizeof environment->value, "BELLWETHER_VALUE=%s", value);
    environment->token[0] = '\0';
    if (bw_run_token(token) != BW_TOKEN_NONE)
        snprintf(environment->token, sizeof environment->token, "BELLWETHER_TOKEN=%llu",
                 (unsigned long long)token);
    snprintf(environment->reason, sizeof environment->reason, "BELLWETHER_REASON=%s", reason);
}

static void run_hook(struct supervisor *s, const char *shell, const char *event,
                     const struct bw_lease_action *action, const char *reason)
{
    struct bw_hook_environment environment;
    bool ours = action->kind == BW_LEASE_ELECTED;
    const char *leader = ours ? s->config->id : action->leader;
    const char *value = ours ? s->config->value : action->value;
    struct bw_child_order order = {.shell = shell, .limit_ns = s->config->terms.ttl_ns};
    if (!shell)
        return;
    bw_supervisor_hook_environment(&environment, event, leader ? leader : "", value ? value : "",
                                   action->token, reason);
    bw_supervisor_start(s, &order, &environment);
}

void bw_supervisor_hook(struct supervisor *s, const char *shell, const char *event,
                        const struct bw_lease_action *action)
{
    run_hook(s, shell, event, action,
             action->kind == BW_LEASE_STEP_DOWN ? bw_lease_loss_name(action->reason) : "");
}

/* Why there is another leader than before, as far as this candidate can see. */
static const char *change_reason(const struct supervisor *s, bool same)
{
    if (same)
        return "value";
    if (s->own_loss != BW_LEASE_KEPT)
        return bw_lease_loss_name(s->own_loss);
    return !s->announced_leader[0] ? "found" : s->vacant ? "vacant" : "replaced";
}

void bw_supervisor_leader_changed(struct supervisor *s, const struct bw_lease_action *action)
{
    if (!action->leader[0]) {
        const char *reason = s->own_loss != BW_LEASE_KEPT ? bw_lease_loss_name(s->own_loss) : "";
        if (!s->vacant)
            run_hook(s, s->config->on_vacant, "vacant", action, reason);
        s->vacant = true;
        return;
    }
    bool named =
        strcmp(action->leader, s->announced_leader) == 0 && action->token == s->announced_token;
    bool same = named && (action->token != BW_TOKEN_NONE || !s->vacant);
    if (!same || strcmp(action->value, s->announced_value) != 0)
        run_hook(s, s->config->on_leader_change, "leader-change", action, change_reason(s, same));
    snprintf(s->announced_leader, sizeof s->announced_leader, "%s", action->leader);
    snprintf(s->announced_value, sizeof s->announced_value, "%s", action->value);
    s->announced_token = action->token;
    s->vacant = false;
    s->own_loss = BW_LEASE_KEPT;
}

static void on_prepared(void *context, bool good)
{
    struct supervisor *s = context;
    bw_log_event(&s->log, BW_LOG_INFO, "prepared", NULL,
                 good ? "ready to take over" : "not ready to take over; refused the transfer");
    bw_supervisor_step(s, BW_LEASE_PREPARED, good);
}

void bw_supervisor_prepare(struct supervisor *s)
{
    struct bw_hook_environment environment;
    struct bw_child_order order = {.shell = s->config->on_prepare,
                                   .limit_ns = s->config->terms.ttl_ns / 2,
                                   .done = on_prepared,
                                   .context = s};
    bw_supervisor_hook_environment(&environment, "prepare", "", "", BW_TOKEN_NONE, "");
    if (!order.shell)
        bw_supervisor_step(s, BW_LEASE_PREPARED, true);
    else if (bw_supervisor_start(s, &order, &environment) != 0)
        bw_supervisor_step(s, BW_LEASE_PREPARED, false);
}

static void on_recovered(void *context, bool good)
{
    struct supervisor *s = context;
    s->recovering = false;
    bw_log_event(&s->log, good ? BW_LOG_INFO : BW_LOG_ERROR, "recovered", NULL,
                 good ? "recovered from the split brain"
                      : "--on-split-brain failed: the data of the two sides may differ");
}

void bw_supervisor_split(struct supervisor *s, const char *line)
{
    struct bw_hook_environment environment;
    struct bw_child_order order = {.shell = s->config->on_split_brain,
                                   .limit_ns = RECOVERY_LIMIT_NS,
                                   .done = on_recovered,
                                   .context = s};
    if (!order.shell || s->recovering)
        return;
    bw_supervisor_hook_environment(&environment, "split-brain", "", "", BW_TOKEN_NONE, line);
    s->recovering = bw_supervisor_start(s, &order, &environment) == 0;
}

/* ---- standby ---- */

static void on_standby_end(void *context, bool good)
{
    struct supervisor *s = context;
    (void)good;
    s->standby = 0;
    s->standby_kill_at = BW_TIME_NEVER;
    s->standby_at = bw_time_add(bw_clock_boot(), s->config->retry_ns);
    bw_supervisor_cleanup(s, bw_clock_boot());
}

static void standby_tick(struct supervisor *s, bw_time now)
{
    struct bw_hook_environment environment;
    struct bw_child_order order = {.shell = s->config->standby,
                                   .limit_ns = BW_TIME_NEVER,
                                   .done = on_standby_end,
                                   .context = s,
                                   .pid = &s->standby};
    if (s->standby && now >= s->standby_kill_at) {
        kill(-s->standby, SIGKILL);
        s->standby_kill_at = BW_TIME_NEVER;
    }
    bool idle = s->armed_token == BW_TOKEN_NONE && !s->ending;
    if (!order.shell || s->standby || !idle || now < s->standby_at)
        return;
    bw_supervisor_hook_environment(&environment, "standby", "", "", BW_TOKEN_NONE, "");
    if (bw_supervisor_start(s, &order, &environment) != 0)
        s->standby_at = bw_time_add(now, s->config->retry_ns);
}

bool bw_supervisor_standby_over(struct supervisor *s)
{
    if (s->standby && s->standby_kill_at == BW_TIME_NEVER) {
        kill(-s->standby, SIGTERM);
        s->standby_kill_at = bw_time_add(bw_clock_boot(), s->config->terms.kill_after_ns);
    }
    return s->standby == 0;
}

static bw_time standby_deadline(const struct supervisor *s)
{
    if (s->standby)
        return s->standby_kill_at;
    bool idle = s->armed_token == BW_TOKEN_NONE && !s->ending;
    return s->config->standby && idle ? s->standby_at : BW_TIME_NEVER;
}

/* ---- health ---- */

void bw_supervisor_update_health(struct supervisor *s)
{
    bool guarded = s->guardian != GUARDIAN_LOST && s->guardian != GUARDIAN_ABSENT;
    bool healthy = guarded && !s->drain.drained && s->local_checks_good && s->by_command.good &&
                   s->by_http.good;
    if (healthy == s->reported_healthy || !s->started)
        return;
    s->reported_healthy = healthy;
    bw_supervisor_step(s, BW_LEASE_HEALTH, healthy);
}

static void log_health(struct supervisor *s, bool before, bool now, const char *why)
{
    if (before && !now)
        bw_log_event(&s->log, BW_LOG_WARNING, "unhealthy", NULL, "not healthy enough to lead: %s",
                     why);
    else if (!before && now)
        bw_log_event(&s->log, BW_LOG_INFO, "healthy", NULL, "healthy again; may lead");
}

/* The first result is logged only if it is bad. */
static void on_checked(void *context, bool good)
{
    struct health_check *check = context;
    struct supervisor *s = check->supervisor;
    log_health(s, check->good || !check->answered, good, check->failed);
    check->answered = true;
    check->good = good;
    check->runs = false;
    bw_supervisor_update_health(s);
}

static void run_check(struct supervisor *s, struct health_check *check,
                      struct bw_child_order *order)
{
    struct bw_hook_environment environment;
    if (check->runs)
        return;
    order->limit_ns = s->config->health_interval_ns;
    order->done = on_checked;
    order->context = check;
    bw_supervisor_hook_environment(&environment, "health", "", "", s->token, "");
    check->runs = bw_supervisor_start(s, order, &environment) == 0;
    if (!check->runs)
        on_checked(check, false);
}

static void run_checks(struct supervisor *s)
{
    struct bw_child_order command = {.shell = s->config->health_cmd};
    struct bw_child_order http = {.program = "/proc/self/exe",
                                  .arguments = {"--probe", s->config->health_http}};
    if (s->config->health_cmd)
        run_check(s, &s->by_command, &command);
    if (s->config->health_http)
        run_check(s, &s->by_http, &http);
}

void bw_supervisor_health_tick(struct supervisor *s, bw_time now)
{
    char why[256] = "";
    bw_child_tick(&s->children, now);
    standby_tick(s, now);
    if (now < s->health_at)
        return;
    bw_supervisor_notify_read(s);
    s->health_at = bw_time_add(now, s->config->health_interval_ns);
    bool works = s->work != 0 && !s->stopping;
    bool good = bw_health_check(&s->config->health, &s->progress, works, now, why, sizeof why);
    if (good && works && s->config->watchdog_ns && now - s->notified >= s->config->watchdog_ns) {
        good = false;
        snprintf(why, sizeof why, "the work has not sent WATCHDOG=1 for %lld ms",
                 (long long)((now - s->notified) / BW_MS));
    }
    log_health(s, s->local_checks_good, good, why);
    s->local_checks_good = good;
    run_checks(s);
    bw_supervisor_update_health(s);
}

static bool has_health(const struct bw_run_config *config)
{
    return config->health_cmd || config->health_http || config->health.memory_bytes ||
           config->health.disk_bytes || config->health.progress_file || config->watchdog_ns;
}

void bw_supervisor_health_init(struct supervisor *s)
{
    s->local_checks_good = s->reported_healthy = true;
    /* Healthy only after the first good result. */
    s->by_command =
        (struct health_check){s, "the health command failed", !s->config->health_cmd, false, false};
    s->by_http = (struct health_check){s, "the health URL did not return 2xx in time",
                                       !s->config->health_http, false, false};
    s->health_at = has_health(s->config) ? 0 : BW_TIME_NEVER;
    s->standby_kill_at = BW_TIME_NEVER;
}

bw_time bw_supervisor_beside_deadline(const struct supervisor *s)
{
    if (!s->started)
        return BW_TIME_NEVER;
    return bw_time_min(bw_child_deadline(&s->children),
                       bw_time_min(s->health_at, standby_deadline(s)));
}
