/* Routes events between one detector and its electors. This file makes no decisions of its own. */
#include "core/elect/instance.h"
#include "core/base/assert.h"

#include "core/base/arena.h"
#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/shards/peer_balance.h"

struct elector {
    const struct bw_elector_ops *ops;
    void *self;
};

struct bw_instance {
    const struct bw_detector_ops *ops;
    void *detector;
    struct bw_balance *balance; /* NULL: leadership is not spread */
    bw_node id;                 /* self, for the balance */
    uint32_t count;
    struct elector electors[];
};

/* Takes all blocks from the arena in a fixed order; sets *out, which is NULL for a measuring
 * arena. */
static int lay_out(struct bw_arena *arena, const struct bw_instance_config *config,
                   struct bw_instance **out)
{
    struct bw_instance *self =
        bw_arena_take(arena, sizeof *self + config->count * sizeof self->electors[0]);
    void *detector =
        config->detector ? bw_arena_take(arena, config->detector->bytes(&config->detect)) : NULL;
    void *balance = config->spread
                        ? bw_arena_take(arena, bw_balance_bytes(config->count, config->detect.cap))
                        : NULL;
    if (self)
        *self = (struct bw_instance){.ops = config->detector,
                                     .detector = detector,
                                     .balance = balance,
                                     .count = config->count};
    for (uint32_t i = 0; i < config->count; i++) {
        const struct bw_instance_election *election = &config->elections[i];
        void *block = bw_arena_take(arena, election->ops->bytes(&election->config));
        if (self)
            self->electors[i] = (struct elector){.ops = election->ops, .self = block};
    }
    *out = self;
    return !arena->at || BW_ALWAYS(bw_arena_fits(arena)) ? 0 : BW_ENOMEM;
}

size_t bw_instance_bytes(const struct bw_instance_config *config)
{
    struct bw_arena measure = {0};
    struct bw_instance *none;
    lay_out(&measure, config, &none);
    return measure.used;
}

/* One step of the detector may change its verdict on all members, and each elector reacts to each
 * change. It adds a few actions, or starts an election, at most once while one is in progress. */
uint32_t bw_instance_actions_max(const struct bw_instance_config *config)
{
    uint32_t detector = config->detector ? config->detector->actions_max(&config->detect) : 0;
    uint32_t members = config->detector ? config->detect.cap : 0;
    uint32_t electors = 0;
    for (uint32_t i = 0; i < config->count; i++)
        electors +=
            3 * config->elections[i].ops->actions_max(&config->elections[i].config) + 8 * members;
    return detector + electors + config->spread;
}

/* Whether members of this elector promise a leader not to support another one for some time. */
static bool promises(const struct bw_elector_ops *ops)
{
    return ops == &bw_elect_guard || !(ops->traits & BW_TRAIT_MAY_SPLIT);
}

/* All members that the detector watches may lead, except those that are not candidates. */
static void begin_balance(struct bw_instance *self, const struct bw_instance_config *config)
{
    const struct bw_elector_config *first = &config->elections[0].config;
    const struct bw_elector_ops *ops = config->elections[0].ops;
    bw_time promise = promises(ops) ? bw_elector_promise(first) : 0;
    struct bw_balance_config balance = {.self = first->self,
                                        .elections = config->count,
                                        .cap = config->detect.cap,
                                        .members = config->detect.members,
                                        .count = config->detect.count,
                                        .period_ns = first->period_ns,
                                        .newcomer_ns = promise + promise / 8};
    self->id = first->self;
    self->balance = bw_balance_init(self->balance, &balance);
    for (uint32_t i = 0; i < first->count; i++)
        if (first->members[i].ordinary)
            bw_balance_member(self->balance, first->members[i].id, false, 0);
}

int bw_instance_init(struct bw_instance **out, void *memory,
                     const struct bw_instance_config *config)
{
    if (config->count > BW_ELECTIONS_MAX)
        return BW_ELIMIT;
    if (config->spread && (!config->detector || config->count == 0))
        return BW_EINVAL;
    struct bw_arena arena = {.at = memory, .cap = bw_instance_bytes(config)};
    int error = lay_out(&arena, config, out);
    struct bw_instance *self = *out;
    if (BW_ALWAYS(!error) && !self)
        error = BW_ENOMEM; /* the caller gave no memory */
    if (!error && self->balance)
        begin_balance(self, config);
    if (!error && self->ops)
        error = self->ops->init(self->detector, &config->detect);
    for (uint32_t i = 0; !error && i < self->count; i++)
        error = self->electors[i].ops->init(self->electors[i].self, &config->elections[i].config);
    return error;
}

static void step_elector(struct bw_instance *self, uint32_t i, const struct bw_event *event,
                         struct bw_actions *actions)
{
    uint32_t first = actions->count;
    self->electors[i].ops->step(self->electors[i].self, event, actions);
    if (i == 0)
        return;
    for (uint32_t k = first; k < actions->count; k++) {
        actions->at[k].election = (uint16_t)i;
        if (actions->at[k].kind == BW_ACTION_SEND)
            actions->at[k].msg.election = (uint16_t)i;
    }
}

/* The member that should lead election `i` after this event. */
static bw_node choose_next_leader(struct bw_instance *self, uint32_t i,
                                  const struct bw_event *event)
{
    bool resigns = event->kind == BW_EVENT_COMMAND && event->command.kind == BW_COMMAND_RESIGN;
    switch (event->kind) {
    case BW_EVENT_START:
        return bw_balance_successor(self->balance, i, BW_NODE_NONE);
    case BW_EVENT_SUSPECT:
    case BW_EVENT_HINT:
    case BW_EVENT_LEAVE:
    case BW_EVENT_CONFIRMED_DEAD:
        return bw_balance_successor(self->balance, i, event->node);
    case BW_EVENT_STOP:
        return bw_balance_successor(self->balance, i, self->id);
    case BW_EVENT_COMMAND:
        return resigns ? bw_balance_successor(self->balance, i, self->id) : BW_NODE_NONE;
    default:
        return BW_NODE_NONE;
    }
}

/* Steps elector `i`. With a balance, the event also names the member that should lead next. */
static void step_with_next_leader(struct bw_instance *self, uint32_t i,
                                  const struct bw_event *event, struct bw_actions *actions)
{
    if (!self->balance) {
        step_elector(self, i, event, actions);
        return;
    }
    struct bw_event with_next = *event;
    with_next.next_leader = choose_next_leader(self, i, event);
    step_elector(self, i, &with_next, actions);
}

static void step_electors(struct bw_instance *self, const struct bw_event *event,
                          struct bw_actions *actions)
{
    for (uint32_t i = 0; i < self->count; i++)
        step_with_next_leader(self, i, event, actions);
}

/* Passes the detector's verdicts as events to every elector, in the same step. */
static void pass_on(struct bw_instance *self, bw_time now, uint32_t first,
                    struct bw_actions *actions)
{
    uint32_t last = actions->count;
    for (uint32_t k = first; k < last; k++) {
        const struct bw_action *action = &actions->at[k];
        if (action->kind != BW_ACTION_SUSPECT && action->kind != BW_ACTION_TRUST)
            continue;
        bool suspect = action->kind == BW_ACTION_SUSPECT;
        struct bw_event event = {
            .kind = suspect ? BW_EVENT_SUSPECT : BW_EVENT_TRUST, .node = action->node, .now = now};
        if (self->balance)
            bw_balance_member(self->balance, action->node, !suspect, now);
        step_electors(self, &event, actions);
    }
}

static void step_detector(struct bw_instance *self, const struct bw_event *event,
                          struct bw_actions *actions)
{
    if (!self->ops)
        return;
    uint32_t first = actions->count;
    self->ops->step(self->detector, event, actions);
    if (actions->count > first)
        pass_on(self, event->now, first, actions);
}

static void time_out(struct bw_instance *self, const struct bw_event *event,
                     struct bw_actions *actions)
{
    if (self->ops && self->ops->deadline(self->detector) <= event->now)
        step_detector(self, event, actions);
    for (uint32_t i = 0; i < self->count; i++)
        if (self->electors[i].ops->deadline(self->electors[i].self) <= event->now)
            step_elector(self, i, event, actions);
}

static void start(struct bw_instance *self, const struct bw_event *event,
                  struct bw_actions *actions)
{
    step_detector(self, event, actions);
    struct bw_event each = *event;
    for (uint32_t i = 0; i < self->count; i++) {
        each.start = event->start + i;
        step_with_next_leader(self, i, &each, actions);
    }
}

static void step_numbered(struct bw_instance *self, uint32_t election, const struct bw_event *event,
                          struct bw_actions *actions)
{
    if (election < self->count)
        step_with_next_leader(self, election, event, actions);
    else
        bw_actions_trace(actions, BW_TRACE_IGNORED_NOT_A_MEMBER, event->node, election, 0);
}

/* A leader that resigns or hands over is not dead. An elector without promises would take it for
 * dead and elect another member before the successor acts, for example one that resigned before. So
 * only electors with promises get the event: it frees their members from the promise. */
static void step_dead_work(struct bw_instance *self, const struct bw_event *event,
                           struct bw_actions *actions)
{
    bool useless = event->runs && event->election < self->count &&
                   !promises(self->electors[event->election].ops) &&
                   !BW_BUG(instance_takes_a_transfer_for_a_death);
    if (!useless)
        step_numbered(self, event->election, event, actions);
}

static void dispatch(struct bw_instance *self, const struct bw_event *event,
                     struct bw_actions *actions)
{
    switch (event->kind) {
    case BW_EVENT_MESSAGE:
    case BW_EVENT_SEND_FAILED:
        if (bw_message_for_detector(event->msg->kind))
            step_detector(self, event, actions);
        else
            step_numbered(self, event->msg->election, event, actions);
        break;
    case BW_EVENT_TIMEOUT:
        time_out(self, event, actions);
        break;
    case BW_EVENT_START:
        start(self, event, actions);
        break;
    case BW_EVENT_COMMAND:
        step_numbered(self, event->command.election, event, actions);
        break;
    case BW_EVENT_PERSISTED:
        step_numbered(self, event->election, event, actions);
        break;
    case BW_EVENT_SUSPECT:
    case BW_EVENT_TRUST:
        step_electors(self, event, actions);
        break;
    case BW_EVENT_CONFIRMED_DEAD:
        if (event->alone) {
            step_dead_work(self, event, actions);
            break;
        }
        step_detector(self, event, actions);
        step_electors(self, event, actions);
        break;
    case BW_EVENT_JOIN:
    case BW_EVENT_LEAVE:
    case BW_EVENT_HINT:
    case BW_EVENT_STOP:
        step_detector(self, event, actions);
        step_electors(self, event, actions);
        break;
    }
}

bool bw_instance_ready(const struct bw_instance *self, uint32_t election, bw_node to)
{
    const struct elector *elector = &self->electors[election];
    return !elector->ops->ready || elector->ops->ready(elector->self, to);
}

static bool is_ready(void *context, uint32_t election, bw_node to)
{
    return bw_instance_ready(context, election, to);
}

/* Updates the balance from events that name members. */
static void note_members(struct bw_instance *self, const struct bw_event *event)
{
    if (event->kind == BW_EVENT_JOIN)
        bw_balance_member(self->balance, event->node, !event->member.ordinary, event->now);
    else if (event->kind == BW_EVENT_SUSPECT || event->kind == BW_EVENT_LEAVE)
        bw_balance_member(self->balance, event->node, false, event->now);
    else if (event->kind == BW_EVENT_TRUST)
        bw_balance_member(self->balance, event->node, true, event->now);
}

/* Reports the announced leaders to the balance, and asks it whether another member should lead one
 * of our elections. */
static void spread(struct bw_instance *self, const struct bw_event *event,
                   struct bw_actions *actions)
{
    uint32_t election;
    bw_node to;
    for (uint32_t i = 0; i < actions->count; i++)
        if (actions->at[i].kind == BW_ACTION_ANNOUNCE)
            bw_balance_leads(self->balance, actions->at[i].election, actions->at[i].announce.leader,
                             event->now);
    if (event->kind != BW_EVENT_TIMEOUT || bw_balance_deadline(self->balance) > event->now ||
        !bw_balance_next(self->balance, event->now, is_ready, self, &election, &to))
        return;
    struct bw_action *move = bw_actions_add(actions, BW_ACTION_MOVE);
    move->election = (uint16_t)election;
    move->node = to;
}

void bw_instance_step(struct bw_instance *self, const struct bw_event *event,
                      struct bw_actions *actions)
{
    if (self->balance)
        note_members(self, event);
    dispatch(self, event, actions);
    if (self->balance)
        spread(self, event, actions);
}

bw_time bw_instance_deadline(const struct bw_instance *self)
{
    bw_time next = self->ops ? self->ops->deadline(self->detector) : BW_TIME_NEVER;
    if (self->balance)
        next = bw_time_min(next, bw_balance_deadline(self->balance));
    for (uint32_t i = 0; i < self->count; i++)
        next = bw_time_min(next, self->electors[i].ops->deadline(self->electors[i].self));
    return next;
}

void bw_instance_status(const struct bw_instance *self, uint32_t election,
                        struct bw_elector_status *out)
{
    BW_ASSERT(election < self->count);
    self->electors[election].ops->status(self->electors[election].self, out);
}

enum bw_member_status bw_instance_member(const struct bw_instance *self, bw_node node)
{
    return self->ops ? self->ops->member(self->detector, node) : BW_MEMBER_ALIVE;
}

double bw_instance_level(const struct bw_instance *self, bw_node node, bw_time now)
{
    return self->ops ? self->ops->level(self->detector, node, now) : 0;
}

void *bw_instance_elector(struct bw_instance *self, uint32_t election)
{
    return election < self->count ? self->electors[election].self : NULL;
}

void *bw_instance_detector(struct bw_instance *self)
{
    return self->detector;
}
