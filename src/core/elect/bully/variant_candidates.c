/* Candidates and ordinary members: only a few may lead, but any member may detect a failure and run
 * the election.
 *
 * A node that suspects the leader waits its own delta. It then sends POLL to the candidates and
 * waits for all ANSWERs or T1. It announces the highest-ranked candidate that answered, to all
 * members except the failed leader. This COORDINATOR names a leader other than its sender; the
 * named one takes leadership when it receives the message. If no candidate is alive, plain bully
 * decides among the ordinary members.
 *
 * Delta: the highest-ranked ordinary member does not wait. Each next one waits one gap longer, and
 * the candidates follow after them. The gap is longer than a whole poll and its announcement. So if
 * several nodes detect the failure at once, one acts and the others learn the result in time.
 *
 * Model: as bully.c.
 *
 * Guarantees within the model: one leader, the highest-ranked live candidate, after 2c + n-2
 * messages for c live candidates.
 *
 * Not guaranteed outside the model: a single leader, as with bully.
 *
 * Source: M. G. Murshed, A. R. Allen, "Enhanced Bully Algorithm for Leader Node Election in
 * Synchronous Distributed Systems", Computers 1(1), 2012. */
#include "core/base/bug.h"
#include "core/elect/bully/core.h"

/* ---- delta ---- */

static bool detects_before(const struct bw_bully *self, const struct bw_member_row *a,
                           const struct bw_member_row *b)
{
    if (a->ordinary != b->ordinary)
        return a->ordinary;
    return bw_bully_outranks(self, a, b);
}

static bw_time delta_ns(const struct bw_bully *self)
{
    const struct bw_member_row *me = bw_bully_me(self);
    bw_time answer = self->config.answer_ns;
    bw_time gap = answer + bw_time_max(2 * self->config.latency_ns, answer / 2);
    bw_time before = 0;
    for (uint32_t i = 0; i < self->members.count; i++) {
        const struct bw_member_row *row = &self->members.at[i];
        if (row != me && row->id != self->failed && detects_before(self, row, me))
            before++;
    }
    /* Planted bug: all nodes wait equally long, so several detectors run several elections. */
    return BW_BUG(candidates_equal_delta) ? gap : before * gap;
}

/* ---- the poll ---- */

static bool polled(const struct bw_bully *self, const struct bw_member_row *row)
{
    return !row->ordinary && row->id != self->config.self && bw_bully_alive(self, row);
}

/* Announces another node as leader. That node learns it from the same message. */
static void appoint(struct bw_bully *self, bw_node leader, struct bw_actions *out)
{
    bw_term term = bw_bully_close_round(self);
    for (uint32_t i = 0; i < self->members.count; i++) {
        bw_node node = self->members.at[i].id;
        if (node != self->config.self && node != self->failed)
            bw_bully_send_coordinator(self, node, leader, term, out);
    }
    bw_bully_become_follower(self, leader, term, out);
    self->failed = BW_NODE_NONE;
}

static void conclude(struct bw_bully *self, struct bw_actions *out)
{
    const struct bw_member_row *me = bw_bully_me(self);
    const struct bw_member_row *best = bw_bully_row(self, self->best);
    bool own = !me->ordinary && !self->abstains;
    if (own && (!best || bw_bully_outranks(self, me, best)))
        bw_bully_lead(self, bw_bully_close_round(self), BW_TO_ALL, out);
    else if (best)
        appoint(self, best->id, out);
    else
        bw_bully_cascade(self, self->round, out);
}

static void poll(struct bw_bully *self, struct bw_actions *out)
{
    uint32_t asked = 0;
    bw_bully_open_round(self, 0, out);
    for (uint32_t i = 0; i < self->members.count; i++) {
        if (!polled(self, &self->members.at[i]))
            continue;
        bw_bully_send(self, BW_MSG_POLL, self->members.at[i].id, self->round, out);
        asked++;
    }
    bw_bully_become_busy(self, BW_BULLY_POLLING, self->config.answer_ns, out);
    if (!asked)
        conclude(self, out);
}

static void campaign(struct bw_bully *self, bw_term hint, struct bw_actions *out)
{
    (void)hint;
    bw_time delta = delta_ns(self);
    if (delta)
        bw_bully_become_busy(self, BW_BULLY_DELAYING, delta, out);
    else
        poll(self, out);
}

/* ---- messages ---- */

static void on_poll(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    bool decided = bw_bully_decided(self, msg);
    bw_bully_adopt(self, msg->term);
    if (decided) {
        bw_bully_send_coordinator(self, msg->from, self->leader, self->leader_term, out);
        return;
    }
    if (self->abstains || bw_bully_me(self)->ordinary) {
        bw_bully_ignore(self, BW_TRACE_IGNORED_STATE, msg, out);
        return;
    }
    bw_bully_send(self, BW_MSG_ANSWER, msg->from, msg->term, out);
    bool free = self->state == BW_BULLY_NORMAL || self->state == BW_BULLY_DELAYING;
    if (free && !bw_bully_leading(self))
        bw_bully_become_busy(self, BW_BULLY_WAITING, self->config.announce_ns, out);
}

static bool all_answered(const struct bw_bully *self)
{
    for (uint32_t i = 0; i < self->members.count; i++)
        if (polled(self, &self->members.at[i]) && !self->members.at[i].answered)
            return false;
    return true;
}

static void on_answer(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    struct bw_member_row *from = bw_bully_row(self, msg->from);
    const struct bw_member_row *best = bw_bully_row(self, self->best);
    if (self->state != BW_BULLY_POLLING || msg->term != self->round) {
        bw_bully_ignore(self, BW_TRACE_IGNORED_LATE, msg, out);
        return;
    }
    from->answered = true;
    if (!best || bw_bully_outranks(self, from, best))
        self->best = from->id;
    if (all_answered(self))
        conclude(self, out);
}

static void on_message(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    if (msg->kind == BW_MSG_POLL)
        on_poll(self, msg, out);
    else if (msg->kind == BW_MSG_ANSWER)
        on_answer(self, msg, out);
    else
        bw_bully_cascade_message(self, msg, out);
}

static void on_timeout(struct bw_bully *self, struct bw_actions *out)
{
    if (self->state == BW_BULLY_DELAYING)
        poll(self, out);
    else if (self->state == BW_BULLY_POLLING)
        conclude(self, out);
    else
        bw_bully_cascade_timeout(self, out);
}

static const struct bw_bully_rules rules = {.campaign = campaign,
                                            .message = on_message,
                                            .timeout = on_timeout,
                                            .appoints = true,
                                            .classes = true};

static size_t bytes(const struct bw_elector_config *config)
{
    return bw_bully_bytes(config, sizeof(struct bw_bully));
}

static int init(void *memory, const struct bw_elector_config *config)
{
    return bw_bully_init(memory, config, sizeof(struct bw_bully), &rules);
}

const struct bw_elector_ops bw_elect_bully_candidates = {
    .name = "bully-candidates",
    .promise = "In a partition every part appoints its highest candidate, or its highest member if "
               "it has none: two leaders until it heals, then the highest candidate.",
    .traits = BW_TRAIT_MAY_SPLIT | BW_TRAIT_GUARDABLE | BW_TRAIT_DETERMINISTIC,
    .bytes = bytes,
    .actions_max = bw_bully_actions_max,
    .init = init,
    .step = bw_bully_step,
    .deadline = bw_bully_deadline,
    .status = bw_bully_status,
    .ready = bw_bully_ready};
