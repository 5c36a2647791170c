/* Events that bully and its variants handle alike: start and stop, suspicion and trust, membership,
 * commands, and the messages COORDINATOR and NOTICE. See core.h. */
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/elect/bully/core.h"

void bw_bully_campaign(struct bw_bully *self, bw_term hint, struct bw_actions *out)
{
    self->rules->campaign(self, hint, out);
}

static bool busy(const struct bw_bully *self)
{
    return self->state != BW_BULLY_NORMAL;
}

/* ---- start and stop ---- */

/* The flapping penalty: the restarts beyond the free ones, minus one for each forgive_ns of
 * uptime. */
static uint32_t own_penalty(const struct bw_bully *self)
{
    uint32_t starts = self->durable.starts, free = self->config.penalty_free + 1;
    bw_time forgive = self->config.forgive_ns;
    uint64_t forgiven = forgive > 0 ? (uint64_t)((self->now - self->started_at) / forgive) : 0;
    uint32_t penalty = starts > free ? starts - free : 0;
    return penalty > forgiven ? penalty - (uint32_t)forgiven : 0;
}

bool bw_bully_start(struct bw_bully *self, const struct bw_event *event, struct bw_actions *out)
{
    const struct bw_start *start = event->start;
    self->started_at = event->now;
    self->durable = start->durable;
    /* Planted bug: every start counts as the first, so a flapping node keeps its rank. */
    self->durable.starts = BW_BUG(bully_penalty_forgotten) ? 1 : self->durable.starts + 1;
    self->dirty = true;
    self->leader_term = start->passive ? self->durable.term : 0;
    bw_bully_me(self)->penalty = own_penalty(self);
    if (!start->passive)
        return true;
    if (start->leader == self->config.self) {
        bw_bully_become_leader(self, self->durable.term, out);
    } else if (start->leader != BW_NODE_NONE) {
        bw_bully_become_follower(self, start->leader, self->durable.term, out);
        self->timer = BW_TIME_NEVER;
    }
    self->passive = true;
    return false;
}

/* Hands over to `node` if that member ranks next: any other would lose leadership at once. */
static bw_node transfer(struct bw_bully *self, const struct bw_event *event, struct bw_actions *out)
{
    bw_node node = event->command.node, successor = bw_bully_best_other(self);
    if (!bw_bully_leading(self) || node == self->config.self) {
        bw_actions_trace(out, BW_TRACE_IGNORED_STATE, node, event->kind, self->state);
        return BW_NODE_NONE;
    }
    if (node != successor) {
        bw_actions_trace(out, BW_TRACE_IGNORED_RANK, node, successor, 0);
        return BW_NODE_NONE;
    }
    bw_actions_trace(out, BW_TRACE_TRANSFER, successor, 0, 0);
    bw_bully_become_retired(self, successor, BW_LOSS_TRANSFERRED, out);
    return successor;
}

static bw_node resign(struct bw_bully *self, const struct bw_event *event, struct bw_actions *out)
{
    if (!bw_bully_leading(self)) {
        bw_actions_trace(out, BW_TRACE_IGNORED_STATE, event->command.node, event->kind,
                         self->state);
        return BW_NODE_NONE;
    }
    bw_node successor = BW_BUG(bully_resigns_to_the_highest) ? bw_bully_best_other(self)
                                                             : bw_bully_next_in_turn(self);
    bw_actions_trace(out, BW_TRACE_TRANSFER, successor, 0, 0);
    bw_bully_become_retired(self, successor, BW_LOSS_RESIGNED, out);
    return successor;
}

bw_node bw_bully_hand_over(struct bw_bully *self, const struct bw_event *event,
                           struct bw_actions *out)
{
    if (event->kind != BW_EVENT_STOP)
        return event->command.kind == BW_COMMAND_TRANSFER ? transfer(self, event, out)
                                                          : resign(self, event, out);
    bw_node successor = bw_bully_leading(self) ? bw_bully_best_other(self) : BW_NODE_NONE;
    bw_bully_become_retired(self, successor, BW_LOSS_SHUT_DOWN, out);
    return successor;
}

/* ---- suspicion, trust, membership ---- */

/* The leader is gone. Starts an election unless one is in progress. */
static void leader_failed(struct bw_bully *self, bw_node node, struct bw_actions *out)
{
    self->failed = node;
    self->abstains = false;
    bw_bully_become_leaderless(self, BW_LOSS_NONE, out);
    if (!busy(self))
        bw_bully_campaign(self, 0, out);
}

static void on_suspect(struct bw_bully *self, bw_node node, struct bw_actions *out)
{
    if (node != BW_NODE_NONE && node == self->leader && node != self->config.self)
        leader_failed(self, node, out);
}

static bool awaits_reply(const struct bw_bully *self)
{
    const struct bw_member_row *me = bw_bully_me(self);
    for (uint32_t i = 0; i < self->members.count; i++) {
        const struct bw_member_row *row = &self->members.at[i];
        if (row != me && bw_bully_alive(self, row) && bw_bully_outranks(self, row, me))
            return true;
    }
    return false;
}

/* T1 is the time that the higher-ranked members have to reply. When the last of them is confirmed
 * dead, there is nothing to wait for. A suspicion is not enough, because the member may only be
 * slow. */
static void on_confirmed_dead(struct bw_bully *self, bw_node node, struct bw_actions *out)
{
    on_suspect(self, node, out);
    if (self->state == BW_BULLY_ELECTING && !awaits_reply(self))
        self->timer = self->now;
}

static void on_trust(struct bw_bully *self, bw_node node, struct bw_actions *out)
{
    if (self->failed == node)
        self->failed = BW_NODE_NONE;
    if (bw_bully_leading(self) && node != self->config.self && bw_bully_row(self, node))
        bw_bully_send_coordinator(self, node, self->config.self, self->leader_term, out);
    else if (node == self->leader && !busy(self) && !self->passive)
        bw_bully_become_follower(self, node, self->leader_term, out);
}

static void on_join(struct bw_bully *self, const struct bw_event *event, struct bw_actions *out)
{
    bw_node node = event->member.id;
    bool known = bw_bully_row(self, node) != NULL;
    if (bw_members_add(&self->members, &event->member)) {
        bw_actions_trace(out, BW_TRACE_IGNORED_FULL, node, self->members.cap, 0);
        return;
    }
    if (known)
        return;
    bw_actions_trace(out, BW_TRACE_MEMBER_JOINED, node, 0, 0);
    if (!bw_bully_leading(self))
        return;
    if (self->rules->took_lead)
        self->rules->took_lead(self);
    bw_bully_send_coordinator(self, node, self->config.self, self->leader_term, out);
}

static void on_leave(struct bw_bully *self, const struct bw_event *event, struct bw_actions *out)
{
    bw_node node = event->node;
    if (node == self->config.self) {
        bw_bully_hand_over(self, &(struct bw_event){.kind = BW_EVENT_STOP, .now = self->now}, out);
        return;
    }
    bw_members_remove(&self->members, node);
    bw_actions_trace(out, BW_TRACE_MEMBER_LEFT, node, 0, 0);
    if (self->best == node)
        self->best = BW_NODE_NONE;
    if (self->leader == node)
        leader_failed(self, node, out);
    if (bw_bully_leading(self) && self->rules->took_lead)
        self->rules->took_lead(self);
}

static void on_command(struct bw_bully *self, const struct bw_event *event, struct bw_actions *out)
{
    const struct bw_command *command = &event->command;
    bool other = command->node != BW_NODE_NONE && command->node != self->config.self;
    switch (command->kind) {
    case BW_COMMAND_CAMPAIGN:
        self->abstains = false;
        if (other)
            self->failed = command->node;
        if (other && self->leader == command->node)
            leader_failed(self, command->node, out);
        else if (!busy(self))
            bw_bully_campaign(self, 0, out);
        return;
    case BW_COMMAND_RESIGN:
    case BW_COMMAND_TRANSFER:
        bw_bully_hand_over(self, event, out);
        return;
    case BW_COMMAND_PROPOSE:
    case BW_COMMAND_CHANGE:
    case BW_COMMAND_READ:
    case BW_COMMAND_COMPACT:
        break;
    }
    bw_actions_trace(out, BW_TRACE_IGNORED_STATE, command->node, event->kind, self->state);
}

/* ---- messages ---- */

bool bw_bully_receive(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    struct bw_member_row *row = bw_bully_row(self, msg->from);
    if (!row || msg->from == self->config.self) {
        bw_bully_ignore(self, BW_TRACE_IGNORED_NOT_A_MEMBER, msg, out);
        return false;
    }
    row->penalty = msg->bully.penalty;
    if (self->failed == msg->from)
        self->failed = BW_NODE_NONE;
    self->passive = false;
    return true;
}

/* A lower-ranked member leads: challenges it. */
static void challenge(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    bw_actions_trace(out, BW_TRACE_SPLIT_BRAIN, msg->bully.leader, msg->term, self->leader_term);
    if (bw_bully_leading(self))
        bw_bully_lead_again(self, self->durable.term + 1, out);
    else if (!busy(self))
        bw_bully_campaign(self, self->durable.term + 1, out);
}

/* An announcement for an epoch in which a higher-ranked member leads. Only the claimant gets an
 * answer. Otherwise two nodes that disagree about the rank of others would answer each other
 * forever. */
static void contradict(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    if (bw_bully_leading(self))
        challenge(self, msg, out);
    else if (msg->from == msg->bully.leader)
        bw_bully_send_known(self, msg->from, out);
    else
        bw_bully_ignore(self, BW_TRACE_IGNORED_OLD, msg, out);
}

/* An announcement that names this node as leader. */
static void named(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    if (bw_bully_leading(self) && msg->term == self->leader_term) {
        bw_bully_ignore(self, BW_TRACE_IGNORED_STATE, msg, out);
    } else if (self->rules->appoints) {
        bw_bully_become_leader(self, msg->term, out);
        self->failed = BW_NODE_NONE;
    } else if (bw_bully_leading(self)) {
        bw_bully_lead_again(self, self->durable.term + 1, out);
    } else if (!busy(self)) {
        bw_bully_campaign(self, 0, out);
    }
}

/* Whether to follow an announcement that is not older than what this node knows. */
static bool acceptable(const struct bw_bully *self, const struct bw_member_row *leader)
{
    if (self->abstains || !bw_bully_outranks(self, bw_bully_me(self), leader))
        return true;
    /* Planted bug: the node follows every announcement, even of a leader that it should
     * challenge. */
    if (BW_BUG(bully_lower_coordinator))
        return true;
    return !bw_bully_leading(self) && self->rules->may_succeed &&
           self->rules->may_succeed(self, leader->id);
}

static void follow(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    bool kept = self->leader == msg->bully.leader && self->leader_term == msg->term;
    if (kept && msg->from != msg->bully.leader && !busy(self)) {
        bw_bully_ignore(self, BW_TRACE_IGNORED_STATE, msg, out);
        return;
    }
    bw_bully_become_follower(self, msg->bully.leader, msg->term, out);
    if (self->rules->learned)
        self->rules->learned(self, msg);
}

static bool stale(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    /* Planted bug: the epoch is not checked, so a delayed announcement of a dead leader is
     * accepted. */
    if (msg->term >= self->durable.term || BW_BUG(bully_stale_coordinator))
        return false;
    bw_bully_ignore(self, BW_TRACE_IGNORED_OLD, msg, out);
    if (msg->bully.leader == msg->from || msg->bully.leader == self->config.self)
        bw_bully_send_known(self, msg->from, out);
    return true;
}

static void on_coordinator(struct bw_bully *self, const struct bw_message *msg,
                           struct bw_actions *out)
{
    if (stale(self, msg, out))
        return;
    bw_node leader = msg->bully.leader;
    const struct bw_member_row *row = bw_bully_row(self, leader);
    bw_bully_adopt(self, msg->term);
    if (!row) {
        bw_bully_ignore(self, BW_TRACE_IGNORED_NOT_A_MEMBER, msg, out);
        return;
    }
    if (leader == self->config.self) {
        named(self, msg, out);
        return;
    }
    const struct bw_member_row *current = bw_bully_row(self, self->leader);
    bool same_epoch = msg->term == self->leader_term && current && current != row;
    if (same_epoch && bw_bully_outranks(self, current, row))
        contradict(self, msg, out);
    else if (acceptable(self, row) || (current == row && msg->term == self->leader_term))
        follow(self, msg, out);
    else
        challenge(self, msg, out);
}

/* NOTICE asks this node to lead. It comes from the initiator of bully-notify, or from a leader that
 * hands over. */
static void on_notice(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    bool decided = msg->term <= self->leader_term && self->leader != BW_NODE_NONE;
    if (msg->term < self->durable.term || decided) {
        bw_bully_ignore(self, BW_TRACE_IGNORED_OLD, msg, out);
        return;
    }
    bw_bully_adopt(self, msg->term);
    bw_node failed = msg->bully.leader;
    const struct bw_member_row *from = bw_bully_row(self, msg->from);
    /* A higher-ranked leader resigned. Others above us may have resigned before it. */
    bool resigned = failed == BW_NODE_NONE && bw_bully_outranks(self, from, bw_bully_me(self));
    bool all = resigned || self->rules->may_succeed || self->rules->appoints ||
               BW_NEVER(self->rules->lowest);
    self->failed = failed;
    bw_bully_lead(self, msg->term, all ? BW_TO_ALL : BW_TO_LOWER, out);
}

bool bw_bully_outdated(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    bool idle = self->state == BW_BULLY_NORMAL && bw_bully_leading(self);
    if (msg->kind != BW_MSG_ALIVE || !idle || msg->term <= self->leader_term)
        return false;
    bw_bully_adopt(self, msg->term);
    bw_bully_lead_again(self, self->durable.term + 1, out);
    return true;
}

static void on_message(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    if (!bw_bully_receive(self, msg, out))
        return;
    if (msg->kind == BW_MSG_COORDINATOR)
        on_coordinator(self, msg, out);
    else if (msg->kind == BW_MSG_NOTICE)
        on_notice(self, msg, out);
    else if (!bw_bully_outdated(self, msg, out))
        self->rules->message(self, msg, out);
}

/* ---- time ---- */

static void refresh(struct bw_bully *self, struct bw_actions *out)
{
    for (uint32_t i = 0; i < self->members.count; i++) {
        const struct bw_member_row *row = &self->members.at[i];
        if (row->id != self->config.self && !row->suspect)
            bw_bully_send_coordinator(self, row->id, self->config.self, self->leader_term, out);
    }
    self->timer = bw_time_add(self->now, BW_BULLY_REFRESH_PERIODS * self->config.period_ns);
}

static void on_timeout(struct bw_bully *self, struct bw_actions *out)
{
    if (self->timer > self->now)
        return;
    if (self->state != BW_BULLY_NORMAL && self->state != BW_BULLY_WAITING) {
        self->rules->timeout(self, out);
        return;
    }
    if (self->state == BW_BULLY_NORMAL && bw_bully_leading(self)) {
        refresh(self, out);
        return;
    }
    const struct bw_member_row *leader = bw_bully_row(self, self->leader);
    self->abstains = false;
    if (leader && leader->suspect) {
        self->failed = leader->id;
        bw_bully_become_leaderless(self, BW_LOSS_NONE, out);
    }
    bw_bully_campaign(self, 0, out);
}

/* A node without a leader and without an election starts one soon, unless it was started
 * passively. */
static void settle(struct bw_bully *self, struct bw_actions *out)
{
    if (self->state == BW_BULLY_NORMAL && !self->passive && self->leader == BW_NODE_NONE &&
        self->timer == BW_TIME_NEVER)
        self->timer = bw_time_add(self->now, self->config.announce_ns);
    bw_bully_flush(self, out);
}

static void dispatch(struct bw_bully *self, const struct bw_event *event, struct bw_actions *out)
{
    switch (event->kind) {
    case BW_EVENT_START:
        if (bw_bully_start(self, event, out) && !BW_BUG(bully_restart_silent))
            bw_bully_campaign(self, 0, out);
        return;
    case BW_EVENT_MESSAGE:
        on_message(self, event->msg, out);
        return;
    case BW_EVENT_TIMEOUT:
        on_timeout(self, out);
        return;
    case BW_EVENT_SUSPECT:
        (void)bw_members_apply(&self->members, event);
        on_suspect(self, event->node, out);
        return;
    case BW_EVENT_CONFIRMED_DEAD:
        (void)bw_members_apply(&self->members, event);
        on_confirmed_dead(self, event->node, out);
        return;
    case BW_EVENT_TRUST:
        (void)bw_members_apply(&self->members, event);
        on_trust(self, event->node, out);
        return;
    case BW_EVENT_HINT:
        if (event->node == self->leader && !bw_bully_leading(self) && !busy(self))
            bw_bully_campaign(self, 0, out);
        return;
    case BW_EVENT_JOIN:
        on_join(self, event, out);
        return;
    case BW_EVENT_LEAVE:
        on_leave(self, event, out);
        return;
    case BW_EVENT_COMMAND:
        on_command(self, event, out);
        return;
    case BW_EVENT_STOP:
        bw_bully_hand_over(self, event, out);
        return;
    case BW_EVENT_SEND_FAILED: /* not proof of a crash: T1 decides, as in the paper */
    case BW_EVENT_PERSISTED:
        break;
    }
    bw_actions_trace(out, BW_TRACE_IGNORED_STATE, event->node, event->kind, self->state);
}

void bw_bully_step(void *memory, const struct bw_event *event, struct bw_actions *out)
{
    struct bw_bully *self = memory;
    self->now = event->now;
    if (self->state == BW_BULLY_STOPPED) {
        bw_actions_trace(out, BW_TRACE_IGNORED_STATE, event->node, event->kind, self->state);
        return;
    }
    if (self->config.rank == BW_RANK_STABILITY && event->kind != BW_EVENT_START)
        bw_bully_me(self)->penalty = own_penalty(self);
    dispatch(self, event, out);
    settle(self, out);
}
