/* Bully, textbook form: the initiator collects the replies and notifies the highest-ranked member.
 *
 * - The initiator sends ELECTION to all higher-ranked members. Each live one answers ALIVE and
 *   starts no election of its own.
 * - When all members that are not suspected have answered, or after T1, the initiator sends NOTICE
 *   to the highest-ranked one that answered. That one sends COORDINATOR to all members below it.
 * - If no member answers, the initiator leads.
 * - A member that answered starts an election if no announcement arrives within T2, because
 *   everything depends on the initiator.
 *
 * The number of messages is linear in the number of members; the cascade's is quadratic. Model and
 * guarantees: as bully.c.
 *
 * Source: the classroom variant of Garcia-Molina 1982. */
#include "core/base/bug.h"
#include "core/elect/bully/core.h"

static void campaign(struct bw_bully *self, bw_term hint, struct bw_actions *out)
{
    bw_bully_open_round(self, hint, out);
    if (bw_bully_ask_above(self, out))
        bw_bully_become_busy(self, BW_BULLY_ELECTING, self->config.answer_ns, out);
    else
        bw_bully_lead(self, bw_bully_close_round(self), BW_TO_LOWER, out);
}

/* All replies have arrived, or T1 has passed. */
static void conclude(struct bw_bully *self, struct bw_actions *out)
{
    if (self->best == BW_NODE_NONE) {
        bw_bully_lead(self, bw_bully_close_round(self), BW_TO_LOWER, out);
        return;
    }
    bw_term term = bw_bully_close_round(self);
    if (bw_bully_leading(self))
        bw_bully_become_leaderless(self, BW_LOSS_TAKEN, out);
    bw_bully_send(self, BW_MSG_NOTICE, self->best, term, out);
    bw_bully_become_busy(self, BW_BULLY_WAITING, self->config.announce_ns, out);
}

static void on_election(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    if (!bw_bully_may_answer(self, msg, out))
        return;
    bw_bully_send(self, BW_MSG_ALIVE, msg->from, msg->term, out);
    if (self->state == BW_BULLY_NORMAL && !bw_bully_leading(self))
        bw_bully_become_busy(self, BW_BULLY_WAITING, self->config.announce_ns, out);
}

static bool all_answered(const struct bw_bully *self)
{
    const struct bw_member_row *me = bw_bully_me(self);
    for (uint32_t i = 0; i < self->members.count; i++) {
        const struct bw_member_row *row = &self->members.at[i];
        bool asked = row != me && !bw_bully_outranks(self, me, row);
        if (asked && !row->answered && bw_bully_alive(self, row))
            return false;
    }
    return true;
}

static void on_alive(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    if (self->state != BW_BULLY_ELECTING || msg->term != self->round) {
        bw_bully_ignore(self, BW_TRACE_IGNORED_LATE, msg, out);
        return;
    }
    struct bw_member_row *from = bw_bully_row(self, msg->from);
    const struct bw_member_row *best = bw_bully_row(self, self->best);
    from->answered = true;
    /* Planted bug: the first member that answers is asked to lead, not the highest-ranked. */
    if (!best || (bw_bully_outranks(self, from, best) && !BW_BUG(notify_appoints_first)))
        self->best = from->id;
    if (all_answered(self))
        conclude(self, out);
}

static void on_message(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    if (msg->kind == BW_MSG_ELECTION)
        on_election(self, msg, out);
    else if (msg->kind == BW_MSG_ALIVE)
        on_alive(self, msg, out);
    else
        bw_bully_ignore(self, BW_TRACE_IGNORED_STATE, msg, out);
}

static const struct bw_bully_rules rules = {
    .campaign = campaign, .message = on_message, .timeout = conclude};

static size_t bytes(const struct bw_elector_config *config)
{
    return bw_bully_bytes(config, sizeof(struct bw_bully));
}

static int init(void *memory, const struct bw_elector_config *config)
{
    return bw_bully_init(memory, config, sizeof(struct bw_bully), &rules);
}

const struct bw_elector_ops bw_elect_bully_notify = {
    .name = "bully-notify",
    .promise = "In a partition every part elects its highest member: two leaders until it heals, "
               "then the highest alone.",
    .traits = BW_TRAIT_MAY_SPLIT | BW_TRAIT_GUARDABLE | BW_TRAIT_DETERMINISTIC,
    .bytes = bytes,
    .actions_max = bw_bully_actions_max,
    .init = init,
    .step = bw_bully_step,
    .deadline = bw_bully_deadline,
    .status = bw_bully_status,
    .ready = bw_bully_ready};
