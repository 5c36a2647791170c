/* Decisions of the guardian; see guardian.h. SIGKILL is repeated until the work is dead, first soon
 * and then less often. A process that cannot die (uninterruptible sleep, frozen) is reported once.
 * Its leadership is never released before the process is gone. */
#include "core/guardian/guardian.h"

#include "core/base/assert.h"
#include "core/base/bug.h"

#include <signal.h>
#include <string.h>

#define KILL_PAUSE_NS     (2 * BW_MS)
#define KILL_PAUSE_MAX_NS (200 * BW_MS)
#define REPORT_AFTER_NS   (250 * BW_MS)
/* The death notice is sent at 0, 5 and 15 ms. A burst that filled a queue is over by then, and
 * receivers still wait less than they would for a lease. */
#define NOTICE_COUNT    3u
#define NOTICE_PAUSE_NS (5 * BW_MS)

static const char *const names[] = {"idle",    "armed", "running",  "ending",
                                    "killing", "dead",  "notifying"};

const char *bw_guardian_state_name(enum bw_guardian_state state)
{
    return (size_t)state < sizeof names / sizeof names[0] ? names[state] : "unknown";
}

void bw_guardian_init(struct bw_guardian_core *core, bw_time kill_after_ns)
{
    memset(core, 0, sizeof *core);
    core->kill_at = core->again_at = BW_TIME_NEVER;
    core->kill_after_ns = kill_after_ns;
}

static void act(struct bw_guardian_actions *actions, enum bw_guardian_action action)
{
    BW_ASSERT(actions->count < BW_GUARDIAN_ACTIONS_MAX);
    actions->at[actions->count++] = action;
}

static void become_idle(struct bw_guardian_core *core, struct bw_guardian_actions *actions)
{
    core->state = BW_GUARDIAN_IDLE;
    core->token = BW_TOKEN_NONE;
    core->kill_at = core->again_at = BW_TIME_NEVER;
    core->has_notice = false;
    act(actions, core->gone ? BW_GUARDIAN_DO_EXIT : BW_GUARDIAN_DO_FORGET);
}

static void send_notice(struct bw_guardian_core *core, bw_time now,
                        struct bw_guardian_actions *actions)
{
    act(actions, BW_GUARDIAN_DO_SEND_NOTICE);
    core->sent++;
    core->again_at = bw_time_add(now, NOTICE_PAUSE_NS * core->sent);
    if (core->sent >= NOTICE_COUNT)
        become_idle(core, actions);
}

static void become_notifying(struct bw_guardian_core *core, bw_time now,
                             struct bw_guardian_actions *actions)
{
    core->state = BW_GUARDIAN_NOTIFYING;
    core->sent = 0;
    send_notice(core, now, actions);
}

static void become_dead(struct bw_guardian_core *core, bw_time now,
                        struct bw_guardian_actions *actions)
{
    core->state = BW_GUARDIAN_DEAD;
    core->kill_at = core->again_at = BW_TIME_NEVER;
    if (!core->gone && !(BW_BUG(guardian_reports_while_supervised) && core->has_notice)) {
        act(actions, BW_GUARDIAN_DO_CONFIRM);
        return;
    }
    act(actions, BW_GUARDIAN_DO_RELEASE);
    actions->token = core->token;
    if (core->has_notice)
        become_notifying(core, now, actions);
    else
        become_idle(core, actions);
}

static void send_kill(struct bw_guardian_core *core, bw_time now,
                      struct bw_guardian_actions *actions)
{
    act(actions, BW_GUARDIAN_DO_KILL);
    core->again_at = bw_time_add(now, core->pause_ns);
    core->pause_ns = bw_time_min(core->pause_ns * 2, KILL_PAUSE_MAX_NS);
    if (!core->reported && now - core->killing_since >= REPORT_AFTER_NS) {
        core->reported = true;
        act(actions, BW_GUARDIAN_DO_REPORT);
    }
}

static void become_killing(struct bw_guardian_core *core, bw_time now,
                           struct bw_guardian_actions *actions)
{
    core->state = BW_GUARDIAN_KILLING;
    core->killing_since = now;
    core->pause_ns = KILL_PAUSE_NS;
    core->reported = false;
    send_kill(core, now, actions);
}

static void become_ending(struct bw_guardian_core *core, int signal, bw_time at,
                          struct bw_guardian_actions *actions)
{
    core->state = BW_GUARDIAN_ENDING;
    core->kill_at = bw_time_min(core->kill_at, at);
    actions->signal = signal;
    act(actions, BW_GUARDIAN_DO_SIGNAL);
}

static void become_running(struct bw_guardian_core *core, struct bw_guardian_actions *actions)
{
    core->state = BW_GUARDIAN_RUNNING;
    core->exited = false;
    act(actions, BW_GUARDIAN_DO_SPAWN);
}

static bool runs(const struct bw_guardian_core *core)
{
    return core->state == BW_GUARDIAN_RUNNING || core->state == BW_GUARDIAN_ENDING;
}

static void on_arm(struct bw_guardian_core *core, const struct bw_guardian_event *event)
{
    if (core->gone || event->token == BW_TOKEN_NONE)
        return;
    if (core->state == BW_GUARDIAN_IDLE) {
        core->state = BW_GUARDIAN_ARMED;
        core->token = event->token;
        core->kill_at = event->at;
    } else if (event->token == core->token && core->state != BW_GUARDIAN_DEAD) {
        bool moves = core->state == BW_GUARDIAN_ARMED || core->state == BW_GUARDIAN_RUNNING;
        if (moves || BW_BUG(guardian_extends_while_killing))
            core->kill_at = event->at;
        else
            core->kill_at = bw_time_min(core->kill_at, event->at);
    }
}

static void on_start(struct bw_guardian_core *core, const struct bw_guardian_event *event,
                     struct bw_guardian_actions *actions)
{
    if (core->state != BW_GUARDIAN_ARMED || event->token != core->token)
        return;
    if (event->now >= core->kill_at && !BW_BUG(guardian_starts_late))
        become_dead(core, event->now, actions); /* too late: the work never ran */
    else
        become_running(core, actions);
}

/* A notice of another leadership would report a death that this guardian has not seen. */
static void on_notice(struct bw_guardian_core *core, const struct bw_guardian_event *event)
{
    if (!core->gone && event->token != BW_TOKEN_NONE && event->token == core->token)
        core->has_notice = true;
}

static void on_stop(struct bw_guardian_core *core, const struct bw_guardian_event *event,
                    struct bw_guardian_actions *actions)
{
    if (event->token != core->token)
        return;
    if (core->state == BW_GUARDIAN_ARMED)
        become_dead(core, event->now, actions);
    else if (runs(core))
        become_ending(core, event->signal, event->at, actions);
}

static void on_gone(struct bw_guardian_core *core, bw_time now, struct bw_guardian_actions *actions)
{
    if (core->gone)
        return;
    core->gone = true;
    if (core->has_notice && BW_BUG(guardian_reports_before_death))
        act(actions, BW_GUARDIAN_DO_SEND_NOTICE);
    if (core->state == BW_GUARDIAN_IDLE)
        act(actions, BW_GUARDIAN_DO_EXIT);
    else if (core->state == BW_GUARDIAN_ARMED || core->state == BW_GUARDIAN_DEAD)
        become_dead(core, now, actions);
    else if (runs(core))
        become_killing(core, now, actions);
}

static void on_timer(struct bw_guardian_core *core, bw_time now,
                     struct bw_guardian_actions *actions)
{
    if (core->state == BW_GUARDIAN_KILLING && now >= core->again_at)
        send_kill(core, now, actions);
    else if (core->state == BW_GUARDIAN_NOTIFYING && now >= core->again_at)
        send_notice(core, now, actions);
    else if (core->state == BW_GUARDIAN_ARMED && now >= core->kill_at)
        become_dead(core, now, actions);
    else if (runs(core) && now >= core->kill_at)
        become_killing(core, now, actions);
}

/* The remaining processes get SIGTERM, too. */
static void on_exited(struct bw_guardian_core *core, bw_time now,
                      struct bw_guardian_actions *actions)
{
    core->exited = true;
    if (core->state == BW_GUARDIAN_RUNNING)
        become_ending(core, SIGTERM, bw_time_add(now, core->kill_after_ns), actions);
    if (BW_BUG(guardian_trusts_first_process) && core->state == BW_GUARDIAN_ENDING)
        become_dead(core, now, actions);
}

static void on_empty(struct bw_guardian_core *core, bw_time now,
                     struct bw_guardian_actions *actions)
{
    if ((runs(core) && core->exited) || core->state == BW_GUARDIAN_KILLING)
        become_dead(core, now, actions);
}

void bw_guardian_step(struct bw_guardian_core *core, const struct bw_guardian_event *event,
                      struct bw_guardian_actions *actions)
{
    actions->count = 0;
    actions->signal = 0;
    actions->token = BW_TOKEN_NONE;
    switch (event->kind) {
    case BW_GUARDIAN_ARM:
        on_arm(core, event);
        break;
    case BW_GUARDIAN_START:
        on_start(core, event, actions);
        break;
    case BW_GUARDIAN_STOP:
        on_stop(core, event, actions);
        break;
    case BW_GUARDIAN_SIGNAL:
        if (runs(core)) {
            actions->signal = event->signal;
            act(actions, BW_GUARDIAN_DO_SIGNAL);
        }
        break;
    case BW_GUARDIAN_KILL:
        if (runs(core))
            become_killing(core, event->now, actions);
        else if (core->state == BW_GUARDIAN_ARMED)
            become_dead(core, event->now, actions);
        break;
    case BW_GUARDIAN_DISMISS:
        if (core->state == BW_GUARDIAN_DEAD && event->token == core->token)
            become_idle(core, actions);
        break;
    case BW_GUARDIAN_NOTICE:
        on_notice(core, event);
        break;
    case BW_GUARDIAN_TIMER:
        on_timer(core, event->now, actions);
        break;
    case BW_GUARDIAN_GONE:
        on_gone(core, event->now, actions);
        break;
    case BW_GUARDIAN_EXITED:
        on_exited(core, event->now, actions);
        break;
    case BW_GUARDIAN_EMPTY:
        on_empty(core, event->now, actions);
        break;
    case BW_GUARDIAN_FAILED:
        if (core->state == BW_GUARDIAN_RUNNING)
            become_dead(core, event->now, actions);
        break;
    }
}

bw_time bw_guardian_deadline(const struct bw_guardian_core *core)
{
    bool again = core->state == BW_GUARDIAN_KILLING || core->state == BW_GUARDIAN_NOTIFYING;
    return again ? core->again_at : core->kill_at;
}
