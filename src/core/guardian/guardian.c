/* The guardian's decisions, see guardian.h. A blow that did not kill is repeated, first soon
 * and then less often, for as long as it takes: a process that cannot die (disk sleep, frozen) is
 * reported once and its leadership is never released before it is gone. */
#include "core/guardian/guardian.h"

#include "core/base/assert.h"
#include "core/base/bug.h"

#include <signal.h>
#include <string.h>

#define BLOW_PAUSE_NS     (2 * BW_MS)
#define BLOW_PAUSE_MAX_NS (200 * BW_MS)
#define REPORT_AFTER_NS   (250 * BW_MS)
/* Said at 0, 5 and 15 ms: a burst that fills a queue is over by then, and who waits, waits less
 * than it would for a lease. */
#define SPEAK_TIMES    3u
#define SPEAK_PAUSE_NS (5 * BW_MS)

static const char *const names[] = {"idle",    "armed", "running", "ending",
                                    "killing", "dead",  "speaking"};

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
    core->words = false;
    act(actions, core->gone ? BW_GUARDIAN_DO_EXIT : BW_GUARDIAN_DO_FORGET);
}

static void speak(struct bw_guardian_core *core, bw_time now, struct bw_guardian_actions *actions)
{
    act(actions, BW_GUARDIAN_DO_SPEAK);
    core->spoken++;
    core->again_at = bw_time_add(now, SPEAK_PAUSE_NS * core->spoken);
    if (core->spoken >= SPEAK_TIMES)
        become_idle(core, actions);
}

static void become_speaking(struct bw_guardian_core *core, bw_time now,
                            struct bw_guardian_actions *actions)
{
    core->state = BW_GUARDIAN_SPEAKING;
    core->spoken = 0;
    speak(core, now, actions);
}

static void become_dead(struct bw_guardian_core *core, bw_time now,
                        struct bw_guardian_actions *actions)
{
    core->state = BW_GUARDIAN_DEAD;
    core->kill_at = core->again_at = BW_TIME_NEVER;
    if (!core->gone && !(BW_BUG(guardian_speaks_while_supervised) && core->words)) {
        act(actions, BW_GUARDIAN_DO_CONFIRM);
        return;
    }
    act(actions, BW_GUARDIAN_DO_RELEASE);
    actions->token = core->token;
    if (core->words)
        become_speaking(core, now, actions);
    else
        become_idle(core, actions);
}

static void blow(struct bw_guardian_core *core, bw_time now, struct bw_guardian_actions *actions)
{
    act(actions, BW_GUARDIAN_DO_KILL);
    core->again_at = bw_time_add(now, core->pause_ns);
    core->pause_ns = bw_time_min(core->pause_ns * 2, BLOW_PAUSE_MAX_NS);
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
    core->pause_ns = BLOW_PAUSE_NS;
    core->reported = false;
    blow(core, now, actions);
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
        become_dead(core, event->now, actions); /* too late: it never ran */
    else
        become_running(core, actions);
}

/* Words of another leadership would tell of a death that nobody here has seen. */
static void on_words(struct bw_guardian_core *core, const struct bw_guardian_event *event)
{
    if (!core->gone && event->token != BW_TOKEN_NONE && event->token == core->token)
        core->words = true;
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
    if (core->words && BW_BUG(guardian_speaks_before_death))
        act(actions, BW_GUARDIAN_DO_SPEAK);
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
        blow(core, now, actions);
    else if (core->state == BW_GUARDIAN_SPEAKING && now >= core->again_at)
        speak(core, now, actions);
    else if (core->state == BW_GUARDIAN_ARMED && now >= core->kill_at)
        become_dead(core, now, actions);
    else if (runs(core) && now >= core->kill_at)
        become_killing(core, now, actions);
}

/* What is left behind by the first process is asked to end, too. */
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
    case BW_GUARDIAN_WORDS:
        on_words(core, event);
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
    bool again = core->state == BW_GUARDIAN_KILLING || core->state == BW_GUARDIAN_SPEAKING;
    return again ? core->again_at : core->kill_at;
}
