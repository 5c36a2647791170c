/* Quorum guard: wraps an elector that may split and lets at most one leader act.
 *
 * Protocol:
 * 1. The inner elector names a leader. If it names this node, the node claims leadership: it sends
 *    CLAIM(epoch) to every configured member.
 * 2. A member promises each epoch to one claimant only. The promise is durable. For T on its own
 *    clock, the member gives no promise to another claimant.
 * 3. With promises from a majority of the CONFIGURED voters the claimant may act. Its window ends
 *    T(1-rho)/(1+rho) after it SENT the claim that they answered. The epoch is the fencing token.
 * 4. The leader claims again every T/3. It repeats a claim to voters that have not replied, so that
 *    a lossy link does not end a leadership.
 *
 * Model: crashes, restarts, pauses, loss, partitions; clock rates within 1 +- rho; durable writes
 * survive.
 *
 * Guarantees:
 * - No two leaders act at the same time. Any two majorities share a voter. Its promise to the
 *   earlier leader lasts T from the receipt of the claim. The leader's window ends earlier, because
 *   the leader counts a shorter span from the sending.
 * - Tokens only grow. The shared voter promises only an epoch above all epochs that it promised
 *   before.
 * - A restarted voter does not know how long its promise still binds, so it waits T.
 *
 * Not guaranteed: a leader while no majority is alive, or while the inner elector names no stable
 * leader.
 *
 * Membership: without `voters` all members vote. They may then change by one at a time, because
 * neighbouring majorities intersect. The next change must wait until T has passed, because a new
 * member knows of no earlier promises. `peer` passes the founders as `voters`, which never
 * change.
 *
 * Source: leases (Gray and Cheriton 1989), here granted by a majority. */
#include "core/base/arena.h"
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/base/drift.h"
#include "core/base/error.h"
#include "core/elect/quorum_guard_state.h"

#include <string.h>

/* How often the leader repeats a claim to the remaining voters after a quorum has answered it. */
#define REPEATS_MAX 2u

static const char *const state_names[] = {"following", "claiming", "holding"};

static bw_time *row_promise(const struct guard *g, bw_node node)
{
    const struct bw_member_row *row = bw_members_find(&g->members, node);
    return row ? &g->promised[row - g->members.at] : NULL;
}

static bool votes(const struct guard *g, bw_node node)
{
    for (uint32_t i = 0; i < g->voters_count; i++)
        if (g->voters[i] == node)
            return true;
    return !g->voters;
}

static uint32_t quorum(const struct guard *g)
{
    uint32_t majority = g->voters ? g->voters_count / 2 + 1 : bw_members_majority(&g->members);
    return g->quorum > majority ? g->quorum : majority;
}

static int lay_out(struct guard *g, struct bw_arena *arena, const struct bw_elector_config *config)
{
    struct guard scratch;
    struct guard *to = g ? g : &scratch;
    int error = bw_members_init(&to->members, arena, config->cap, config->members, config->count);
    to->promised = bw_arena_take(arena, config->cap * sizeof *to->promised);
    to->inner = bw_arena_take(arena, config->inner->bytes(config));
    return error;
}

static size_t guard_bytes(const struct bw_elector_config *config)
{
    struct bw_arena measure = {0};
    bw_arena_take(&measure, sizeof(struct guard));
    lay_out(NULL, &measure, config);
    return measure.used;
}

static uint32_t guard_actions_max(const struct bw_elector_config *config)
{
    return config->inner->actions_max(config) + 2 * config->cap + 16;
}

static int guard_init(void *memory, const struct bw_elector_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = guard_bytes(config)};
    struct guard *g = bw_arena_take(&arena, sizeof *g);
    memset(g, 0, sizeof *g);
    if (bw_elector_promise(config) <= 0 || config->quorum > config->count ||
        config->drift_ppm >= BW_PPM)
        return BW_EINVAL;
    g->inner_ops = config->inner;
    g->self = config->self;
    g->quorum = config->quorum;
    g->voters = config->voters;
    g->voters_count = config->voters ? config->voters_count : 0;
    g->drift_ppm = config->drift_ppm;
    g->promise_ns = bw_elector_promise(config);
    g->answer_ns = config->answer_ns;
    g->claim_at = g->view_until = g->release_at = BW_TIME_NEVER;
    bw_rng_init(&g->rng, config->seed ^ 0x677561726475u);
    int error = lay_out(g, &arena, config);
    return error ? error : g->inner_ops->init(g->inner, config);
}

static void forget_promises(struct guard *g)
{
    for (uint32_t i = 0; i < g->members.cap; i++)
        g->promised[i] = -1;
}

static void announce_view(struct guard *g, bw_node leader, bw_term epoch, enum bw_loss reason,
                          struct bw_actions *actions)
{
    if (g->view == leader && g->view_epoch == epoch && BW_ALWAYS(reason == BW_LOSS_NONE))
        return;
    g->view = leader;
    g->view_epoch = epoch;
    struct bw_announcement a = {
        .leader = leader, .term = epoch, .reason = reason, .token = leader ? epoch : 0};
    bw_actions_announce(actions, &a);
}

static void send_all(struct guard *g, enum bw_message_kind kind, bw_term epoch, bw_time now,
                     struct bw_actions *actions)
{
    for (uint32_t i = 0; i < g->members.count; i++) {
        if (g->members.at[i].id == g->self)
            continue;
        struct bw_message *msg =
            bw_actions_send(actions, kind, g->self, g->members.at[i].id, epoch);
        msg->promise.echo = now;
        if (g->state == HOLDING)
            msg->flags = BW_FLAG_YES;
    }
}

/* Up to 24 repeats until the next round; fewer if replies take longer. */
static bw_time repeat_ns(const struct guard *g)
{
    return bw_time_max(g->promise_ns / 72, 4 * g->answer_ns);
}

/* The epoch to release. All our claims so far have this epoch or a lower one, and all later claims
 * have a higher one, also after a restart. A refusal may have raised `epoch` above the durable
 * one. */
static bw_term released(const struct guard *g)
{
    bool durable = g->epoch <= g->durable.promise_epoch || BW_BUG(guard_releases_what_may_come);
    return durable ? g->epoch : g->durable.promise_epoch;
}

/* Frees the members that promised us. Called only when our work is known to be dead. */
static void release(struct guard *g, bw_time now, struct bw_actions *actions)
{
    bool own = g->durable.promise_epoch <= g->epoch && !BW_BUG(guard_keeps_its_own_promise);
    g->dying_until = 0;
    if (g->durable.promised_to == g->self && BW_ALWAYS(own || g->durable.promise_epoch == g->epoch))
        g->bound_until = now;
    send_all(g, BW_MSG_RELEASE, released(g), now, actions);
    g->release_pause = repeat_ns(g);
    g->release_at = BW_BUG(guard_releases_once) ? BW_TIME_NEVER : now + g->release_pause;
    g->release_until = bw_time_add(now, g->promise_ns);
}

/* Repeats the release, because the message may have been lost. The pause doubles each time. Members
 * without a vote need it too: they may be claimants that voters refused before they were free. */
static void repeat_release(struct guard *g, bw_time now, struct bw_actions *actions)
{
    for (uint32_t i = 0; i < g->members.count; i++) {
        bw_node to = g->members.at[i].id;
        bool needs = votes(g, to) || !BW_BUG(guard_repeats_releases_to_voters_only);
        if (to != g->self && BW_ALWAYS(needs))
            bw_actions_send(actions, BW_MSG_RELEASE, g->self, to, released(g))->promise.echo = now;
    }
    g->release_pause = bw_time_add(g->release_pause, g->release_pause);
    g->release_at = bw_time_add(now, g->release_pause);
    if (g->release_at > g->release_until)
        g->release_at = BW_TIME_NEVER;
}

/* Ends leadership or a claim.
 *
 * After a command to step down, the work has already stopped. A mere claim has no work, unless that
 * of an earlier leadership is still running. In these cases the node releases the promises at once.
 * If it loses leadership while the work runs, it releases them when CONFIRMED_DEAD(self) arrives;
 * otherwise they expire. */
static void become_following(struct guard *g, enum bw_loss reason, bw_time now,
                             struct bw_actions *actions)
{
    if (g->state == FOLLOWING)
        return;
    bool held = g->state == HOLDING;
    bool under_way = reason == BW_LOSS_TAKEN || reason == BW_LOSS_UNREACHABLE;
    if (held) /* by then the work is dead and all its promises have expired */
        g->dying_until = under_way ? bw_time_add(now, 2 * g->promise_ns) : 0;
    g->state = FOLLOWING;
    g->claim_at = BW_TIME_NEVER;
    g->act_until = 0;
    if (held) {
        bw_actions_trace(actions, BW_TRACE_STEP_DOWN, g->self, g->epoch, (uint64_t)reason);
        announce_view(g, BW_NODE_NONE, g->epoch, reason, actions);
    }
    if (now >= g->dying_until)
        release(g, now, actions);
}

static void announce_window(struct guard *g, bw_time now, struct bw_actions *actions)
{
    struct bw_announcement a = {.leader = g->self,
                                .term = g->epoch,
                                .token = BW_BUG(guard_token_reset) ? 1 : g->epoch,
                                .act_from = now,
                                .act_until = g->act_until};
    g->token = g->epoch;
    g->view = g->self;
    g->view_epoch = g->epoch;
    g->view_until = BW_TIME_NEVER;
    bw_actions_announce(actions, &a);
}

static void become_holding(struct guard *g, bw_time now, struct bw_actions *actions)
{
    g->state = HOLDING;
    bw_actions_trace(actions, BW_TRACE_WON, g->self, g->epoch, 0);
    announce_window(g, now, actions);
    g->claim_at = now; /* one more round at once informs all members and renews */
}

/* The number of voters that promised in the newest round, counted from the table. A voter has one
 * row, so repeated replies and membership changes cannot count it twice. */
static uint32_t round_count(const struct guard *g)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->voters_count; i++) {
        const bw_time *row = row_promise(g, g->voters[i]);
        count += row && *row == g->round_at;
    }
    for (uint32_t i = 0; !g->voters && i < g->members.count; i++)
        count += g->promised[i] == g->round_at;
    return count;
}

/* Records one more promise of the newest round. With a quorum, the window extends from the time
 * when the round was sent. */
static void count_promise(struct guard *g, bw_time *row, bw_time now, struct bw_actions *actions)
{
    uint32_t need = BW_BUG(guard_counts_two) ? 2 : quorum(g);
    *row = g->round_at;
    g->answers++;
    if (g->complete || g->answers < need ||
        (round_count(g) < need && !BW_BUG(guard_counts_answers)))
        return;
    g->complete = true;
    bw_time sent = BW_BUG(guard_counts_from_reply) ? now : g->round_at;
    bw_time until = bw_time_add(sent, bw_drift_shorten(g->promise_ns, g->drift_ppm));
    if (until <= now)
        return;
    g->act_until = until;
    if (g->state == CLAIMING)
        become_holding(g, now, actions);
    else
        announce_window(g, now, actions);
}

static bool bound_to_other(const struct guard *g, bw_node node, bw_time now)
{
    return g->durable.promised_to != node && now < g->bound_until;
}

/* Begins a claim with an epoch above all known ones. The epoch is promised to ourselves and durable
 * before it is sent. */
static void begin_claim(struct guard *g, struct bw_actions *actions)
{
    if (g->epoch < g->durable.promise_epoch)
        g->epoch = g->durable.promise_epoch;
    g->epoch++;
    g->begun = true;
    if (BW_BUG(guard_claim_forgets_dying_work))
        g->dying_until = 0;
    g->durable.promise_epoch = g->epoch;
    g->durable.promised_to = g->self;
    g->durable.promised_ns = g->promise_ns;
    g->durable.token = g->epoch;
    bw_actions_persist(actions, &g->durable);
    bw_actions_trace(actions, BW_TRACE_ELECTION, g->self, g->epoch, 0);
    forget_promises(g);
}

/* Repeats the newest claim to the voters that have not answered it. The claim still counts from its
 * first sending. Without a quorum the leader repeats until the next round; with a quorum only a few
 * times, so that the others learn the leader. */
static void repeat_claim(struct guard *g, bw_time now, struct bw_actions *actions)
{
    g->repeat_at = bw_time_add(now, repeat_ns(g));
    if (g->complete && g->repeats++ >= REPEATS_MAX)
        g->repeat_at = BW_TIME_NEVER;
    for (uint32_t i = 0; i < g->members.count && !BW_BUG(guard_claims_once); i++) {
        bw_node to = g->members.at[i].id;
        if (to == g->self || g->promised[i] == g->round_at || !votes(g, to))
            continue;
        struct bw_message *msg = bw_actions_send(actions, BW_MSG_CLAIM, g->self, to, g->epoch);
        msg->promise.echo = g->round_at;
        msg->flags = BW_FLAG_YES;
    }
}

/* One round of claims: promises to itself first, then asks all members. */
static void claim(struct guard *g, bw_time now, struct bw_actions *actions)
{
    if (bound_to_other(g, g->self, now)) {
        g->claim_at = g->bound_until;
        g->repeat_at = BW_TIME_NEVER;
        return;
    }
    if (!g->begun)
        begin_claim(g, actions);
    g->answers = now == g->round_at ? g->answers : 0;
    g->complete = false;
    g->round_at = now;
    g->bound_until = bw_time_add(now, g->promise_ns);
    send_all(g, BW_MSG_CLAIM, g->epoch, now, actions);
    bw_time third = g->promise_ns / 3;
    g->claim_at = now + (g->state == HOLDING ? third : bw_rng_between(&g->rng, third / 2, third));
    g->repeat_at = g->state == HOLDING ? now + repeat_ns(g) : BW_TIME_NEVER;
    g->repeats = 0;
    bw_time *own = row_promise(g, g->self);
    if (own && votes(g, g->self))
        count_promise(g, own, now, actions);
}

static void become_claiming(struct guard *g, bw_time now, struct bw_actions *actions)
{
    g->state = CLAIMING;
    g->release_at = BW_TIME_NEVER;
    g->begun = false;
    g->act_until = 0;
    claim(g, now, actions);
}

static void on_inner_leader(struct guard *g, bw_node leader, bw_time now,
                            struct bw_actions *actions)
{
    g->inner_leader = leader;
    if (leader == g->self && BW_ALWAYS(g->state == FOLLOWING))
        become_claiming(g, now, actions);
    else if (BW_ALWAYS(leader != g->self) && g->state != FOLLOWING)
        become_following(g, BW_LOSS_TAKEN, now, actions);
}

/* Filters the actions of the inner elector: keeps its announcements, and adds our fields to its
 * durable records. */
static void filter_actions(struct guard *g, uint32_t first, bw_time now, struct bw_actions *actions)
{
    uint32_t keep = first;
    bw_node leader = g->inner_leader;
    for (uint32_t k = first; k < actions->count; k++) {
        struct bw_action *action = &actions->at[k];
        if (action->kind == BW_ACTION_ANNOUNCE) {
            leader = action->announce.leader;
            continue;
        }
        if (action->kind == BW_ACTION_PERSIST) {
            g->durable.term = action->durable.term;
            g->durable.vote = action->durable.vote;
            g->durable.starts = action->durable.starts;
            action->durable = g->durable;
        }
        if (keep != k)
            actions->at[keep] = *action;
        keep++;
    }
    actions->count = keep;
    if (leader != g->inner_leader)
        on_inner_leader(g, leader, now, actions);
}

static void step_inner(struct guard *g, const struct bw_event *event, struct bw_actions *actions)
{
    uint32_t first = actions->count;
    g->inner_ops->step(g->inner, event, actions);
    filter_actions(g, first, event->now, actions);
}

static struct bw_message *answer(struct guard *g, const struct bw_message *msg,
                                 struct bw_actions *actions)
{
    struct bw_message *reply =
        bw_actions_send(actions, BW_MSG_PROMISE, g->self, msg->from, g->durable.promise_epoch);
    reply->promise.echo = msg->promise.echo;
    return reply;
}

static void refuse(struct guard *g, const struct bw_message *msg, bw_time now,
                   struct bw_actions *actions)
{
    bw_time left = g->bound_until > now ? g->bound_until - now : 0;
    bw_actions_trace(actions, BW_TRACE_IGNORED_PROMISED, g->durable.promised_to, (uint64_t)left, 0);
    struct bw_message *reply = answer(g, msg, actions);
    reply->promise.leader = g->durable.promised_to;
    reply->promise.left_ns = left;
}

static void grant(struct guard *g, const struct bw_message *msg, bw_time now,
                  struct bw_actions *actions)
{
    bool fresh =
        msg->term != g->durable.promise_epoch || BW_NEVER(msg->from != g->durable.promised_to);
    g->durable.promise_epoch = msg->term;
    g->durable.promised_to = msg->from;
    g->durable.promised_ns = g->promise_ns;
    g->durable.token = msg->term;
    if (fresh && !BW_BUG(guard_promise_not_durable))
        bw_actions_persist(actions, &g->durable);
    g->bound_until = bw_time_add(now, g->promise_ns);
    answer(g, msg, actions)->flags = BW_FLAG_YES;
}

/* Whether the message belongs to a claim that its sender has released. The sender never claims that
 * epoch again. */
static bool is_released(const struct guard *g, const struct bw_message *msg)
{
    return msg->from == g->released_by && msg->term <= g->released_epoch &&
           !BW_BUG(guard_promises_after_release);
}

static void on_claim(struct guard *g, const struct bw_message *msg, bw_time now,
                     struct bw_actions *actions)
{
    bool same = msg->term == g->durable.promise_epoch && msg->from == g->durable.promised_to;
    bool other = bound_to_other(g, msg->from, now) && !BW_BUG(guard_ignores_live_promise);
    if (is_released(g, msg)) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_OLD, msg->from, msg->term, g->released_epoch);
        return;
    }
    if (other || (msg->term <= g->durable.promise_epoch && !same)) {
        refuse(g, msg, now, actions);
        return;
    }
    if (g->state != FOLLOWING)
        become_following(g, BW_LOSS_TAKEN, now, actions);
    grant(g, msg, now, actions);
    if (msg->flags & BW_FLAG_YES) {
        announce_view(g, msg->from, msg->term, BW_LOSS_NONE, actions);
        g->view_until = g->bound_until;
    }
}

/* A member refused: it promised to another claimant, or it promised a higher epoch. A claimant
 * retries with a higher epoch when that promise has expired. A leader may be refused by a free
 * member that promised a higher epoch to a claimant that lost, or the same epoch to itself. The
 * leader then claims a still higher epoch within its window, so that this member is not left out
 * permanently. That also holds for members without a vote: they follow a leader only after they
 * have accepted its claim. */
static void on_refusal(struct guard *g, const struct bw_message *msg, bw_time now,
                       struct bw_actions *actions)
{
    bool elsewhere = msg->term > g->epoch || msg->promise.leader != g->self;
    if (msg->term < g->epoch || msg->promise.left_ns > g->promise_ns)
        return;
    if (g->state == HOLDING) {
        if (!elsewhere || msg->promise.left_ns > 0)
            return;
        g->epoch = msg->term;
        begin_claim(g, actions);
        g->claim_at = now;
        return;
    }
    bw_time wait = bw_drift_lengthen(msg->promise.left_ns, g->drift_ppm);
    g->claim_at = now + wait + bw_rng_between(&g->rng, 0, g->answer_ns);
    if (elsewhere) {
        g->epoch = msg->term;
        g->begun = false;
    }
}

static void on_promise(struct guard *g, const struct bw_message *msg, bw_time now,
                       struct bw_actions *actions)
{
    bw_time *row = votes(g, msg->from) ? row_promise(g, msg->from) : NULL;
    bool refuses = !(msg->flags & BW_FLAG_YES);
    if (refuses && !row && g->state == HOLDING &&
        !BW_BUG(guard_leaves_out_members_without_a_vote)) {
        on_refusal(g, msg, now, actions); /* it cannot follow a leader that it refuses */
        return;
    }
    if (!row || g->state == FOLLOWING) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, msg->from, BW_EVENT_MESSAGE, g->state);
        return;
    }
    if (refuses) {
        on_refusal(g, msg, now, actions);
        return;
    }
    if (!g->begun || msg->term != g->epoch || msg->promise.echo != g->round_at ||
        *row == g->round_at) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_OLD, msg->from, msg->term, g->epoch);
        return;
    }
    count_promise(g, row, now, actions);
}

static void on_release(struct guard *g, const struct bw_message *msg, bw_time now,
                       struct bw_actions *actions)
{
    /* claim again at once, also after a repeated release: the members that refused our claim may
     * receive the release only now */
    if (g->state == CLAIMING)
        g->claim_at = now;
    if (is_released(g, msg)) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_OLD, msg->from, msg->term, g->released_epoch);
        return;
    }
    g->released_by = msg->from;
    g->released_epoch = msg->term;
    if (msg->from == g->durable.promised_to && msg->term >= g->durable.promise_epoch)
        g->bound_until = now;
    if (g->view == msg->from && g->view_epoch <= msg->term) {
        g->view_until = BW_TIME_NEVER;
        announce_view(g, BW_NODE_NONE, msg->term, BW_LOSS_NONE, actions);
    }
}

static void on_message(struct guard *g, const struct bw_event *event, struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    if (msg->kind != BW_MSG_CLAIM && msg->kind != BW_MSG_PROMISE && msg->kind != BW_MSG_RELEASE)
        step_inner(g, event, actions);
    else if (msg->from == g->self) /* forged, or from another node with our id */
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, msg->from, BW_EVENT_MESSAGE, g->state);
    else if (!bw_members_find(&g->members, msg->from))
        bw_actions_trace(actions, BW_TRACE_IGNORED_NOT_A_MEMBER, msg->from, 0, 0);
    else if (msg->kind == BW_MSG_CLAIM)
        on_claim(g, msg, event->now, actions);
    else if (msg->kind == BW_MSG_PROMISE)
        on_promise(g, msg, event->now, actions);
    else
        on_release(g, msg, event->now, actions);
}

static void on_timeout(struct guard *g, const struct bw_event *event, struct bw_actions *actions)
{
    bw_time now = event->now;
    if (g->state == HOLDING && now >= g->act_until && !BW_BUG(guard_outlives_promise))
        become_following(g, BW_LOSS_UNREACHABLE, now, actions);
    if (now >= g->view_until) {
        g->view_until = BW_TIME_NEVER;
        announce_view(g, BW_NODE_NONE, g->view_epoch, BW_LOSS_NONE, actions);
    }
    if (g->inner_ops->deadline(g->inner) <= now)
        step_inner(g, event, actions);
    if (g->inner_leader == g->self && g->state == FOLLOWING && now >= g->bound_until)
        become_claiming(g, now, actions);
    else if (g->state == FOLLOWING && now >= g->release_at)
        repeat_release(g, now, actions);
    else if (g->state != FOLLOWING && now >= g->claim_at)
        claim(g, now, actions);
    else if (g->state == HOLDING && now >= g->repeat_at)
        repeat_claim(g, now, actions);
}

/* After a restart an earlier promise binds for a whole T again, because its last renewal is
 * unknown. A promise to ourselves means that work of the last incarnation may still run, so its
 * promises must not be released until then. */
static void on_start(struct guard *g, const struct bw_event *event, struct bw_actions *actions)
{
    g->durable = event->start->durable;
    g->epoch = g->durable.promise_epoch;
    g->bound_until = bw_time_add(event->now, g->durable.promised_ns);
    if (BW_BUG(guard_restart_forgets))
        g->bound_until = event->now;
    if (g->durable.promised_to == g->self && !BW_BUG(guard_restart_forgets_its_work))
        g->dying_until = g->bound_until;
    forget_promises(g);
    step_inner(g, event, actions);
}

/* Member rows move when a member joins or leaves, so promises are counted again from zero. */
static void on_membership(struct guard *g, const struct bw_event *event, struct bw_actions *actions)
{
    if (bw_members_apply(&g->members, event)) {
        forget_promises(g);
        if (g->state != FOLLOWING)
            g->claim_at = event->now;
    }
    step_inner(g, event, actions);
}

/* Whether the death report covers work under `term`. A report may be late: a node may have led
 * again since. */
static bool covers(const struct bw_event *event, bw_term term)
{
    return event->dead_term == 0 || term <= event->dead_term || BW_BUG(guard_old_death_frees);
}

static void on_own_work_dead(struct guard *g, const struct bw_event *event,
                             struct bw_actions *actions)
{
    if (!covers(event, g->token)) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_OLD, g->self, event->dead_term, g->token);
        return;
    }
    if (g->dying_until > 0 && g->state == FOLLOWING)
        release(g, event->now, actions);
    g->dying_until = 0;
}

static void on_confirmed_dead(struct guard *g, const struct bw_event *event,
                              struct bw_actions *actions)
{
    if (event->node == g->self) {
        on_own_work_dead(g, event, actions);
        return;
    }
    if (g->durable.promised_to == event->node && covers(event, g->durable.promise_epoch))
        g->bound_until = event->now;
    if (g->state == CLAIMING)
        g->claim_at = event->now;
    if (!event->runs || BW_BUG(guard_takes_a_transfer_for_a_death))
        step_inner(g, event, actions);
}

static void guard_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    struct guard *g = self;
    switch (event->kind) {
    case BW_EVENT_START:
        on_start(g, event, actions);
        break;
    case BW_EVENT_MESSAGE:
        on_message(g, event, actions);
        break;
    case BW_EVENT_TIMEOUT:
        on_timeout(g, event, actions);
        break;
    case BW_EVENT_JOIN:
    case BW_EVENT_LEAVE:
        on_membership(g, event, actions);
        break;
    case BW_EVENT_CONFIRMED_DEAD:
        on_confirmed_dead(g, event, actions);
        break;
    case BW_EVENT_STOP:
        become_following(g, BW_LOSS_SHUT_DOWN, event->now, actions);
        step_inner(g, event, actions);
        break;
    case BW_EVENT_COMMAND:
        if (event->command.kind == BW_COMMAND_RESIGN)
            become_following(g, BW_LOSS_RESIGNED, event->now, actions);
        else if (event->command.kind == BW_COMMAND_TRANSFER)
            become_following(g, BW_LOSS_TRANSFERRED, event->now, actions);
        step_inner(g, event, actions);
        break;
    case BW_EVENT_SUSPECT:
    case BW_EVENT_TRUST:
    case BW_EVENT_HINT:
    case BW_EVENT_SEND_FAILED:
    case BW_EVENT_PERSISTED:
        step_inner(g, event, actions);
        break;
    }
}

static bw_time guard_deadline(const void *self)
{
    const struct guard *g = self;
    bw_time next = bw_time_min(g->inner_ops->deadline(g->inner), g->view_until);
    if (g->state == HOLDING)
        next = bw_time_min(next, g->repeat_at);
    if (g->state != FOLLOWING)
        next = bw_time_min(next, g->claim_at);
    else if (g->inner_leader == g->self)
        next = bw_time_min(next, g->bound_until);
    if (g->state == FOLLOWING)
        next = bw_time_min(next, g->release_at);
    return g->state == HOLDING ? bw_time_min(next, g->act_until) : next;
}

static void guard_status(const void *self, struct bw_elector_status *out)
{
    const struct guard *g = self;
    g->inner_ops->status(g->inner, out);
    out->leader = g->view;
    out->leading = g->state == HOLDING;
    out->electing = out->electing || g->state == CLAIMING;
    out->term = g->view_epoch;
    out->token = g->state == HOLDING ? g->token : BW_TOKEN_NONE;
    out->act_until = g->act_until;
    out->state = state_names[g->state];
}

static bool guard_ready(const void *self, bw_node node)
{
    const struct guard *g = self;
    return !g->inner_ops->ready || g->inner_ops->ready(g->inner, node);
}

const struct bw_elector_ops bw_elect_guard = {
    .name = "quorum-guard",
    .promise = "Only the side with a majority of the configured members has a leader; the other "
               "side has none.",
    .traits = BW_TRAIT_TOKEN,
    .bytes = guard_bytes,
    .actions_max = guard_actions_max,
    .init = guard_init,
    .step = guard_step,
    .deadline = guard_deadline,
    .status = guard_status,
    .ready = guard_ready,
    .digest = bw_guard_digest,
    .fix_draws = bw_guard_fix_draws,
};
