/* The target guardian: the shipped decisions of the guardian (src/core/guardian) with any
 * supervisor and any work.
 *
 * Model: the supervisor sends any command in any order, with the token of either of two
 * leaderships, and may die at any time. The work is a first process and further ones. Each may end
 * by itself at any time, ignores SIGTERM, and survives SIGKILL for any time. The guardian learns of
 * the end of the first process, and of an empty containment, at any later time.
 *
 * Judged:
 * - Work starts only before the KILL time that the supervisor gave last, and only once.
 * - While work runs, the guardian's next timer is not later than that time.
 * - CONFIRM, RELEASE, the death notice, FORGET and EXIT come only when no process is left; RELEASE
 *   and the notice only without a supervisor. */
#include "core/guardian/guardian.h"

#include "core/base/assert.h"
#include "sim/explore/targets.h"

#include <stdio.h>
#include <string.h>

#define TICK  (2 * BW_MS)
#define START (100 * TICK)

enum verb {
    ADVANCE,
    ARM, /* token A, KILL time in B ticks */
    START_WORK,
    STOP,
    SIGNAL,
    KILL,
    DISMISS,
    NOTICE,
    TIMER,
    GONE,
    EXITS,  /* the first process ends, unseen */
    VANISH, /* all processes have ended, unseen */
    EXITED, /* the guardian learns of the first */
    EMPTY,  /* the guardian learns of the second */
    FAILED, /* the work could not be started */
    VERBS
};

static const struct bw_explore_verb verbs[VERBS] = {
    {"advance", ""}, {"arm", "A B"},   {"start", "A"},  {"stop", "A"}, {"signal", ""},
    {"kill", ""},    {"dismiss", "A"}, {"notice", "A"}, {"timer", ""}, {"gone", ""},
    {"exits", ""},   {"vanish", ""},   {"exited", ""},  {"empty", ""}, {"failed", ""},
};

struct world {
    struct bw_guardian_core core;
    bw_time now;
    bw_time kill_at;        /* as the supervisor gave it; only earlier once the work is to end */
    bw_token token;         /* of the leadership that is armed; 0: none */
    uint64_t first, others; /* 1: processes exist */
    uint64_t notified;      /* 1: the guardian knows that the first process ended */
    uint64_t gone, ending;
};

static size_t bytes(const struct bw_explore_options *options)
{
    (void)options;
    return sizeof(struct world);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): other targets write to why */
static const char *begin(void *state, const struct bw_explore_options *options, char *why)
{
    struct world *w = state;
    (void)options;
    (void)why;
    bw_guardian_init(&w->core, 2 * TICK);
    w->now = START;
    w->notified = 1;
    w->kill_at = BW_TIME_NEVER;
    return NULL;
}

static uint32_t spans(const void *state, struct bw_explore_span *out)
{
    (void)state;
    *out = (struct bw_explore_span){.length = sizeof(struct world)};
    return 1;
}

static void digest(void *state, struct bw_digest *out)
{
    const struct world *w = state;
    const struct bw_guardian_core *core = &w->core;
    out->now = w->now;
    bw_digest_add(out, (uint64_t)core->state << 8 | core->token);
    bw_digest_time(out, core->kill_at);
    bw_digest_time(out, core->again_at);
    bw_digest_add(out, (uint64_t)core->pause_ns);
    bool killing = core->state == BW_GUARDIAN_KILLING;
    bw_digest_add(out, killing && !core->reported ? (uint64_t)(w->now - core->killing_since) : 0);
    bw_digest_add(out, (uint64_t)core->gone | (uint64_t)core->exited << 1 |
                           (uint64_t)core->reported << 2 | (uint64_t)core->has_notice << 3 |
                           (uint64_t)core->sent << 4);
    bw_digest_time(out, w->kill_at);
    bw_digest_add(out, w->token << 8 | w->first | w->others << 1 | w->notified << 2 | w->gone << 3 |
                           w->ending << 4);
}

static void add(struct bw_explore_action *out, uint32_t *count, enum verb verb, uint8_t a,
                uint8_t b)
{
    out[(*count)++] = (struct bw_explore_action){.kind = (uint8_t)verb, .a = a, .b = b};
}

static uint32_t choices(void *state, struct bw_explore_action *out)
{
    const struct world *w = state;
    uint32_t count = 0;
    add(out, &count, ADVANCE, 0, 0);
    if (bw_guardian_deadline(&w->core) <= w->now)
        add(out, &count, TIMER, 0, 0);
    for (uint8_t token = 1; token <= 2 && !w->gone; token++) {
        add(out, &count, ARM, token, 1);
        add(out, &count, ARM, token, 3);
        add(out, &count, START_WORK, token, 0);
        add(out, &count, STOP, token, 0);
        add(out, &count, DISMISS, token, 0);
        add(out, &count, NOTICE, token, 0);
    }
    if (!w->gone) {
        add(out, &count, SIGNAL, 0, 0);
        add(out, &count, KILL, 0, 0);
        add(out, &count, GONE, 0, 0);
    }
    if (w->first)
        add(out, &count, EXITS, 0, 0);
    if (w->others && !w->first)
        add(out, &count, VANISH, 0, 0);
    if (w->core.state != BW_GUARDIAN_IDLE && !w->first && !w->notified)
        add(out, &count, EXITED, 0, 0);
    if (!w->first && !w->others)
        add(out, &count, EMPTY, 0, 0);
    return count;
}

static const char *judge_action(struct world *w, enum bw_guardian_action action)
{
    bool empty = !w->first && !w->others;
    switch (action) {
    case BW_GUARDIAN_DO_SPAWN:
        if (!empty)
            return "work starts while other work runs";
        if (w->token == BW_TOKEN_NONE || w->now >= w->kill_at)
            return "work starts at or after its KILL time";
        w->first = w->others = 1;
        w->notified = 0;
        return NULL;
    case BW_GUARDIAN_DO_CONFIRM:
        return empty ? NULL : "the death of running work is confirmed";
    case BW_GUARDIAN_DO_RELEASE:
    case BW_GUARDIAN_DO_SEND_NOTICE:
        if (!w->gone)
            return "a leadership is released beside its supervisor";
        return empty ? NULL : "a leadership is released while its work runs";
    case BW_GUARDIAN_DO_FORGET:
    case BW_GUARDIAN_DO_EXIT:
        w->token = BW_TOKEN_NONE;
        w->kill_at = BW_TIME_NEVER;
        w->ending = 0;
        return empty ? NULL : "the guardian gives up running work";
    default:
        return NULL;
    }
}

/* What the supervisor asked for, as far as the guarantees depend on it. */
static void note_command(struct world *w, const struct bw_guardian_event *event)
{
    bool ours = event->token == w->token, runs = w->first || w->others;
    if (event->kind == BW_GUARDIAN_ARM && w->token == BW_TOKEN_NONE && !w->gone) {
        w->token = event->token;
        w->kill_at = event->at;
    } else if (event->kind == BW_GUARDIAN_ARM && ours) {
        w->kill_at = w->ending ? bw_time_min(w->kill_at, event->at) : event->at;
    } else if (event->kind == BW_GUARDIAN_STOP && ours) {
        w->ending = runs;
        w->kill_at = bw_time_min(w->kill_at, event->at);
    } else if (event->kind == BW_GUARDIAN_KILL || event->kind == BW_GUARDIAN_GONE) {
        w->ending |= runs;
    } else if (event->kind == BW_GUARDIAN_EXITED) {
        w->ending |= runs;
        w->notified = 1;
    }
}

static enum bw_explore_result step(struct world *w, struct bw_guardian_event *event, char *why)
{
    struct bw_guardian_actions actions;
    event->now = w->now;
    note_command(w, event);
    bw_guardian_step(&w->core, event, &actions);
    const char *wrong = NULL;
    for (unsigned i = 0; i < actions.count && !wrong; i++)
        wrong = judge_action(w, actions.at[i]);
    bool runs = w->first || w->others;
    bw_time due =
        bw_time_max(w->kill_at, w->now + 100 * TICK * (w->core.state == BW_GUARDIAN_KILLING));
    if (!wrong && runs && bw_guardian_deadline(&w->core) > due)
        wrong = "work may run past its KILL time";
    if (wrong)
        snprintf(why, BW_EXPLORE_WHY, "%s (state %s)", wrong,
                 bw_guardian_state_name(w->core.state));
    return wrong ? BW_EXPLORE_VIOLATION : BW_EXPLORE_DONE;
}

static enum bw_explore_result advance(struct world *w)
{
    uint64_t words[32];
    struct bw_digest next = {.at = words, .cap = 32, .next = BW_TIME_NEVER};
    digest(w, &next);
    if (next.next == BW_TIME_NEVER)
        return BW_EXPLORE_IMPOSSIBLE;
    w->now = next.next;
    return BW_EXPLORE_DONE;
}

static enum bw_explore_result apply(void *state, struct bw_explore_action action, char *why)
{
    static const enum bw_guardian_event_kind kinds[VERBS] = {
        [ARM] = BW_GUARDIAN_ARM,       [START_WORK] = BW_GUARDIAN_START,
        [STOP] = BW_GUARDIAN_STOP,     [SIGNAL] = BW_GUARDIAN_SIGNAL,
        [KILL] = BW_GUARDIAN_KILL,     [DISMISS] = BW_GUARDIAN_DISMISS,
        [NOTICE] = BW_GUARDIAN_NOTICE, [TIMER] = BW_GUARDIAN_TIMER,
        [GONE] = BW_GUARDIAN_GONE,     [EXITED] = BW_GUARDIAN_EXITED,
        [EMPTY] = BW_GUARDIAN_EMPTY,   [FAILED] = BW_GUARDIAN_FAILED};
    struct world *w = state;
    struct bw_guardian_event event = {.kind = kinds[action.kind], .token = action.a, .signal = 15};
    event.at = w->now + (action.kind == ARM ? action.b : 2) * TICK;
    switch ((enum verb)action.kind) {
    case ADVANCE:
        return advance(w);
    case EXITS:
        w->first = 0;
        return BW_EXPLORE_DONE;
    case VANISH:
        w->others = 0;
        return BW_EXPLORE_DONE;
    case GONE:
        w->gone = 1;
        break;
    default:
        break;
    }
    return step(w, &event, why);
}

static void describe(void *state, char *out, size_t size)
{
    const struct world *w = state;
    snprintf(out, size, "t=%lld %s token %llu, first process %s, others %s%s",
             (long long)((w->now - START) / TICK), bw_guardian_state_name(w->core.state),
             (unsigned long long)w->core.token, w->first ? "runs" : "none",
             w->others ? "run" : "none", w->gone ? ", supervisor gone" : "");
}

const struct bw_explore_target bw_explore_guardian = {
    .name = "guardian",
    .about = "the guardian of a leader's work (src/core/guardian)",
    .bounds = "2 leaderships, any commands, work that survives SIGTERM and SIGKILL for any time",
    .depth = 40,
    .verbs = verbs,
    .verbs_count = VERBS,
    .bytes = bytes,
    .begin = begin,
    .spans = spans,
    .choices = choices,
    .apply = apply,
    .digest = digest,
    .describe = describe,
};
