/* Lowest id: whoever has the smallest id among those the detector holds for alive leads.
 *
 * Model: a failure detector that is eventually right everywhere; nothing is asked for or voted on.
 * A node that sees nobody below itself alive takes the lead and sends COORDINATOR to all others, so
 * that everybody learns it, also those whose detector is slower: an announcement by L says that all
 * below L are gone, until one of them speaks up or is trusted again (`floor`). A node that believes
 * in somebody lower takes it as leader at once and waits for the announcement; if none comes it
 * asks (ELECTION), and whoever leads repeats it. A leader that resigned abstains while its
 * successor leads: until that one hands over, is suspected, or asks it to lead.
 *
 * Guarantees: once the detectors agree, one leader, the lowest live id, without a further message.
 * Until then, and in a partition, there may be several. */
#include "core/base/bug.h"
#include "core/elect/bully/core.h"

struct lowest {
    struct bw_bully base;
    bw_node floor; /* members below are held for dead on a leader's word */
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

/* Believed in, not heard from yet: its announcement is awaited. */
static void become_waiting(struct lowest *self, bw_node leader, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    bw_bully_become_follower(base, leader, base->durable.term, out);
    bw_bully_become_busy(base, BW_BULLY_WAITING, base->config.announce_ns, out);
}

/* The view follows the detector. */
static void evaluate(struct lowest *self, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    bw_node lowest = lowest_alive(self);
    if (lowest == base->leader)
        return;
    /* Whoever leads goes on although somebody lower is back. */
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

/* --- messages -------------------------------------------------------------------------------- */

/* Somebody leads, or says who does; the epoch is not older than ours. */
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
    bool heard = msg->from == claimed || newer || base->state != BW_BULLY_NORMAL;
    if (base->leader == claimed && heard)
        bw_bully_become_follower(base, claimed, msg->term, out);
}

static void on_coordinator(struct lowest *self, const struct bw_message *msg,
                           struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    if (msg->term < base->durable.term) {
        bw_bully_ignore(base, BW_TRACE_IGNORED_OLD, msg, out);
        if (msg->bully.leader == msg->from)
            bw_bully_tell_known(base, msg->from, out);
        return;
    }
    bw_bully_adopt(base, msg->term);
    on_claim(self, msg, out);
}

/* Somebody believes that we lead, and may know that the leader before us is dead. Whoever says so
 * does not lead: if we stepped down for it, it has forgotten that (it was restarted), and nobody
 * leads. Not so if it had not heard of it yet: then its epoch is older than the one we left. */
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
        bw_bully_tell(base, msg->from, base->config.self, base->leader_term, out);
}

/* A leader hands over to us, also if we stepped down before. */
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

static void on_message(struct lowest *self, const struct bw_message *msg, struct bw_actions *out)
{
    if (!bw_bully_hear(&self->base, msg, out))
        return;
    bool speaks_up = msg->from < self->floor && msg->kind != BW_MSG_NOTICE;
    if (speaks_up)
        self->floor = msg->from;
    if (msg->kind == BW_MSG_COORDINATOR)
        on_coordinator(self, msg, out);
    else if (msg->kind == BW_MSG_ELECTION)
        on_election(self, msg, out);
    else if (msg->kind == BW_MSG_NOTICE)
        on_notice(self, msg, out);
    else if (!bw_bully_outdated(&self->base, msg, out))
        bw_bully_ignore(&self->base, BW_TRACE_IGNORED_STATE, msg, out);
    if (speaks_up)
        evaluate(self, out);
}

/* --- the other events ------------------------------------------------------------------------- */

static void nudge(struct lowest *self, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    if (base->leader == BW_NODE_NONE || bw_bully_leading(base))
        return;
    bw_bully_send(base, BW_MSG_ELECTION, base->leader, base->durable.term, out);
}

static void on_timeout(struct lowest *self, const struct bw_event *event, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    if (base->timer > base->now)
        return;
    if (bw_bully_leading(base)) {
        bw_bully_step(base, event, out); /* the leader's refresh */
        return;
    }
    base->abstains = false;
    evaluate(self, out);
    if (base->timer > base->now)
        return;
    nudge(self, out);
    bw_bully_become_busy(base, BW_BULLY_WAITING, refresh_ns(self), out);
}

/* Trusted again or new: it counts, and hears from a leader. */
static void on_appears(struct lowest *self, bw_node node, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    if (node < self->floor)
        self->floor = node;
    if (base->failed == node)
        base->failed = BW_NODE_NONE;
    evaluate(self, out);
    if (bw_bully_leading(base) && node != base->config.self && bw_bully_row(base, node))
        bw_bully_tell(base, node, base->config.self, base->leader_term, out);
}

static void on_campaign(struct lowest *self, bw_node failed, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    base->abstains = false;
    if (failed != BW_NODE_NONE && failed != base->config.self)
        base->failed = failed;
    bw_node before = base->leader;
    evaluate(self, out);
    if (base->leader != before)
        nudge(self, out); /* it may not know yet that it is the lowest */
}

static void on_hand_over(struct lowest *self, const struct bw_event *event, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    bw_bully_hand_over(base, event, out);
    if (!base->abstains)
        return;
    evaluate(self, out); /* the view follows: the next one will announce itself */
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

/* Who starts for the first time hears the leader's announcement. Who starts again may not: if it
 * was away for a moment only, nobody has noticed. It asks. */
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
    case BW_EVENT_HINT: /* proves nothing, and there is nobody to ask but the detector */
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
