/* Data of the supervisor for the status endpoint.
 *
 * With a command, this candidate leads while the command may run. Without a command (a sidecar),
 * the client of the endpoint does the work, and the supervisor cannot kill it. So a positive answer
 * is valid for at most kill_after, and the client must ask again in time. A new leader answers
 * positively only after kill_after, the drift of two clocks and the margin have passed since its
 * election. By then, every positive answer of its predecessor has expired, however that leadership
 * ended.
 *
 * Assumptions: all candidates have the same settings, and clients count from the moment they sent
 * the request. */
#include "run/supervisor/state.h"

#include "os/clock.h"
#include "run/contain/proc.h"

static void fill_view(void *context, struct bw_status_view *view)
{
    const struct supervisor *s = context;
    const struct bw_run_config *config = s->config;
    struct bw_lease_status status = {.leader = "", .value = ""};
    bw_time now = bw_clock_boot();
    if (s->started)
        bw_lease_status(bw_asker_client_lease(s->asked), &status);
    view->election = config->election;
    view->id = config->id;
    view->leader = status.leader;
    view->value = status.value;
    view->token = status.token;
    view->leading = s->token != BW_TOKEN_NONE && s->settled && !s->stopping && status.leading &&
                    now >= s->yes_from && now < s->schedule.kill;
    view->changes_at = view->leading                                    ? s->schedule.kill
                       : s->token != BW_TOKEN_NONE && now < s->yes_from ? s->yes_from
                                                                        : BW_TIME_NEVER;
    view->valid_ns = view->leading ? s->schedule.kill - now : 0;
    if (!config->argv)
        view->valid_ns = bw_time_min(view->valid_ns, config->terms.kill_after_ns);
    view->healthy = s->reported_healthy;
    view->drained = s->drain.drained;
    view->stored = s->store_seen && !s->store_down;
    view->elections = s->elections;
    view->splits = s->splits;
    view->now = now;
    view->tally = &s->tally;
    view->detail = s->dashboard ? bw_supervisor_detail : NULL;
    view->detail_context = s->dashboard;
    for (unsigned i = 0; i < BW_HTTP_LOSSES; i++)
        view->losses[i] = s->losses[i];
    const struct bw_store_ops *ops = s->asker ? bw_asker_store_ops(s->asker) : NULL;
    view->counts = ops && ops->counts ? ops->counts(bw_asker_store(s->asker), view->count) : 0;
}

void bw_supervisor_http_elected(struct supervisor *s, bw_time now)
{
    bw_time pause = bw_http_first_yes_after(&s->config->terms);
    s->yes_from = s->config->argv ? now : bw_time_add(now, pause);
}

static void on_log_event(void *context, const char *json, size_t length)
{
    struct supervisor *s = context;
    bw_status_publish(s->http, json, length);
}

int bw_supervisor_http_open(struct supervisor *s)
{
    char why[256] = "";
    if (!s->config->http)
        return 0;
    int error = bw_status_open(&s->http, &s->loop, s->config->http, fill_view, s, why, sizeof why);
    if (error) {
        bw_log_event(&s->log, BW_LOG_ERROR, "start-failed", NULL, "--http: %s", why);
        return error;
    }
    s->log.tap = on_log_event;
    s->log.tap_context = s;
    struct bw_log_field fields[] = {{"address", bw_status_address(s->http), 0}, BW_LOG_END};
    bw_log_event(&s->log, BW_LOG_INFO, "http", fields, "serving status at %s%s",
                 bw_status_address(s->http),
                 s->config->argv ? "" : "; no command: the client of this endpoint does the work");
    return 0;
}
