/* Sums over stretches of time in which nothing changes. */
#include "sim/world/metrics.h"

#include <stdlib.h>
#include <string.h>

enum state { LIVE = 1, RUNNING = 2, WATCHES = 4, SUSPECTS = 8 };

void bw_sim_metrics_init(struct bw_sim_metrics *metrics, struct bw_arena *arena, uint32_t slots,
                         bool exclusive, struct bw_sim_result *result)
{
    memset(metrics, 0, sizeof *metrics);
    metrics->result = result;
    metrics->exclusive = exclusive;
    metrics->slots = slots;
    metrics->leading = bw_arena_take(arena, slots * sizeof *metrics->leading);
    metrics->claimed = bw_arena_take(arena, slots * sizeof *metrics->claimed);
    metrics->state = bw_arena_take(arena, slots);
    metrics->ends = bw_arena_take(arena, (size_t)slots * 2 * sizeof *metrics->ends);
    if (!bw_arena_fits(arena))
        return;
    memset(metrics->state, 0, slots);
    bw_sim_metrics_leader_hit(metrics, 0);
    result->time_to_leader = BW_TIME_NEVER;
    result->detection_first = result->detection_all = BW_TIME_NEVER;
}

static int by_time(const void *a, const void *b)
{
    bw_time x = *(const bw_time *)a, y = *(const bw_time *)b;
    return (x > y) - (x < y);
}

/* Begins and ends of the windows within [last, now), sorted apart; returns how many. */
static uint32_t windows(struct bw_sim_metrics *metrics, bw_time now, bool paused_too)
{
    uint32_t count = 0;
    bw_time *begins = metrics->ends, *ends = metrics->ends + metrics->slots;
    for (uint32_t i = 0; i < metrics->leading_count; i++) {
        const struct bw_sim_leading *leading = &metrics->leading[i];
        bw_time from = bw_time_max(leading->from, metrics->last);
        bw_time until = bw_time_min(leading->until, now);
        if (from >= until || !(leading->running || paused_too))
            continue;
        begins[count] = from;
        ends[count++] = until;
    }
    qsort(begins, count, sizeof *begins, by_time);
    qsort(ends, count, sizeof *ends, by_time);
    return count;
}

/* How many windows stood open at once, at the most; *overlap: for how long two or more did. */
static uint32_t sweep(struct bw_sim_metrics *metrics, bw_time now, bool paused_too,
                      bw_time *overlap)
{
    uint32_t count = windows(metrics, now, paused_too), open = 0, most = 0, k = 0;
    const bw_time *begins = metrics->ends, *ends = metrics->ends + metrics->slots;
    bw_time at = 0;
    *overlap = 0;
    for (uint32_t i = 0; i < count; i++) { /* i: next end, k: next begin */
        for (; k < count && begins[k] < ends[i]; k++) {
            *overlap += open >= 2 ? begins[k] - at : 0;
            at = begins[k];
            most = ++open > most ? open : most;
        }
        *overlap += open >= 2 ? ends[i] - at : 0;
        at = ends[i];
        open--;
    }
    return most;
}

static void sum_windows(struct bw_sim_metrics *metrics, bw_time now)
{
    struct bw_sim_result *result = metrics->result;
    bw_time overlap;
    if (metrics->leading_count == 1) {
        const struct bw_sim_leading *leading = metrics->leading;
        bool acted = bw_time_max(leading->from, metrics->last) < bw_time_min(leading->until, now);
        if (metrics->exclusive && acted && !result->max_leaders)
            result->max_leaders = 1;
        return;
    }
    if (metrics->exclusive) {
        uint32_t most = sweep(metrics, now, true, &overlap);
        if (most > result->max_leaders)
            result->max_leaders = most;
    }
    if (metrics->running_count >= 2) {
        sweep(metrics, now, false, &overlap);
        result->split_brain += overlap;
    }
}

static void advance(struct bw_sim_metrics *metrics, bw_time now)
{
    bw_time span = now - metrics->last;
    if (span <= 0)
        return;
    metrics->gap = metrics->running_count || !metrics->previous ? 0 : metrics->gap + span;
    if (metrics->gap > metrics->result->longest_gap)
        metrics->result->longest_gap = metrics->gap;
    if (!metrics->running_count)
        metrics->result->leaderless += span;
    if (metrics->leading_count)
        sum_windows(metrics, now);
    metrics->live_ns += (double)span * metrics->live;
    metrics->last = now;
}

static struct bw_sim_leading *find(const struct bw_sim_metrics *metrics, bw_node node)
{
    for (uint32_t i = 0; i < metrics->leading_count; i++)
        if (metrics->leading[i].node == node)
            return &metrics->leading[i];
    return NULL;
}

static void count_leaders(struct bw_sim_metrics *metrics)
{
    metrics->running_count = 0;
    for (uint32_t i = 0; i < metrics->leading_count; i++)
        metrics->running_count += metrics->leading[i].running;
    if (!metrics->exclusive && metrics->leading_count > metrics->result->max_leaders)
        metrics->result->max_leaders = metrics->leading_count;
}

void bw_sim_metrics_node(struct bw_sim_metrics *metrics, bw_time now, bw_node node, bool live,
                         bool running)
{
    advance(metrics, now);
    uint8_t *state = &metrics->state[node];
    if (live && !(*state & LIVE))
        metrics->live++;
    if (!live && (*state & LIVE))
        metrics->live--;
    *state = (uint8_t)((*state & ~(LIVE | RUNNING)) | (live ? LIVE : 0) | (running ? RUNNING : 0));
    if (!live) {
        *state &= (uint8_t)~SUSPECTS;
        bw_sim_metrics_yields(metrics, now, node);
    }
    struct bw_sim_leading *leading = find(metrics, node);
    if (leading)
        leading->running = running;
    count_leaders(metrics);
}

static void begin_leadership(struct bw_sim_metrics *metrics, bw_time now, bw_node node)
{
    if (metrics->previous != BW_NODE_NONE && metrics->previous != node)
        metrics->result->leader_changes++;
    metrics->previous = node;
    if (metrics->claimed[node] == BW_TIME_NEVER)
        metrics->claimed[node] = now;
    if (metrics->first == BW_TIME_NEVER)
        metrics->first = now;
}

void bw_sim_metrics_leads(struct bw_sim_metrics *metrics, bw_time now, bw_node node, bool begins,
                          bw_time from, bw_time until)
{
    advance(metrics, now);
    struct bw_sim_leading *leading = find(metrics, node);
    if (!leading) {
        leading = &metrics->leading[metrics->leading_count++];
        leading->node = node;
        leading->running = metrics->state[node] & RUNNING;
    }
    leading->from = bw_time_max(from, now);
    leading->until = until;
    if (begins)
        begin_leadership(metrics, now, node);
    count_leaders(metrics);
}

void bw_sim_metrics_yields(struct bw_sim_metrics *metrics, bw_time now, bw_node node)
{
    struct bw_sim_leading *leading = find(metrics, node);
    if (!leading)
        return;
    advance(metrics, now);
    *leading = metrics->leading[--metrics->leading_count];
    count_leaders(metrics);
}

void bw_sim_metrics_leader_hit(struct bw_sim_metrics *metrics, bw_time now)
{
    metrics->since = now;
    metrics->first = BW_TIME_NEVER;
    for (uint32_t i = 0; i < metrics->slots; i++)
        metrics->claimed[i] = BW_TIME_NEVER;
}

void bw_sim_metrics_strike(struct bw_sim_metrics *metrics, bw_time now, bw_node victim)
{
    metrics->victim = victim;
    metrics->struck = now;
    metrics->result->detection_first = metrics->result->detection_all = BW_TIME_NEVER;
    for (uint32_t i = 0; i < metrics->slots; i++)
        metrics->state[i] &= (uint8_t) ~(WATCHES | SUSPECTS);
}

void bw_sim_metrics_watcher(struct bw_sim_metrics *metrics, bw_node node)
{
    metrics->state[node] |= WATCHES;
}

static bool all_suspect(const struct bw_sim_metrics *metrics)
{
    for (uint32_t i = 0; i < metrics->slots; i++)
        if ((metrics->state[i] & (RUNNING | WATCHES | SUSPECTS)) == (RUNNING | WATCHES))
            return false;
    return true;
}

bw_node bw_sim_metrics_unnoticed(const struct bw_sim_metrics *metrics)
{
    return metrics->victim && !all_suspect(metrics) ? metrics->victim : BW_NODE_NONE;
}

void bw_sim_metrics_suspected(struct bw_sim_metrics *metrics, bw_time now, bw_node node,
                              bw_node whom, bool suspect)
{
    struct bw_sim_result *result = metrics->result;
    uint8_t *state = &metrics->state[node];
    if (whom != metrics->victim || !whom || !(*state & WATCHES))
        return;
    *state = (uint8_t)(suspect ? *state | SUSPECTS : *state & ~SUSPECTS);
    if (!suspect)
        return;
    if (result->detection_first == BW_TIME_NEVER)
        result->detection_first = now - metrics->struck;
    if (result->detection_all == BW_TIME_NEVER && all_suspect(metrics))
        result->detection_all = now - metrics->struck;
}

void bw_sim_metrics_finish(struct bw_sim_metrics *metrics, bw_time now, bw_node leader,
                           bw_time period_ns)
{
    struct bw_sim_result *result = metrics->result;
    advance(metrics, now);
    result->leader = leader;
    if (leader && !result->max_leaders)
        result->max_leaders = 1; /* it leads, though it may not act yet */
    result->virtual_ns = now;
    result->member_periods = (uint64_t)(metrics->live_ns / (double)period_ns);
    uint64_t running = 0;
    for (uint32_t i = 0; i < metrics->slots; i++)
        running += (metrics->state[i] & RUNNING) != 0;
    if (result->member_periods < running)
        result->member_periods = running; /* the first period counts as soon as it begins */
    bw_time taken = leader ? metrics->claimed[leader] : metrics->first;
    if (taken != BW_TIME_NEVER)
        result->time_to_leader = taken - metrics->since;
    else if (leader)
        result->time_to_leader = 0; /* it was hit, but never lost the lead */
}
