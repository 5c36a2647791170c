/* What runs beside the work: hooks that tell of changes, and checks that say whether this candidate
 * is fit to lead. */
#include "run/supervisor/state.h"

#include "run/contain/proc.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* A recovery waits for every leader's work to end, and for people's hooks. */
#define RECOVERY_LIMIT_NS (3600 * BW_SEC)

/* ---- hooks ---- */

int bw_supervisor_start(struct supervisor *s, struct bw_child_order *order,
                        struct bw_hook_words *words)
{
    const char *entries[] = {words->leader, words->value, words->reason, words->event,
                             words->token[0] ? words->token : NULL};
    memcpy(order->entries, entries, sizeof entries);
    int error = bw_child_start(&s->children, order);
    if (error)
        bw_log_event(&s->log, BW_LOG_ERROR, "hook-failed", NULL, "cannot run %.200s: %s",
                     order->shell ? order->shell : order->program, bw_error_text(error));
    return error;
}

void bw_supervisor_words(struct bw_hook_words *words, const char *event, const char *leader,
                         const char *value, bw_token token, const char *reason)
{
    snprintf(words->event, sizeof words->event, "BELLWETHER_EVENT=%s", event);
    snprintf(words->leader, sizeof words->leader, "BELLWETHER_LEADER=%s", leader);
    snprintf(words->value, sizeof words->value, "BELLWETHER_VALUE=%s", value);
    words->token[0] = '\0';
    if (bw_run_token(token) != BW_TOKEN_NONE)
        snprintf(words->token, sizeof words->token, "BELLWETHER_TOKEN=%llu",
                 (unsigned long long)token);
    snprintf(words->reason, sizeof words->reason, "BELLWETHER_REASON=%s", reason);
}

void bw_supervisor_hook(struct supervisor *s, const char *shell, const char *event,
                        const struct bw_lease_action *action)
{
    struct bw_hook_words words;
    bool ours = action->kind == BW_LEASE_ELECTED;
    const char *leader = ours ? s->config->id : action->leader;
    const char *value = ours ? s->config->value : action->value;
    struct bw_child_order order = {.shell = shell, .limit_ns = s->config->terms.ttl_ns};
    if (!shell)
        return;
    bw_supervisor_words(&words, event, leader ? leader : "", value ? value : "", action->token,
                        action->kind == BW_LEASE_STEP_DOWN ? bw_lease_loss_name(action->reason)
                                                           : "");
    bw_supervisor_start(s, &order, &words);
}

static void on_prepared(void *context, bool good)
{
    struct supervisor *s = context;
    bw_log_event(&s->log, BW_LOG_INFO, "prepared", NULL,
                 good ? "ready to take over" : "not ready to take over: the transfer is refused");
    bw_supervisor_step(s, BW_LEASE_PREPARED, good);
}

void bw_supervisor_prepare(struct supervisor *s)
{
    struct bw_hook_words words;
    struct bw_child_order order = {.shell = s->config->on_prepare,
                                   .limit_ns = s->config->terms.ttl_ns / 2,
                                   .done = on_prepared,
                                   .context = s};
    bw_supervisor_words(&words, "prepare", "", "", BW_TOKEN_NONE, "");
    if (!order.shell)
        bw_supervisor_step(s, BW_LEASE_PREPARED, true);
    else if (bw_supervisor_start(s, &order, &words) != 0)
        bw_supervisor_step(s, BW_LEASE_PREPARED, false);
}

static void on_recovered(void *context, bool good)
{
    struct supervisor *s = context;
    s->recovering = false;
    bw_log_event(&s->log, good ? BW_LOG_INFO : BW_LOG_ERROR, "recovered", NULL,
                 good ? "the split brain is recovered from"
                      : "--on-split-brain failed: the sides may differ");
}

void bw_supervisor_split(struct supervisor *s, const char *line)
{
    struct bw_hook_words words;
    struct bw_child_order order = {.shell = s->config->on_split_brain,
                                   .limit_ns = RECOVERY_LIMIT_NS,
                                   .done = on_recovered,
                                   .context = s};
    if (!order.shell || s->recovering)
        return;
    bw_supervisor_words(&words, "split-brain", "", "", BW_TOKEN_NONE, line);
    s->recovering = bw_supervisor_start(s, &order, &words) == 0;
}

/* ---- standby ---- */

static void on_standby_end(void *context, bool good)
{
    struct supervisor *s = context;
    (void)good;
    s->standby = 0;
    s->standby_kill_at = BW_TIME_NEVER;
    s->standby_at = bw_time_add(bw_run_now(), s->config->retry_ns);
    bw_supervisor_clear(s, bw_run_now());
}

static void standby_tick(struct supervisor *s, bw_time now)
{
    struct bw_hook_words words;
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
    bw_supervisor_words(&words, "standby", "", "", BW_TOKEN_NONE, "");
    if (bw_supervisor_start(s, &order, &words) != 0)
        s->standby_at = bw_time_add(now, s->config->retry_ns);
}

bool bw_supervisor_standby_over(struct supervisor *s)
{
    if (s->standby && s->standby_kill_at == BW_TIME_NEVER) {
        kill(-s->standby, SIGTERM);
        s->standby_kill_at = bw_time_add(bw_run_now(), s->config->terms.kill_after_ns);
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

void bw_supervisor_judge_health(struct supervisor *s)
{
    bool guarded = s->guardian != GUARDIAN_LOST && s->guardian != GUARDIAN_ABSENT;
    bool healthy = guarded && s->look_good && s->by_command.good && s->by_http.good;
    if (healthy == s->told_healthy || !s->started)
        return;
    s->told_healthy = healthy;
    bw_supervisor_step(s, BW_LEASE_HEALTH, healthy);
}

static void say_health(struct supervisor *s, bool before, bool now, const char *why)
{
    if (before && !now)
        bw_log_event(&s->log, BW_LOG_WARNING, "unhealthy", NULL, "not fit to lead: %s", why);
    else if (!before && now)
        bw_log_event(&s->log, BW_LOG_INFO, "healthy", NULL, "fit to lead again");
}

/* The first answer is news only when it is bad. */
static void on_checked(void *context, bool good)
{
    struct health_check *check = context;
    struct supervisor *s = check->supervisor;
    say_health(s, check->good || !check->answered, good, check->failed);
    check->answered = true;
    check->good = good;
    check->runs = false;
    bw_supervisor_judge_health(s);
}

static void run_check(struct supervisor *s, struct health_check *check,
                      struct bw_child_order *order)
{
    struct bw_hook_words words;
    if (check->runs)
        return;
    order->limit_ns = s->config->health_interval_ns;
    order->done = on_checked;
    order->context = check;
    bw_supervisor_words(&words, "health", "", "", s->token, "");
    check->runs = bw_supervisor_start(s, order, &words) == 0;
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
    bool works = s->work != 0 && !s->told_to_end;
    bool good = bw_health_look(&s->config->health, &s->progress, works, now, why, sizeof why);
    if (good && works && s->config->watchdog_ns && now - s->notified >= s->config->watchdog_ns) {
        good = false;
        snprintf(why, sizeof why, "the work has not said WATCHDOG=1 for %lld ms",
                 (long long)((now - s->notified) / BW_MS));
    }
    say_health(s, s->look_good, good, why);
    s->look_good = good;
    run_checks(s);
    bw_supervisor_judge_health(s);
}

static bool has_health(const struct bw_run_config *config)
{
    return config->health_cmd || config->health_http || config->health.memory_bytes ||
           config->health.disk_bytes || config->health.progress_file || config->watchdog_ns;
}

void bw_supervisor_health_init(struct supervisor *s)
{
    s->look_good = s->told_healthy = true;
    /* Not before the first good answer. */
    s->by_command =
        (struct health_check){s, "the health command failed", !s->config->health_cmd, false, false};
    s->by_http = (struct health_check){s, "the health URL did not answer with 2xx in time",
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
