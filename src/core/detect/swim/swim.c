/* SWIM with Lifeguard.
 *
 * Protocol (SWIM §3.1): each period a member pings one other member. If no ack arrives in time, it
 * asks `indirect` helpers to ping the target. If no ack arrives until the end of the period, it
 * suspects the target. Without loss, each member sends one ping and one ack per period on average,
 * whatever the size of the group.
 *
 * Dissemination (§4.1): updates (alive, suspect or dead, with an incarnation) are piggybacked on
 * these messages.
 *
 * Suspicion (§4.2): a member that learns that it is suspected increments its incarnation and
 * announces that it is alive. A member that does not refute the suspicion in time is dead.
 *
 * Members that start together have their periods in phase: probes are sent at start + k period. The
 * verdict is passed exactly at the end of the period of the unacknowledged probe.
 *
 * From Lifeguard:
 * - LHA-Probe: a member that misses acks, or nacks of its helpers, may be slow itself. It stretches
 *   its period and its timeouts. As in memberlist, a failed probe does not count against the prober
 *   if all helpers sent a nack.
 * - LHA-Suspicion: independent reports shorten a suspicion.
 * - Buddy System: a ping to a suspected member first of all carries that suspicion.
 *
 * Differences from the papers:
 * - the choice of the next target: members.c
 * - the precedence of updates: gossip.c
 * - A prober whose period ends a whole period late was paused itself and passes no verdict.
 * - Events announce the members; updates about unknown members are ignored.
 *
 * Model: crash and restart, lossy links, partitions.
 *
 * Guarantees: at least one member suspects a crashed member within about 4(n - 1) periods in the
 * worst case and 1.6 on average. All members learn of it a logarithmic number of periods later. A
 * cut link between two members does no harm while helpers reach both. A partition that outlasted
 * all suspicions heals, because dead members are probed too.
 *
 * Not guaranteed: accuracy. A false suspicion is possible; its target refutes it.
 *
 * Source: Das, Gupta, Motivala 2002, "SWIM: Scalable Weakly-consistent Infection-style Process
 * Group Membership Protocol"; Lifeguard: see lifeguard.h. */
#include "core/detect/swim/swim.h"

#include "core/base/error.h"

/* 2^12 refutations are possible before incarnations of the next start are reached */
#define STARTS_SHIFT  12
#define ACTIONS_OTHER 64u

static void forget(struct bw_swim *swim, bw_node node, struct bw_actions *actions)
{
    if (!bw_swim_members_remove(&swim->members, node))
        return;
    bw_swim_suspicions_end(&swim->suspicions, node);
    bw_swim_gossip_drop(&swim->gossip, node);
    for (uint32_t i = swim->relays_count; i > 0; i--)
        if (swim->relays[i - 1].target == node || swim->relays[i - 1].asker == node)
            swim->relays[i - 1] = swim->relays[--swim->relays_count];
    if (swim->target == node) {
        swim->target = BW_NODE_NONE;
        swim->ack_due_ns = BW_TIME_NEVER;
    }
    bw_actions_trace(actions, BW_TRACE_MEMBER_LEFT, node, 0, 0);
}

static void join(struct bw_swim *swim, bw_node node, struct bw_actions *actions)
{
    struct bw_swim_member *member = bw_swim_members_find(&swim->members, node);
    if (node == swim->self)
        return;
    if (member && member->status != BW_MEMBER_ALIVE)
        bw_swim_become_alive(swim, member, actions);
    else if (!member && !bw_swim_members_add(&swim->members, node)) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_FULL, node, swim->members.cap, 0);
        return;
    }
    bw_actions_trace(actions, BW_TRACE_MEMBER_JOINED, node, 0, 0);
}

static void start(struct bw_swim *swim, bw_time now)
{
    swim->start_ns = now;
    swim->period_end_ns = now + swim->period_ns;
    if (swim->starts == 0)
        return;
    struct bw_swim_update back = {
        .node = swim->self, .incarnation = swim->incarnation, .status = BW_MEMBER_ALIVE};
    bw_swim_gossip_add(&swim->gossip, &back);
}

static bool started(const struct bw_swim *swim)
{
    return swim->period_end_ns != BW_TIME_NEVER;
}

/* Handles HINT and CONFIRMED_DEAD, which concern a member. */
static void member_event(struct bw_swim *swim, const struct bw_event *event,
                         struct bw_actions *actions)
{
    struct bw_swim_member *member = bw_swim_members_find(&swim->members, event->node);
    if (!member)
        bw_actions_trace(actions, BW_TRACE_IGNORED_NOT_A_MEMBER, event->node, event->kind, 0);
    else if (event->kind == BW_EVENT_HINT)
        bw_swim_members_prioritize(&swim->members, member);
    else if (member->status != BW_MEMBER_DEAD)
        bw_swim_become_dead(swim, member, swim->self, actions);
}

static void step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    struct bw_swim *swim = self;
    swim->payloads_used = 0;
    if (event->kind == BW_EVENT_START && !started(swim))
        start(swim, event->now);
    else if (event->kind == BW_EVENT_JOIN)
        join(swim, event->member.id, actions);
    else if (event->kind == BW_EVENT_LEAVE)
        forget(swim, event->node, actions);
    else if (event->kind == BW_EVENT_HINT || event->kind == BW_EVENT_CONFIRMED_DEAD)
        member_event(swim, event, actions);
    else if (event->kind == BW_EVENT_MESSAGE && started(swim))
        bw_swim_message(swim, event, actions);
    else if (event->kind == BW_EVENT_TIMEOUT && started(swim))
        bw_swim_time_out(swim, event->now, actions);
    else if (event->kind != BW_EVENT_STOP) /* continues to probe while the electors hand over */
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, event->node, event->kind, started(swim));
}

static bw_time deadline(const void *self)
{
    const struct bw_swim *swim = self;
    return bw_time_min(bw_time_min(swim->period_end_ns, swim->ack_due_ns),
                       bw_time_min(swim->relay_due_ns, swim->suspicions.earliest_ns));
}

/* 0: alive; 1 to 2: suspect, rising until the suspicion ends; 2: dead. */
static double level(const void *self, bw_node node, bw_time now)
{
    const struct bw_swim *swim = self;
    const struct bw_swim_member *member = bw_swim_members_find(&swim->members, node);
    const struct bw_swim_suspicion *suspicion =
        member && member->status == BW_MEMBER_SUSPECT
            ? bw_swim_suspicions_find(&swim->suspicions, node)
            : NULL;
    if (!suspicion)
        return member ? member->status : 0;
    bw_time lasts = suspicion->due_ns - suspicion->began_ns;
    return 1 + (lasts > 0 ? (double)(now - suspicion->began_ns) / (double)lasts : 1);
}

static enum bw_member_status member_status(const void *self, bw_node node)
{
    const struct bw_swim *swim = self;
    const struct bw_swim_member *member = bw_swim_members_find(&swim->members, node);
    return member ? (enum bw_member_status)member->status : BW_MEMBER_ALIVE;
}

static struct bw_swim *lay_out(struct bw_arena *arena, const struct bw_detector_config *config,
                               int *error)
{
    struct bw_swim *swim = bw_arena_take(arena, sizeof *swim);
    struct bw_swim measure;
    struct bw_swim *at = swim ? swim : &measure;
    *at = (struct bw_swim){.self = config->self};
    bw_rng_init(&at->rng, config->seed ^ (uint64_t)config->self << 32);
    *error = bw_swim_members_init(&at->members, arena, config, &at->rng);
    bw_swim_suspicions_init(&at->suspicions, arena, config);
    return swim;
}

static size_t bytes(const struct bw_detector_config *config)
{
    struct bw_arena measure = {0};
    int error;
    lay_out(&measure, config, &error);
    return measure.used;
}

static uint32_t actions_max(const struct bw_detector_config *config)
{
    return BW_SWIM_RELAYS_MAX + config->indirect + ACTIONS_OTHER;
}

static int init(void *memory, const struct bw_detector_config *config)
{
    bool valid = config->period_ns > 0 && config->ack_ns > 0 &&
                 config->ack_ns < config->period_ns && config->suspicion_min >= 0 &&
                 config->suspicion_max >= 1;
    if (!valid)
        return BW_EINVAL;
    if (config->indirect > BW_SWIM_INDIRECT_MAX)
        return BW_ELIMIT;
    struct bw_arena arena = {.at = memory, .cap = bytes(config)};
    int error;
    struct bw_swim *swim = lay_out(&arena, config, &error);
    swim->incarnation = config->starts << STARTS_SHIFT;
    swim->indirect = config->indirect;
    swim->starts = config->starts;
    swim->period_ns = config->period_ns;
    swim->ack_ns = config->ack_ns;
    swim->period_end_ns = swim->ack_due_ns = swim->relay_due_ns = BW_TIME_NEVER;
    return error;
}

const struct bw_detector_ops bw_detect_swim = {
    .name = "swim",
    .summary = "SWIM with Lifeguard: constant load per member, scales to thousands",
    .bytes = bytes,
    .actions_max = actions_max,
    .init = init,
    .step = step,
    .deadline = deadline,
    .level = level,
    .member = member_status};
