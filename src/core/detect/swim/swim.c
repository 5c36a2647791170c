/* SWIM (Das, Gupta, Motivala 2002) with Lifeguard (Dadgar, Phillips, Currey 2018).
 *
 * Each period a member pings one other. No ack in time: it asks `indirect` others to ping on its
 * behalf. None by the end of the period: suspect. News (alive, suspect, dead, with an incarnation)
 * rides on these messages. A member that hears itself suspected raises its incarnation and says so;
 * one that does not within the suspicion time is dead. Load without loss: one ping and one ack sent
 * per member and period, whatever the size of the group.
 *
 * Periods of all members that start together are in phase: probes go out at start + k period, and a
 * verdict falls exactly at the end of the period of the unanswered probe.
 *
 * From Lifeguard: who misses acks or nacks of its helpers is slow itself and stretches its period
 * and time-outs (a probe that failed while all helpers sent a nack does not count against oneself,
 * as in memberlist); independent voices shorten a suspicion; a ping tells its target first of all
 * what is thought of it.
 *
 * Where the choice of the next target differs from the paper: members.c; where precedence
 * does: gossip.c. A prober that comes a whole period late was away itself and judges nobody.
 *
 * Model: crash and restart, lossy links, partitions; the set of members is told by events, not by
 * gossip. Guarantees: every crash is suspected by somebody within about 4(n - 1) periods at the
 * worst and 1.6 on average, and known to all a logarithmic number of periods later. A cut link
 * between two members does not matter while helpers reach both. A partition that outlasted all
 * suspicions heals by itself, because the dead are probed too. A false suspicion is possible and is
 * shouted down by its victim. */
#include "core/detect/swim/swim.h"

#include "core/base/error.h"

#define STARTS_SHIFT  12 /* refutations of one life before incarnations of the next are met */
#define ACTIONS_OTHER 64u

static void forget(struct bw_swim *swim, bw_node node, struct bw_actions *actions)
{
    if (!bw_swim_members_remove(&swim->members, node))
        return;
    bw_swim_suspicions_end(&swim->suspicions, node);
    bw_swim_news_drop(&swim->news, node);
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
    bw_swim_news_add(&swim->news, &back);
}

static bool started(const struct bw_swim *swim)
{
    return swim->period_end_ns != BW_TIME_NEVER;
}

/* HINT and CONFIRMED_DEAD, which speak of a member. */
static void hear_of(struct bw_swim *swim, const struct bw_event *event, struct bw_actions *actions)
{
    struct bw_swim_member *member = bw_swim_members_find(&swim->members, event->node);
    if (!member)
        bw_actions_trace(actions, BW_TRACE_IGNORED_STRANGER, event->node, event->kind, 0);
    else if (event->kind == BW_EVENT_HINT)
        bw_swim_members_hurry(&swim->members, member);
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
        hear_of(swim, event, actions);
    else if (event->kind == BW_EVENT_MESSAGE && started(swim))
        bw_swim_message(swim, event, actions);
    else if (event->kind == BW_EVENT_TIMEOUT && started(swim))
        bw_swim_time_out(swim, event->now, actions);
    else if (event->kind != BW_EVENT_STOP) /* probes on while the electors hand over */
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, event->node, event->kind, started(swim));
}

static bw_time deadline(const void *self)
{
    const struct bw_swim *swim = self;
    return bw_time_min(bw_time_min(swim->period_end_ns, swim->ack_due_ns),
                       bw_time_min(swim->relay_due_ns, swim->suspicions.earliest_ns));
}

/* 0 alive, 1..2 suspect as its time runs out, 2 dead. */
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
    bool sound = config->period_ns > 0 && config->ack_ns > 0 &&
                 config->ack_ns < config->period_ns && config->suspicion_min >= 0 &&
                 config->suspicion_max >= 1;
    if (!sound)
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
