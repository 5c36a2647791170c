/* Next-in-line failover: the leader names its successors in advance.
 *
 * Every announcement carries an ordered list of alternatives and its version. A node that detects
 * the leader's failure asks the first alternative to take over (FAILOVER). That one answers OK,
 * takes leadership and announces itself to all except the failed leader. If no answer arrives
 * within T1, the node asks the next alternative. If the node itself is next, it leads at once.
 *
 * Plain bully decides in these cases: the list is exhausted; it belongs to an older leadership than
 * the one that failed; an asked alternative knows a newer version; or nothing proves the leader
 * dead (restart, closed connection).
 *
 * Model: as bully.c.
 *
 * Guarantees within the model: one leader, the first live alternative. Cost:
 * - n messages if the first alternative is alive
 * - one more message and one timeout for each dead alternative
 * - n-2 messages if the node that detects the failure is the first alternative itself
 * The order of the list takes precedence over the rank: higher-ranked members follow a successor
 * from the list too.
 *
 * Not guaranteed outside the model: a single leader, as with bully.
 *
 * Source: M. Gholipour et al., "A New Approach for Election Algorithm in Distributed Systems",
 * 2009. */
#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/elect/bully/core.h"

struct next {
    struct bw_bully base;
    bw_node configured[BW_ALTERNATIVES_MAX]; /* order given at init; empty: by rank */
    uint32_t configured_count;
    bw_node list[BW_ALTERNATIVES_MAX]; /* the leader's list, as last received */
    uint32_t count;
    uint64_t version;
    bw_term term;   /* leadership that the list belongs to */
    uint32_t at;    /* index of the next alternative to ask */
    bool exhausted; /* the list is used up: the next campaign for this failure is plain bully */
};

/* ---- the list ---- */

static bool usable(const struct next *self, bw_node node, bw_node leader)
{
    return node != leader && node != self->base.failed && bw_bully_row(&self->base, node);
}

static bool listed(const struct next *self, bw_node node)
{
    for (uint32_t i = 0; i < self->count; i++)
        if (self->list[i] == node)
            return true;
    return false;
}

/* The highest-ranked usable member that is not in the list yet, or none. */
static bw_node best_unlisted(const struct next *self, bw_node leader)
{
    const struct bw_member_row *best = NULL;
    for (uint32_t i = 0; i < self->base.members.count; i++) {
        const struct bw_member_row *row = &self->base.members.at[i];
        if (!usable(self, row->id, leader) || listed(self, row->id))
            continue;
        if (!best || bw_bully_outranks(&self->base, row, best))
            best = row;
    }
    return best ? best->id : BW_NODE_NONE;
}

static void make_list(struct next *self, bw_node leader)
{
    self->count = 0;
    for (uint32_t i = 0; i < self->configured_count; i++)
        if (usable(self, self->configured[i], leader))
            self->list[self->count++] = self->configured[i];
    while (!self->configured_count && self->count < BW_ALTERNATIVES_MAX) {
        bw_node node = best_unlisted(self, leader);
        if (node == BW_NODE_NONE)
            break;
        self->list[self->count++] = node;
    }
    self->version++;
    self->term = self->base.leader_term;
}

static void took_lead(struct bw_bully *base)
{
    struct next *self = (struct next *)base;
    make_list(self, base->config.self);
    self->exhausted = false;
}

static void attach(const struct bw_bully *base, struct bw_message *msg)
{
    const struct next *self = (const struct next *)base;
    msg->bully.version = self->version;
    msg->items = self->count;
    msg->data = self->list;
}

static void learned(struct bw_bully *base, const struct bw_message *msg)
{
    struct next *self = (struct next *)base;
    self->exhausted = false;
    bool newer = msg->term > self->term || msg->bully.version > self->version;
    if (msg->from != msg->bully.leader || !newer)
        return;
    const bw_node *list = msg->data;
    self->count = msg->items < BW_ALTERNATIVES_MAX ? msg->items : BW_ALTERNATIVES_MAX;
    for (uint32_t i = 0; i < self->count; i++)
        self->list[i] = list[i];
    self->version = msg->bully.version;
    self->term = msg->term;
}

static bool may_succeed(const struct bw_bully *base, bw_node node)
{
    return listed((const struct next *)base, node);
}

/* ---- failover ---- */

static void ask_next(struct next *self, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    while (self->at < self->count) {
        bw_node node = self->list[self->at++];
        const struct bw_member_row *row = bw_bully_row(base, node);
        if (!row || !bw_bully_alive(base, row))
            continue;
        if (node == base->config.self) {
            bw_bully_lead(base, bw_bully_close_round(base), BW_TO_ALL, out);
            return;
        }
        struct bw_message *msg = bw_bully_send(base, BW_MSG_FAILOVER, node, base->round, out);
        msg->bully.version = self->version;
        bw_bully_become_busy(base, BW_BULLY_CONTACTING, base->config.answer_ns, out);
        return;
    }
    self->exhausted = true;
    bw_bully_cascade(base, base->round, out);
}

static void campaign(struct bw_bully *base, bw_term hint, struct bw_actions *out)
{
    struct next *self = (struct next *)base;
    bool current = self->term == base->leader_term;
    if (hint || base->failed == BW_NODE_NONE || self->exhausted || !current) {
        self->exhausted = true;
        bw_bully_cascade(base, hint, out);
        return;
    }
    bw_bully_open_round(base, 0, out);
    self->at = 0;
    /* the next campaign is plain bully: the alternative may take over without announcing itself */
    self->exhausted = true;
    ask_next(self, out);
}

/* The sender's list is older than ours, so we may not be next; plain bully decides. */
static bool list_is_stale(const struct next *self, const struct bw_message *msg)
{
    return msg->bully.version < self->version && !BW_BUG(next_stale_list);
}

static void on_failover(struct next *self, const struct bw_message *msg, struct bw_actions *out)
{
    struct bw_bully *base = &self->base;
    bool decided = bw_bully_decided(base, msg);
    bool old = msg->term < base->durable.term;
    bw_bully_adopt(base, msg->term);
    if (decided) {
        bw_bully_send_coordinator(base, msg->from, base->leader, base->leader_term, out);
        return;
    }
    if (base->abstains) {
        bw_bully_ignore(base, BW_TRACE_IGNORED_STATE, msg, out);
        return;
    }
    bw_bully_send(base, BW_MSG_OK, msg->from, msg->term, out);
    if (list_is_stale(self, msg) || old) {
        if (base->state == BW_BULLY_NORMAL && !bw_bully_leading(base))
            bw_bully_cascade(base, msg->term, out);
        else if (bw_bully_leading(base))
            bw_bully_lead_again(base, base->durable.term, out);
        return;
    }
    base->failed = msg->bully.leader == base->config.self ? BW_NODE_NONE : msg->bully.leader;
    bw_bully_lead(base, msg->term, BW_TO_ALL, out);
}

static void on_message(struct bw_bully *base, const struct bw_message *msg, struct bw_actions *out)
{
    bool answers = base->state == BW_BULLY_CONTACTING && msg->term == base->round;
    if (msg->kind == BW_MSG_FAILOVER)
        on_failover((struct next *)base, msg, out);
    else if (msg->kind == BW_MSG_OK && answers)
        bw_bully_become_busy(base, BW_BULLY_WAITING, base->config.announce_ns, out);
    else
        bw_bully_cascade_message(base, msg, out);
}

static void on_timeout(struct bw_bully *base, struct bw_actions *out)
{
    if (base->state == BW_BULLY_CONTACTING)
        ask_next((struct next *)base, out);
    else
        bw_bully_cascade_timeout(base, out);
}

static void step(void *memory, const struct bw_event *event, struct bw_actions *out)
{
    struct next *self = memory;
    bw_bully_step(memory, event, out);
    /* in a group that already has a leader, all members hold the first list */
    if (event->kind == BW_EVENT_START && event->start->passive && !bw_bully_leading(&self->base))
        make_list(self, event->start->leader);
}

static const struct bw_bully_rules rules = {.campaign = campaign,
                                            .message = on_message,
                                            .timeout = on_timeout,
                                            .took_lead = took_lead,
                                            .attach = attach,
                                            .learned = learned,
                                            .may_succeed = may_succeed};

static size_t bytes(const struct bw_elector_config *config)
{
    return bw_bully_bytes(config, sizeof(struct next));
}

static int init(void *memory, const struct bw_elector_config *config)
{
    struct next *self = memory;
    if (config->alternatives_count > BW_ALTERNATIVES_MAX)
        return BW_ELIMIT;
    int error = bw_bully_init(memory, config, sizeof *self, &rules);
    if (error)
        return error;
    uint32_t count = config->alternatives ? config->alternatives_count : 0;
    for (uint32_t i = 0; i < count; i++) /* a node that has left the group is not an alternative */
        if (bw_bully_row(&self->base, config->alternatives[i]))
            self->configured[self->configured_count++] = config->alternatives[i];
    return 0;
}

const struct bw_elector_ops bw_elect_bully_next = {
    .name = "bully-next-in-line",
    .promise = "In a partition a part that loses the leader promotes its next in line: two leaders "
               "until it heals, then the highest of them.",
    .traits = BW_TRAIT_MAY_SPLIT | BW_TRAIT_GUARDABLE,
    .bytes = bytes,
    .actions_max = bw_bully_actions_max,
    .init = init,
    .step = step,
    .deadline = bw_bully_deadline,
    .status = bw_bully_status,
    .ready = bw_bully_ready};
