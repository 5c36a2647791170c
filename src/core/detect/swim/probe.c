/* SWIM's probes: the own probe of each period, probes on behalf of other members, and all
 * replies. */
#include "core/base/bug.h"
#include "core/detect/swim/swim.h"

#define NACK_PERCENT 80 /* of the ack timeout, so that a helper's nack still arrives in time */

static uint64_t next_seq(struct bw_swim *swim)
{
    return (uint64_t)swim->starts << 32 | ++swim->number;
}

/* Sends a message with piggybacked updates; `first`, if given, goes before all others. */
static struct bw_message *send(struct bw_swim *swim, enum bw_message_kind kind, bw_node to,
                               uint64_t seq, bw_node target, const struct bw_swim_update *first,
                               struct bw_actions *actions)
{
    struct bw_message *msg = bw_actions_send(actions, kind, swim->self, to, 0);
    msg->probe = (struct bw_probe){.seq = seq, .target = target, .incarnation = swim->incarnation};
    BW_ASSERT(swim->payloads_used < BW_SWIM_PAYLOADS);
    struct bw_swim_update *payload = swim->payloads[swim->payloads_used++];
    uint32_t items = 0;
    if (first)
        payload[items++] = *first;
    items += bw_swim_gossip_take(&swim->gossip, swim->members.count + 1, payload + items,
                                 BW_SWIM_UPDATES_MAX - items);
    msg->items = items;
    msg->data = items ? payload : NULL;
    return msg;
}

/* The update that `member` should get first: that we hold it suspect or dead. NULL: none. */
static const struct bw_swim_update *
warning(const struct bw_swim *swim, const struct bw_swim_member *member, struct bw_swim_update *out)
{
    if (member->status == BW_MEMBER_ALIVE)
        return NULL;
    *out = (struct bw_swim_update){.node = member->id,
                                   .incarnation = member->incarnation,
                                   .status = member->status,
                                   .by = swim->self};
    return out;
}

static void send_to_member(struct bw_swim *swim, enum bw_message_kind kind,
                           const struct bw_swim_member *member, uint64_t seq, unsigned flags,
                           struct bw_actions *actions)
{
    struct bw_swim_update update;
    bw_node target = kind == BW_MSG_SWIM_PING ? member->id : swim->self;
    struct bw_message *msg =
        send(swim, kind, member->id, seq, target, warning(swim, member, &update), actions);
    msg->flags = (uint8_t)flags;
}

static void probe_next(struct bw_swim *swim, bw_time now, struct bw_actions *actions)
{
    struct bw_swim_member *member = bw_swim_members_choose(&swim->members, &swim->rng);
    swim->target = member ? member->id : BW_NODE_NONE;
    swim->answered = false;
    swim->helpers = swim->nacks = 0;
    swim->ack_due_ns = BW_TIME_NEVER;
    if (!member)
        return;
    swim->seq = next_seq(swim);
    if (member->status != BW_MEMBER_DEAD)
        swim->ack_due_ns = now + bw_lifeguard_stretch(&swim->health, swim->ack_ns);
    send_to_member(swim, BW_MSG_SWIM_PING, member, swim->seq, 0, actions);
}

static void ask_helpers(struct bw_swim *swim, struct bw_actions *actions)
{
    swim->ack_due_ns = BW_TIME_NEVER;
    bw_node helpers[BW_SWIM_INDIRECT_MAX];
    swim->helpers =
        bw_swim_members_helpers(&swim->members, &swim->rng, swim->target, helpers, swim->indirect);
    const struct bw_message *first = NULL;
    for (uint32_t i = 0; i < swim->helpers; i++) {
        if (!first) {
            first = send(swim, BW_MSG_SWIM_PING_REQ, helpers[i], swim->seq, swim->target, NULL,
                         actions);
            continue;
        }
        struct bw_message *msg =
            bw_actions_send(actions, BW_MSG_SWIM_PING_REQ, swim->self, helpers[i], 0);
        *msg = *first;
        msg->to = helpers[i];
    }
}

/* At the end of a period: suspects the target if neither we nor a helper got an ack. */
static void judge(struct bw_swim *swim, bw_time now, struct bw_actions *actions)
{
    struct bw_swim_member *member = bw_swim_members_find(&swim->members, swim->target);
    if (!member || swim->answered || member->status == BW_MEMBER_DEAD)
        return;
    if (now - swim->period_end_ns >= swim->period_ns) {
        bw_lifeguard_worse(&swim->health, 1);
        return;
    }
    bw_lifeguard_worse(&swim->health, swim->helpers > 0 ? swim->helpers - swim->nacks : 1);
    struct bw_swim_update update = {.node = member->id,
                                    .incarnation = member->incarnation,
                                    .status = BW_MEMBER_SUSPECT,
                                    .by = swim->self};
    bw_swim_apply(swim, member, &update, now, actions);
}

/* Periods end on the grid, also after a pause; a stretched period is a multiple of the period. */
static void end_period(struct bw_swim *swim, bw_time now, struct bw_actions *actions)
{
    judge(swim, now, actions);
    bw_time passed = (now - swim->start_ns) / swim->period_ns;
    swim->period_end_ns = swim->start_ns + passed * swim->period_ns +
                          bw_lifeguard_stretch(&swim->health, swim->period_ns);
    probe_next(swim, now, actions);
}

static void nack_late_relays(struct bw_swim *swim, bw_time now, struct bw_actions *actions)
{
    swim->relay_due_ns = BW_TIME_NEVER;
    for (uint32_t i = swim->relays_count; i > 0; i--) {
        struct bw_swim_relay *relay = &swim->relays[i - 1];
        if (relay->due_ns > now) {
            swim->relay_due_ns = bw_time_min(swim->relay_due_ns, relay->due_ns);
            continue;
        }
        struct bw_message *msg =
            bw_actions_send(actions, BW_MSG_SWIM_NACK, swim->self, relay->asker, 0);
        msg->probe = (struct bw_probe){
            .seq = relay->asked_seq, .target = relay->target, .incarnation = swim->incarnation};
        *relay = swim->relays[--swim->relays_count];
    }
}

void bw_swim_time_out(struct bw_swim *swim, bw_time now, struct bw_actions *actions)
{
    if (now >= swim->relay_due_ns)
        nack_late_relays(swim, now, actions);
    if (now >= swim->ack_due_ns)
        ask_helpers(swim, actions);
    for (bw_node node; (node = bw_swim_suspicions_due(&swim->suspicions, now)) != BW_NODE_NONE;)
        bw_swim_become_dead(swim, bw_swim_members_find(&swim->members, node), swim->self, actions);
    if (now >= swim->period_end_ns)
        end_period(swim, now, actions);
}

static void note(const struct bw_event *event, enum bw_trace_code code, uint64_t a,
                 struct bw_actions *actions)
{
    bw_actions_trace(actions, code, event->msg->from, a, event->msg->kind);
}

/* Forwards the ack of a relayed probe to the member that asked for it, with the target's
 * incarnation. */
static bool answer_relay(struct bw_swim *swim, const struct bw_swim_member *from, uint64_t seq,
                         struct bw_actions *actions)
{
    for (uint32_t i = 0; i < swim->relays_count; i++) {
        struct bw_swim_relay relay = swim->relays[i];
        if (relay.own_seq != seq || relay.target != from->id)
            continue;
        swim->relays[i] = swim->relays[--swim->relays_count];
        struct bw_swim_update alive = {
            .node = from->id, .incarnation = from->incarnation, .status = BW_MEMBER_ALIVE};
        struct bw_message *msg = send(swim, BW_MSG_SWIM_ACK, relay.asker, relay.asked_seq,
                                      relay.target, &alive, actions);
        msg->flags = BW_FLAG_FORWARDED;
        return true;
    }
    return false;
}

static void take_ack(struct bw_swim *swim, const struct bw_swim_member *from,
                     const struct bw_event *event, struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    bool relayed = msg->flags & BW_FLAG_FORWARDED;
    bw_node about = relayed ? msg->probe.target : from->id;
    bool ours = msg->probe.seq == swim->seq || BW_BUG(swim_takes_any_ack);
    if (ours && about == swim->target && !swim->answered) {
        swim->answered = true;
        swim->ack_due_ns = BW_TIME_NEVER;
        bw_lifeguard_better(&swim->health);
        return;
    }
    if (relayed || !answer_relay(swim, from, msg->probe.seq, actions))
        note(event, BW_TRACE_IGNORED_LATE, msg->probe.seq, actions);
}

static void take_request(struct bw_swim *swim, const struct bw_event *event,
                         struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    struct bw_swim_member *target = bw_swim_members_find(&swim->members, msg->probe.target);
    if (!target) {
        note(event, BW_TRACE_IGNORED_NOT_A_MEMBER, msg->probe.target, actions);
        return;
    }
    if (swim->relays_count == BW_SWIM_RELAYS_MAX) {
        note(event, BW_TRACE_IGNORED_FULL, BW_SWIM_RELAYS_MAX, actions);
        return;
    }
    struct bw_swim_relay *relay = &swim->relays[swim->relays_count++];
    *relay = (struct bw_swim_relay){.asker = msg->from,
                                    .target = target->id,
                                    .asked_seq = msg->probe.seq,
                                    .own_seq = next_seq(swim),
                                    .due_ns = event->now + swim->ack_ns * NACK_PERCENT / 100};
    swim->relay_due_ns = bw_time_min(swim->relay_due_ns, relay->due_ns);
    send_to_member(swim, BW_MSG_SWIM_PING, target, relay->own_seq, BW_FLAG_FORWARDED, actions);
}

static void take_ping(struct bw_swim *swim, struct bw_swim_member *from,
                      const struct bw_event *event, struct bw_actions *actions)
{
    if (event->msg->probe.target != swim->self)
        note(event, BW_TRACE_IGNORED_NOT_A_MEMBER, event->msg->probe.target, actions);
    else
        send_to_member(swim, BW_MSG_SWIM_ACK, from, event->msg->probe.seq, 0, actions);
}

static void take_nack(struct bw_swim *swim, const struct bw_event *event,
                      struct bw_actions *actions)
{
    if (event->msg->probe.seq != swim->seq || swim->nacks == swim->helpers)
        note(event, BW_TRACE_IGNORED_LATE, event->msg->probe.seq, actions);
    else
        swim->nacks++;
}

void bw_swim_message(struct bw_swim *swim, const struct bw_event *event, struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    struct bw_swim_member *from = bw_swim_members_find(&swim->members, msg->from);
    bool is_swim = msg->kind == BW_MSG_SWIM_PING || msg->kind == BW_MSG_SWIM_ACK ||
                   msg->kind == BW_MSG_SWIM_PING_REQ || msg->kind == BW_MSG_SWIM_NACK;
    if (!from || !is_swim) {
        note(event, from ? BW_TRACE_IGNORED_STATE : BW_TRACE_IGNORED_NOT_A_MEMBER, 0, actions);
        return;
    }
    bw_swim_learn(swim, from, event, actions);
    if (msg->kind == BW_MSG_SWIM_PING)
        take_ping(swim, from, event, actions);
    else if (msg->kind == BW_MSG_SWIM_ACK)
        take_ack(swim, from, event, actions);
    else if (msg->kind == BW_MSG_SWIM_PING_REQ)
        take_request(swim, event, actions);
    else
        take_nack(swim, event, actions);
}
