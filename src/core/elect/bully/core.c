/* State, rank, epoch and announcements of the bully family. See core.h. */
#include "core/elect/bully/core.h"
#include "core/base/assert.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/limits.h"

#include <string.h>

#define REFRESHES_MISSED_MAX 10

static const char *const state_names[] = {"normal",   "electing", "waiting", "contacting",
                                          "delaying", "polling",  "stopped"};

static uint32_t capacity(const struct bw_elector_config *config)
{
    return config->cap ? config->cap : config->count;
}

size_t bw_bully_bytes(const struct bw_elector_config *config, size_t size)
{
    struct bw_arena arena = {0};
    struct bw_members members;
    bw_arena_take(&arena, size);
    (void)bw_members_init(&members, &arena, capacity(config), NULL, 0);
    return arena.used;
}

uint32_t bw_bully_actions_max(const struct bw_elector_config *config)
{
    return 2 * capacity(config) + 16;
}

int bw_bully_init(void *memory, const struct bw_elector_config *config, size_t size,
                  const struct bw_bully_rules *rules)
{
    struct bw_arena arena = {memory, 0, bw_bully_bytes(config, size)};
    struct bw_bully *self = bw_arena_take(&arena, size);
    if (!self)
        return BW_ENOMEM;
    if (capacity(config) > BW_ELECTOR_MEMBERS_MAX)
        return BW_ELIMIT;
    memset(self, 0, size);
    self->rules = rules;
    self->config = *config;
    self->config.members = NULL;
    self->config.order = NULL;
    self->config.alternatives = NULL;
    self->timer = BW_TIME_NEVER;
    int error =
        bw_members_init(&self->members, &arena, capacity(config), config->members, config->count);
    if (error)
        return error;
    return bw_bully_me(self) ? 0 : BW_EINVAL;
}

bw_time bw_bully_deadline(const void *memory)
{
    return ((const struct bw_bully *)memory)->timer;
}

void bw_bully_status(const void *memory, struct bw_elector_status *out)
{
    const struct bw_bully *self = memory;
    bool leading = bw_bully_leading(self);
    *out = (struct bw_elector_status){.leader = self->leader,
                                      .leading = leading,
                                      .electing = self->state != BW_BULLY_NORMAL &&
                                                  self->state != BW_BULLY_STOPPED,
                                      .term = self->leader ? self->leader_term : self->durable.term,
                                      .token = BW_TOKEN_NONE,
                                      .act_until = leading ? BW_TIME_NEVER : 0,
                                      .state = state_names[self->state]};
}

bool bw_bully_ready(const void *memory, bw_node node)
{
    return node != BW_NODE_NONE && bw_bully_best_other(memory) == node;
}

/* ---- rank ---- */

/* The rank without the flapping penalty, which members learn at different times. */
static bool precedes(const struct bw_bully *self, const struct bw_member_row *a,
                     const struct bw_member_row *b)
{
    if (self->rules->lowest)
        return a->id < b->id;
    return a->priority != b->priority ? a->priority > b->priority : a->id > b->id;
}

bool bw_bully_outranks(const struct bw_bully *self, const struct bw_member_row *a,
                       const struct bw_member_row *b)
{
    bool by_stability = self->config.rank == BW_RANK_STABILITY && !self->rules->lowest;
    if (self->rules->classes && a->ordinary != b->ordinary)
        return b->ordinary;
    if (by_stability && a->penalty != b->penalty)
        return a->penalty < b->penalty;
    return precedes(self, a, b);
}

bool bw_bully_alive(const struct bw_bully *self, const struct bw_member_row *row)
{
    return !row->suspect && row->id != self->failed;
}

bw_node bw_bully_best_other(const struct bw_bully *self)
{
    const struct bw_member_row *best = NULL;
    for (uint32_t i = 0; i < self->members.count; i++) {
        const struct bw_member_row *row = &self->members.at[i];
        if (row->id == self->config.self || !bw_bully_alive(self, row))
            continue;
        if (!best || bw_bully_outranks(self, row, best))
            best = row;
    }
    return best ? best->id : BW_NODE_NONE;
}

/* Whether `a` has its turn before `b`, after this member. */
static bool is_next(const struct bw_bully *self, const struct bw_member_row *a,
                    const struct bw_member_row *b)
{
    const struct bw_member_row *me = bw_bully_me(self);
    bool a_follows = precedes(self, me, a), b_follows = precedes(self, me, b);
    return a_follows == b_follows ? precedes(self, a, b) : a_follows;
}

bw_node bw_bully_next_in_turn(const struct bw_bully *self)
{
    const struct bw_member_row *best = bw_bully_row(self, bw_bully_best_other(self));
    const struct bw_member_row *me = bw_bully_me(self), *next = NULL;
    for (uint32_t i = 0; best && i < self->members.count; i++) {
        const struct bw_member_row *row = &self->members.at[i];
        bool other_class = self->rules->classes && row->ordinary != best->ordinary;
        if (row != me && !other_class && bw_bully_alive(self, row) &&
            (!next || is_next(self, row, next)))
            next = row;
    }
    return next ? next->id : BW_NODE_NONE;
}

/* ---- epoch ---- */

void bw_bully_adopt(struct bw_bully *self, bw_term term)
{
    if (term <= self->durable.term)
        return;
    self->durable.term = term;
    self->dirty = true;
}

void bw_bully_open_round(struct bw_bully *self, bw_term hint, struct bw_actions *out)
{
    bool join = hint > self->leader_term && hint >= self->durable.term;
    bw_bully_adopt(self, join ? hint : self->durable.term + 1);
    self->round = self->durable.term;
    self->best = BW_NODE_NONE;
    for (uint32_t i = 0; i < self->members.count; i++)
        self->members.at[i].answered = false;
    bw_actions_trace(out, BW_TRACE_ELECTION, self->failed, self->round, 0);
}

bw_term bw_bully_close_round(struct bw_bully *self)
{
    if (self->round < self->durable.term || BW_NEVER(self->round <= self->leader_term))
        bw_bully_adopt(self, self->durable.term + 1);
    return self->durable.term;
}

void bw_bully_flush(struct bw_bully *self, struct bw_actions *out)
{
    if (!self->dirty)
        return;
    self->dirty = false;
    /* Planted bug: the epoch is sent but not persisted, so a restarted node uses old epochs
     * again. */
    if (!BW_BUG(bully_epoch_not_durable))
        bw_actions_persist(out, &self->durable);
}

/* ---- messages ---- */

struct bw_message *bw_bully_send(struct bw_bully *self, enum bw_message_kind kind, bw_node to,
                                 bw_term term, struct bw_actions *out)
{
    bw_bully_flush(self, out);
    struct bw_message *msg = bw_actions_send(out, kind, self->config.self, to, term);
    msg->bully.leader = self->failed;
    msg->bully.penalty = bw_bully_me(self)->penalty;
    return msg;
}

void bw_bully_send_coordinator(struct bw_bully *self, bw_node to, bw_node leader, bw_term term,
                               struct bw_actions *out)
{
    struct bw_message *msg = bw_bully_send(self, BW_MSG_COORDINATOR, to, term, out);
    msg->bully.leader = leader;
    if (leader == self->config.self && self->rules->attach)
        self->rules->attach(self, msg);
}

void bw_bully_send_known(struct bw_bully *self, bw_node to, struct bw_actions *out)
{
    if (self->leader != BW_NODE_NONE && self->leader_term == self->durable.term)
        bw_bully_send_coordinator(self, to, self->leader, self->leader_term, out);
    else
        bw_bully_send(self, BW_MSG_ALIVE, to, self->durable.term, out);
}

void bw_bully_ignore(struct bw_bully *self, enum bw_trace_code code, const struct bw_message *msg,
                     struct bw_actions *out)
{
    bool old = code == BW_TRACE_IGNORED_OLD;
    bw_actions_trace(out, code, msg->from, code == BW_TRACE_IGNORED_STATE ? msg->kind : msg->term,
                     old ? self->durable.term : self->state);
}

/* ---- state changes ---- */

static void enter(struct bw_bully *self, enum bw_bully_state state, bw_time timer,
                  struct bw_actions *out)
{
    if (self->state != state)
        bw_actions_trace(out, BW_TRACE_STATE, BW_NODE_NONE, self->state, state);
    self->state = state;
    self->timer = timer;
    self->passive = false;
}

/* The only function that changes the known leader; announces each change. */
static void view(struct bw_bully *self, bw_node leader, bw_term term, enum bw_loss reason,
                 struct bw_actions *out)
{
    if (self->leader == leader && self->leader_term == term)
        return;
    bool lost = bw_bully_leading(self) && leader != self->config.self;
    if (lost)
        bw_actions_trace(out, BW_TRACE_STEP_DOWN, leader, self->leader_term, reason);
    self->leader = leader;
    self->leader_term = term;
    bool leads = bw_bully_leading(self);
    bw_bully_flush(self, out);
    bw_actions_announce(out, &(struct bw_announcement){.leader = leader,
                                                       .reason = lost ? reason : BW_LOSS_NONE,
                                                       .term = term,
                                                       .token = BW_TOKEN_NONE,
                                                       .act_from = leads ? self->now : 0,
                                                       .act_until = leads ? BW_TIME_NEVER : 0});
}

static bw_time refresh_ns(const struct bw_bully *self)
{
    bw_time period = self->config.period_ns;
    return period > 0 ? BW_BULLY_REFRESH_PERIODS * period : BW_TIME_NEVER;
}

/* How long a follower keeps its leader without an announcement: ten refreshes, because a lossy link
 * soon loses three while the detector still considers the leader alive. If the detector suspects
 * the leader, only until the detector must have withdrawn a wrong suspicion, because no further
 * suspicion will be reported. */
static bw_time keep_leader_ns(const struct bw_bully *self, bw_node leader)
{
    const struct bw_member_row *row = bw_bully_row(self, leader);
    bw_time period = self->config.period_ns;
    if (row && row->suspect)
        return self->config.announce_ns + 3 * period;
    return period > 0 ? REFRESHES_MISSED_MAX * refresh_ns(self) + self->config.announce_ns
                      : BW_TIME_NEVER;
}

void bw_bully_become_busy(struct bw_bully *self, enum bw_bully_state state, bw_time wait_ns,
                          struct bw_actions *out)
{
    enter(self, state, bw_time_add(self->now, wait_ns), out);
    /* Planted bug: a node that got an OK waits forever for the announcement. */
    if (BW_BUG(bully_t2_never_ends) && state == BW_BULLY_WAITING)
        self->timer = BW_TIME_NEVER;
}

void bw_bully_become_leader(struct bw_bully *self, bw_term term, struct bw_actions *out)
{
    enter(self, BW_BULLY_NORMAL, bw_time_add(self->now, refresh_ns(self)), out);
    self->abstains = false;
    bw_actions_trace(out, BW_TRACE_WON, BW_NODE_NONE, term, 0);
    view(self, self->config.self, term, BW_LOSS_NONE, out);
}

void bw_bully_become_follower(struct bw_bully *self, bw_node leader, bw_term term,
                              struct bw_actions *out)
{
    if (self->failed == leader)
        self->failed = BW_NODE_NONE;
    enter(self, BW_BULLY_NORMAL, bw_time_add(self->now, keep_leader_ns(self, leader)), out);
    bw_actions_trace(out, BW_TRACE_LEADER, leader, term, 0);
    view(self, leader, term, BW_LOSS_TAKEN, out);
}

void bw_bully_become_leaderless(struct bw_bully *self, enum bw_loss reason, struct bw_actions *out)
{
    view(self, BW_NODE_NONE, self->leader_term, reason, out);
}

void bw_bully_become_retired(struct bw_bully *self, bw_node successor, enum bw_loss reason,
                             struct bw_actions *out)
{
    bool stops = reason == BW_LOSS_SHUT_DOWN;
    bw_bully_become_leaderless(self, reason, out);
    if (successor != BW_NODE_NONE) {
        bw_bully_adopt(self, self->durable.term + 1);
        struct bw_message *msg =
            bw_bully_send(self, BW_MSG_NOTICE, successor, self->durable.term, out);
        msg->bully.leader = stops ? self->config.self : BW_NODE_NONE;
    }
    self->abstains = !stops && successor != BW_NODE_NONE;
    if (stops)
        enter(self, BW_BULLY_STOPPED, BW_TIME_NEVER, out);
    else
        bw_bully_become_busy(self, BW_BULLY_WAITING, self->config.announce_ns, out);
}

/* ---- leading ---- */

static bool is_in_audience(const struct bw_bully *self, const struct bw_member_row *row,
                           enum bw_bully_audience audience)
{
    const struct bw_member_row *me = bw_bully_me(self);
    if (row == me)
        return false;
    return audience == BW_TO_LOWER ? bw_bully_outranks(self, me, row) : row->id != self->failed;
}

void bw_bully_lead(struct bw_bully *self, bw_term term, enum bw_bully_audience audience,
                   struct bw_actions *out)
{
    bw_bully_adopt(self, term);
    bw_bully_become_leader(self, term, out);
    if (self->rules->took_lead)
        self->rules->took_lead(self);
    for (uint32_t i = 0; i < self->members.count; i++)
        if (is_in_audience(self, &self->members.at[i], audience))
            bw_bully_send_coordinator(self, self->members.at[i].id, self->config.self, term, out);
    self->failed = BW_NODE_NONE;
}

void bw_bully_lead_again(struct bw_bully *self, bw_term term, struct bw_actions *out)
{
    bool all = self->rules->may_succeed || self->rules->lowest || self->rules->appoints;
    bw_bully_lead(self, term, all ? BW_TO_ALL : BW_TO_LOWER, out);
}
