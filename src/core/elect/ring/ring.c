/* The core of the ring elections: states, rounds, announcement laps, and all events that are not
 * election messages. ring.h states the guarantees.
 *
 * An announcement (RING_COORDINATOR) starts at its initiator, makes one lap and ends there. An
 * announcement whose initiator is the receiver is not forwarded. It reports the current
 * leader to a node that is behind. With the flag TRANSFER it makes the receiver the leader. */
#include "core/elect/ring/ring.h"

#include "core/base/bug.h"
#include "core/base/error.h"

#include <string.h>

#define REPEAT_PERIODS 10 /* periods between two announcements of a leader */
#define REPEATS_MISSED 3  /* missed announcements after which a follower starts an election */
/* periods for which a node follows a suspected leader that another node announced */
#define SUSPECT_PERIODS 2
#define BACKOFF_MAX     3u /* after failed rounds, wait up to 2^3 times as long */

static const char *const state_names[] = {"idle", "electing", "settled", "stopped"};

/* ---- memory ---- */

static int lay_out(struct bw_ring *ring, struct bw_arena *arena,
                   const struct bw_elector_config *config)
{
    struct bw_ring scratch;
    struct bw_ring *to = ring ? ring : &scratch;
    int error = bw_members_init(&to->members, arena, config->cap, config->members, config->count);
    to->order = bw_arena_take(arena, config->cap * sizeof *to->order);
    to->list = bw_arena_take(arena, config->cap * sizeof *to->list);
    return error;
}

size_t bw_ring_bytes(const struct bw_elector_config *config)
{
    struct bw_arena measure = {0};
    bw_arena_take(&measure, sizeof(struct bw_ring));
    lay_out(NULL, &measure, config);
    return measure.used;
}

/* The longest step: two state changes with their trace records, announcements and durable records,
 * a reply, and one message to each side. */
uint32_t bw_ring_actions_max(const struct bw_elector_config *config)
{
    (void)config;
    return 24;
}

int bw_ring_init(void *memory, const struct bw_elector_config *config,
                 const struct bw_ring_rules *rules)
{
    struct bw_arena arena = {.at = memory, .cap = bw_ring_bytes(config)};
    struct bw_ring *ring = bw_arena_take(&arena, sizeof *ring);
    if (config->cap > BW_ELECTOR_MEMBERS_MAX)
        return BW_ELIMIT;
    memset(ring, 0, sizeof *ring);
    ring->rules = rules;
    ring->self = config->self;
    ring->answer_ns = config->answer_ns;
    ring->round_ns = config->announce_ns;
    ring->repeat_ns = REPEAT_PERIODS * config->period_ns;
    ring->suspect_ns = SUSPECT_PERIODS * config->period_ns;
    ring->announce = config->announce;
    ring->round_at = ring->meet_at = ring->beat_at = BW_TIME_NEVER;
    bw_rng_init(&ring->rng, config->seed ^ 0x72696e67u);
    int error = lay_out(ring, &arena, config);
    if (error)
        return error;
    if (config->announce_ns <= 0 || config->answer_ns <= 0 || config->period_ns <= 0 ||
        !bw_members_find(&ring->members, config->self))
        return BW_EINVAL;
    return bw_ring_order_init(ring, config);
}

/* ---- queries ---- */

static bool suspects(const struct bw_ring *ring, bw_node node)
{
    const struct bw_member_row *row = bw_members_find(&ring->members, node);
    return !row || row->suspect;
}

bool bw_ring_circled(const struct bw_ring *ring, uint32_t hops)
{
    /* planted bug: the message of a dead initiator circles until the next round */
    if (BW_BUG(ring_no_hop_limit))
        return false;
    return hops >= ring->length;
}

static void ignore(struct bw_ring *ring, enum bw_trace_code code, const struct bw_event *event,
                   struct bw_actions *actions)
{
    bw_actions_trace(actions, code, event->node, event->kind, (uint64_t)ring->state);
}

/* ---- states ---- */

static void set_state(struct bw_ring *ring, enum bw_ring_state state, struct bw_actions *actions)
{
    if (ring->state != state)
        bw_actions_trace(actions, BW_TRACE_STATE, ring->self, (uint64_t)ring->state,
                         (uint64_t)state);
    ring->state = state;
}

static void announce_leader(const struct bw_ring *ring, enum bw_loss reason,
                            struct bw_actions *actions)
{
    bool leads = ring->leader == ring->self;
    struct bw_announcement a = {.leader = ring->leader,
                                .reason = reason,
                                .term = ring->durable.term,
                                .act_from = leads ? ring->act_from : 0,
                                .act_until = leads ? BW_TIME_NEVER : 0};
    bw_actions_announce(actions, &a);
}

/* No leader is known any more. */
static void become_leaderless(struct bw_ring *ring, enum bw_loss reason, struct bw_actions *actions)
{
    if (ring->leader == BW_NODE_NONE)
        return;
    bool led = ring->leader == ring->self;
    ring->leader = BW_NODE_NONE;
    ring->appointed = false;
    if (led)
        bw_actions_trace(actions, BW_TRACE_STEP_DOWN, ring->self, ring->leader_term,
                         (uint64_t)reason);
    announce_leader(ring, led ? reason : BW_LOSS_NONE, actions);
}

/* Enters a new round. Its number is durable before any message of the round is sent. */
static void enter_round(struct bw_ring *ring, bw_term term, struct bw_actions *actions)
{
    ring->durable.term = term;
    ring->marked = ring->initiator = ring->done = ring->candidate = false;
    /* otherwise planted bug: after a restart the node uses old rounds */
    if (!BW_BUG(ring_round_not_durable))
        bw_actions_persist(actions, &ring->durable);
}

/* Takes part in the current round and sets its timeout. */
static void become_waiting(struct bw_ring *ring, bw_time now, struct bw_actions *actions)
{
    uint32_t shift = ring->attempts < BACKOFF_MAX ? ring->attempts : BACKOFF_MAX;
    bw_time wait = ring->round_ns << shift;
    set_state(ring, BW_RING_ELECTING, actions);
    ring->meet_at = ring->beat_at = ring->round_at = BW_TIME_NEVER;
    if (ring->announce) /* otherwise only the winner learns the result */
        ring->round_at = now + wait + bw_rng_between(&ring->rng, 0, wait / 4);
}

static void become_electing(struct bw_ring *ring, bw_term term, bw_time now,
                            struct bw_actions *actions)
{
    enter_round(ring, term, actions);
    become_waiting(ring, now, actions);
}

static void become_settled(struct bw_ring *ring, bw_node leader, bool appointed, bw_time now,
                           struct bw_actions *actions)
{
    bool changed = ring->leader != leader || ring->leader_term != ring->durable.term;
    bool led = ring->leader == ring->self, leads = leader == ring->self;
    if (leads && !led)
        ring->act_from = now;
    ring->leader = leader;
    ring->leader_term = ring->durable.term;
    ring->appointed = appointed;
    ring->attempts = 0;
    ring->round_at = BW_TIME_NEVER;
    set_state(ring, BW_RING_SETTLED, actions);
    if (!changed)
        return;
    bw_actions_trace(actions, leads ? BW_TRACE_WON : BW_TRACE_LEADER, leader, ring->leader_term, 0);
    announce_leader(ring, led && !leads ? BW_LOSS_TAKEN : BW_LOSS_NONE, actions);
}

static void become_stopped(struct bw_ring *ring, struct bw_actions *actions)
{
    become_leaderless(ring, BW_LOSS_SHUT_DOWN, actions);
    ring->round_at = ring->meet_at = ring->beat_at = BW_TIME_NEVER;
    set_state(ring, BW_RING_STOPPED, actions);
}

/* Sets when the leader's next announcement is due (at the leader) or overdue (at a follower). */
static void await_beat(struct bw_ring *ring, bool first_hand, bw_time now)
{
    bw_time wait = REPEATS_MISSED * ring->repeat_ns + ring->round_ns;
    if (ring->leader == ring->self)
        wait = ring->repeat_ns;
    else if (suspects(ring, ring->leader) && !first_hand)
        wait = ring->suspect_ns;
    ring->beat_at =
        ring->announce ? now + wait + bw_rng_between(&ring->rng, 0, wait / 8) : BW_TIME_NEVER;
}

/* ---- functions for the variants ---- */

struct bw_message *bw_ring_pass(struct bw_ring *ring, enum bw_message_kind kind, bool left,
                                bw_node keep, struct bw_actions *actions)
{
    bw_node to = bw_ring_next(ring, ring->self, left, keep);
    if (to == ring->self)
        return NULL;
    struct bw_message *msg = bw_actions_send(actions, kind, ring->self, to, ring->durable.term);
    msg->flags = left ? BW_FLAG_LEFT : 0;
    return msg;
}

bool bw_ring_pass_election(struct bw_ring *ring, const struct bw_ring_part *part,
                           struct bw_actions *actions)
{
    struct bw_message *msg =
        bw_ring_pass(ring, BW_MSG_RING_ELECTION, false, part->initiator, actions);
    if (msg)
        msg->ring = *part;
    return msg != NULL;
}

void bw_ring_yield(struct bw_ring *ring, bw_node better, bw_time now, struct bw_actions *actions)
{
    if (ring->leader != ring->self || !bw_ring_outranks(ring, better, ring->self))
        return;
    become_leaderless(ring, BW_LOSS_TAKEN, actions);
    if (ring->state == BW_RING_SETTLED) /* a further message of the round that made us leader */
        become_waiting(ring, now, actions);
}

static void send_coordinator(struct bw_ring *ring, bw_node initiator, uint32_t hops,
                             struct bw_actions *actions)
{
    struct bw_message *msg = bw_ring_pass(ring, BW_MSG_RING_COORDINATOR, false, initiator, actions);
    if (!msg)
        return;
    msg->flags = ring->appointed ? BW_FLAG_TRANSFER : 0;
    msg->ring = (struct bw_ring_part){.initiator = initiator, .best = ring->leader, .hops = hops};
}

/* Sends the result to one node only. */
static void send_verdict(struct bw_ring *ring, bw_node to, bw_node leader, bool appointed,
                         struct bw_actions *actions)
{
    struct bw_message *msg =
        bw_actions_send(actions, BW_MSG_RING_COORDINATOR, ring->self, to, ring->durable.term);
    msg->flags = appointed ? BW_FLAG_TRANSFER : 0;
    msg->ring = (struct bw_ring_part){.initiator = to, .best = leader, .hops = 1};
}

/* Hands over leadership to `to`, which announces it. If it stays silent, an election follows. */
static void hand_over(struct bw_ring *ring, bw_node to, enum bw_loss reason, bw_time now,
                      struct bw_actions *actions)
{
    become_leaderless(ring, reason, actions);
    become_electing(ring, ring->durable.term + 1, now, actions);
    ring->marked = true;
    bw_actions_trace(actions, BW_TRACE_TRANSFER, to, 0, 0);
    send_verdict(ring, to, to, true, actions);
}

void bw_ring_decide(struct bw_ring *ring, bw_node leader, bw_time now, struct bw_actions *actions)
{
    bw_node next = leader ? BW_NODE_NONE : bw_ring_next_in_turn(ring);
    ring->done = true;
    if (next != BW_NODE_NONE && !BW_BUG(ring_last_to_resign_stays)) {
        hand_over(ring, next, BW_LOSS_RESIGNED, now, actions);
        return;
    }
    if (leader == BW_NODE_NONE) { /* alone */
        ring->withdrawn = false;
        leader = ring->self;
    }
    become_settled(ring, leader, false, now, actions);
    await_beat(ring, false, now);
    if (ring->announce)
        send_coordinator(ring, ring->self, 1, actions);
    else if (leader != ring->self)
        send_verdict(ring, leader, leader, false, actions);
}

/* ---- rounds ---- */

static void start_round(struct bw_ring *ring, bw_time now, struct bw_actions *actions)
{
    bw_term newest = ring->seen > ring->durable.term ? ring->seen : ring->durable.term;
    become_electing(ring, newest + 1, now, actions);
    bw_actions_trace(actions, BW_TRACE_ELECTION, ring->self, ring->durable.term, 0);
    ring->marked = ring->initiator = true;
    ring->rules->begin(ring, now, actions);
}

/* Starts a round soon, unless another node does so first: several nodes notice the same return. */
static void meet_soon(struct bw_ring *ring, bw_time now)
{
    if (ring->state != BW_RING_SETTLED || ring->meet_at != BW_TIME_NEVER || !ring->announce)
        return;
    ring->meet_at = now + ring->answer_ns + bw_rng_between(&ring->rng, 0, 2 * ring->answer_ns);
}

/* ---- messages ---- */

static bw_node initiator_of(const struct bw_message *msg)
{
    bool hs = msg->kind == BW_MSG_HS_FROM || msg->kind == BW_MSG_HS_OK || msg->kind == BW_MSG_HS_NO;
    return hs ? msg->hs.value : msg->ring.initiator;
}

/* The sender's round is old. Sends it the current leader; but if its message names a higher-ranked
 * leader, starts a round soon, so that all meet. */
static void answer_old(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                       struct bw_actions *actions)
{
    bw_node initiator = initiator_of(msg);
    bw_actions_trace(actions, BW_TRACE_IGNORED_OLD, msg->from, msg->term, ring->durable.term);
    if (initiator == ring->self || ring->state != BW_RING_SETTLED || msg->kind == BW_MSG_HS_OK ||
        msg->kind == BW_MSG_HS_NO)
        return;
    if (msg->kind == BW_MSG_RING_COORDINATOR && !suspects(ring, msg->ring.best) &&
        bw_ring_outranks(ring, msg->ring.best, ring->leader))
        meet_soon(ring, now);
    else if (ring->announce)
        send_verdict(ring, initiator, ring->leader, ring->appointed, actions);
}

static void on_election(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                        struct bw_actions *actions)
{
    if (msg->term < ring->durable.term) {
        answer_old(ring, msg, now, actions);
        return;
    }
    if (msg->term > ring->durable.term)
        become_electing(ring, msg->term, now, actions);
    ring->rules->message(ring, msg, now, actions);
}

/* Whether an announcement of the current round changes or repeats what is known. */
static bool supersedes(const struct bw_ring *ring, const struct bw_message *msg)
{
    bw_node leader = msg->ring.best;
    return ring->leader_term < msg->term || ring->leader == BW_NODE_NONE ||
           ring->leader == leader || bw_ring_outranks(ring, leader, ring->leader) ||
           suspects(ring, ring->leader);
}

/* Whether this node was left out of the round. */
static bool was_left_out(const struct bw_ring *ring, const struct bw_message *msg)
{
    bool appointed = msg->flags & BW_FLAG_TRANSFER;
    if (msg->ring.best == ring->self)
        return ring->withdrawn && !appointed;
    return !appointed && !bw_ring_outranks_self(ring, msg->ring.best);
}

static void accept_coordinator(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                               struct bw_actions *actions)
{
    bool appointed = msg->flags & BW_FLAG_TRANSFER;
    bool handed = appointed && msg->ring.best == ring->self && msg->ring.initiator == ring->self &&
                  ring->leader != ring->self;
    if (msg->term > ring->durable.term) {
        enter_round(ring, msg->term, actions);
        ring->marked = true; /* decided: no node needs to take part any more */
    }
    if (handed)
        ring->withdrawn = false;
    become_settled(ring, msg->ring.best, appointed, now, actions);
    await_beat(ring, msg->ring.initiator == msg->ring.best, now);
    if (handed)
        send_coordinator(ring, ring->self, 1, actions);
    else if (msg->ring.initiator != ring->self && !bw_ring_circled(ring, msg->ring.hops))
        send_coordinator(ring, msg->ring.initiator, msg->ring.hops + 1, actions);
}

static void on_coordinator(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                           struct bw_actions *actions)
{
    if (msg->term < ring->durable.term && !BW_BUG(ring_takes_old_coordinator)) {
        answer_old(ring, msg, now, actions);
        return;
    }
    if (was_left_out(ring, msg)) {
        bw_actions_trace(actions, BW_TRACE_SPLIT_BRAIN, msg->ring.best, msg->term,
                         ring->durable.term);
        if (ring->state == BW_RING_IDLE)
            start_round(ring, now, actions);
        else
            meet_soon(ring, now);
        return;
    }
    if (!supersedes(ring, msg) && !BW_BUG(ring_takes_old_coordinator)) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_LATE, msg->from, msg->kind, msg->term);
        return;
    }
    accept_coordinator(ring, msg, now, actions);
}

static bool names_unknown_node(const struct bw_ring *ring, const struct bw_message *msg)
{
    bool best = msg->kind == BW_MSG_RING_ELECTION || msg->kind == BW_MSG_RING_COORDINATOR;
    return !bw_members_find(&ring->members, msg->from) ||
           !bw_members_find(&ring->members, initiator_of(msg)) ||
           (best && msg->ring.best && !bw_members_find(&ring->members, msg->ring.best));
}

static void on_message(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                       struct bw_actions *actions)
{
    bool ours = msg->kind >= BW_MSG_RING_ELECTION && msg->kind <= BW_MSG_HS_NO;
    if (!ours || names_unknown_node(ring, msg)) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_NOT_A_MEMBER, msg->from, msg->kind, 0);
        return;
    }
    if (msg->term > ring->seen)
        ring->seen = msg->term;
    if (msg->kind == BW_MSG_RING_COORDINATOR)
        on_coordinator(ring, msg, now, actions);
    else
        on_election(ring, msg, now, actions);
}

/* ---- failed sends ---- */

static void try_next(struct bw_ring *ring, const struct bw_message *msg, bw_node to,
                     struct bw_actions *actions)
{
    struct bw_action *action = bw_actions_add(actions, BW_ACTION_SEND);
    memcpy(&action->msg, msg, bw_message_used(msg->kind));
    action->msg.from = ring->self;
    action->msg.to = to;
    if (msg->items == 0)
        return;
    memcpy(ring->list, msg->data, msg->items * sizeof *ring->list);
    action->msg.data = ring->list;
}

/* The last hop of a lap failed: the initiator is dead, and no other node can end the round. */
static void on_dead_initiator(struct bw_ring *ring, const struct bw_message *msg, bw_time now,
                              struct bw_actions *actions)
{
    bool handover = msg->kind == BW_MSG_RING_COORDINATOR && msg->ring.best == msg->to &&
                    (msg->flags & BW_FLAG_TRANSFER);
    bool election = msg->kind == BW_MSG_RING_ELECTION || msg->kind == BW_MSG_HS_FROM;
    if ((handover || election) && ring->state == BW_RING_ELECTING)
        start_round(ring, now, actions);
}

static void on_send_failed(struct bw_ring *ring, const struct bw_event *event,
                           struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    bool ours = msg->kind >= BW_MSG_RING_ELECTION && msg->kind <= BW_MSG_HS_NO;
    if (!ours || msg->term != ring->durable.term || msg->items > ring->members.cap) {
        ignore(ring, BW_TRACE_IGNORED_OLD, event, actions);
        return;
    }
    bw_node initiator = initiator_of(msg);
    if (msg->to == initiator) {
        on_dead_initiator(ring, msg, event->now, actions);
        return;
    }
    bw_node to = bw_ring_next(ring, msg->to, msg->flags & BW_FLAG_LEFT, initiator);
    if (to != ring->self)
        try_next(ring, msg, to, actions);
    /* all others are dead: the message counts as returned */
    else if (initiator == ring->self && msg->kind != BW_MSG_RING_COORDINATOR)
        ring->rules->message(ring, msg, event->now, actions);
}

/* ---- members and suspicions ---- */

static void on_leader_gone(struct bw_ring *ring, bw_time now, struct bw_actions *actions)
{
    become_leaderless(ring, BW_LOSS_NONE, actions);
    ring->withdrawn = false;
    if (ring->state != BW_RING_ELECTING)
        start_round(ring, now, actions);
}

static void on_suspect(struct bw_ring *ring, const struct bw_event *event,
                       struct bw_actions *actions)
{
    if (event->node == ring->self)
        return;
    bw_members_apply(&ring->members, event);
    if (event->node == ring->leader)
        on_leader_gone(ring, event->now, actions);
}

static void on_return(struct bw_ring *ring, const struct bw_event *event)
{
    bw_node node = event->kind == BW_EVENT_JOIN ? event->member.id : event->node;
    if (bw_members_apply(&ring->members, event) && event->kind == BW_EVENT_JOIN)
        bw_ring_order_add(ring, node);
    if (node == ring->leader && ring->state == BW_RING_SETTLED)
        await_beat(ring, false, event->now);
    else if (ring->leader == ring->self || bw_ring_outranks(ring, node, ring->leader))
        meet_soon(ring, event->now);
}

static void on_leave(struct bw_ring *ring, const struct bw_event *event, struct bw_actions *actions)
{
    if (event->node == ring->self) {
        become_stopped(ring, actions);
        return;
    }
    if (!bw_members_apply(&ring->members, event))
        return;
    bw_ring_order_remove(ring, event->node);
    bw_actions_trace(actions, BW_TRACE_MEMBER_LEFT, event->node, 0, 0);
    if (event->node == ring->leader)
        on_leader_gone(ring, event->now, actions);
}

/* ---- commands ---- */

static void on_stop(struct bw_ring *ring, bw_time now, struct bw_actions *actions)
{
    bw_node successor = bw_ring_successor(ring);
    if (ring->leader == ring->self && successor != BW_NODE_NONE)
        hand_over(ring, successor, BW_LOSS_SHUT_DOWN, now, actions);
    become_stopped(ring, actions);
}

static void on_command(struct bw_ring *ring, const struct bw_event *event,
                       struct bw_actions *actions)
{
    const struct bw_command *command = &event->command;
    bool leads = ring->leader == ring->self;
    if (command->kind == BW_COMMAND_CAMPAIGN && ring->state != BW_RING_ELECTING) {
        if (command->node && command->node == ring->leader && !leads)
            become_leaderless(ring, BW_LOSS_NONE, actions);
        ring->withdrawn = false;
        start_round(ring, event->now, actions);
    } else if (command->kind == BW_COMMAND_RESIGN && leads) {
        become_leaderless(ring, BW_LOSS_RESIGNED, actions);
        ring->withdrawn = true;
        start_round(ring, event->now, actions);
    } else if (command->kind == BW_COMMAND_TRANSFER && leads && command->node != ring->self &&
               bw_members_find(&ring->members, command->node)) {
        hand_over(ring, command->node, BW_LOSS_TRANSFERRED, event->now, actions);
    } else {
        ignore(ring, BW_TRACE_IGNORED_STATE, event, actions);
    }
}

/* ---- time ---- */

static void on_timeout(struct bw_ring *ring, bw_time now, struct bw_actions *actions)
{
    if (now >= ring->round_at) {
        ring->attempts++;
        ring->withdrawn = false;
        if (ring->leader != ring->self)
            become_leaderless(ring, BW_LOSS_NONE, actions);
        start_round(ring, now, actions);
    } else if (now >= ring->meet_at) {
        start_round(ring, now, actions);
    } else if (now >= ring->beat_at && ring->leader == ring->self) {
        await_beat(ring, true, now);
        send_coordinator(ring, ring->self, 1, actions);
    } else if (now >= ring->beat_at) {
        start_round(ring, now, actions);
    }
}

static void on_start(struct bw_ring *ring, const struct bw_start *start, bw_time now,
                     struct bw_actions *actions)
{
    ring->durable = start->durable;
    ring->seen = ring->durable.term;
    if (!start->passive) {
        start_round(ring, now, actions);
        return;
    }
    if (start->leader != ring->self && bw_members_find(&ring->members, start->leader)) {
        ring->leader = start->leader;
        announce_leader(ring, BW_LOSS_NONE, actions);
    }
}

void bw_ring_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    struct bw_ring *ring = self;
    if (ring->state == BW_RING_STOPPED) {
        ignore(ring, BW_TRACE_IGNORED_STATE, event, actions);
        return;
    }
    switch (event->kind) {
    case BW_EVENT_START:
        on_start(ring, event->start, event->now, actions);
        break;
    case BW_EVENT_MESSAGE:
        on_message(ring, event->msg, event->now, actions);
        break;
    case BW_EVENT_TIMEOUT:
        on_timeout(ring, event->now, actions);
        break;
    case BW_EVENT_SUSPECT:
    case BW_EVENT_CONFIRMED_DEAD:
        on_suspect(ring, event, actions);
        break;
    case BW_EVENT_TRUST:
    case BW_EVENT_JOIN:
        on_return(ring, event);
        break;
    case BW_EVENT_HINT:
        if (event->node == ring->leader && ring->state != BW_RING_ELECTING)
            start_round(ring, event->now, actions);
        break;
    case BW_EVENT_SEND_FAILED:
        on_send_failed(ring, event, actions);
        break;
    case BW_EVENT_LEAVE:
        on_leave(ring, event, actions);
        break;
    case BW_EVENT_COMMAND:
        on_command(ring, event, actions);
        break;
    case BW_EVENT_STOP:
        on_stop(ring, event->now, actions);
        break;
    case BW_EVENT_PERSISTED:
        ignore(ring, BW_TRACE_IGNORED_STATE, event, actions);
        break;
    }
}

bw_time bw_ring_deadline(const void *self)
{
    const struct bw_ring *ring = self;
    return bw_time_min(ring->round_at, bw_time_min(ring->meet_at, ring->beat_at));
}

bool bw_ring_ready(const void *self, bw_node node)
{
    const struct bw_ring *ring = self;
    const struct bw_member_row *row = bw_members_find(&ring->members, node);
    return row && !row->suspect;
}

void bw_ring_status(const void *self, struct bw_elector_status *out)
{
    const struct bw_ring *ring = self;
    bool leading = ring->leader == ring->self;
    *out = (struct bw_elector_status){.leader = ring->leader,
                                      .leading = leading,
                                      .electing = ring->state == BW_RING_ELECTING,
                                      .term = ring->durable.term,
                                      .act_from = leading ? ring->act_from : 0,
                                      .act_until = leading ? BW_TIME_NEVER : 0,
                                      .state = state_names[ring->state]};
}
