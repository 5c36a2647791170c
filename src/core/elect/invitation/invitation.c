/* Invitation: live nodes form groups, each with a coordinator. Groups that can reach each other
 * merge.
 *
 * A group is (coordinator, counter). The counter is durable, so that a group of a restarted node is
 * never mistaken for an older one.
 * - A coordinator sends AreYouCoordinator to all every period. If others answer yes, it waits in
 *   proportion to its distance from the highest of them, plus a random share. Then it invites them.
 * - An invited coordinator that yields forwards the invitation to its members, and all of them
 *   accept. The inviter ends its wait by sending READY to those that accepted. Members know their
 *   leader from READY on.
 * - A member sends AreYouThere from time to time. On "no", on silence, or on the detector's
 *   suspicion it recovers into a new group of its own.
 *
 * Differences from the paper:
 * - Of two merging groups, one that has a leader stays, rather than one that is still forming;
 *   otherwise the larger one stays. Only the other group changes, so the staying group keeps its
 *   counter and continues to work. If the invited group stays, it invites the inviter back. Among
 *   equals the inviter stays; if both invite each other, the higher id stays.
 * - An invited node that is not a coordinator answers with the id of its leader, which is invited
 *   instead.
 * - A node that has recovered checks once for other groups before it claims to lead its group of
 *   one. So a crash does not make all nodes leaders for an instant.
 *
 * Waiting for replies. The wait ends after the answer time if all members that are not suspected
 * have replied. Otherwise it ends when they have, and at the latest after BW_GROUP_ANSWER_TIMES
 * answer times. So on a network that is slower than configured, no node claims to lead because the
 * replies of others are late. A reply carries the number of the check that it answers. A reply to
 * an earlier check shows nothing about a member that has joined since.
 *
 * Model: nodes crash, pause and restart; links lose and delay; partitions.
 *
 * Guarantees: one coordinator per group, and all nodes that can reach each other end in one group.
 *
 * Not guaranteed: a single leader. There is one for each group that cannot reach the others; the
 * quorum guard lets only one of them act. Without a detector, AreYouThere notices a dead
 * coordinator.
 *
 * Source: H. Garcia-Molina, "Elections in a distributed computing system", IEEE Trans. Computers
 * C-31(1), 1982, section V. */
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/elect/invitation/group.h"

static const char *const state_names[] = {"idle",    "coordinator",  "member",
                                          "joining", "handing-over", "stopped"};

/* ---- a coordinator checks for other groups ---- */

static void pause_checks(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    bw_group_claim(v, now, actions);
    v->phase = BW_GROUP_PAUSING;
    v->others_count = 0;
    v->next_at = now + v->period_ns + bw_group_random_share(v, v->period_ns / 4);
}

static void check_for_groups(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    v->phase = BW_GROUP_ASKING;
    v->others_count = 0;
    v->check++;
    bw_group_await(v, now);
    for (uint32_t i = 0; i < v->members.count; i++) {
        struct bw_member_row *row = &v->members.at[i];
        row->answered = row->id == v->self;
        if (!row->answered)
            bw_group_send(v, BW_MSG_ARE_YOU_COORDINATOR, row->id, actions)->group.counter =
                v->check;
    }
}

static void invite(struct bw_group *v, bw_node whom, struct bw_actions *actions)
{
    struct bw_group_other *other = bw_group_add_other(v, whom);
    struct bw_member_row *row = bw_members_find(&v->members, whom);
    if (!other || !row)
        return;
    other->invited = true;
    row->answered = false;
    bw_group_send(v, BW_MSG_INVITATION, whom, actions)->flags = v->claimed ? BW_FLAG_YES : 0;
}

static void open_invitation(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    bw_actions_trace(actions, BW_TRACE_ELECTION, v->self, v->counter, v->others_count);
    v->phase = BW_GROUP_INVITING;
    bw_group_await(v, now);
    for (uint32_t i = 0; i < v->others_count; i++)
        invite(v, v->others[i].id, actions);
}

/* The highest coordinator invites at once; each other one waits in proportion to its distance. */
static void delay_invitation(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    uint32_t highest = 0;
    const struct bw_member_row *self = bw_members_find(&v->members, v->self);
    uint32_t own = (uint32_t)(self - v->members.at);
    for (uint32_t i = 0; i < v->others_count; i++) {
        const struct bw_member_row *row = bw_members_find(&v->members, v->others[i].id);
        uint32_t place = row ? (uint32_t)(row - v->members.at) : 0;
        highest = place > highest ? place : highest;
    }
    if (highest < own) {
        open_invitation(v, now, actions);
        return;
    }
    v->phase = BW_GROUP_DELAYING;
    v->next_at =
        now + (bw_time)(highest - own) * v->answer_ns + bw_group_random_share(v, v->answer_ns);
}

static void close_invitation(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    for (uint32_t i = 0; i < v->up_count; i++) {
        if (!v->up[i].ready_sent)
            bw_group_send(v, BW_MSG_READY, v->up[i].id, actions);
        v->up[i].ready_sent = true;
    }
    pause_checks(v, now, actions);
}

static void coordinator_timeout(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    if (now < v->timeout_at && bw_group_awaits(v)) {
        v->next_at = v->timeout_at;
        return;
    }
    switch (v->phase) {
    case BW_GROUP_PAUSING:
        check_for_groups(v, now, actions);
        break;
    case BW_GROUP_ASKING:
        if (v->others_count > 0)
            delay_invitation(v, now, actions);
        else
            pause_checks(v, now, actions);
        break;
    case BW_GROUP_DELAYING:
        open_invitation(v, now, actions);
        break;
    case BW_GROUP_INVITING:
        close_invitation(v, now, actions);
        break;
    }
}

/* ---- a member checks its coordinator ---- */

static void ask_leader(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    if (v->asks == BW_GROUP_ANSWER_TIMES) {
        bw_group_recover(v, now, actions);
        return;
    }
    v->asks++;
    bw_group_send(v, BW_MSG_ARE_YOU_THERE, v->leader, actions);
    v->next_at = now + v->answer_ns;
}

static void on_timeout(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    if (now < v->next_at)
        return;
    if (bw_group_coordinates(v))
        coordinator_timeout(v, now, actions);
    else if (v->state == BW_GROUP_MEMBER)
        ask_leader(v, now, actions);
    else if (v->state == BW_GROUP_JOINING || BW_ALWAYS(v->state == BW_GROUP_HANDING))
        bw_group_become_coordinator(v, now, actions);
}

/* ---- messages ---- */

static void ignore(const struct bw_group *v, enum bw_trace_code code, const struct bw_message *msg,
                   struct bw_actions *actions)
{
    bw_actions_trace(actions, code, msg->from, msg->kind, (uint64_t)v->state);
}

static bool same_group(const struct bw_group *v, const struct bw_message *msg)
{
    return msg->group.leader == v->leader && msg->term == v->counter;
}

static void on_question(struct bw_group *v, const struct bw_message *msg,
                        struct bw_actions *actions)
{
    struct bw_message *answer = bw_group_send(v, BW_MSG_COORDINATOR_ANSWER, msg->from, actions);
    answer->flags = bw_group_coordinates(v) ? BW_FLAG_YES : 0;
    answer->group.counter = msg->group.counter;
}

/* The member may have left our group. A reply from before it joined us does not show that. */
static void check_peer(struct bw_group *v, const struct bw_message *msg)
{
    const struct bw_group_peer *peer = bw_group_find_peer(v, msg->from);
    bool since = peer && msg->group.counter == v->check &&
                 (peer->check < v->check || BW_BUG(invitation_believes_old_answers));
    if (since && !same_group(v, msg))
        bw_group_drop_peer(v, msg->from);
}

/* A reply to our question: whether the sender is a coordinator. A reply to our invitation: "ask my
 * leader". */
static void on_answer(struct bw_group *v, const struct bw_message *msg, bw_time now,
                      struct bw_actions *actions)
{
    bool yes = msg->flags & BW_FLAG_YES;
    bw_node leader = msg->group.leader;
    if (!bw_group_coordinates(v) ||
        (v->phase != BW_GROUP_ASKING && v->phase != BW_GROUP_INVITING)) {
        ignore(v, BW_TRACE_IGNORED_LATE, msg, actions);
        return;
    }
    bool asking = v->phase == BW_GROUP_ASKING;
    if (asking)
        check_peer(v, msg);
    if (yes && asking)
        bw_group_add_other(v, msg->from);
    else if (!yes && !asking && leader != v->self && !bw_group_find_other(v, leader))
        invite(v, leader, actions);
    if (asking ? msg->group.counter == v->check : !yes)
        bw_group_answered(v, msg->from, now);
}

static void accept(struct bw_group *v, const struct bw_message *msg, bw_time now,
                   struct bw_actions *actions)
{
    for (uint32_t i = 0; bw_group_coordinates(v) && i < v->up_count; i++) {
        if (BW_NEVER(v->up[i].id == msg->group.leader))
            continue;
        struct bw_message *on =
            bw_actions_send(actions, BW_MSG_INVITATION, v->self, v->up[i].id, msg->term);
        on->flags = BW_FLAG_FORWARDED;
        on->group = msg->group;
    }
    bw_group_become_joining(v, msg->group.leader, msg->term, now, actions);
    bw_group_send(v, BW_MSG_ACCEPT, v->leader, actions);
}

/* Of two groups, the one that has a leader stays. If both or neither have one, the larger stays.
 * Among equals the inviter stays; if both invite each other, the higher id stays. */
static bool yields(const struct bw_group *v, const struct bw_message *msg)
{
    uint32_t own = bw_group_size(v);
    const struct bw_group_other *other = bw_group_find_other(v, msg->group.leader);
    if (BW_BUG(invitation_smaller_stays))
        return msg->group.size <= own;
    bool leads = msg->flags & BW_FLAG_YES;
    if (leads != v->claimed && !BW_BUG(invitation_forming_deposes))
        return leads;
    if (msg->group.size != own)
        return msg->group.size > own;
    return !(other && other->invited && v->self > msg->group.leader);
}

static void coordinator_invited(struct bw_group *v, const struct bw_message *msg, bw_time now,
                                struct bw_actions *actions)
{
    const struct bw_group_other *other = bw_group_find_other(v, msg->group.leader);
    bw_group_drop_peer(v, msg->group.leader);
    if (yields(v, msg))
        accept(v, msg, now, actions);
    else if (!other || !other->invited)
        invite(v, msg->group.leader, actions);
    else
        ignore(v, BW_TRACE_IGNORED_STATE, msg, actions);
}

static void member_invited(struct bw_group *v, const struct bw_message *msg, bw_time now,
                           struct bw_actions *actions)
{
    bool forwarded = (msg->flags & BW_FLAG_FORWARDED) && msg->from == v->leader;
    bool handed = (msg->flags & BW_FLAG_TRANSFER) && msg->group.counter == v->counter;
    bool restarted = msg->group.leader == v->leader && msg->term > v->counter;
    if (forwarded || handed || restarted)
        accept(v, msg, now, actions);
    else if (!same_group(v, msg))
        bw_group_send(v, BW_MSG_COORDINATOR_ANSWER, msg->from, actions);
}

static void on_invitation(struct bw_group *v, const struct bw_message *msg, bw_time now,
                          struct bw_actions *actions)
{
    bool handed = (msg->flags & BW_FLAG_TRANSFER) && msg->group.counter == v->counter;
    if (msg->group.leader == v->self)
        ignore(v, BW_TRACE_IGNORED_STATE, msg, actions);
    else if (bw_group_coordinates(v))
        coordinator_invited(v, msg, now, actions);
    else if (v->state == BW_GROUP_MEMBER)
        member_invited(v, msg, now, actions);
    else if (v->state == BW_GROUP_HANDING && handed)
        accept(v, msg, now, actions);
    else
        ignore(v, BW_TRACE_IGNORED_STATE, msg, actions);
}

static void on_accept(struct bw_group *v, const struct bw_message *msg, bw_time now,
                      struct bw_actions *actions)
{
    struct bw_group_peer *peer =
        bw_group_coordinates(v) && same_group(v, msg) ? bw_group_add_peer(v, msg->from) : NULL;
    if (!peer) {
        ignore(v, BW_TRACE_IGNORED_LATE, msg, actions);
        return;
    }
    peer->ready_sent = v->phase != BW_GROUP_INVITING;
    if (peer->ready_sent)
        bw_group_send(v, BW_MSG_READY, msg->from, actions);
    else
        bw_group_answered(v, msg->from, now);
}

/* Whether READY hands over leadership to us. It comes from our leader, or from the leader that we
 * have just recovered from because its work is known to be dead: its hand-over may arrive after
 * that report. */
static bool handed_to_us(const struct bw_group *v, const struct bw_message *msg)
{
    bool lost = bw_group_coordinates(v) && !v->claimed && v->up_count == 0 &&
                msg->from == v->lost && msg->term == v->lost_counter &&
                !BW_BUG(invitation_death_undoes_hand_over);
    bool ours = (v->state == BW_GROUP_MEMBER || v->state == BW_GROUP_JOINING) &&
                same_group(v, msg) && msg->from == v->leader;
    return (msg->flags & BW_FLAG_TRANSFER) && (lost || ours);
}

/* Takes a new counter and invites all members of the old group. */
static void inherit(struct bw_group *v, const struct bw_message *msg, bw_time now,
                    struct bw_actions *actions)
{
    const bw_node *list = msg->data;
    bw_group_become_coordinator(v, now, actions);
    bw_group_claim(v, now, actions);
    bw_actions_trace(actions, BW_TRACE_TRANSFER, v->self, v->counter, msg->items);
    v->phase = BW_GROUP_INVITING;
    bw_group_await(v, now);
    for (uint32_t i = 0; i < msg->items && i < v->members.count; i++) {
        if (list[i] == v->self || !bw_members_find(&v->members, list[i]))
            continue;
        struct bw_message *on = bw_group_send(v, BW_MSG_INVITATION, list[i], actions);
        on->flags = BW_FLAG_TRANSFER | BW_FLAG_YES;
        on->group.counter = msg->term;
    }
}

static void on_ready(struct bw_group *v, const struct bw_message *msg, bw_time now,
                     struct bw_actions *actions)
{
    /* planted bug: READY of a group that the node never joined */
    bool same =
        (same_group(v, msg) && msg->from == v->leader) || BW_BUG(invitation_takes_foreign_ready);
    if (handed_to_us(v, msg)) {
        inherit(v, msg, now, actions);
    } else if (same && v->state == BW_GROUP_JOINING) {
        if (BW_BUG(invitation_takes_foreign_ready)) {
            v->leader = msg->group.leader;
            v->counter = msg->term;
        }
        bw_group_become_member(v, now, actions);
    } else {
        ignore(v, BW_TRACE_IGNORED_STATE, msg, actions);
    }
}

static void on_are_you_there(struct bw_group *v, const struct bw_message *msg,
                             struct bw_actions *actions)
{
    bool yes = bw_group_coordinates(v) && same_group(v, msg) &&
               (bw_group_find_peer(v, msg->from) || BW_BUG(invitation_knows_everybody));
    struct bw_message *answer =
        bw_actions_send(actions, BW_MSG_THERE_ANSWER, v->self, msg->from, msg->term);
    answer->flags = yes ? BW_FLAG_YES : 0;
    answer->group = (struct bw_group_part){.leader = msg->group.leader, .counter = msg->term};
}

static void on_there_answer(struct bw_group *v, const struct bw_message *msg, bw_time now,
                            struct bw_actions *actions)
{
    if (v->state != BW_GROUP_MEMBER || msg->from != v->leader || !same_group(v, msg)) {
        ignore(v, BW_TRACE_IGNORED_LATE, msg, actions);
        return;
    }
    if (!(msg->flags & BW_FLAG_YES)) {
        bw_group_become_coordinator(v, now, actions);
        return;
    }
    v->asks = 0;
    v->next_at =
        now + BW_GROUP_ASK_PERIODS * v->period_ns + bw_group_random_share(v, v->period_ns / 2);
}

static void on_message(struct bw_group *v, const struct bw_message *msg, bw_time now,
                       struct bw_actions *actions)
{
    if (msg->from == v->self || !bw_members_find(&v->members, msg->from) ||
        (msg->group.leader && !bw_members_find(&v->members, msg->group.leader))) {
        ignore(v, BW_TRACE_IGNORED_NOT_A_MEMBER, msg, actions);
        return;
    }
    switch (msg->kind) {
    case BW_MSG_ARE_YOU_COORDINATOR:
        on_question(v, msg, actions);
        break;
    case BW_MSG_COORDINATOR_ANSWER:
        on_answer(v, msg, now, actions);
        break;
    case BW_MSG_INVITATION:
        on_invitation(v, msg, now, actions);
        break;
    case BW_MSG_ACCEPT:
        on_accept(v, msg, now, actions);
        break;
    case BW_MSG_READY:
        on_ready(v, msg, now, actions);
        break;
    case BW_MSG_ARE_YOU_THERE:
        on_are_you_there(v, msg, actions);
        break;
    case BW_MSG_THERE_ANSWER:
        on_there_answer(v, msg, now, actions);
        break;
    default:
        ignore(v, BW_TRACE_IGNORED_STATE, msg, actions);
    }
}

/* ---- members, suspicions, commands ---- */

static void on_leader_gone(struct bw_group *v, bw_node node, bw_time now,
                           struct bw_actions *actions)
{
    if (node == v->leader && (v->state == BW_GROUP_MEMBER || v->state == BW_GROUP_JOINING))
        bw_group_recover(v, now, actions);
}

static void on_member(struct bw_group *v, const struct bw_event *event, struct bw_actions *actions)
{
    if (event->node == v->self && event->kind != BW_EVENT_JOIN) {
        if (event->kind == BW_EVENT_LEAVE)
            bw_group_become_stopped(v, actions);
        return;
    }
    bw_members_apply(&v->members, event);
    if (event->kind == BW_EVENT_LEAVE)
        bw_group_drop_peer(v, event->node);
    if (event->kind != BW_EVENT_TRUST && event->kind != BW_EVENT_JOIN)
        on_leader_gone(v, event->node, event->now, actions);
    bw_group_shorten_wait(v, event->now);
}

/* A member's question or acceptance did not reach the coordinator. */
static void on_send_failed(struct bw_group *v, const struct bw_event *event,
                           struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    bool needed = msg->kind == BW_MSG_ARE_YOU_THERE || msg->kind == BW_MSG_ACCEPT;
    if (needed && same_group(v, msg))
        on_leader_gone(v, msg->to, event->now, actions);
}

/* Hands over to `successor`, with the list of members to invite. */
static void hand_over(struct bw_group *v, bw_node successor, bool stay, struct bw_actions *actions)
{
    struct bw_message *msg = bw_group_send(v, BW_MSG_READY, successor, actions);
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->up_count; i++)
        if (v->up[i].id != successor)
            v->list[count++] = v->up[i].id;
    if (stay && BW_ALWAYS(count < v->members.cap))
        v->list[count++] = v->self;
    msg->flags = BW_FLAG_TRANSFER;
    msg->items = count;
    msg->data = v->list;
}

/* The member of our group with the highest id that is not suspected, or none. */
static bw_node successor_of(const struct bw_group *v)
{
    bw_node successor = BW_NODE_NONE;
    for (uint32_t i = 0; bw_group_coordinates(v) && i < v->up_count; i++) {
        const struct bw_member_row *row = bw_members_find(&v->members, v->up[i].id);
        if (BW_ALWAYS(row) && !row->suspect && row->id > successor)
            successor = row->id;
    }
    return successor;
}

/* The member of the group with the next higher id; after the highest comes the lowest. A member
 * that is unable to lead resigns again, so each gets its turn. If the highest always succeeded, two
 * such members could hand over to each other without end. */
static bw_node next_in_turn(const struct bw_group *v)
{
    bw_node next = BW_NODE_NONE;
    for (uint32_t i = 0; i < v->up_count; i++) {
        const struct bw_member_row *row = bw_members_find(&v->members, v->up[i].id);
        if (!BW_ALWAYS(row) || row->suspect)
            continue;
        /* distances wrap around */
        if (next == BW_NODE_NONE || row->id - v->self < next - v->self)
            next = row->id;
    }
    return next;
}

static void give_up(struct bw_group *v, bw_node successor, enum bw_loss reason, bw_time now,
                    struct bw_actions *actions)
{
    if (successor != BW_NODE_NONE)
        hand_over(v, successor, true, actions);
    bw_group_become_handing(v, reason, now, actions);
}

/* The command CAMPAIGN: invites the named node, or all coordinators that a check finds. A member
 * checks its leader instead. */
static void on_campaign(struct bw_group *v, bw_node node, bw_time now, struct bw_actions *actions)
{
    if (v->state == BW_GROUP_MEMBER && node == v->leader) {
        bw_group_become_coordinator(v, now, actions);
    } else if (v->state == BW_GROUP_MEMBER) {
        ask_leader(v, now, actions);
    } else if (bw_group_coordinates(v) && node && node != v->self &&
               bw_members_find(&v->members, node)) {
        bw_group_add_other(v, node);
        open_invitation(v, now, actions);
    } else if (bw_group_coordinates(v)) {
        check_for_groups(v, now, actions);
    }
}

/* While a coordinator invites, it does not know the members of its group yet, so it has no
 * successor for them. Then it ignores a resignation; the caller asks again (leader_slot.h). */
static bool is_complete(const struct bw_group *v)
{
    return v->phase != BW_GROUP_INVITING || BW_BUG(invitation_resigns_to_the_highest);
}

static void on_command(struct bw_group *v, const struct bw_event *event, struct bw_actions *actions)
{
    const struct bw_command *command = &event->command;
    if (command->kind == BW_COMMAND_CAMPAIGN)
        on_campaign(v, command->node, event->now, actions);
    else if (command->kind == BW_COMMAND_RESIGN && bw_group_coordinates(v) && is_complete(v))
        give_up(v, BW_BUG(invitation_resigns_to_the_highest) ? successor_of(v) : next_in_turn(v),
                BW_LOSS_RESIGNED, event->now, actions);
    else if (command->kind == BW_COMMAND_TRANSFER && bw_group_coordinates(v) &&
             bw_group_find_peer(v, command->node))
        give_up(v, command->node, BW_LOSS_TRANSFERRED, event->now, actions);
    else
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, v->self, event->kind, (uint64_t)v->state);
}

static void on_stop(struct bw_group *v, struct bw_actions *actions)
{
    bw_node successor = successor_of(v);
    if (successor != BW_NODE_NONE)
        hand_over(v, successor, false, actions);
    bw_group_become_stopped(v, actions);
}

static void on_start(struct bw_group *v, const struct bw_start *start, bw_time now,
                     struct bw_actions *actions)
{
    v->durable = start->durable;
    bw_group_become_coordinator(v, now, actions);
    if (start->passive)
        v->next_at = BW_TIME_NEVER;
}

static void invitation_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    struct bw_group *v = self;
    if (v->state == BW_GROUP_STOPPED ||
        (v->state == BW_GROUP_IDLE && event->kind != BW_EVENT_START)) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, v->self, event->kind, (uint64_t)v->state);
        return;
    }
    switch (event->kind) {
    case BW_EVENT_START:
        on_start(v, event->start, event->now, actions);
        break;
    case BW_EVENT_MESSAGE:
        on_message(v, event->msg, event->now, actions);
        break;
    case BW_EVENT_TIMEOUT:
        on_timeout(v, event->now, actions);
        break;
    case BW_EVENT_SUSPECT:
    case BW_EVENT_TRUST:
    case BW_EVENT_CONFIRMED_DEAD:
    case BW_EVENT_JOIN:
    case BW_EVENT_LEAVE:
        on_member(v, event, actions);
        break;
    case BW_EVENT_HINT:
        if (v->state == BW_GROUP_MEMBER && event->node == v->leader)
            ask_leader(v, event->now, actions);
        break;
    case BW_EVENT_COMMAND:
        on_command(v, event, actions);
        break;
    case BW_EVENT_STOP:
        on_stop(v, actions);
        break;
    case BW_EVENT_SEND_FAILED:
        on_send_failed(v, event, actions);
        break;
    case BW_EVENT_PERSISTED:
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, v->self, event->kind, (uint64_t)v->state);
        break;
    }
}

static bw_time invitation_deadline(const void *self)
{
    const struct bw_group *v = self;
    return v->next_at;
}

static void invitation_status(const void *self, struct bw_elector_status *out)
{
    const struct bw_group *v = self;
    bool leading = bw_group_coordinates(v) && v->claimed;
    bool knows = leading || v->state == BW_GROUP_MEMBER;
    *out = (struct bw_elector_status){.leader = knows ? v->leader : BW_NODE_NONE,
                                      .leading = leading,
                                      .electing = !knows,
                                      .term = v->counter,
                                      .act_from = leading ? v->act_from : 0,
                                      .act_until = leading ? BW_TIME_NEVER : 0,
                                      .state = state_names[v->state]};
}

/* True for the members of our group. */
static bool invitation_ready(const void *self, bw_node node)
{
    return bw_group_find_peer(self, node) != NULL;
}

/* At most one message to every member, and a few to one. */
static uint32_t invitation_actions_max(const struct bw_elector_config *config)
{
    return config->cap + 16;
}

const struct bw_elector_ops bw_elect_invitation = {
    .name = "invitation",
    .promise = "Every group of connected nodes has its own leader, so by design a partition has "
               "one on each side; with the quorum guard only one may act.",
    .traits = BW_TRAIT_MAY_SPLIT | BW_TRAIT_GUARDABLE | BW_TRAIT_OWN_TIMERS,
    .bytes = bw_group_bytes,
    .actions_max = invitation_actions_max,
    .init = bw_group_init,
    .step = invitation_step,
    .deadline = invitation_deadline,
    .status = invitation_status,
    .ready = invitation_ready,
};
