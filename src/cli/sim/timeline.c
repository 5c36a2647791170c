/* Records a run for timelines and stories; see timeline.h. It relies only on the observer's
 * callbacks and never queries the simulated world. It records only the first election of an
 * instance. */
#include "cli/sim/timeline.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "sim/stores/lease.h"

#include <stdlib.h>
#include <string.h>

static bool known(const struct bw_timeline *t, bw_node node)
{
    return node >= 1 && node <= t->nodes;
}

static void add_span(struct bw_timeline *t, enum bw_span_kind kind, bw_node node, bw_time from,
                     bw_time to, bw_term term)
{
    if (from == BW_TIME_NEVER || to <= from)
        return;
    if (t->spans_count == BW_TIMELINE_SPANS_MAX) {
        t->dropped++;
        return;
    }
    t->spans[t->spans_count++] = (struct bw_span){kind, node, from, to, term};
}

static struct bw_moment *add_moment(struct bw_timeline *t, enum bw_moment_kind kind, bw_time at,
                                    bw_node node)
{
    static struct bw_moment spill;
    if (t->moments_count == BW_TIMELINE_MOMENTS_MAX) {
        t->dropped++;
        return &spill;
    }
    uint32_t i = t->moments_count++;
    while (i > 0 && t->moments[i - 1].at > at) /* some are known only later */
        i--;
    struct bw_moment *moment = &t->moments[i];
    memmove(moment + 1, moment, (t->moments_count - 1 - i) * sizeof *moment);
    *moment = (struct bw_moment){.kind = kind, .at = at, .node = node};
    return moment;
}

static bool live(const struct bw_lane *lane)
{
    return lane->up && !lane->absent;
}

/* Returns the number of members, alive or not: a majority is one of these. */
static uint32_t count_members(const struct bw_timeline *t)
{
    uint32_t count = 0;
    for (bw_node id = 1; id <= t->nodes; id++)
        count += BW_BUG(story_counts_live_voters) ? live(&t->lanes[id]) : !t->lanes[id].absent;
    return count;
}

/* ---- a lane's states ---- */

static void end_claim(struct bw_timeline *t, bw_node node)
{
    t->lanes[node].claims = false;
    t->lanes[node].claim = BW_TIME_NEVER;
}

static void end_electing(struct bw_timeline *t, bw_node node, bw_time at)
{
    add_span(t, BW_SPAN_ELECTING, node, t->lanes[node].electing, at, 0);
    t->lanes[node].electing = BW_TIME_NEVER;
}

static void go_down(struct bw_timeline *t, bw_node node, bw_time at, bool absent)
{
    struct bw_lane *lane = &t->lanes[node];
    if (!live(lane))
        return;
    end_claim(t, node);
    end_electing(t, node, at);
    add_span(t, BW_SPAN_PAUSED, node, lane->pause, at, 0);
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
    add_span(t, lane->absent ? BW_SPAN_ABSENT : BW_SPAN_DOWN, node, lane->down, at, 0);
    lane->up = true;
    lane->absent = false;
    lane->down = BW_TIME_NEVER;
}

/* ---- the observer ---- */

/* Returns whether messages of this kind are sent all the time while nothing happens. */
static bool is_routine(unsigned kind)
{
    return kind == BW_MSG_RAFT_APPEND || kind == BW_MSG_RAFT_APPEND_REPLY ||
           kind == BW_MSG_STABLE_OK || kind == BW_MSG_CLAIM || kind == BW_MSG_PROMISE ||
           kind == BW_MSG_ARE_YOU_THERE || kind == BW_MSG_THERE_ANSWER ||
           kind == BW_MSG_ARE_YOU_COORDINATOR || kind == BW_MSG_COORDINATOR_ANSWER;
}

static void on_sent(void *context, bw_time at, const struct bw_message *msg, bw_time arrives)
{
    struct bw_timeline *t = context;
    if (!known(t, msg->from) || !known(t, msg->to) || bw_message_for_detector(msg->kind))
        return;
    if (t->arrows_count == BW_TIMELINE_ARROWS_MAX) {
        t->dropped++;
        return;
    }
    /* a leader that repeats that it leads (COORDINATOR) sends heartbeats */
    bw_time claim = t->lanes[msg->from].claim;
    bool repeats = claim != BW_TIME_NEVER && at - claim > t->settle;
    t->arrows[t->arrows_count++] = (struct bw_arrow){
        at, arrives, msg->from, msg->to, msg->kind, repeats || is_routine(msg->kind)};
}

static void on_delivered(void *context, bw_time at, const struct bw_message *msg)
{
    struct bw_timeline *t = context;
    (void)at;
    if (!known(t, msg->to) || !known(t, msg->from) || !(msg->flags & BW_FLAG_YES))
        return;
    if (msg->kind != BW_MSG_RAFT_VOTE_REPLY && msg->kind != BW_MSG_PROMISE)
        return;
    struct bw_lane *lane = &t->lanes[msg->to];
    if (!lane->voted)
        lane->voted = malloc(t->nodes + 1);
    if (!lane->voted)
        return;
    if (lane->votes_term != msg->term || !lane->votes) {
        memset(lane->voted, 0, t->nodes + 1);
        lane->voted[msg->to] = 1; /* it votes for itself */
        lane->votes = 1;
    }
    lane->votes_term = msg->term;
    lane->votes += !lane->voted[msg->from]; /* a vote may arrive twice */
    lane->voted[msg->from] = 1;
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
    moment->voters = count_members(t);
    moment->votes = lane->votes_term == a->term ? lane->votes : 0;
}

/* Adds an interval of a node, or extends its last one of this kind. */
static void add_interval(struct bw_timeline *t, const struct bw_sim_interval *interval,
                         enum bw_span_kind kind, uint32_t *last)
{
    if (*last) {
        struct bw_span *before = &t->spans[*last - 1];
        if (before->to == interval->from && before->term == interval->term) {
            before->to = interval->to;
            return;
        }
    }
    uint32_t count = t->spans_count;
    add_span(t, kind, interval->node, interval->from, interval->to, interval->term);
    if (t->spans_count > count)
        *last = t->spans_count;
}

static void add_strip(struct bw_timeline *t, const struct bw_sim_interval *interval)
{
    if (interval->kind == BW_MEASURE_TWO_ACTED) {
        struct bw_moment *moment = add_moment(t, BW_MOMENT_TWO, interval->from, interval->node);
        moment->other = interval->other;
        moment->lasts = interval->to - interval->from;
    }
    if (t->strips_count == BW_TIMELINE_STRIPS_MAX) {
        t->dropped++;
        return;
    }
    t->strips[t->strips_count++] = (struct bw_strip){interval->kind, interval->from, interval->to};
}

static void on_measured(void *context, const struct bw_sim_interval *interval)
{
    struct bw_timeline *t = context;
    bool lane = known(t, interval->node);
    switch (interval->kind) {
    case BW_MEASURE_LED:
        if (lane)
            add_interval(t, interval, BW_SPAN_CLAIM, &t->lanes[interval->node].led);
        return;
    case BW_MEASURE_ACTED:
        if (lane)
            add_interval(t, interval, BW_SPAN_ACT, &t->lanes[interval->node].acted);
        return;
    case BW_MEASURE_AGREED:
        add_moment(t, BW_MOMENT_AGREED, interval->from, interval->node)->alive = interval->count;
        return;
    default:
        add_strip(t, interval);
        return;
    }
}

static void on_announced(void *context, bw_time at, bw_node node, uint32_t election,
                         const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    struct bw_timeline *t = context;
    (void)act_until;
    if (election != 0 || !known(t, node) || !live(&t->lanes[node]))
        return;
    struct bw_lane *lane = &t->lanes[node];
    bool leads = a->leader == node && a->reason == BW_LOSS_NONE;
    if (lane->claims && (!leads || a->term != lane->term)) {
        end_claim(t, node);
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
    if (!leads && lane->leaving)
        go_down(t, node, at, true);
}

static void on_suspected(void *context, bw_time at, bw_node node, bw_node target, bool suspect,
                         double level)
{
    struct bw_timeline *t = context;
    (void)level;
    if (!suspect || !known(t, target) || !known(t, node) || t->lanes[node].leader != target)
        return;
    for (uint32_t i = t->moments_count; i-- > 0;) {
        const struct bw_moment *m = &t->moments[i];
        if (m->kind == BW_MOMENT_SUSPECTS && m->other == target)
            return;
        if (m->kind == BW_MOMENT_FAULT)
            break;
    }
    struct bw_moment *moment = add_moment(t, BW_MOMENT_SUSPECTS, at, node);
    moment->other = target;
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
    if (fault->kind == BW_FAULT_CRASH || fault->kind == BW_FAULT_KILL)
        go_down(t, node, at, false);
    else if (fault->kind == BW_FAULT_LEAVE && lane->claims)
        lane->leaving = true; /* a leader transfers leadership before it stops */
    else if (fault->kind == BW_FAULT_LEAVE)
        go_down(t, node, at, true);
    else if (fault->kind == BW_FAULT_RESTART || fault->kind == BW_FAULT_JOIN)
        come_up(t, node, at);
    else if (fault->kind == BW_FAULT_PAUSE && live(lane) && !lane->paused) {
        lane->paused = true;
        lane->pause = at;
    } else if (fault->kind == BW_FAULT_RESUME && lane->paused) {
        add_span(t, BW_SPAN_PAUSED, node, lane->pause, at, 0);
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
}

static void on_wrote(void *context, bw_time at, bw_node node, bw_token token, bool accepted,
                     bool stale)
{
    struct bw_timeline *t = context;
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
        lane->electing = lane->claim = lane->down = lane->pause = BW_TIME_NEVER;
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
    timeline->lease = config->algorithm && bw_sim_is_lease(config->algorithm);
    timeline->settle = 4 * config->latency.max;
    timeline->lanes = calloc(timeline->nodes + 1, sizeof *timeline->lanes);
    timeline->spans = malloc(BW_TIMELINE_SPANS_MAX * sizeof *timeline->spans);
    timeline->arrows = malloc(BW_TIMELINE_ARROWS_MAX * sizeof *timeline->arrows);
    timeline->moments = malloc(BW_TIMELINE_MOMENTS_MAX * sizeof *timeline->moments);
    timeline->strips = malloc(BW_TIMELINE_STRIPS_MAX * sizeof *timeline->strips);
    if (!timeline->lanes || !timeline->spans || !timeline->arrows || !timeline->moments ||
        !timeline->strips) {
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
                                                  .traced = on_traced,
                                                  .measured = on_measured};
    return 0;
}

void bw_timeline_deinit(struct bw_timeline *timeline)
{
    for (uint32_t i = 0; i < timeline->splits_count; i++)
        free(timeline->splits[i].groups);
    for (bw_node id = 1; timeline->lanes && id <= timeline->nodes; id++)
        free(timeline->lanes[id].voted);
    free(timeline->strips);
    free(timeline->lanes);
    free(timeline->spans);
    free(timeline->arrows);
    free(timeline->moments);
    memset(timeline, 0, sizeof *timeline);
}

/* Returns whether the agreement `m` only continues the latest one: the world measures at the end of
 * the run and goes on. */
static bool agreed_before(const struct bw_timeline *t, uint32_t count, const struct bw_moment *m)
{
    while (count-- > 0)
        if (t->moments[count].kind == BW_MOMENT_AGREED)
            return t->moments[count].node == m->node;
    return false;
}

/* Removes the moments after the end of the run. Those that began before it stay. */
static void drop_later_moments(struct bw_timeline *t)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->moments_count; i++) {
        struct bw_moment *m = &t->moments[i];
        bool later = m->kind == BW_MOMENT_TWO ? m->at >= t->end : m->at > t->end;
        bool again = m->kind == BW_MOMENT_AGREED && kept > 0 && m->at == t->end &&
                     t->shown > t->end && agreed_before(t, kept, m);
        if (!later && !again)
            t->moments[kept++] = *m;
    }
    t->moments_count = kept;
}

void bw_timeline_finish(struct bw_timeline *timeline, const struct bw_sim_config *config,
                        const struct bw_sim_result *result)
{
    bw_time more = config->until ? 0 : (bw_time)((double)result->virtual_ns * config->run_on);
    timeline->end = result->virtual_ns;
    timeline->shown = timeline->end + more;
    end_split(timeline, timeline->shown);
    for (bw_node id = 1; id <= timeline->nodes; id++) {
        struct bw_lane *lane = &timeline->lanes[id];
        bw_time to = timeline->shown;
        end_electing(timeline, id, to);
        add_span(timeline, BW_SPAN_PAUSED, id, lane->pause, to, 0);
        if (!live(lane))
            add_span(timeline, lane->absent ? BW_SPAN_ABSENT : BW_SPAN_DOWN, id, lane->down, to, 0);
    }
    drop_later_moments(timeline);
}
