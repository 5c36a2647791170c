/* Bully: the highest-ranked live member leads. A cascade of elections finds it.
 *
 * - A node that suspects the leader, or that starts, sends ELECTION to all higher-ranked members
 *   and waits T1 for an OK. Without an OK it leads and sends COORDINATOR to all lower-ranked
 *   members.
 * - A node that receives ELECTION from a lower-ranked member answers OK and starts its own
 *   election, unless one is in progress.
 * - After an OK a node waits T2 for the announcement, then starts again.
 *
 * Model: crash failures, no loss, a known bound on message delay, no pauses.
 *
 * Guarantees within the model: one leader, the highest-ranked live member, after (n-r)^2 + n-2
 * messages for an initiator at rank r.
 *
 * Not guaranteed outside the model (partition, pause, late messages): a single leader. When the
 * fault ends, the highest-ranked one remains.
 *
 * Difference from the paper: a leader that receives ELECTION does not start an election. It repeats
 * its announcement, because no higher-ranked member has contacted it.
 *
 * Source: H. Garcia-Molina, "Elections in a Distributed Computing System", IEEE Trans. Computers
 * C-31(1), 1982, section III. */
#include "core/base/bug.h"
#include "core/elect/bully/core.h"

uint32_t bw_bully_ask_above(struct bw_bully *self, struct bw_actions *out)
{
    const struct bw_member_row *me = bw_bully_me(self);
    uint32_t asked = 0;
    for (uint32_t i = 0; i < self->members.count; i++) {
        const struct bw_member_row *row = &self->members.at[i];
        bool other_class = self->rules->classes && row->ordinary != me->ordinary;
        if (row == me || other_class || bw_bully_outranks(self, me, row))
            continue;
        bw_bully_send(self, BW_MSG_ELECTION, row->id, self->round, out);
        asked++;
    }
    return asked;
}

void bw_bully_cascade(struct bw_bully *self, bw_term hint, struct bw_actions *out)
{
    bw_bully_open_round(self, hint, out);
    if (bw_bully_ask_above(self, out))
        bw_bully_become_busy(self, BW_BULLY_ELECTING, self->config.answer_ns, out);
    else
        bw_bully_lead(self, bw_bully_close_round(self), BW_TO_LOWER, out);
}

bool bw_bully_decided(const struct bw_bully *self, const struct bw_message *msg)
{
    return self->state == BW_BULLY_NORMAL && msg->term <= self->leader_term &&
           self->leader != BW_NODE_NONE && self->leader != msg->bully.leader;
}

bool bw_bully_may_answer(struct bw_bully *self, const struct bw_message *msg,
                         struct bw_actions *out)
{
    const struct bw_member_row *from = bw_bully_row(self, msg->from);
    bool decided = bw_bully_decided(self, msg);
    bw_bully_adopt(self, msg->term);
    if (self->abstains || bw_bully_outranks(self, from, bw_bully_me(self)))
        bw_bully_ignore(self, BW_TRACE_IGNORED_STATE, msg, out);
    else if (decided)
        bw_bully_send_coordinator(self, msg->from, self->leader, self->leader_term, out);
    else
        return true;
    return false;
}

static void on_election(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    if (!bw_bully_may_answer(self, msg, out))
        return;
    bw_bully_send(self, BW_MSG_OK, msg->from, msg->term, out);
    if (bw_bully_leading(self) && self->state == BW_BULLY_NORMAL)
        bw_bully_lead_again(self, self->durable.term, out);
    else if (self->state == BW_BULLY_NORMAL || self->state == BW_BULLY_DELAYING)
        bw_bully_cascade(self, msg->term, out);
}

static void on_ok(struct bw_bully *self, const struct bw_message *msg, struct bw_actions *out)
{
    bool mine = self->state == BW_BULLY_ELECTING && msg->term == self->round;
    /* Planted bug: an OK that arrives after T1 still counts, although the node leads already. */
    if (!mine && !BW_BUG(bully_late_ok)) {
        bw_bully_ignore(self, BW_TRACE_IGNORED_LATE, msg, out);
        return;
    }
    if (bw_bully_leading(self))
        bw_bully_become_leaderless(self, BW_LOSS_TAKEN, out);
    bw_bully_become_busy(self, BW_BULLY_WAITING, self->config.announce_ns, out);
}

void bw_bully_cascade_message(struct bw_bully *self, const struct bw_message *msg,
                              struct bw_actions *out)
{
    if (msg->kind == BW_MSG_ELECTION)
        on_election(self, msg, out);
    else if (msg->kind == BW_MSG_OK)
        on_ok(self, msg, out);
    else
        bw_bully_ignore(self, BW_TRACE_IGNORED_STATE, msg, out);
}

/* T1 has passed without a reply from a higher-ranked member. */
void bw_bully_cascade_timeout(struct bw_bully *self, struct bw_actions *out)
{
    bw_bully_lead(self, bw_bully_close_round(self), BW_TO_LOWER, out);
}

static const struct bw_bully_rules rules = {.campaign = bw_bully_cascade,
                                            .message = bw_bully_cascade_message,
                                            .timeout = bw_bully_cascade_timeout};

static size_t bytes(const struct bw_elector_config *config)
{
    return bw_bully_bytes(config, sizeof(struct bw_bully));
}

static int init(void *memory, const struct bw_elector_config *config)
{
    return bw_bully_init(memory, config, sizeof(struct bw_bully), &rules);
}

const struct bw_elector_ops bw_elect_bully = {
    .name = "bully",
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
