/* Deliberately wrong electors. Each is as correct as its one mistake allows, so that only the
 * mistake causes the damage.
 *
 * anti-wall-clock asks a majority and counts answers correctly. Its mistake: the lease ends at a
 * time of day, which each node compares with its own time of day. While all clocks agree it
 * never has two leaders. anti-ping has a detector but no votes: a node leads if no higher node
 * answers. */
#include "sim/faults/antipattern.h"

#include "core/base/arena.h"
#include "core/base/error.h"
#include "core/base/members.h"

#include <string.h>

struct anti {
    bw_node self, holder;
    struct bw_members members;
    bw_time lease_ns, expiry;
    bw_time asked; /* the expiry for which this node requests agreement */
    bw_time next;
    uint64_t yes; /* one bit per row of `members`: that member agreed to `asked` */
    bool leading;
    bw_term term;
};

static size_t anti_bytes(const struct bw_elector_config *config)
{
    struct bw_arena measure = {0};
    struct bw_members scratch;
    bw_arena_take(&measure, sizeof(struct anti));
    bw_members_init(&scratch, &measure, config->cap, config->members, config->count);
    return measure.used;
}

static uint32_t anti_actions_max(const struct bw_elector_config *config)
{
    return config->cap + 8;
}

static int anti_init(void *memory, const struct bw_elector_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = anti_bytes(config)};
    struct anti *a = bw_arena_take(&arena, sizeof *a);
    memset(a, 0, sizeof *a);
    a->self = config->self;
    a->lease_ns = bw_elector_promise(config);
    a->next = BW_TIME_NEVER;
    if (config->count > 64)
        return BW_ELIMIT;
    return bw_members_init(&a->members, &arena, config->cap, config->members, config->count);
}

static void announce(struct anti *a, bw_node leader, struct bw_actions *actions)
{
    if (a->holder == leader && a->leading == (leader == a->self))
        return;
    a->holder = leader;
    a->leading = leader == a->self;
    struct bw_announcement out = {
        .leader = leader, .term = a->term, .act_until = a->leading ? BW_TIME_NEVER : 0};
    bw_actions_announce(actions, &out);
}

static bw_time anti_deadline(const void *self)
{
    return ((const struct anti *)self)->next;
}

static void anti_status(const void *self, struct bw_elector_status *out)
{
    const struct anti *a = self;
    *out = (struct bw_elector_status){
        .leader = a->holder, .leading = a->leading, .term = a->term, .state = "anti-pattern"};
}

static void ask(struct anti *a, bw_time now, struct bw_actions *actions)
{
    a->asked = now + a->lease_ns;
    a->yes = 0;
    for (uint32_t i = 0; i < a->members.count; i++) {
        bw_node to = a->members.at[i].id;
        if (to == a->self)
            a->yes |= (uint64_t)1 << i;
        else
            bw_actions_send(actions, BW_MSG_CLAIM, a->self, to, a->term)->promise.echo = a->asked;
    }
    a->next = now + a->lease_ns / 3;
}

/* Lower ids wait a little longer, so that two nodes rarely send requests at the same time. */
static bw_time stagger(const struct anti *a)
{
    const struct bw_member_row *row = bw_members_find(&a->members, a->self);
    return (bw_time)(a->members.count - (uint32_t)(row - a->members.at)) * 20 * BW_MS;
}

static void wall_timeout(struct anti *a, bw_time now, struct bw_actions *actions)
{
    if (a->leading && now >= a->expiry)
        announce(a, BW_NODE_NONE, actions);
    if (a->leading || now >= a->expiry)
        ask(a, now, actions);
    else
        a->next = a->expiry + stagger(a);
}

/* The mistake: compares another machine's time of day with our own. */
static void wall_claim(struct anti *a, const struct bw_message *msg, bw_time now,
                       struct bw_actions *actions)
{
    if (msg->from != a->holder && now < a->expiry)
        return;
    a->expiry = msg->promise.echo;
    announce(a, msg->from, actions);
    a->next = a->expiry + stagger(a);
    struct bw_message *reply =
        bw_actions_send(actions, BW_MSG_PROMISE, a->self, msg->from, msg->term);
    reply->flags = BW_FLAG_YES;
    reply->promise.echo = msg->promise.echo;
}

static void wall_promise(struct anti *a, const struct bw_message *msg, struct bw_actions *actions)
{
    const struct bw_member_row *row = bw_members_find(&a->members, msg->from);
    if (!row || msg->promise.echo != a->asked)
        return;
    a->yes |= (uint64_t)1 << (row - a->members.at);
    if ((uint32_t)__builtin_popcountll(a->yes) < bw_members_majority(&a->members))
        return;
    a->expiry = a->asked;
    if (!a->leading)
        a->term++;
    announce(a, a->self, actions);
}

static void wall_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    struct anti *a = self;
    if (event->kind == BW_EVENT_START)
        a->next = event->now + stagger(a);
    else if (event->kind == BW_EVENT_TIMEOUT)
        wall_timeout(a, event->now, actions);
    else if (event->kind == BW_EVENT_MESSAGE && event->msg->kind == BW_MSG_CLAIM)
        wall_claim(a, event->msg, event->now, actions);
    else if (event->kind == BW_EVENT_MESSAGE && event->msg->kind == BW_MSG_PROMISE)
        wall_promise(a, event->msg, actions);
}

static void ping_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    struct anti *a = self;
    bw_node highest = a->self;
    bw_members_apply(&a->members, event);
    for (uint32_t i = 0; i < a->members.count; i++)
        if (!a->members.at[i].suspect && a->members.at[i].id > highest)
            highest = a->members.at[i].id;
    announce(a, highest, actions);
}

const struct bw_elector_ops bw_anti_wall_clock = {
    .name = "anti-wall-clock",
    .promise =
        "An anti-pattern: leases end by the time of day; a clock that jumps makes two leaders.",
    .traits = BW_TRAIT_MAY_SPLIT | BW_TRAIT_OWN_TIMERS | BW_TRAIT_WALL_CLOCK,
    .bytes = anti_bytes,
    .actions_max = anti_actions_max,
    .init = anti_init,
    .step = wall_step,
    .deadline = anti_deadline,
    .status = anti_status,
};

const struct bw_elector_ops bw_anti_ping = {
    .name = "anti-ping",
    .promise = "An anti-pattern: a node that can ping no higher node leads; each side of a "
               "partition has a leader.",
    .traits = BW_TRAIT_MAY_SPLIT,
    .bytes = anti_bytes,
    .actions_max = anti_actions_max,
    .init = anti_init,
    .step = ping_step,
    .deadline = anti_deadline,
    .status = anti_status,
};

const struct bw_elector_ops *bw_antipattern_find(const char *name)
{
    if (strcmp(name, bw_anti_wall_clock.name) == 0)
        return &bw_anti_wall_clock;
    return strcmp(name, bw_anti_ping.name) == 0 ? &bw_anti_ping : NULL;
}
