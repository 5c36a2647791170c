/* The recorder behind timelines and stories; see timeline.h. It believes what the observer tells
 * and asks the world nothing. Only the first election of an instance is kept. */
#include "cli/sim/timeline.h"

#include "core/base/error.h"

#include <stdlib.h>
#include <string.h>

static bool known(const struct bw_timeline *t, bw_node node)
{
    return node >= 1 && node <= t->nodes;
}

static void add_span(struct bw_timeline *t, enum bw_span_kind kind, bw_node node, bw_time from,
                     bw_time to)
{
    if (from == BW_TIME_NEVER || to <= from)
        return;
    if (t->spans_count == BW_TIMELINE_SPANS_MAX) {
        t->dropped++;
        return;
    }
    t->spans[t->spans_count++] = (struct bw_span){kind, node, from, to, t->lanes[node].term};
}

static struct bw_moment *add_moment(struct bw_timeline *t, enum bw_moment_kind kind, bw_time at,
                                    bw_node node)
{
    static struct bw_moment spill;
    if (t->moments_count == BW_TIMELINE_MOMENTS_MAX) {
        t->dropped++;
        return &spill;
    }
    struct bw_moment *moment = &t->moments[t->moments_count++];
    *moment = (struct bw_moment){.kind = kind, .at = at, .node = node};
    return moment;
}

static bool live(const struct bw_lane *lane)
{
    return lane->up && !lane->absent;
}

static uint32_t count_live(const struct bw_timeline *t)
{
    uint32_t count = 0;
    for (bw_node id = 1; id <= t->nodes; id++)
        count += live(&t->lanes[id]);
    return count;
}

/* ---- a lane's states ---- */

static void close_act(struct bw_timeline *t, bw_node node, bw_time at)
{
    struct bw_lane *lane = &t->lanes[node];
    if (lane->act_from != BW_TIME_NEVER)
        add_span(t, BW_SPAN_ACT, node, lane->act_from, bw_time_min(lane->act_until, at));
    lane->act_from = BW_TIME_NEVER;
}

static void end_claim(struct bw_timeline *t, bw_node node, bw_time at)
{
    struct bw_lane *lane = &t->lanes[node];
    close_act(t, node, at);
    if (lane->claims)
        add_span(t, BW_SPAN_CLAIM, node, lane->claim, at);
    lane->claims = false;
    lane->claim = BW_TIME_NEVER;
}

static void end_electing(struct bw_timeline *t, bw_node node, bw_time at)
{
    add_span(t, BW_SPAN_ELECTING, node, t->lanes[node].electing, at);
    t->lanes[node].electing = BW_TIME_NEVER;
}

static void go_down(struct bw_timeline *t, bw_node node, bw_time at, bool absent)
{
    struct bw_lane *lane = &t->lanes[node];
    if (!live(lane))
        return;
    end_claim(t, node, at);
    end_electing(t, node, at);
    add_span(t, BW_SPAN_PAUSED, node, lane->pause, at);
    lane->pause = BW_TIME_NEVER;
    lane->paused = false;
    lane->up = lane->leaving = false;
    lane->absent = absent;
    lane->down = at;
    lane->leader = BW_NODE_NONE;
}

static void come_up(struct bw_timeline *t, bw_node node, bw_time at)
{
    struct bw_lane *lane = &t->lanes[node];
    if (live(lane))
        return;
    add_span(t, lane->absent ? BW_SPAN_ABSENT : BW_SPAN_DOWN, node, lane->down, at);
    lane->up = true;
    lane->absent = false;
    lane->down = BW_TIME_NEVER;
}

/* ---- what all of them together show ---- */

static bool may_act(const struct bw_lane *lane, bw_time at)
{
    return lane->claims && lane->act_from <= at && at < lane->act_until;
}

static void look_for_two(struct bw_timeline *t, bw_time at)
{
    bw_node first = BW_NODE_NONE, second = BW_NODE_NONE;
    for (bw_node id = 1; id <= t->nodes; id++) {
        if (!may_act(&t->lanes[id], at))
            continue;
        second = first ? id : BW_NODE_NONE;
        first = first ? first : id;
        if (second)
            break;
    }
    if (second && !t->two) {
        struct bw_moment *moment = add_moment(t, BW_MOMENT_TWO, at, first);
        moment->other = second;
    }
    t->two = second != BW_NODE_NONE;
}

static void look_for_agreement(struct bw_timeline *t, bw_time at)
{
    bw_node leader = BW_NODE_NONE;
    bool agreed = true;
    for (bw_node id = 1; id <= t->nodes && agreed; id++) {
        const struct bw_lane *lane = &t->lanes[id];
        if (!live(lane))
            continue;
        if (leader == BW_NODE_NONE)
            leader = lane->leader;
        agreed = lane->leader == leader && leader != BW_NODE_NONE;
    }
    agreed = agreed && known(t, leader) && t->lanes[leader].claims;
    if (agreed && leader != t->agreed) {
        struct bw_moment *moment = add_moment(t, BW_MOMENT_AGREED, at, leader);
        moment->alive = count_live(t);
        moment->term = t->lanes[leader].term;
    }
    t->agreed = agreed ? leader : BW_NODE_NONE;
}

/* ---- the observer ---- */

static void on_sent(void *context, bw_time at, const struct bw_message *msg, bw_time arrives)
{
    struct bw_timeline *t = context;
    if (!known(t, msg->from) || !known(t, msg->to) || bw_message_for_detector(msg->kind))
        return;
    if (t->arrows_count == BW_TIMELINE_ARROWS_MAX) {
        t->dropped++;
        return;
    }
    t->arrows[t->arrows_count++] = (struct bw_arrow){at, arrives, msg->from, msg->to, msg->kind};
}

static void on_delivered(void *context, bw_time at, const struct bw_message *msg)
{
    struct bw_timeline *t = context;
    (void)at;
    if (!known(t, msg->to) || !(msg->flags & BW_FLAG_YES))
        return;
    if (msg->kind != BW_MSG_RAFT_VOTE_REPLY && msg->kind != BW_MSG_PROMISE)
        return;
    struct bw_lane *lane = &t->lanes[msg->to];
    if (lane->votes_term != msg->term)
        lane->votes = 0;
    lane->votes_term = msg->term;
    lane->votes++;
}

static void take_lead(struct bw_timeline *t, bw_time at, bw_node node,
                      const struct bw_announcement *a, bw_time act_from)
{
    struct bw_lane *lane = &t->lanes[node];
    struct bw_moment *moment = add_moment(t, BW_MOMENT_LEADS, at, node);
    lane->claims = true;
    lane->claim = at;
    lane->term = a->term;
    moment->term = a->term;
    moment->token = a->token;
    moment->act_from = act_from;
    moment->alive = count_live(t);
    moment->votes = lane->votes && lane->votes_term == a->term ? lane->votes + 1 : 0;
}

static void renew_act(struct bw_timeline *t, bw_node node, bw_time act_from, bw_time act_until)
{
    struct bw_lane *lane = &t->lanes[node];
    if (lane->act_from != BW_TIME_NEVER && act_from <= lane->act_until) {
        lane->act_until = act_until;
        return;
    }
    close_act(t, node, act_from);
    lane->act_from = act_from;
    lane->act_until = act_until;
}

static void on_announced(void *context, bw_time at, bw_node node, uint32_t election,
                         const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    struct bw_timeline *t = context;
    if (election != 0 || !known(t, node) || !live(&t->lanes[node]))
        return;
    struct bw_lane *lane = &t->lanes[node];
    bool leads = a->leader == node && a->reason == BW_LOSS_NONE;
    if (lane->claims && (!leads || a->term != lane->term)) {
        end_claim(t, node, at);
        if (!leads) {
            struct bw_moment *moment = add_moment(t, BW_MOMENT_LOSES, at, node);
            moment->other = a->leader;
            moment->reason = a->reason;
            moment->term = lane->term;
        }
    }
    lane->leader = a->leader;
    if (a->leader != BW_NODE_NONE)
        end_electing(t, node, at);
    if (leads && !lane->claims)
        take_lead(t, at, node, a, act_from);
    if (leads)
        renew_act(t, node, act_from, act_until);
    else if (lane->leaving)
        go_down(t, node, at, true);
    look_for_two(t, at);
    look_for_agreement(t, at);
}

static void on_suspected(void *context, bw_time at, bw_node node, bw_node whom, bool suspect,
                         double level)
{
    struct bw_timeline *t = context;
    (void)level;
    if (!suspect || !known(t, whom) || !known(t, node) || t->lanes[node].leader != whom)
        return;
    for (uint32_t i = t->moments_count; i-- > 0;) {
        const struct bw_moment *m = &t->moments[i];
        if (m->kind == BW_MOMENT_SUSPECTS && m->other == whom)
            return;
        if (m->kind == BW_MOMENT_FAULT)
            break;
    }
    struct bw_moment *moment = add_moment(t, BW_MOMENT_SUSPECTS, at, node);
    moment->other = whom;
}

static void end_split(struct bw_timeline *t, bw_time at)
{
    if (t->splits_count > 0 && t->splits[t->splits_count - 1].to == BW_TIME_NEVER)
        t->splits[t->splits_count - 1].to = at;
}

static void begin_split(struct bw_timeline *t, bw_time at, const uint8_t *groups)
{
    end_split(t, at);
    if (t->splits_count == BW_TIMELINE_SPLITS_MAX || !groups)
        return;
    uint8_t *copy = malloc(t->nodes + 1);
    if (!copy)
        return;
    memcpy(copy, groups, t->nodes + 1);
    t->splits[t->splits_count++] = (struct bw_split){at, BW_TIME_NEVER, copy};
}

static void apply_fault(struct bw_timeline *t, bw_time at, const struct bw_sim_fault *fault,
                        bw_node node)
{
    switch (fault->kind) {
    case BW_FAULT_PARTITION:
        begin_split(t, at, fault->groups);
        return;
    case BW_FAULT_HEAL:
        end_split(t, at);
        return;
    default:
        break;
    }
    if (!known(t, node))
        return;
    struct bw_lane *lane = &t->lanes[node];
    if (fault->kind == BW_FAULT_CRASH)
        go_down(t, node, at, false);
    else if (fault->kind == BW_FAULT_LEAVE && lane->claims)
        lane->leaving = true; /* it hands over first */
    else if (fault->kind == BW_FAULT_LEAVE)
        go_down(t, node, at, true);
    else if (fault->kind == BW_FAULT_RESTART || fault->kind == BW_FAULT_JOIN)
        come_up(t, node, at);
    else if (fault->kind == BW_FAULT_PAUSE && live(lane) && !lane->paused) {
        lane->paused = true;
        lane->pause = at;
    } else if (fault->kind == BW_FAULT_RESUME && lane->paused) {
        add_span(t, BW_SPAN_PAUSED, node, lane->pause, at);
        lane->paused = false;
        lane->pause = BW_TIME_NEVER;
    }
}

static void on_faulted(void *context, bw_time at, const struct bw_sim_fault *fault, bw_node node)
{
    struct bw_timeline *t = context;
    struct bw_moment *moment = add_moment(t, BW_MOMENT_FAULT, at, node);
    moment->fault = *fault;
    moment->led = known(t, node) && t->lanes[node].claims;
    moment->term = known(t, node) ? t->lanes[node].term : 0;
    apply_fault(t, at, fault, node);
    look_for_two(t, at);
    look_for_agreement(t, at);
}

static void on_wrote(void *context, bw_time at, bw_node node, bw_token token, bool accepted,
                     bool stale)
{
    struct bw_timeline *t = context;
    look_for_two(t, at);
    if (!stale)
        return;
    struct bw_moment *moment = add_moment(t, BW_MOMENT_STALE, at, node);
    moment->token = token;
    moment->accepted = accepted;
}

static void on_traced(void *context, bw_time at, bw_node node, const struct bw_trace_note *note)
{
    struct bw_timeline *t = context;
    if (!known(t, node) || note->code != BW_TRACE_ELECTION)
        return;
    struct bw_lane *lane = &t->lanes[node];
    if (lane->electing == BW_TIME_NEVER)
        lane->electing = at;
    struct bw_moment *moment = add_moment(t, BW_MOMENT_STANDS, at, node);
    moment->term = note->a;
}

bw_time bw_timeline_step(bw_time span, unsigned marks)
{
    static const int steps[] = {1, 2, 5};
    bw_time power = 1;
    for (unsigned i = 0;; i++) {
        bw_time step = power * steps[i % 3];
        if (step >= BW_US && span / step <= (bw_time)marks)
            return step;
        if (i % 3 == 2)
            power *= 10;
    }
}

void bw_timeline_tick(char *out, bw_time at, bw_time step)
{
    if (step >= BW_SEC)
        snprintf(out, BW_TEXT_SPAN, "%.0f s", (double)at / 1e9);
    else if (step >= 100 * BW_MS)
        snprintf(out, BW_TEXT_SPAN, "%.1f s", (double)at / 1e9);
    else if (step >= BW_MS)
        snprintf(out, BW_TEXT_SPAN, "%.0f ms", (double)at / 1e6);
    else
        snprintf(out, BW_TEXT_SPAN, "%.3g ms", (double)at / 1e6);
}

/* ---- life ---- */

static void start_lanes(struct bw_timeline *t, const struct bw_sim_config *config)
{
    for (bw_node id = 1; id <= t->nodes; id++) {
        struct bw_lane *lane = &t->lanes[id];
        lane->electing = lane->claim = lane->act_from = lane->down = lane->pause = BW_TIME_NEVER;
        lane->up = id <= config->nodes;
        lane->absent = !lane->up;
        if (lane->absent)
            lane->down = 0;
    }
    for (uint32_t i = 0; i < config->crashed_count; i++)
        if (known(t, config->crashed[i]))
            go_down(t, config->crashed[i], 0, false);
}

int bw_timeline_init(struct bw_timeline *timeline, const struct bw_sim_config *config)
{
    memset(timeline, 0, sizeof *timeline);
    timeline->nodes = config->nodes + config->spare;
    timeline->lanes = calloc(timeline->nodes + 1, sizeof *timeline->lanes);
    timeline->spans = malloc(BW_TIMELINE_SPANS_MAX * sizeof *timeline->spans);
    timeline->arrows = malloc(BW_TIMELINE_ARROWS_MAX * sizeof *timeline->arrows);
    timeline->moments = malloc(BW_TIMELINE_MOMENTS_MAX * sizeof *timeline->moments);
    if (!timeline->lanes || !timeline->spans || !timeline->arrows || !timeline->moments) {
        bw_timeline_deinit(timeline);
        return BW_ENOMEM;
    }
    start_lanes(timeline, config);
    timeline->observer = (struct bw_sim_observer){.context = timeline,
                                                  .sent = on_sent,
                                                  .delivered = on_delivered,
                                                  .announced = on_announced,
                                                  .suspected = on_suspected,
                                                  .faulted = on_faulted,
                                                  .wrote = on_wrote,
                                                  .traced = on_traced};
    return 0;
}

void bw_timeline_deinit(struct bw_timeline *timeline)
{
    for (uint32_t i = 0; i < timeline->splits_count; i++)
        free(timeline->splits[i].groups);
    free(timeline->lanes);
    free(timeline->spans);
    free(timeline->arrows);
    free(timeline->moments);
    memset(timeline, 0, sizeof *timeline);
}

void bw_timeline_finish(struct bw_timeline *timeline, bw_time end)
{
    timeline->end = end;
    end_split(timeline, end);
    for (bw_node id = 1; id <= timeline->nodes; id++) {
        struct bw_lane *lane = &timeline->lanes[id];
        end_claim(timeline, id, end);
        end_electing(timeline, id, end);
        add_span(timeline, BW_SPAN_PAUSED, id, lane->pause, end);
        if (!live(lane))
            add_span(timeline, lane->absent ? BW_SPAN_ABSENT : BW_SPAN_DOWN, id, lane->down, end);
    }
}
