/* Decisions of `run --shards`; see run_shards.h. */
#include "core/shards/run_shards.h"

#include "core/base/assert.h"
#include "core/base/bug.h"

#include <string.h>

#define POLLS_MAX       64u /* polls per round: 1,024 shards are polled within 16 rounds */
#define OWNER_INTERVALS 3u  /* retry intervals in which the owner may take its shard */
#define RANKS_MAX       8u  /* higher ranks wait no longer */
#define RACE_STEPS      8u  /* without listing: maximum number of delay steps */
#define RACE_DIVISOR    2   /* delay steps per retry interval */
#define PAUSE_MAX_NS    (60 * BW_SEC)
#define AT_ONCE_NS      BW_SEC /* a killed supervisor that ran for less is not restarted at once */
#define YIELD_MAX_NS    (300 * BW_SEC)

/* Each candidate starts at another shard, so that candidates that race for all do not collide. */
static uint32_t first_of(const struct bw_shards *s)
{
    return (uint32_t)(s->config.self % s->config.shards);
}

void bw_shards_init(struct bw_shards *s, const struct bw_shards_config *config)
{
    BW_ASSERT(config->shards > 0 && config->shards <= BW_SHARDS_MAX && config->retry_ns > 0);
    memset(s, 0, sizeof *s);
    s->config = *config;
    s->cursor = first_of(s);
    for (uint32_t i = 0; i < config->shards; i++)
        s->at[i].free_since = BW_TIME_NEVER;
}

/* ---- views of the candidates ---- */

void bw_shards_view_begin(struct bw_shards *s)
{
    s->count = 0;
    s->all_done = true;
}

/* Inserts a key in ascending order, without duplicates. If there are too many, all candidates keep
 * the same smallest keys. */
static void insert_key(struct bw_shards *s, uint64_t key)
{
    uint32_t at = 0;
    while (at < s->count && s->keys[at] < key)
        at++;
    if (at == BW_SPREAD_CANDIDATES_MAX || (at < s->count && s->keys[at] == key))
        return;
    uint32_t last = s->count < BW_SPREAD_CANDIDATES_MAX ? s->count : s->count - 1;
    memmove(&s->keys[at + 1], &s->keys[at], (last - at) * sizeof s->keys[0]);
    s->keys[at] = key;
    s->count = last + 1;
}

void bw_shards_view_add(struct bw_shards *s, uint64_t key, const struct bw_shard_set *done)
{
    insert_key(s, key);
    for (uint32_t i = 0; i < s->config.shards; i++)
        s->at[i].done = s->at[i].done || bw_shard_set_has(done, i);
    s->all_done = s->all_done && bw_shard_set_count(done, s->config.shards) == s->config.shards;
}

/* Records whether a shard is ours. A change discards earlier observations of the shard: it is not
 * polled while it is ours. */
static void assign(struct bw_shards *s, uint32_t shard, bool ours)
{
    struct bw_shard *one = &s->at[shard];
    if (one->ours == ours)
        return;
    one->ours = ours;
    one->seen = false;
    one->free_since = BW_TIME_NEVER;
}

bool bw_shards_view_end(struct bw_shards *s)
{
    bool same = s->spread_made && s->count == s->spread.count &&
                memcmp(s->keys, s->spread.keys, s->count * sizeof s->keys[0]) == 0;
    s->acts = s->viewed || !s->config.lists || BW_BUG(shards_start_at_the_first_look);
    s->viewed = true;
    if (!s->config.lists || same)
        return false;
    bool had = s->spread_made;
    s->spread_made = s->count > 0 && BW_ALWAYS(bw_spread_make(&s->spread, s->config.shards, s->keys,
                                                              s->count) == 0);
    for (uint32_t i = 0; i < s->config.shards; i++)
        assign(s, i, s->spread_made && bw_spread_owner(&s->spread, i) == s->config.self);
    return had || s->spread_made;
}

bool bw_shards_assign(struct bw_shards *s, uint32_t shard, bool ours, bool done)
{
    struct bw_shard *one = &s->at[shard];
    s->acts = s->viewed = true;
    one->done = one->done || done;
    one->restart = false;
    assign(s, shard, ours);
    if (ours || one->done || one->state != BW_SHARD_RUNS)
        return false;
    one->state = BW_SHARD_ENDS;
    return true;
}

bool bw_shards_may_start(const struct bw_shards *s, uint32_t shard, bw_time now)
{
    const struct bw_shard *one = &s->at[shard];
    return one->state == BW_SHARD_IDLE && !one->done && now >= one->start_from;
}

uint64_t bw_shards_owner(const struct bw_shards *s, uint32_t shard)
{
    return s->spread_made ? bw_spread_owner(&s->spread, shard) : 0;
}

/* ---- starting ---- */

static uint32_t count_running(const struct bw_shards *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->config.shards; i++)
        count += s->at[i].state != BW_SHARD_IDLE;
    return count;
}

/* How long a shard that is not ours must be free before we contend for it. */
static bw_time takeover_delay(const struct bw_shards *s, uint32_t shard, uint32_t running)
{
    if (!s->config.lists) {
        uint32_t steps = running < RACE_STEPS ? running : RACE_STEPS;
        return s->config.retry_ns / RACE_DIVISOR * steps;
    }
    uint32_t rank = s->spread_made ? bw_spread_rank(&s->spread, shard, s->config.self) : 0;
    return s->config.retry_ns * OWNER_INTERVALS * (1 + (rank < RANKS_MAX ? rank : RANKS_MAX));
}

/* When to start a supervisor for the shard; BW_TIME_NEVER: not in the current state. */
static bw_time start_at(const struct bw_shards *s, uint32_t shard, uint32_t running)
{
    const struct bw_shard *one = &s->at[shard];
    if (!s->acts || one->state != BW_SHARD_IDLE || one->done ||
        (!one->ours && !one->restart &&
         (one->free_since == BW_TIME_NEVER || BW_BUG(shards_never_take_over))))
        return BW_TIME_NEVER;
    if (one->ours || one->restart)
        return one->start_from;
    return bw_time_max(one->start_from,
                       bw_time_add(one->free_since, takeover_delay(s, shard, running)));
}

uint32_t bw_shards_next_start(const struct bw_shards *s, bw_time now)
{
    uint32_t running = count_running(s);
    for (uint32_t i = 0; i < s->config.shards; i++) {
        uint32_t shard = (first_of(s) + i) % s->config.shards;
        if (start_at(s, shard, running) <= now)
            return shard;
    }
    return BW_SHARD_NONE;
}

bw_time bw_shards_deadline(const struct bw_shards *s)
{
    uint32_t running = count_running(s);
    bw_time next = BW_TIME_NEVER;
    for (uint32_t i = 0; i < s->config.shards; i++)
        next = bw_time_min(next, start_at(s, i, running));
    return next;
}

void bw_shards_started(struct bw_shards *s, uint32_t shard, bw_time now)
{
    s->at[shard].state = BW_SHARD_RUNS;
    s->at[shard].started_at = now;
    s->at[shard].restart = false;
}

/* ---- ending ---- */

uint32_t bw_shards_next_end(const struct bw_shards *s)
{
    for (uint32_t i = 0; i < s->config.shards; i++)
        if (s->at[i].state == BW_SHARD_RUNS && s->at[i].done)
            return i;
    return BW_SHARD_NONE;
}

void bw_shards_ending(struct bw_shards *s, uint32_t shard)
{
    s->at[shard].state = BW_SHARD_ENDS;
}

enum bw_shard_fate bw_shards_ended(struct bw_shards *s, uint32_t shard, int code, bw_time now)
{
    struct bw_shard *one = &s->at[shard];
    bool requested = one->state == BW_SHARD_ENDS;
    one->state = BW_SHARD_IDLE;
    one->seen = false;
    one->free_since = BW_TIME_NEVER;
    if (code == 0) {
        one->done = true;
        return BW_SHARD_DONE;
    }
    if (requested)
        return BW_SHARD_RELEASED;
    if (now - one->started_at >= PAUSE_MAX_NS)
        one->pause_ns = 0;
    bw_time most = bw_time_max(PAUSE_MAX_NS, s->config.retry_ns);
    one->pause_ns = one->pause_ns ? bw_time_min(2 * one->pause_ns, most) : s->config.retry_ns;
    one->start_from = bw_time_add(now, one->pause_ns);
    return BW_SHARD_FAILED;
}

enum bw_shard_fate bw_shards_killed(struct bw_shards *s, uint32_t shard, int code, bw_time now)
{
    struct bw_shard *one = &s->at[shard];
    bool soon = now - one->started_at < AT_ONCE_NS || BW_BUG(shards_punish_a_killed_supervisor);
    bw_time pause = one->pause_ns;
    enum bw_shard_fate fate = bw_shards_ended(s, shard, code, now);
    if (fate != BW_SHARD_FAILED || soon)
        return fate;
    one->pause_ns = pause;
    one->start_from = now;
    one->restart = true;
    return fate;
}

/* ---- polling ---- */

void bw_shards_poll_begin(struct bw_shards *s)
{
    s->polls_left = s->config.shards < POLLS_MAX ? s->config.shards : POLLS_MAX;
}

uint32_t bw_shards_poll_next(struct bw_shards *s)
{
    for (uint32_t i = 0; i < s->config.shards && s->polls_left > 0; i++) {
        uint32_t shard = s->cursor;
        const struct bw_shard *one = &s->at[shard];
        s->cursor = (shard + 1) % s->config.shards;
        if (one->ours || one->done || one->state == BW_SHARD_ENDS)
            continue;
        s->polls_left--;
        return shard;
    }
    s->polls_left = 0;
    return BW_SHARD_NONE;
}

/* A record that was unchanged for a whole TTL counts as free. Our supervisor, not this code, judges
 * whether its holder is really gone. */
static void observe(struct bw_shard *one, const struct bw_shard_record *record, bw_time now)
{
    if (!one->seen || one->version != record->version)
        one->changed_at = now;
    one->seen = true;
    one->version = record->version;
    bw_time over = record->held ? bw_time_add(one->changed_at, record->ttl_ns) : now;
    if (BW_BUG(shards_believe_a_still_record) && record->held)
        over = BW_TIME_NEVER;
    if (now < over)
        one->free_since = BW_TIME_NEVER;
    else if (one->free_since == BW_TIME_NEVER)
        one->free_since = now;
}

enum bw_shard_verdict bw_shards_observe(struct bw_shards *s, uint32_t shard,
                                        const struct bw_shard_record *record, bw_time now)
{
    struct bw_shard *one = &s->at[shard];
    observe(one, record, now);
    if (one->free_since != BW_TIME_NEVER || one->ours)
        return BW_SHARD_KEEP;
    if (!record->mine) { /* its owner may have taken it: release at once next time */
        one->yield_from = 0;
        one->yield_ns = 0;
    }
    if (one->state != BW_SHARD_RUNS)
        return BW_SHARD_KEEP;
    if (!record->mine)
        return BW_SHARD_END;
    return s->spread_made && (now >= one->yield_from || BW_BUG(shards_yield_for_ever))
               ? BW_SHARD_ASK
               : BW_SHARD_KEEP;
}

void bw_shards_yield(struct bw_shards *s, uint32_t shard, bw_time now)
{
    struct bw_shard *one = &s->at[shard];
    bw_time first = s->config.retry_ns * OWNER_INTERVALS;
    bw_time most = bw_time_max(YIELD_MAX_NS, first);
    one->yield_ns = one->yield_ns ? bw_time_min(2 * one->yield_ns, most) : first;
    one->yield_from = bw_time_add(now, bw_time_add(one->yield_ns, takeover_delay(s, shard, 0)));
    one->state = BW_SHARD_ENDS;
}

/* ---- what is published ---- */

uint32_t bw_shards_ours(const struct bw_shards *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->config.shards; i++)
        count += s->at[i].ours;
    return count;
}

void bw_shards_running(const struct bw_shards *s, struct bw_shard_set *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < s->config.shards; i++)
        if (s->at[i].state != BW_SHARD_IDLE)
            bw_shard_set_add(out, i);
}

void bw_shards_done(const struct bw_shards *s, struct bw_shard_set *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < s->config.shards; i++)
        if (s->at[i].done)
            bw_shard_set_add(out, i);
}

bool bw_shards_finished(const struct bw_shards *s)
{
    for (uint32_t i = 0; i < s->config.shards; i++)
        if (!s->at[i].done || s->at[i].state != BW_SHARD_IDLE)
            return false;
    return !s->config.lists || (s->viewed && s->all_done);
}
