/* What the status endpoint sees of the supervisor.
 *
 * With a command, this candidate leads while the command may run. Without one (a sidecar), whoever
 * asks does the work, and nobody can kill it from here. So a yes is good for kill_after at most,
 * the asker asks again in time, and a new leader says yes only when kill_after, the drift of two
 * clocks and the margin have passed since its election: by then every yes of its predecessor is
 * over, however that one ended. Assumed: all candidates have the same settings, and askers count
 * from when they sent the request. */
#include "run/supervisor/state.h"

#include "run/contain/proc.h"

static void look(void *context, struct bw_http_view *view)
{
    const struct supervisor *s = context;
    const struct bw_run_config *config = s->config;
    struct bw_lease_status status = {.leader = "", .value = ""};
    bw_time now = bw_run_now();
    if (s->started)
        bw_lease_status(bw_asked_lease(s->asked), &status);
    view->election = config->election;
    view->id = config->id;
    view->leader = status.leader;
    view->value = status.value;
    view->token = status.token;
    view->leading = s->token != BW_TOKEN_NONE && s->settled && !s->told_to_end && status.leading &&
                    now >= s->yes_from && now < s->schedule.kill;
    view->valid_ns = view->leading ? s->schedule.kill - now : 0;
    if (!config->argv)
        view->valid_ns = bw_time_min(view->valid_ns, config->terms.kill_after_ns);
    view->healthy = s->told_healthy;
    view->stored = s->store_seen && !s->store_away;
    view->elections = s->elections;
    view->splits = s->splits;
    for (unsigned i = 0; i < BW_HTTP_LOSSES; i++)
        view->losses[i] = s->losses[i];
    const struct bw_store_ops *ops = s->asker ? bw_asker_store_ops(s->asker) : NULL;
    view->counts = ops && ops->counts ? ops->counts(bw_asker_store(s->asker), view->count) : 0;
}

void bw_supervisor_http_elected(struct supervisor *s, bw_time now)
{
    bw_time pause = bw_http_yes_after(&s->config->terms);
    s->yes_from = s->config->argv ? now : bw_time_add(now, pause);
}

int bw_supervisor_http_open(struct supervisor *s)
{
    char why[256] = "";
    if (!s->config->http)
        return 0;
    int error = bw_http_open(&s->http, &s->loop, s->config->http, look, s, why, sizeof why);
    if (error) {
        bw_log_event(&s->log, BW_LOG_ERROR, "start-failed", NULL, "--http: %s", why);
        return error;
    }
    struct bw_log_field fields[] = {{"address", bw_http_where(s->http), 0}, BW_LOG_END};
    bw_log_event(&s->log, BW_LOG_INFO, "http", fields, "status is served at %s%s",
                 bw_http_where(s->http),
                 s->config->argv ? "" : "; no command: whoever asks there does the work");
    return 0;
}
