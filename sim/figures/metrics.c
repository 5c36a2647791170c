/* Measures intervals and sums them; see metrics.h. Time is cut at every event and at the ends of
 * the windows of the leaders, so that nothing changes within a piece. */
#include "sim/figures/metrics.h"

#include "core/base/bug.h"

#include <string.h>

enum state { LIVE = 1, RUNNING = 2, WATCHES = 4, SUSPECTS = 8 };

void bw_sim_metrics_init(struct bw_sim_metrics *metrics, struct bw_arena *arena, uint32_t slots,
                         bool exclusive, struct bw_sim_result *result)
{
    memset(metrics, 0, sizeof *metrics);
    metrics->result = result;
    metrics->exclusive = exclusive;
    metrics->slots = slots;
    metrics->phase.kind = BW_MEASURE_NONE_ACTED;
    metrics->leading = bw_arena_take(arena, slots * sizeof *metrics->leading);
    metrics->claimed = bw_arena_take(arena, slots * sizeof *metrics->claimed);
    metrics->acted = bw_arena_take(arena, slots * sizeof *metrics->acted);
    metrics->state = bw_arena_take(arena, slots);
    if (!bw_arena_fits(arena))
        return;
    memset(metrics->state, 0, slots);
    bw_sim_metrics_leader_hit(metrics, 0, BW_NODE_NONE);
    result->detection_first = result->detection_all = BW_TIME_NEVER;
}

/* ---- intervals ---- */

static void report(const struct bw_sim_metrics *metrics, const struct bw_sim_interval *interval)
{
    const struct bw_sim_observer *observer = metrics->observer;
    bool lasts = interval->from < interval->to || interval->kind == BW_MEASURE_AGREED;
    if (lasts && observer && observer->measured)
        observer->measured(observer->context, interval);
}

static void end_led(struct bw_sim_metrics *metrics, struct bw_sim_leading *l, bw_time at)
{
    struct bw_sim_interval led = {.kind = BW_MEASURE_LED, .node = l->node, .term = l->term};
    led.from = l->led_from;
    led.to = at;
    report(metrics, &led);
    l->led_from = at;
}

static void end_acted(struct bw_sim_metrics *metrics, struct bw_sim_leading *l, bw_time at)
{
    struct bw_sim_interval acted = {.kind = BW_MEASURE_ACTED, .node = l->node, .term = l->term};
    acted.from = l->act_from;
    acted.to = at;
    report(metrics, &acted);
    l->act_from = at;
}

static void end_phase(struct bw_sim_metrics *metrics, bw_time at)
{
    struct bw_sim_interval *phase = &metrics->phase;
    phase->to = at;
    report(metrics, phase);
    if (phase->kind == BW_MEASURE_NONE_ACTED)
        metrics->result->none_acted += at - phase->from;
    if (phase->kind == BW_MEASURE_TWO_ACTED)
        metrics->result->split_brain += at - phase->from;
    phase->from = at;
}

/* Ends the phase at `last` if another number of nodes acts now. */
static void look_for_phase(struct bw_sim_metrics *metrics)
{
    bw_node one = BW_NODE_NONE, two = BW_NODE_NONE;
    for (uint32_t i = 0; i < metrics->leading_count; i++) {
        const struct bw_sim_leading *l = &metrics->leading[i];
        if (!l->acts)
            continue;
        two = one;
        one = l->node;
    }
    enum bw_sim_measure kind = two   ? BW_MEASURE_TWO_ACTED
                               : one ? BW_MEASURE_ONE_ACTED
                                     : BW_MEASURE_NONE_ACTED;
    if (kind == metrics->phase.kind)
        return;
    end_phase(metrics, metrics->last);
    metrics->phase.kind = kind;
    metrics->phase.node = two ? two : one;
    metrics->phase.other = two ? one : BW_NODE_NONE;
}

/* Lets time pass until `at`. Nothing changes before it. */
static void pass(struct bw_sim_metrics *metrics, bw_time at)
{
    struct bw_sim_result *result = metrics->result;
    bw_time span = at - metrics->last;
    if (span <= 0)
        return;
    look_for_phase(metrics);
    metrics->gap = metrics->running_count || !metrics->previous ? 0 : metrics->gap + span;
    result->longest_gap = bw_time_max(result->longest_gap, metrics->gap);
    if (!metrics->running_count)
        result->leaderless += span;
    uint32_t open = 0;
    for (uint32_t i = 0; i < metrics->leading_count; i++)
        open += metrics->leading[i].open;
    if (metrics->exclusive && open > result->max_leaders)
        result->max_leaders = open;
    metrics->live_ns += (double)span * metrics->live;
    metrics->last = at;
}

/* Updates whether a leader acts, at `last`. */
static void look_at_window(struct bw_sim_metrics *metrics, struct bw_sim_leading *l)
{
    bool acted = l->acts;
    l->open = l->from <= metrics->last && metrics->last < l->until;
    l->acts = l->open && (l->running || BW_BUG(figures_count_a_paused_leader));
    if (acted && !l->acts)
        end_acted(metrics, l, metrics->last);
    if (l->acts && !acted)
        l->act_from = metrics->last;
    bool first =
        metrics->claimed[l->node] != BW_TIME_NEVER && metrics->acted[l->node] == BW_TIME_NEVER;
    if (l->acts && first)
        metrics->acted[l->node] = metrics->last;
}

/* Returns when the next window begins or ends, after `last`; NEVER: none does. */
static bw_time next_edge(const struct bw_sim_metrics *metrics)
{
    bw_time edge = BW_TIME_NEVER;
    for (uint32_t i = 0; i < metrics->leading_count; i++) {
        const struct bw_sim_leading *l = &metrics->leading[i];
        if (l->from >= l->until)
            continue;
        if (l->from > metrics->last)
            edge = bw_time_min(edge, l->from);
        else if (l->until > metrics->last)
            edge = bw_time_min(edge, l->until);
    }
    return edge;
}

static void advance(struct bw_sim_metrics *metrics, bw_time now)
{
    bw_time edge;
    while (metrics->last < now && (edge = next_edge(metrics)) <= now) {
        pass(metrics, edge);
        for (uint32_t i = 0; i < metrics->leading_count; i++)
            look_at_window(metrics, &metrics->leading[i]);
    }
    pass(metrics, now);
}

/* ---- leaders ---- */

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
    struct bw_sim_leading *l = find(metrics, node);
    if (l) {
        l->running = running;
        look_at_window(metrics, l);
    }
    count_leaders(metrics);
}

static void begin_leadership(struct bw_sim_metrics *metrics, bw_time now, bw_node node)
{
    if (metrics->previous != BW_NODE_NONE && metrics->previous != node)
        metrics->result->leader_changes++;
    metrics->previous = node;
    if (metrics->claimed[node] == BW_TIME_NEVER)
        metrics->claimed[node] = now;
    if (metrics->first == BW_NODE_NONE)
        metrics->first = node;
    if (metrics->hit && !metrics->winner && metrics->result->noticed == BW_TIME_NEVER)
        metrics->result->noticed = now - metrics->since;
}

void bw_sim_metrics_leads(struct bw_sim_metrics *metrics, bw_time now, bw_node node, bool begins,
                          bw_term term, bw_time from, bw_time until)
{
    advance(metrics, now);
    struct bw_sim_leading *l = find(metrics, node);
    if (!l) {
        l = &metrics->leading[metrics->leading_count++];
        *l = (struct bw_sim_leading){.node = node, .led_from = now};
        l->running = metrics->state[node] & RUNNING;
    } else if (begins) {
        end_led(metrics, l, now);
        if (l->acts)
            end_acted(metrics, l, now);
    }
    l->from = bw_time_max(from, now);
    l->until = until;
    l->term = term;
    if (begins)
        begin_leadership(metrics, now, node);
    look_at_window(metrics, l);
    count_leaders(metrics);
}

void bw_sim_metrics_yields(struct bw_sim_metrics *metrics, bw_time now, bw_node node)
{
    struct bw_sim_leading *l = find(metrics, node);
    if (!l)
        return;
    advance(metrics, now);
    if (l->acts)
        end_acted(metrics, l, now);
    end_led(metrics, l, now);
    *l = metrics->leading[--metrics->leading_count];
    count_leaders(metrics);
}

/* ---- times since the last fault of the leader ---- */

void bw_sim_metrics_leader_hit(struct bw_sim_metrics *metrics, bw_time now, bw_node hit)
{
    struct bw_sim_result *result = metrics->result;
    metrics->since = now;
    metrics->hit = hit;
    metrics->winner = metrics->first = BW_NODE_NONE;
    result->noticed = result->time_to_leader = BW_TIME_NEVER;
    result->time_to_act = result->time_to_agree = BW_TIME_NEVER;
    for (uint32_t i = 0; i < metrics->slots; i++)
        metrics->claimed[i] = metrics->acted[i] = BW_TIME_NEVER;
}

void bw_sim_metrics_sign(struct bw_sim_metrics *metrics, bw_time now, bw_node node, bw_node target)
{
    bool about = metrics->hit && target == metrics->hit && node != target;
    if (about && !metrics->winner && metrics->result->noticed == BW_TIME_NEVER)
        metrics->result->noticed = now - metrics->since;
}

void bw_sim_metrics_follows(struct bw_sim_metrics *metrics, bw_time now, bw_node node,
                            bw_node leader)
{
    if (leader != metrics->hit)
        bw_sim_metrics_sign(metrics, now, node, metrics->hit);
}

static void end_agreed(struct bw_sim_metrics *metrics, bw_time at)
{
    metrics->agreed.kind = BW_MEASURE_AGREED;
    metrics->agreed.to = at;
    if (metrics->agreed.node)
        report(metrics, &metrics->agreed);
    metrics->agreed.from = at;
}

void bw_sim_metrics_agreed(struct bw_sim_metrics *metrics, bw_time now, bw_node leader,
                           uint32_t count)
{
    if (leader != metrics->agreed.node) {
        end_agreed(metrics, now);
        metrics->agreed.node = leader;
        metrics->agreed.count = count;
    }
    bool known = metrics->winner && !BW_BUG(figures_take_the_last_winner);
    if (!leader || known || metrics->claimed[leader] == BW_TIME_NEVER)
        return;
    metrics->winner = leader;
    metrics->result->time_to_agree = now - metrics->since;
}

static bw_time since(const struct bw_sim_metrics *metrics, bw_time at)
{
    return at == BW_TIME_NEVER ? BW_TIME_NEVER : at - metrics->since;
}

/* `leader`: the leader that all agree on at the end, or none. */
static void finish_times(struct bw_sim_metrics *metrics, bw_node leader)
{
    struct bw_sim_result *result = metrics->result;
    bw_node winner = metrics->winner ? metrics->winner : leader ? leader : metrics->first;
    result->time_to_leader = result->time_to_act = BW_TIME_NEVER;
    if (!metrics->winner)
        result->time_to_agree = BW_TIME_NEVER;
    if (leader && !metrics->winner && metrics->claimed[leader] == BW_TIME_NEVER) {
        /* the fault hit the leader, but it did not lose leadership */
        result->time_to_leader = result->time_to_agree = result->time_to_act = 0;
        return;
    }
    if (!winner)
        return;
    result->time_to_leader = since(metrics, metrics->claimed[winner]);
    result->time_to_act = since(metrics, metrics->acted[winner]);
}

/* ---- detection ---- */

void bw_sim_metrics_fail(struct bw_sim_metrics *metrics, bw_time now, bw_node victim)
{
    metrics->victim = victim;
    metrics->failed_at = now;
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
                              bw_node target, bool suspect)
{
    struct bw_sim_result *result = metrics->result;
    uint8_t *state = &metrics->state[node];
    if (target != metrics->victim || !target || !(*state & WATCHES))
        return;
    *state = (uint8_t)(suspect ? *state | SUSPECTS : *state & ~SUSPECTS);
    if (!suspect)
        return;
    if (result->detection_first == BW_TIME_NEVER)
        result->detection_first = now - metrics->failed_at;
    if (result->detection_all == BW_TIME_NEVER && all_suspect(metrics))
        result->detection_all = now - metrics->failed_at;
}

void bw_sim_metrics_finish(struct bw_sim_metrics *metrics, bw_time now, bw_node leader,
                           bw_time period_ns)
{
    struct bw_sim_result *result = metrics->result;
    advance(metrics, now);
    for (uint32_t i = 0; i < metrics->leading_count; i++) {
        end_led(metrics, &metrics->leading[i], now);
        if (metrics->leading[i].acts)
            end_acted(metrics, &metrics->leading[i], now);
    }
    end_phase(metrics, now);
    end_agreed(metrics, now);
    result->leader = leader;
    if (leader && !result->max_leaders)
        result->max_leaders = 1; /* there is a leader, although it may not act yet */
    result->virtual_ns = now;
    result->member_periods = (uint64_t)(metrics->live_ns / (double)period_ns);
    uint64_t running = 0;
    for (uint32_t i = 0; i < metrics->slots; i++)
        running += (metrics->state[i] & RUNNING) != 0;
    if (result->member_periods < running)
        result->member_periods = running; /* the first period counts when it begins */
    finish_times(metrics, leader);
}
