/* Health of a host with `run --shards`. An unhealthy launcher is not listed as a candidate, so that
 * the others share its shards at once. The checks are those of the supervisors, except the ones of
 * the work itself: each supervisor makes all checks, too, and decides by them whether it may lead.
 */
#include "run/shards/state.h"

#include "os/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_healthy(const struct launcher *l)
{
    return l->local_checks_good && l->by_command.good && l->by_http.good;
}

bool bw_launcher_is_healthy(const struct launcher *l)
{
    return l->healthy;
}

static void update(struct launcher *l, const char *why)
{
    bool before = l->healthy;
    l->healthy = is_healthy(l);
    if (l->healthy == before)
        return;
    if (l->healthy)
        bw_log_event(&l->log, BW_LOG_INFO, "healthy", NULL, "healthy: contending for shards");
    else
        bw_log_event(&l->log, BW_LOG_WARNING, "unhealthy", NULL,
                     "not healthy enough to lead: %s; other candidates get the shards", why);
    if (l->step == ROUND_IDLE && !l->ending)
        l->round_at = bw_clock_boot(); /* the store lists the change at once */
}

static void on_checked(void *context, bool good)
{
    struct launcher_check *check = context;
    check->runs = false;
    check->good = good;
    update(check->launcher, check->failed);
}

static void run_check(struct launcher *l, struct launcher_check *check,
                      struct bw_child_order *order)
{
    char election[BW_ELECTION_NAME_MAX + 32], id[BW_CANDIDATE_ID_MAX + 32];
    if (check->runs)
        return;
    snprintf(election, sizeof election, "BELLWETHER_ELECTION=%s", l->order->election);
    snprintf(id, sizeof id, "BELLWETHER_ID=%s", l->order->id);
    const char *entries[] = {"BELLWETHER_EVENT=health", election, id};
    memcpy(order->entries, entries, sizeof entries);
    order->limit_ns = l->order->health_interval_ns;
    order->done = on_checked;
    order->context = check;
    check->runs = bw_child_start(&l->children, order) == 0;
    if (!check->runs)
        on_checked(check, false);
}

void bw_launcher_health_init(struct launcher *l)
{
    const struct bw_shards_order *order = l->order;
    bool checks = !order->is_peer && (order->health_cmd || order->health_http ||
                                      order->health.memory_bytes || order->health.disk_bytes);
    l->by_command =
        (struct launcher_check){l, "the health command failed", !order->health_cmd, false};
    l->by_http = (struct launcher_check){l, "the health URL did not return 2xx in time",
                                         !order->health_http, false};
    l->local_checks_good = true;
    /* Healthy only after the first good result; the first bad one is logged. */
    l->healthy = !checks || is_healthy(l);
    l->health_at = checks ? 0 : BW_TIME_NEVER;
    l->children.environment = environ;
    l->children.mask = l->mask;
    getrlimit(RLIMIT_CORE, &l->children.core);
}

void bw_launcher_health_tick(struct launcher *l, bw_time now)
{
    struct bw_health_progress progress = {.since = now};
    char why[256] = "";
    bw_child_tick(&l->children, now);
    if (now < l->health_at || l->ending)
        return;
    l->health_at = bw_time_add(now, l->order->health_interval_ns);
    l->local_checks_good =
        bw_health_check(&l->order->health, &progress, false, now, why, sizeof why);
    struct bw_child_order command = {.shell = l->order->health_cmd};
    struct bw_child_order http = {.program = "/proc/self/exe",
                                  .arguments = {"--probe", l->order->health_http}};
    if (l->order->health_cmd)
        run_check(l, &l->by_command, &command);
    if (l->order->health_http)
        run_check(l, &l->by_http, &http);
    update(l, why);
}

bw_time bw_launcher_health_deadline(const struct launcher *l)
{
    return bw_time_min(l->health_at, bw_child_deadline(&l->children));
}
