/* The target shards: the shipped decisions of `run --shards` (src/core/shards) of one candidate, in
 * any environment.
 *
 * Model: two shards and at most two candidates. The candidate sees the other one or does not, at
 * any time. A poll finds a shard's record free, held by this candidate, renewed by the other one,
 * or unchanged. A supervisor ends with any exit code, is killed, or runs on. The environment is not
 * consistent with itself: that covers every real one.
 *
 * Judged: what can be lost here is work that nobody runs, so the judges ask for progress.
 * - No shard starts before the second view of the candidates, while it runs, or when it is done.
 * - A shard whose record was free, or unchanged for a TTL, is started after the longest delay.
 * - A supervisor that was killed after it had run for a while is started again at once.
 * - A shard that its owner did not take is not released again before a pause. */
#include "core/shards/run_shards.h"

#include "core/base/assert.h"
#include "sim/explore/targets.h"

#include <stdio.h>
#include <string.h>

#define SHARDS 2u
#define RETRY  BW_SEC
#define TTL    (2 * BW_SEC)
#define START  (1000 * BW_SEC)
/* Three retry intervals for the owner, and as many for each rank; the other candidate is one. */
#define LONGEST (6 * RETRY)
#define OTHER   UINT64_C(0x1111111111111111)
#define SELF    UINT64_C(0x2222222222222222)

enum verb {
    ADVANCE, /* by A seconds */
    VIEW,    /* A: 1 if the other candidate is there; B: bits of the shards it reports as done */
    BEGIN,   /* starts the next shard */
    POLL,    /* shard A finds record B */
    EXIT,    /* the supervisor of shard A ends with exit code B */
    KILLED,
    VERBS
};

enum found { UNHELD, MINE, RENEWED, UNCHANGED, FOUNDS };

static const struct bw_explore_verb verbs[VERBS] = {
    {"advance", "A"}, {"view", "A B"}, {"start", ""},
    {"poll", "A B"},  {"exit", "A B"}, {"killed", "A"},
};

struct ghost { /* what the checks remember of a shard */
    uint64_t version;
    bw_time still_since; /* the record has not changed since then; NEVER: not polled */
    bw_time free_since;  /* the shard has had no holder since then; NEVER: it has one, or unknown */
    bw_time start_from;  /* after a failure, the shard may start again from then on */
    bw_time yielded;     /* released for its owner, which has not acquired it since; 0: no */
    bw_time started;
};

struct world {
    bw_time now;
    uint64_t views;
    struct ghost ghost[SHARDS];
    struct bw_shards shards;
};

static size_t bytes(const struct bw_explore_options *options)
{
    (void)options;
    return (sizeof(struct world) + 63) / 64 * 64;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): other targets write to why */
static const char *begin(void *state, const struct bw_explore_options *options, char *why)
{
    struct world *w = state;
    (void)options;
    (void)why;
    struct bw_shards_config config = {
        .shards = SHARDS, .self = SELF, .retry_ns = RETRY, .lists = true};
    bw_shards_init(&w->shards, &config);
    w->now = START;
    for (uint32_t i = 0; i < SHARDS; i++)
        w->ghost[i].free_since = w->ghost[i].still_since = BW_TIME_NEVER;
    return NULL;
}

static void span(struct bw_explore_span *out, uint32_t *count, size_t from, size_t to)
{
    from = from / 8 * 8;
    out[(*count)++] = (struct bw_explore_span){.at = from, .length = (to - from + 7) / 8 * 8};
}

static uint32_t spans(const void *state, struct bw_explore_span *out)
{
    size_t shards = offsetof(struct world, shards);
    size_t spread = shards + offsetof(struct bw_shards, spread);
    uint32_t count = 0;
    (void)state;
    span(out, &count, 0,
         shards + offsetof(struct bw_shards, at) + SHARDS * sizeof(struct bw_shard));
    span(out, &count, spread, spread + offsetof(struct bw_spread, keys) + 4 * sizeof(uint64_t));
    span(out, &count, spread + offsetof(struct bw_spread, owner),
         spread + offsetof(struct bw_spread, owner) + 8);
    span(out, &count, spread + offsetof(struct bw_spread, score),
         spread + offsetof(struct bw_spread, score) + SHARDS * sizeof(uint64_t));
    span(out, &count, spread + offsetof(struct bw_spread, capacity),
         spread + offsetof(struct bw_spread, capacity) + 8);
    span(out, &count, spread + offsetof(struct bw_spread, load),
         spread + offsetof(struct bw_spread, load) + 8);
    span(out, &count, shards + offsetof(struct bw_shards, keys),
         shards + offsetof(struct bw_shards, keys) + 4 * sizeof(uint64_t));
    span(out, &count, shards + offsetof(struct bw_shards, count), sizeof(struct world));
    return count;
}

/* Adds a time in the past that is compared with now. Times beyond the longest limit are equal. */
static void add_past(struct bw_digest *out, bw_time time)
{
    bw_time limit = 61 * BW_SEC;
    bool never = time == BW_TIME_NEVER || time == 0;
    bw_digest_add(out, never ? UINT64_MAX : (uint64_t)bw_time_min(out->now - time, limit));
}

static void add_shard(const struct world *w, uint32_t i, struct bw_digest *out)
{
    const struct bw_shard *one = &w->shards.at[i];
    const struct ghost *ghost = &w->ghost[i];
    bw_digest_add(out, (uint64_t)one->state | (uint64_t)one->ours << 2 | (uint64_t)one->done << 3 |
                           (uint64_t)one->restart << 4 | (uint64_t)one->seen << 5 |
                           (uint64_t)(one->version == ghost->version) << 6);
    add_past(out, one->seen ? one->changed_at : 0);
    add_past(out, one->free_since);
    bw_digest_time(out, one->start_from);
    add_past(out, one->state != BW_SHARD_IDLE ? one->started_at : 0);
    bw_digest_add(out, (uint64_t)one->pause_ns);
    bw_digest_time(out, one->yield_from);
    bw_digest_add(out, (uint64_t)one->yield_ns);
    add_past(out, ghost->still_since);
    add_past(out, ghost->free_since);
    bw_digest_time(out, ghost->start_from);
    add_past(out, ghost->yielded);
}

static void digest(void *state, struct bw_digest *out)
{
    const struct world *w = state;
    const struct bw_shards *s = &w->shards;
    out->now = w->now;
    bw_digest_add(out, w->views | (uint64_t)s->spread_made << 8 | (uint64_t)s->viewed << 9 |
                           (uint64_t)s->acts << 10 | (uint64_t)s->all_done << 11 |
                           (uint64_t)s->count << 16);
    for (uint32_t i = 0; i < SHARDS; i++) {
        bw_digest_add(out, bw_shards_owner(s, i));
        add_shard(w, i, out);
    }
}

static uint32_t choices(void *state, struct bw_explore_action *out)
{
    const struct world *w = state;
    uint32_t count = 0;
    out[count++] = (struct bw_explore_action){ADVANCE, 1, 0, 0};
    out[count++] = (struct bw_explore_action){ADVANCE, 3, 0, 0};
    out[count++] = (struct bw_explore_action){VIEW, 0, 0, 0};
    out[count++] = (struct bw_explore_action){VIEW, 1, 0, 0};
    out[count++] = (struct bw_explore_action){VIEW, 1, 1, 0};
    if (bw_shards_next_start(&w->shards, w->now) != BW_SHARD_NONE)
        out[count++] = (struct bw_explore_action){BEGIN, 0, 0, 0};
    for (uint8_t i = 0; i < SHARDS; i++) {
        const struct bw_shard *one = &w->shards.at[i];
        if (!one->ours && !one->done && one->state != BW_SHARD_ENDS)
            for (uint8_t found = 0; found < (uint8_t)FOUNDS; found++)
                out[count++] = (struct bw_explore_action){POLL, i, found, 0};
        if (one->state == BW_SHARD_IDLE)
            continue;
        out[count++] = (struct bw_explore_action){EXIT, i, 0, 0};
        out[count++] = (struct bw_explore_action){EXIT, i, 1, 0};
        out[count++] = (struct bw_explore_action){KILLED, i, 0, 0};
    }
    return count;
}

static const char *view(struct world *w, struct bw_explore_action action)
{
    struct bw_shard_set done;
    bool before[SHARDS];
    for (uint32_t i = 0; i < SHARDS; i++)
        before[i] = w->shards.at[i].ours;
    bw_shards_view_begin(&w->shards);
    bw_shards_done(&w->shards, &done);
    bw_shards_view_add(&w->shards, SELF, &done);
    memset(&done, 0, sizeof done);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (action.b >> i & 1)
            bw_shard_set_add(&done, i);
    if (action.a)
        bw_shards_view_add(&w->shards, OTHER, &done);
    bw_shards_view_end(&w->shards);
    w->views += w->views < 2;
    for (uint32_t i = 0; i < SHARDS; i++)
        if (before[i] != w->shards.at[i].ours)
            w->ghost[i].free_since = w->ghost[i].still_since = BW_TIME_NEVER;
    return NULL;
}

static const char *start(struct world *w)
{
    uint32_t shard = bw_shards_next_start(&w->shards, w->now);
    if (shard == BW_SHARD_NONE)
        return "";
    if (w->views < 2)
        return "a shard starts before the second view of the candidates";
    if (w->shards.at[shard].state != BW_SHARD_IDLE || w->shards.at[shard].done)
        return "a shard starts that runs or is done";
    bw_shards_started(&w->shards, shard, w->now);
    w->ghost[shard].started = w->now;
    return NULL;
}

static void note_poll(struct ghost *ghost, const struct bw_shard_record *record, bw_time now)
{
    if (ghost->still_since == BW_TIME_NEVER || ghost->version != record->version)
        ghost->still_since = now;
    ghost->version = record->version;
    bool unheld = !record->held || now >= ghost->still_since + TTL;
    if (!unheld)
        ghost->free_since = BW_TIME_NEVER;
    else if (ghost->free_since == BW_TIME_NEVER)
        ghost->free_since = now;
    if (record->held && !record->mine)
        ghost->yielded = 0; /* perhaps its owner */
}

static const char *poll_record(struct world *w, struct bw_explore_action action)
{
    struct ghost *ghost = &w->ghost[action.a];
    bool changes = action.b == RENEWED || action.b == MINE;
    struct bw_shard_record record = {.held = action.b != UNHELD,
                                     .mine = action.b == MINE,
                                     .version = ghost->version + changes,
                                     .ttl_ns = TTL};
    note_poll(ghost, &record, w->now);
    enum bw_shard_verdict verdict = bw_shards_observe(&w->shards, action.a, &record, w->now);
    if (verdict == BW_SHARD_END)
        bw_shards_ending(&w->shards, action.a);
    if (verdict != BW_SHARD_ASK)
        return NULL;
    if (ghost->yielded && w->now < ghost->yielded + 3 * RETRY)
        return "a shard is released again although its owner did not take it";
    ghost->yielded = w->now;
    bw_shards_yield(&w->shards, action.a, w->now);
    return NULL;
}

static const char *end(struct world *w, struct bw_explore_action action)
{
    struct ghost *ghost = &w->ghost[action.a];
    const struct bw_shard *one = &w->shards.at[action.a];
    bool killed = action.kind == KILLED;
    bool lasted = w->now - ghost->started >= BW_SEC;
    enum bw_shard_fate fate = killed ? bw_shards_killed(&w->shards, action.a, 137, w->now)
                                     : bw_shards_ended(&w->shards, action.a, action.b, w->now);
    ghost->free_since = ghost->still_since = BW_TIME_NEVER;
    if (fate == BW_SHARD_FAILED)
        ghost->start_from = w->now + bw_time_max(one->pause_ns, RETRY);
    if (!killed || fate != BW_SHARD_FAILED || !lasted || one->done)
        return NULL;
    ghost->start_from = w->now;
    return bw_shards_next_start(&w->shards, w->now) != BW_SHARD_NONE
               ? NULL
               : "a killed supervisor is not started again at once";
}

/* Checks that every shard that has been free for long enough may be started. */
static const char *check_progress(const struct world *w)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        const struct ghost *ghost = &w->ghost[i];
        const struct bw_shard *one = &w->shards.at[i];
        bool waits = one->state == BW_SHARD_IDLE && !one->done && w->views >= 2;
        bool freed = ghost->free_since != BW_TIME_NEVER &&
                     w->now >= bw_time_max(ghost->free_since + LONGEST, ghost->start_from);
        if (waits && freed && bw_shards_next_start(&w->shards, w->now) == BW_SHARD_NONE)
            return "a free shard is not started";
        if (one->ours && waits && w->now >= ghost->start_from &&
            bw_shards_next_start(&w->shards, w->now) == BW_SHARD_NONE)
            return "an own shard is not started";
    }
    return NULL;
}

static const char *carry_out(struct world *w, struct bw_explore_action action)
{
    switch ((enum verb)action.kind) {
    case ADVANCE:
        w->now += action.a * BW_SEC;
        return NULL;
    case VIEW:
        return view(w, action);
    case BEGIN:
        return start(w);
    case POLL:
        return action.a < SHARDS ? poll_record(w, action) : "";
    case EXIT:
    case KILLED:
        return action.a < SHARDS && w->shards.at[action.a].state != BW_SHARD_IDLE ? end(w, action)
                                                                                  : "";
    default:
        return "";
    }
}

static enum bw_explore_result apply(void *state, struct bw_explore_action action, char *why)
{
    struct world *w = state;
    const char *wrong = carry_out(w, action);
    if (!wrong)
        wrong = check_progress(w);
    if (!wrong)
        return BW_EXPLORE_DONE;
    if (!*wrong)
        return BW_EXPLORE_IMPOSSIBLE;
    snprintf(why, BW_EXPLORE_WHY, "%s", wrong);
    return BW_EXPLORE_VIOLATION;
}

static void describe(void *state, char *out, size_t size)
{
    static const char *const names[] = {"idle", "runs", "ends"};
    const struct world *w = state;
    int length = snprintf(out, size, "t=%lld s", (long long)((w->now - START) / BW_SEC));
    for (uint32_t i = 0; i < SHARDS && (size_t)length < size; i++)
        length += snprintf(out + length, size - (size_t)length, "  %u:%s%s%s", i,
                           names[w->shards.at[i].state], w->shards.at[i].ours ? " ours" : "",
                           w->shards.at[i].done ? " done" : "");
}

const struct bw_explore_target bw_explore_shards = {
    .name = "shards",
    .about = "which shards a candidate runs and releases (src/core/shards)",
    .bounds = "2 shards, 2 candidates, any views, records and ends of supervisors",
    .depth = 13,
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
