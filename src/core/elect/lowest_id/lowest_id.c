/* Lowest id: the member with the smallest id among those that the detector considers alive leads.
 *
 * - A node that considers all members with lower ids dead takes leadership and sends COORDINATOR to
 *   all others. So members with a slower detector learn of it too. An announcement by L means that
 *   all members below L are dead or abstain, until one of them sends a message that is not stale
 *   and names no other leader, or is trusted again (`floor`).
 * - A node that considers a member with a lower id alive takes that one as leader at once and waits
 *   for its announcement. If none arrives, it asks (ELECTION), and the leader repeats the
 *   announcement.
 * - A leader that resigns hands over to the member with the next higher id, and after the highest
 *   to the lowest. It abstains while its successor leads: until the successor hands over to it, is
 *   suspected, or asks it to lead.
 *
 * Model: a failure detector that is eventually right on all nodes. Nodes do not vote.
 *
 * Guarantees: once the detectors agree, there is one leader, the lowest live id, without a further
 * message.
 *
 * Not guaranteed: a single leader before that, or in a partition. */
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/elect/bully/core.h"

struct lowest {
    struct bw_bully base;
    bw_node floor; /* members below this id are considered dead, because a leader announced it */
};

static bw_node lowest_alive(const struct lowest *self)
{
    const struct bw_members *members = &self->base.members;
    bw_node me = self->base.config.self;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct bw_member_row *row = &members->at[i];
        bool own = row->id == me && !self->base.abstains;
        if (own || (row->id != me && row->id >= self->floor && bw_bully_alive(&self->base, row)))
            return row->id;
    }
    return me;
}

static bw_time refresh_ns(const struct lowest *self)
{
    bw_time period = self->base.config.period_ns;
    return period > 0 ? BW_BULLY_REFRESH_PERIODS * period : BW_TIME_NEVER;
}

/* The leader is known, but has not announced itself yet: waits for its announcement. */
static void become_waiting(struct lowest *self, bw_node leader, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    bw_bully_become_follower(base, leader, base->durable.term, out);
    bw_bully_become_busy(base, BW_BULLY_WAITING, base->config.announce_ns, out);
}

/* Derives the leader from the detector's verdicts. */
static void evaluate(struct lowest *self, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    bw_node lowest = lowest_alive(self);
    if (lowest == base->leader)
        return;
    /* Planted bug: a leader continues although a member with a lower id is back. */
    if (BW_BUG(lowest_keeps_lead) && bw_bully_leading(base))
        return;
    if (lowest != base->config.self) {
        become_waiting(self, lowest, out);
        return;
    }
    self->floor = lowest;
    bw_bully_open_round(base, 0, out);
    bw_bully_lead(base, bw_bully_close_round(base), BW_TO_ALL, out);
}

/* ---- messages ---- */

/* A node announces a leader; the epoch is not older than ours. */
static void on_claim(struct lowest *self, const struct bw_message *msg, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    bw_node claimed = msg->bully.leader;
    const struct bw_member_row *leader = bw_bully_row(base, claimed);
    bool newer = msg->term > base->leader_term;
    bool lesser = claimed > base->config.self;
    bool own = claimed == base->config.self;
    if (bw_bully_leading(base) && (lesser || (own && newer))) {
        if (lesser)
            bw_actions_trace(out, BW_TRACE_SPLIT_BRAIN, claimed, msg->term, base->leader_term);
        bw_bully_lead_again(base, base->durable.term + 1, out);
        return;
    }
    if (own || !leader || leader->suspect) { /* suspected: the detector decides */
        bw_bully_ignore(base, BW_TRACE_IGNORED_STATE, msg, out);
        return;
    }
    self->floor = claimed;
    evaluate(self, out);
    bool confirmed = msg->from == claimed || newer || base->state != BW_BULLY_NORMAL;
    if (base->leader == claimed && confirmed)
        bw_bully_become_follower(base, claimed, msg->term, out);
}

static void on_coordinator(struct lowest *self, const struct bw_message *msg,
                           struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    if (msg->term < base->durable.term) {
        bw_bully_ignore(base, BW_TRACE_IGNORED_OLD, msg, out);
        if (msg->bully.leader == msg->from)
            bw_bully_send_known(base, msg->from, out);
        return;
    }
    bw_bully_adopt(base, msg->term);
    on_claim(self, msg, out);
}

/* The sender considers us the leader, and may know that the leader before us is dead. So the sender
 * does not lead. If we stepped down in its favour, it has lost that in a restart, and the group has
 * no leader: we stop abstaining. But if the sender has not learned of our step-down yet, its epoch
 * is older than the one we left, and we keep abstaining. */
static void on_election(struct lowest *self, const struct bw_message *msg, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    if (msg->from == base->leader && msg->term >= base->durable.term &&
        !BW_BUG(lowest_steps_down_for_good))
        base->abstains = false;
    bw_bully_adopt(base, msg->term);
    if (base->leader == msg->bully.leader && !bw_bully_leading(base))
        base->failed = base->leader;
    bool led = bw_bully_leading(base);
    evaluate(self, out);
    if (led && base->leader_term < base->durable.term)
        bw_bully_lead_again(base, base->durable.term, out);
    else if (led)
        bw_bully_send_coordinator(base, msg->from, base->config.self, base->leader_term, out);
}

/* A leader hands over to us, even if we stepped down before. */
static void on_notice(struct lowest *self, const struct bw_message *msg, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    if (msg->term >= base->durable.term)
        base->abstains = false;
    bw_bully_adopt(base, msg->term);
    if (msg->from < base->config.self)
        self->floor = msg->from + 1;
    evaluate(self, out);
}

/* Whether the sender may lead, now that it is alive. It may abstain if it names another leader, or
 * if it sent the message before it learned of the newest epoch. If it does not abstain, it leads
 * when it receives our announcement, and announces itself. */
static bool may_lead(const struct lowest *self, const struct bw_message *msg)
{
    /* Planted bug: every message counts, so a member that resigned takes leadership from its
     * successor. */
    if (BW_BUG(lowest_follows_who_resigned))
        return msg->kind != BW_MSG_NOTICE;
    bool names_other = msg->kind == BW_MSG_COORDINATOR && msg->bully.leader != msg->from;
    bool stale = msg->term < self->base.durable.term;
    return msg->kind != BW_MSG_NOTICE && !names_other && !stale;
}

static void on_message(struct lowest *self, const struct bw_message *msg, struct bw_actions *out)
{
    if (!bw_bully_receive(&self->base, msg, out))
        return;
    bool returns = msg->from < self->floor && may_lead(self, msg);
    if (returns)
        self->floor = msg->from;
    if (msg->kind == BW_MSG_COORDINATOR)
        on_coordinator(self, msg, out);
    else if (msg->kind == BW_MSG_ELECTION)
        on_election(self, msg, out);
    else if (msg->kind == BW_MSG_NOTICE)
        on_notice(self, msg, out);
    else if (!bw_bully_outdated(&self->base, msg, out))
        bw_bully_ignore(&self->base, BW_TRACE_IGNORED_STATE, msg, out);
    if (returns)
        evaluate(self, out);
}

/* ---- other events ---- */

static void nudge(struct lowest *self, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    if (BW_NEVER(base->leader == BW_NODE_NONE) || bw_bully_leading(base))
        return;
    bw_bully_send(base, BW_MSG_ELECTION, base->leader, base->durable.term, out);
}

static void on_timeout(struct lowest *self, const struct bw_event *event, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    if (base->timer > base->now)
        return;
    if (bw_bully_leading(base)) {
        bw_bully_step(base, event, out); /* refreshes the announcement */
        return;
    }
    base->abstains = false;
    evaluate(self, out);
    if (base->timer > base->now)
        return;
    nudge(self, out);
    bw_bully_become_busy(base, BW_BULLY_WAITING, refresh_ns(self), out);
}

/* A member is new or trusted again: it counts, and a leader announces itself to it. */
static void on_appears(struct lowest *self, bw_node node, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    if (node < self->floor)
        self->floor = node;
    if (base->failed == node)
        base->failed = BW_NODE_NONE;
    evaluate(self, out);
    if (bw_bully_leading(base) && node != base->config.self && bw_bully_row(base, node))
        bw_bully_send_coordinator(base, node, base->config.self, base->leader_term, out);
}

static void on_campaign(struct lowest *self, bw_node failed, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    base->abstains = false;
    if (failed != BW_NODE_NONE && failed != base->config.self)
        base->failed = failed;
    bw_node before = base->leader;
    evaluate(self, out);
    /* the new leader may not know yet that it is the lowest */
    if (base->leader != before)
        nudge(self, out);
}

static void on_hand_over(struct lowest *self, const struct bw_event *event, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    bw_node successor = bw_bully_hand_over(base, event, out);
    if (!base->abstains)
        return;
    if (successor != BW_NODE_NONE && successor < self->floor)
        self->floor = successor;
    evaluate(self, out); /* the next member becomes leader in our view; it will announce itself */
}

static void on_command(struct lowest *self, const struct bw_event *event, struct bw_actions *out)
{
    switch (event->command.kind) {
    case BW_COMMAND_CAMPAIGN:
        on_campaign(self, event->command.node, out);
        return;
    case BW_COMMAND_RESIGN:
    case BW_COMMAND_TRANSFER:
        on_hand_over(self, event, out);
        return;
    case BW_COMMAND_PROPOSE:
    case BW_COMMAND_CHANGE:
    case BW_COMMAND_READ:
    case BW_COMMAND_COMPACT:
        break;
    }
    bw_actions_trace(out, BW_TRACE_IGNORED_STATE, event->node, event->kind, self->base.state);
}

static void on_membership(struct lowest *self, const struct bw_event *event, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    bool joins = event->kind == BW_EVENT_JOIN;
    if (!joins && event->node == base->config.self) {
        on_hand_over(self, &(struct bw_event){.kind = BW_EVENT_STOP, .now = event->now}, out);
        return;
    }
    bool changed = bw_members_apply(&base->members, event);
    bw_node node = joins ? event->member.id : event->node;
    if (changed)
        bw_actions_trace(out, joins ? BW_TRACE_MEMBER_JOINED : BW_TRACE_MEMBER_LEFT, node, 0, 0);
    if (changed && joins)
        on_appears(self, node, out);
    else
        evaluate(self, out);
}

/* A node that starts for the first time receives the leader's announcement. A restarted node may
 * not: after a short absence no other node has noticed. So it asks. */
static void on_start(struct lowest *self, const struct bw_event *event, struct bw_actions *out)
{
    if (!bw_bully_start(&self->base, event, out))
        return;
    evaluate(self, out);
    if (self->base.durable.starts > 1)
        nudge(self, out);
}

static void dispatch(struct lowest *self, const struct bw_event *event, struct bw_actions *out)
{
    switch (event->kind) {
    case BW_EVENT_START:
        on_start(self, event, out);
        return;
    case BW_EVENT_MESSAGE:
        on_message(self, event->msg, out);
        return;
    case BW_EVENT_TIMEOUT:
        on_timeout(self, event, out);
        return;
    case BW_EVENT_SUSPECT:
    case BW_EVENT_CONFIRMED_DEAD:
        if (bw_members_apply(&self->base.members, event) && event->node == self->base.leader)
            self->base.abstains = false;
        evaluate(self, out);
        return;
    case BW_EVENT_TRUST:
        (void)bw_members_apply(&self->base.members, event);
        on_appears(self, event->node, out);
        return;
    case BW_EVENT_JOIN:
    case BW_EVENT_LEAVE:
        on_membership(self, event, out);
        return;
    case BW_EVENT_COMMAND:
        on_command(self, event, out);
        return;
    case BW_EVENT_STOP:
        on_hand_over(self, event, out);
        return;
    case BW_EVENT_HINT: /* not proof of a crash, and only the detector can check it */
    case BW_EVENT_SEND_FAILED:
    case BW_EVENT_PERSISTED:
        break;
    }
    bw_actions_trace(out, BW_TRACE_IGNORED_STATE, event->node, event->kind, self->base.state);
}

static void step(void *memory, const struct bw_event *event, struct bw_actions *out)
{
    struct lowest *self = memory;
    self->base.now = event->now;
    if (self->base.state == BW_BULLY_STOPPED) {
        bw_actions_trace(out, BW_TRACE_IGNORED_STATE, event->node, event->kind, self->base.state);
        return;
    }
    dispatch(self, event, out);
    bw_bully_flush(&self->base, out);
}

static const struct bw_bully_rules rules = {.lowest = true};

static size_t bytes(const struct bw_elector_config *config)
{
    return bw_bully_bytes(config, sizeof(struct lowest));
}

static int init(void *memory, const struct bw_elector_config *config)
{
    return bw_bully_init(memory, config, sizeof(struct lowest), &rules);
}

const struct bw_elector_ops bw_elect_lowest = {
    .name = "lowest-id",
    .promise = "In a partition the lowest id of every part leads: two leaders until it heals, then "
               "the lowest alone.",
    .traits = BW_TRAIT_MAY_SPLIT | BW_TRAIT_GUARDABLE | BW_TRAIT_DETERMINISTIC,
    .bytes = bytes,
    .actions_max = bw_bully_actions_max,
    .init = init,
    .step = step,
    .deadline = bw_bully_deadline,
    .status = bw_bully_status,
    .ready = bw_bully_ready};
