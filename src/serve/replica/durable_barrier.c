/* Holds back everything that follows from a record until that record is durable.
 *
 * Raft must persist term, vote and entries before it responds to RPCs (Raft §5, Figure 2). Every
 * action after a PERSIST waits until that record is durable (`barrier`). The disk may stall for any
 * time, so what waits is bounded:
 *   - messages to other nodes: those beyond HELD_MAX are dropped, and Raft repeats them;
 *   - confirmed reads: those beyond HELD_MAX are refused; all are refused when the leadership ends;
 *   - commits: only the highest index is kept;
 *   - the announcement that this node is the leader: only the newest one is kept.
 * Refusals, and announcements that another node or no node is the leader, promise nothing and never
 * wait. So a former leader whose disk stalls answers its clients at once, with an error.
 *
 * A leader applies what it has committed before it announces the end of its leadership. A majority
 * has those entries on disk, so their proposers get the result and not an error. */
#include "core/base/bug.h"
#include "core/base/error.h"
#include "serve/replica/state.h"

#include <string.h>

static bool promises_nothing(const struct bw_replica *r, const struct bw_action *action)
{
    if (BW_BUG(replica_holds_refusals))
        return false;
    if (action->kind == BW_ACTION_ANNOUNCE)
        return action->announce.leader != r->options.self;
    return action->kind == BW_ACTION_ANSWER &&
           (action->answer.error || !bw_router_is_round(&r->router, action->answer.request));
}

/* Refuses a held read. The client may repeat it, here or on another node. */
static void refuse_read(struct bw_replica *r, const struct bw_answer *answer, int error)
{
    struct bw_action refusal = {.kind = BW_ACTION_ANSWER, .answer = *answer};
    refusal.answer.error = error;
    replica_carry_out(r, &refusal);
}

static void apply_held_commit(struct bw_replica *r)
{
    struct bw_action commit = {.kind = BW_ACTION_COMMIT, .log.first = r->commit_held};
    r->commit_held = 0;
    replica_carry_out(r, &commit);
}

/* Called when this node stops being leader: refuses the held reads and drops the held announcement,
 * because a former leader must not send them. */
static void withdraw(struct bw_replica *r)
{
    if (r->router.leading && r->commit_held && !BW_BUG(replica_forgets_commits_at_the_end))
        apply_held_commit(r);
    r->announcement_held = false;
    for (uint32_t i = 0; i < r->held_count; i++) {
        struct bw_action *action = &r->held[(r->held_first + i) % HELD_MAX].action;
        if (action->kind != BW_ACTION_ANSWER)
            continue;
        action->kind = BW_ACTION_TRACE; /* keeps its place without effect */
        refuse_read(r, &action->answer, BW_ENOTLEADER);
    }
}

static void queue(struct bw_replica *r, const struct bw_action *action)
{
    struct held *held = &r->held[(r->held_first + r->held_count++) % HELD_MAX];
    held->action = *action;
    if (action->kind == BW_ACTION_SEND && action->msg.items &&
        action->msg.kind == BW_MSG_RAFT_SNAPSHOT) {
        memcpy(held->list, action->msg.data, action->msg.items * sizeof held->list[0]);
        held->action.msg.data = held->list;
    }
}

static void hold(struct bw_replica *r, const struct bw_action *action)
{
    if (action->kind == BW_ACTION_ANNOUNCE) {
        r->announcement = action->announce;
        r->announcement_held = true;
    } else if (action->kind == BW_ACTION_COMMIT) {
        if (action->log.first > r->commit_held)
            r->commit_held = action->log.first;
    } else if (r->held_count < HELD_MAX) {
        queue(r, action);
    } else if (action->kind == BW_ACTION_ANSWER) {
        refuse_read(r, &action->answer, BW_EBUSY);
    }
}

static bool is_holding(const struct bw_replica *r)
{
    return r->announcement_held || r->commit_held || r->held_count;
}

void replica_act_when_durable(struct bw_replica *r, const struct bw_action *action)
{
    bool now = promises_nothing(r, action);
    if (now && action->kind == BW_ACTION_ANNOUNCE)
        withdraw(r);
    if (now || (!r->barrier && !is_holding(r)))
        replica_carry_out(r, action);
    else
        hold(r, action);
}

/* Takes the next held action: the announcement of leadership before everything that depends on
 * it. */
static void take_next(struct bw_replica *r, struct held *out)
{
    if (r->announcement_held) {
        out->action = (struct bw_action){.kind = BW_ACTION_ANNOUNCE, .announce = r->announcement};
        r->announcement_held = false;
    } else if (r->commit_held) {
        out->action = (struct bw_action){.kind = BW_ACTION_COMMIT, .log.first = r->commit_held};
        r->commit_held = 0;
    } else {
        *out = r->held[r->held_first];
        if (out->action.kind == BW_ACTION_SEND &&
            out->action.msg.data == r->held[r->held_first].list)
            out->action.msg.data = out->list;
        r->held_first = (r->held_first + 1) % HELD_MAX;
        r->held_count--;
    }
}

/* Copies each action before carrying it out: the action may cause another one, which is then held
 * in the same slot. */
void replica_held_release(struct bw_replica *r)
{
    struct held next;
    while (is_holding(r) && r->barrier == 0) {
        take_next(r, &next);
        replica_carry_out(r, &next.action);
    }
}
