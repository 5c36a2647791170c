/* Obeys `bellwether drain` (run/drain/drain.h): the leader steps down as after `resign`, and the
 * candidate does not contend until the host is undrained. */
#include "run/supervisor/state.h"

#include "os/clock.h"
#include "run/drain/drain_log.h"

#include <string.h>

#define HAND_OVER_POLL_NS (100 * BW_MS) /* `bellwether drain` waits for the lock to go */

void bw_supervisor_show_leader(struct supervisor *s, const char *leader)
{
    bw_notify_line(&s->manager, "STATUS=%sleader %s", s->drain.drained ? "drained; " : "",
                   leader[0] ? leader : "none");
}

static void show_change(struct supervisor *s)
{
    struct bw_lease_status status;
    if (!s->started) /* the store has not named a leader yet */
        return;
    bw_lease_status(bw_asker_client_lease(s->asked), &status);
    bw_supervisor_show_leader(s, status.leader);
}

/* Whether the store may hold a lease of this process, or get one from a request under way. A list
 * comes before an acquisition, also if this process became unhealthy in between. */
static bool is_contending(const struct supervisor *s)
{
    struct bw_lease_status status;
    if (!s->started)
        return false;
    bw_lease_status(bw_asker_client_lease(s->asked), &status);
    return strcmp(status.state, "listing") == 0 || strcmp(status.state, "acquiring") == 0 ||
           strcmp(status.state, "confirming") == 0 || strcmp(status.state, "releasing") == 0;
}

/* The lock says that this process contends or leads. A drained process keeps it until its work is
 * dead and its leadership is released. */
static void update_lock(struct supervisor *s)
{
    bool leads = s->token != BW_TOKEN_NONE || s->armed_token != BW_TOKEN_NONE;
    if (s->drain.drained && !leads && !is_contending(s))
        bw_drain_unlock(&s->drain);
    else
        bw_drain_lock(&s->drain);
}

void bw_supervisor_drain_look(struct supervisor *s)
{
    bool before = s->drain.drained, readable = s->drain.error == 0;
    if (s->config->ignores_drain) { /* the lock shows the operator that this process still leads */
        bw_drain_lock(&s->drain);
        s->drain_at = bw_time_add(bw_clock_boot(), BW_DRAIN_POLL_NS);
        return;
    }
    bool drained = bw_drain_watch(&s->drain);
    if (readable && s->drain.error != 0)
        bw_drain_log_unreadable(&s->drain, &s->log);
    if (before != drained) {
        bw_drain_log_change(&s->drain, &s->log, &s->manager);
        show_change(s);
    }
    if (!before && drained)
        bw_supervisor_step(s, BW_LEASE_RESIGN, false); /* a planned hand-over, not a failure */
    update_lock(s);
    bool handing_over = drained && s->drain.locked;
    s->drain_at = bw_time_add(bw_clock_boot(), handing_over ? HAND_OVER_POLL_NS : BW_DRAIN_POLL_NS);
    bw_supervisor_update_health(s);
}

void bw_supervisor_drain_tick(struct supervisor *s, bw_time now)
{
    if (now >= s->drain_at && !s->ending)
        bw_supervisor_drain_look(s);
}
