/* Stable leader election: each round has one candidate. A leader that works is never replaced
 * because a better one has come.
 *
 * The message-efficient algorithm, in its variant for lossy links:
 * - StartRound(k): no leader; send START(k) to all; restart the timer.
 * - The candidate of round r sends OK(r) to all every delta. After two OK(r) it is the leader.
 * - If the timer (> 2 delta) expires without an OK: send STOP(r) to the candidate; StartRound(r+1).
 * - On STOP(k) with k >= r: StartRound(k+1). On START or OK of k > r: StartRound(k).
 * - On a message of an old round: answer with START(r).
 *
 * Model: crashes and restarts; lossy links; eventually the outgoing links of some node are timely.
 * delta (period_ns) bounds the time between two OKs and is much longer than the delay of a message.
 *
 * Guarantees within the model: a new leader at most (n+4) delta after a leader's crash. From then
 * on only the leader sends. A follower whose outgoing links are cut does not disturb the others.
 *
 * Not guaranteed: a single leader. Each side of a partition has one; the quorum guard lets only one
 * act. After healing, the side with the higher round wins.
 *
 * Additions to the paper:
 * - A message names the candidate together with the round. The candidate of the next round is the
 *   next member in the order of ids (round 0: the first). This equals r mod n while the membership
 *   does not change.
 * - Rounds of candidates that the detector suspects, or that the transport cannot reach, are
 *   skipped.
 * - A suspicion shortens the wait for a leader that is also silent to 1.5 delta. It never ends a
 *   leader that still sends.
 * - A timer that fires a whole delta late shows that this node was paused, so it sends no STOP.
 * - Round and candidate are durable before they are sent. A restarted node resumes its round, so
 *   that a restart does not demote a leader.
 *
 * Source: M. Aguilera, C. Delporte-Gallet, H. Fauconnier, S. Toueg, "Stable leader election", DISC
 * 2001. */
#include "core/base/arena.h"
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/members.h"
#include "core/elect/elector.h"

#include <string.h>

#define OKS_TO_LEAD 2u

enum state { IDLE, WAITING, SETTLED, STOPPED };

static const char *const state_names[] = {"idle", "waiting", "settled", "stopped"};

struct round {
    bw_term number;
    bw_node candidate;
};

struct stable {
    bw_node self;
    bw_time delta_ns, timeout_ns, silent_ns;
    struct bw_members members;
    struct bw_durable durable; /* term: round number; vote: its candidate */
    enum state state;
    struct round round;
    uint32_t oks;
    bw_time act_from;
    bw_time received_at; /* last OK of this round, or its start */
    bw_time timer_at;    /* when the candidate has been silent for too long */
    bw_time beat_at;     /* candidate: next OK */
};

/* ---- memory ---- */

static int lay_out(struct stable *s, struct bw_arena *arena, const struct bw_elector_config *config)
{
    struct stable scratch;
    struct stable *to = s ? s : &scratch;
    return bw_members_init(&to->members, arena, config->cap, config->members, config->count);
}

static size_t stable_bytes(const struct bw_elector_config *config)
{
    struct bw_arena measure = {0};
    bw_arena_take(&measure, sizeof(struct stable));
    lay_out(NULL, &measure, config);
    return measure.used;
}

/* START and OK to all, STOP to one, a durable record, announcements and trace records. */
static uint32_t stable_actions_max(const struct bw_elector_config *config)
{
    return 2 * config->cap + 12;
}

static int stable_init(void *memory, const struct bw_elector_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = stable_bytes(config)};
    struct stable *s = bw_arena_take(&arena, sizeof *s);
    if (config->cap > BW_ELECTOR_MEMBERS_MAX)
        return BW_ELIMIT;
    if (config->period_ns <= 0 || config->latency_ns < 0)
        return BW_EINVAL;
    memset(s, 0, sizeof *s);
    s->self = config->self;
    s->delta_ns = config->period_ns;
    s->timeout_ns = 2 * config->period_ns + config->period_ns / 4 + 2 * config->latency_ns;
    s->silent_ns = config->period_ns + config->period_ns / 2;
    s->timer_at = s->beat_at = BW_TIME_NEVER;
    int error = lay_out(s, &arena, config);
    if (error)
        return error;
    return bw_members_find(&s->members, config->self) ? 0 : BW_EINVAL;
}

/* ---- order of rounds ---- */

/* Negative, 0 or positive if `a` is older than, equal to, or newer than `b`. Two nodes with
 * different member lists may have different candidates for one number: the higher id then counts as
 * newer. */
static int compare(struct round a, struct round b)
{
    if (a.number != b.number)
        return a.number < b.number ? -1 : 1;
    return a.candidate < b.candidate ? -1 : a.candidate > b.candidate;
}

static bw_node member_after(const struct stable *s, bw_node node)
{
    for (uint32_t i = 0; i < s->members.count; i++)
        if (s->members.at[i].id > node)
            return s->members.at[i].id;
    return s->members.at[0].id;
}

/* The next round after `round` whose candidate is not suspected. A node never suspects itself. */
static struct round next_round(const struct stable *s, struct round round)
{
    for (uint32_t i = 0; BW_ALWAYS(i < s->members.count); i++) {
        round.number++;
        round.candidate = member_after(s, round.candidate);
        if (!bw_members_find(&s->members, round.candidate)->suspect)
            break;
    }
    return round;
}

/* ---- messages ---- */

static void send_one(const struct stable *s, enum bw_message_kind kind, bw_node to,
                     struct round round, struct bw_actions *actions)
{
    bw_actions_send(actions, kind, s->self, to, round.number)->bully.leader = round.candidate;
}

static void send_all(const struct stable *s, enum bw_message_kind kind, struct round round,
                     struct bw_actions *actions)
{
    for (uint32_t i = 0; i < s->members.count; i++)
        if (s->members.at[i].id != s->self)
            send_one(s, kind, s->members.at[i].id, round, actions);
}

static bw_node leader_of(const struct stable *s)
{
    return s->state == SETTLED ? s->round.candidate : BW_NODE_NONE;
}

static void announce_leader(const struct stable *s, enum bw_loss reason, struct bw_actions *actions)
{
    bool leads = leader_of(s) == s->self;
    struct bw_announcement a = {.leader = leader_of(s),
                                .reason = reason,
                                .term = s->round.number,
                                .act_from = leads ? s->act_from : 0,
                                .act_until = leads ? BW_TIME_NEVER : 0};
    bw_actions_announce(actions, &a);
}

/* ---- states ---- */

static void set_state(struct stable *s, enum state state, struct bw_actions *actions)
{
    if (s->state != state)
        bw_actions_trace(actions, BW_TRACE_STATE, s->self, (uint64_t)s->state, (uint64_t)state);
    s->state = state;
}

/* Enters `round` without a leader; earlier OKs do not count. */
static void become_waiting(struct stable *s, struct round round, enum bw_loss reason, bw_time now,
                           struct bw_actions *actions)
{
    bw_node led = leader_of(s);
    s->round = round;
    s->durable.term = round.number;
    s->durable.vote = round.candidate;
    /* otherwise planted bug: after a restart the node falls back to an old round */
    if (!BW_BUG(stable_round_not_durable))
        bw_actions_persist(actions, &s->durable);
    set_state(s, WAITING, actions);
    /* otherwise planted bug: one OK of a new round makes a leader */
    if (!BW_BUG(stable_oks_not_reset))
        s->oks = 0;
    s->received_at = now;
    s->timer_at = now + s->timeout_ns;
    s->beat_at = BW_TIME_NEVER;
    if (led == BW_NODE_NONE)
        return;
    if (led == s->self)
        bw_actions_trace(actions, BW_TRACE_STEP_DOWN, s->self, round.number, (uint64_t)reason);
    announce_leader(s, led == s->self ? reason : BW_LOSS_NONE, actions);
}

static void become_settled(struct stable *s, bw_time now, struct bw_actions *actions)
{
    bool leads = s->round.candidate == s->self;
    set_state(s, SETTLED, actions);
    s->act_from = now;
    bw_actions_trace(actions, leads ? BW_TRACE_WON : BW_TRACE_LEADER, s->round.candidate,
                     s->round.number, 0);
    announce_leader(s, BW_LOSS_NONE, actions);
}

static void become_stopped(struct stable *s, struct bw_actions *actions)
{
    bw_node led = leader_of(s);
    set_state(s, STOPPED, actions);
    s->timer_at = s->beat_at = BW_TIME_NEVER;
    if (led != BW_NODE_NONE)
        announce_leader(s, led == s->self ? BW_LOSS_SHUT_DOWN : BW_LOSS_NONE, actions);
}

/* ---- the algorithm ---- */

static void receive_ok(struct stable *s, bw_time now, struct bw_actions *actions)
{
    s->received_at = now;
    s->timer_at = s->round.candidate == s->self ? BW_TIME_NEVER : now + s->timeout_ns;
    if (s->oks < OKS_TO_LEAD)
        s->oks++;
    if (s->oks == OKS_TO_LEAD && s->state == WAITING)
        become_settled(s, now, actions);
}

/* The candidate counts its own OK too. */
static void beat(struct stable *s, bw_time now, struct bw_actions *actions)
{
    send_all(s, BW_MSG_STABLE_OK, s->round, actions);
    s->beat_at = now + s->delta_ns;
    receive_ok(s, now, actions);
}

static void start_round(struct stable *s, struct round round, enum bw_loss reason, bw_time now,
                        struct bw_actions *actions)
{
    become_waiting(s, round, reason, now, actions);
    bw_actions_trace(actions, BW_TRACE_ELECTION, round.candidate, round.number, 0);
    send_all(s, BW_MSG_STABLE_START, round, actions);
    if (round.candidate == s->self)
        beat(s, now, actions);
}

static void start_next(struct stable *s, struct round after, bw_time now,
                       struct bw_actions *actions)
{
    start_round(s, next_round(s, after), BW_LOSS_TAKEN, now, actions);
}

static void on_message(struct stable *s, const struct bw_message *msg, bw_time now,
                       struct bw_actions *actions)
{
    struct round round = {msg->term, msg->bully.leader};
    int age = compare(round, s->round);
    bool ours = msg->kind == BW_MSG_STABLE_START || msg->kind == BW_MSG_STABLE_OK ||
                msg->kind == BW_MSG_STABLE_STOP;
    if (!ours || !bw_members_find(&s->members, msg->from) ||
        !bw_members_find(&s->members, round.candidate)) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_NOT_A_MEMBER, msg->from, msg->kind, 0);
        return;
    }
    /* planted bug: a late STOP demotes the next leader */
    if (msg->kind == BW_MSG_STABLE_STOP && (age >= 0 || BW_BUG(stable_stops_for_old_round))) {
        start_next(s, BW_ALWAYS(age >= 0) ? round : s->round, now, actions);
        return;
    }
    if (age < 0) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_OLD, msg->from, msg->term, s->round.number);
        send_one(s, BW_MSG_STABLE_START, msg->from, s->round, actions);
        return;
    }
    if (age > 0 || s->state == IDLE)
        start_round(s, round, BW_LOSS_TAKEN, now, actions);
    if (msg->kind == BW_MSG_STABLE_OK && round.candidate != s->self)
        receive_ok(s, now, actions);
}

static void on_timeout(struct stable *s, bw_time now, struct bw_actions *actions)
{
    if (now >= s->beat_at)
        beat(s, now, actions);
    if (now < s->timer_at)
        return;
    if (now - s->timer_at >= s->delta_ns) { /* this node was paused */
        s->timer_at = now + s->timeout_ns;
        return;
    }
    send_one(s, BW_MSG_STABLE_STOP, s->round.candidate, s->round, actions);
    start_next(s, s->round, now, actions);
}

/* ---- members and suspicions ---- */

/* The candidate is reported as gone. This counts only if it has also been silent. */
static void on_suspicion(struct stable *s, bw_node node, bw_time now)
{
    if (node != s->round.candidate || node == s->self || s->timer_at == BW_TIME_NEVER)
        return;
    bw_time silent = bw_time_max(now, s->received_at + s->silent_ns);
    s->timer_at = bw_time_min(s->timer_at, silent);
}

static void on_gone(struct stable *s, bw_node node, bw_time now, struct bw_actions *actions)
{
    if (node == s->round.candidate && s->state != IDLE)
        start_next(s, s->round, now, actions);
}

static void on_member(struct stable *s, const struct bw_event *event, struct bw_actions *actions)
{
    if (event->node == s->self && event->kind != BW_EVENT_JOIN) {
        if (event->kind == BW_EVENT_LEAVE)
            become_stopped(s, actions);
        return;
    }
    bw_members_apply(&s->members, event);
    if (event->kind == BW_EVENT_SUSPECT)
        on_suspicion(s, event->node, event->now);
    else if (event->kind == BW_EVENT_CONFIRMED_DEAD || event->kind == BW_EVENT_LEAVE)
        on_gone(s, event->node, event->now, actions);
}

static void on_send_failed(struct stable *s, const struct bw_event *event,
                           struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    bool candidate = msg->kind == BW_MSG_STABLE_START && msg->to == s->round.candidate &&
                     msg->term == s->round.number && s->state == WAITING && s->oks == 0;
    if (candidate)
        on_gone(s, msg->to, event->now, actions);
}

/* ---- commands ---- */

static void on_campaign(struct stable *s, bw_node failed, bw_time now, struct bw_actions *actions)
{
    bool fresh = s->state == IDLE && s->round.candidate != failed &&
                 !bw_members_find(&s->members, s->round.candidate)->suspect;
    start_round(s, fresh ? s->round : next_round(s, s->round), BW_LOSS_RESIGNED, now, actions);
}

static void on_command(struct stable *s, const struct bw_event *event, struct bw_actions *actions)
{
    const struct bw_command *command = &event->command;
    bool leads = leader_of(s) == s->self;
    struct round given = {s->round.number + 1, command->node};
    if (command->kind == BW_COMMAND_CAMPAIGN)
        on_campaign(s, command->node, event->now, actions);
    else if (command->kind == BW_COMMAND_RESIGN && leads)
        start_round(s, next_round(s, s->round), BW_LOSS_RESIGNED, event->now, actions);
    else if (command->kind == BW_COMMAND_TRANSFER && leads && command->node != s->self &&
             bw_members_find(&s->members, command->node))
        start_round(s, given, BW_LOSS_TRANSFERRED, event->now, actions);
    else
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, s->self, event->kind, (uint64_t)s->state);
}

/* A candidate that stops opens the next round for the others. */
static void on_stop(struct stable *s, struct bw_actions *actions)
{
    struct round next = next_round(s, s->round);
    if (s->round.candidate == s->self && s->state != IDLE && next.candidate != s->self) {
        s->durable.term = next.number;
        s->durable.vote = next.candidate;
        bw_actions_persist(actions, &s->durable);
        send_all(s, BW_MSG_STABLE_START, next, actions);
    }
    become_stopped(s, actions);
}

static void on_start(struct stable *s, const struct bw_start *start, bw_time now,
                     struct bw_actions *actions)
{
    s->durable = start->durable;
    s->round = (struct round){s->durable.term, s->durable.vote};
    if (!bw_members_find(&s->members, s->round.candidate))
        s->round.candidate = member_after(s, s->round.candidate);
    if (!start->passive)
        start_round(s, s->round, BW_LOSS_NONE, now, actions);
}

static void stable_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    struct stable *s = self;
    if (s->state == STOPPED) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, s->self, event->kind, STOPPED);
        return;
    }
    switch (event->kind) {
    case BW_EVENT_START:
        on_start(s, event->start, event->now, actions);
        break;
    case BW_EVENT_MESSAGE:
        on_message(s, event->msg, event->now, actions);
        break;
    case BW_EVENT_TIMEOUT:
        on_timeout(s, event->now, actions);
        break;
    case BW_EVENT_SUSPECT:
    case BW_EVENT_TRUST:
    case BW_EVENT_CONFIRMED_DEAD:
    case BW_EVENT_JOIN:
    case BW_EVENT_LEAVE:
        on_member(s, event, actions);
        break;
    case BW_EVENT_HINT:
        on_suspicion(s, event->node, event->now);
        break;
    case BW_EVENT_SEND_FAILED:
        on_send_failed(s, event, actions);
        break;
    case BW_EVENT_COMMAND:
        on_command(s, event, actions);
        break;
    case BW_EVENT_STOP:
        on_stop(s, actions);
        break;
    case BW_EVENT_PERSISTED:
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, s->self, event->kind, 0);
        break;
    }
}

static bw_time stable_deadline(const void *self)
{
    const struct stable *s = self;
    return bw_time_min(s->timer_at, s->beat_at);
}

static void stable_status(const void *self, struct bw_elector_status *out)
{
    const struct stable *s = self;
    bool leading = leader_of(s) == s->self;
    *out = (struct bw_elector_status){.leader = leader_of(s),
                                      .leading = leading,
                                      .electing = s->state == WAITING,
                                      .term = s->round.number,
                                      .act_from = leading ? s->act_from : 0,
                                      .act_until = leading ? BW_TIME_NEVER : 0,
                                      .state = state_names[s->state]};
}

static bool stable_ready(const void *self, bw_node node)
{
    const struct stable *s = self;
    const struct bw_member_row *row = bw_members_find(&s->members, node);
    return row && !row->suspect;
}

const struct bw_elector_ops bw_elect_stable = {
    .name = "stable",
    .promise = "Each side of a partition gets its own leader until it heals; with the quorum "
               "guard only one may act.",
    .traits = BW_TRAIT_MAY_SPLIT | BW_TRAIT_GUARDABLE | BW_TRAIT_OWN_TIMERS,
    .bytes = stable_bytes,
    .actions_max = stable_actions_max,
    .init = stable_init,
    .step = stable_step,
    .deadline = stable_deadline,
    .status = stable_status,
    .ready = stable_ready,
};
