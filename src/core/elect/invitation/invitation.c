/* Invitation: live nodes form groups, each with a coordinator; groups that can talk merge.
 *
 * Source: H. Garcia-Molina, "Elections in a distributed computing system", IEEE Trans. Computers
 * C-31(1), 1982, section V. A group is (coordinator, counter); the counter is durable, so no group
 * of a restarted node is taken for an older one.
 *   - A coordinator asks every period AreYouCoordinator. If others say yes it waits in proportion
 *     to the distance to the highest of them (plus a random share), then invites them.
 *   - An invited coordinator that yields passes the invitation on to its members; all of them
 *     accept; the inviter ends its wait with READY to those that did. Members know their leader
 *     from READY on.
 *   - A member asks AreYouThere from time to time. "No", silence, or the detector's suspicion: it
 *     recovers into a fresh group of its own.
 *
 * Where this differs from the paper, after the algorithms page: of two merging groups the one that
 * has a leader stays before one that is still forming, then the larger, and only the other group is
 * told, so the staying group keeps its number and goes on working; the inviter of a group that
 * stays is invited back; among equals the inviter stays, and of two that invite each other the
 * higher id. An invited node that is no coordinator answers with its leader's id, who is invited
 * instead. A node that has recovered looks around once before it claims to lead its group of one,
 * so that a crash does not make everybody a leader for an instant.
 *
 * A wait for answers ends after the answer time if all who are thought alive have answered, and
 * otherwise when they have, after BW_GROUP_PATIENCE answer times at the latest: on a network that
 * is slower than it was said to be nobody claims to lead because it has not heard the others yet.
 * An answer names the look that it answers; one of an earlier look tells nothing about a mate that
 * has joined since.
 *
 * Model: nodes crash, pause and restart; links lose, delay and split. Guaranteed: one coordinator
 * per group, and all nodes that can talk to each other end in one group. Not promised: one leader.
 * Many at once are legal, one for each group that cannot reach the others (the quorum guard lets
 * only one of them act). Without a detector a dead coordinator is noticed by AreYouThere. */
#include "core/base/bug.h"
#include "core/elect/invitation/group.h"

static const char *const state_names[] = {"idle",    "coordinator",  "member",
                                          "joining", "handing-over", "stopped"};

/* ---- a coordinator looks for others ---- */

static void rest(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    bw_group_claim(v, now, actions);
    v->phase = BW_GROUP_RESTING;
    v->others_count = 0;
    v->next_at = now + v->period_ns + bw_group_share(v, v->period_ns / 4);
}

static void look_around(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    v->phase = BW_GROUP_ASKING;
    v->others_count = 0;
    v->look++;
    bw_group_await(v, now);
    for (uint32_t i = 0; i < v->members.count; i++) {
        struct bw_member_row *row = &v->members.at[i];
        row->answered = row->id == v->self;
        if (!row->answered)
            bw_group_say(v, BW_MSG_ARE_YOU_COORDINATOR, row->id, actions)->group.counter = v->look;
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
    bw_group_say(v, BW_MSG_INVITATION, whom, actions)->flags = v->claimed ? BW_FLAG_YES : 0;
}

static void open_invitation(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    bw_actions_trace(actions, BW_TRACE_ELECTION, v->self, v->counter, v->others_count);
    v->phase = BW_GROUP_INVITING;
    bw_group_await(v, now);
    for (uint32_t i = 0; i < v->others_count; i++)
        invite(v, v->others[i].id, actions);
}

/* The highest goes first; the others wait in proportion to their distance from it. */
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
    v->next_at = now + (bw_time)(highest - own) * v->answer_ns + bw_group_share(v, v->answer_ns);
}

static void close_invitation(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    for (uint32_t i = 0; i < v->up_count; i++) {
        if (!v->up[i].told)
            bw_group_say(v, BW_MSG_READY, v->up[i].id, actions);
        v->up[i].told = true;
    }
    rest(v, now, actions);
}

static void coordinator_timeout(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    if (now < v->patience_at && bw_group_awaits(v)) {
        v->next_at = v->patience_at;
        return;
    }
    switch (v->phase) {
    case BW_GROUP_RESTING:
        look_around(v, now, actions);
        break;
    case BW_GROUP_ASKING:
        if (v->others_count > 0)
            delay_invitation(v, now, actions);
        else
            rest(v, now, actions);
        break;
    case BW_GROUP_DELAYING:
        open_invitation(v, now, actions);
        break;
    case BW_GROUP_INVITING:
        close_invitation(v, now, actions);
        break;
    }
}

/* ---- a member looks after its coordinator ---- */

static void ask_leader(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    if (v->asks == BW_GROUP_PATIENCE) {
        bw_group_recover(v, now, actions);
        return;
    }
    v->asks++;
    bw_group_say(v, BW_MSG_ARE_YOU_THERE, v->leader, actions);
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
    else if (v->state == BW_GROUP_JOINING || v->state == BW_GROUP_HANDING)
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
    struct bw_message *answer = bw_group_say(v, BW_MSG_COORDINATOR_ANSWER, msg->from, actions);
    answer->flags = bw_group_coordinates(v) ? BW_FLAG_YES : 0;
    answer->group.counter = msg->group.counter;
}

/* It may have gone its own way; what it said before it joined us does not tell that. */
static void look_after_mate(struct bw_group *v, const struct bw_message *msg)
{
    const struct bw_group_mate *mate = bw_group_find_mate(v, msg->from);
    bool since = mate && msg->group.counter == v->look &&
                 (mate->look < v->look || BW_BUG(invitation_believes_old_answers));
    if (since && !same_group(v, msg))
        bw_group_drop_mate(v, msg->from);
}

/* To our question: another coordinator. To our invitation: "ask my leader". */
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
        look_after_mate(v, msg);
    if (yes && asking)
        bw_group_add_other(v, msg->from);
    else if (!yes && !asking && leader != v->self && !bw_group_find_other(v, leader))
        invite(v, leader, actions);
    if (asking ? msg->group.counter == v->look : !yes)
        bw_group_answered(v, msg->from, now);
}

static void accept(struct bw_group *v, const struct bw_message *msg, bw_time now,
                   struct bw_actions *actions)
{
    for (uint32_t i = 0; bw_group_coordinates(v) && i < v->up_count; i++) {
        if (v->up[i].id == msg->group.leader)
            continue;
        struct bw_message *on =
            bw_actions_send(actions, BW_MSG_INVITATION, v->self, v->up[i].id, msg->term);
        on->flags = BW_FLAG_FORWARDED;
        on->group = msg->group;
    }
    bw_group_become_joining(v, msg->group.leader, msg->term, now, actions);
    bw_group_say(v, BW_MSG_ACCEPT, v->leader, actions);
}

/* Of two groups the one that has a leader stays; of two such, or of none, the larger; of equals
 * the inviter; of two that invite each other the higher id. */
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
    bw_group_drop_mate(v, msg->group.leader);
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
    bool reborn = msg->group.leader == v->leader && msg->term > v->counter;
    if (forwarded || handed || reborn)
        accept(v, msg, now, actions);
    else if (!same_group(v, msg))
        bw_group_say(v, BW_MSG_COORDINATOR_ANSWER, msg->from, actions);
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
    struct bw_group_mate *mate =
        bw_group_coordinates(v) && same_group(v, msg) ? bw_group_add_mate(v, msg->from) : NULL;
    if (!mate) {
        ignore(v, BW_TRACE_IGNORED_LATE, msg, actions);
        return;
    }
    mate->told = v->phase != BW_GROUP_INVITING;
    if (mate->told)
        bw_group_say(v, BW_MSG_READY, msg->from, actions);
    else
        bw_group_answered(v, msg->from, now);
}

/* Of our leader; or of the one that we have just recovered from, because its work is known to be
 * dead: what it says when it hands over may come behind that. */
static bool handed_to_us(const struct bw_group *v, const struct bw_message *msg)
{
    bool lost = bw_group_coordinates(v) && !v->claimed && v->up_count == 0 &&
                msg->from == v->lost && msg->term == v->lost_counter &&
                !BW_BUG(invitation_death_undoes_hand_over);
    bool ours = (v->state == BW_GROUP_MEMBER || v->state == BW_GROUP_JOINING) &&
                same_group(v, msg) && msg->from == v->leader;
    return (msg->flags & BW_FLAG_TRANSFER) && (lost || ours);
}

/* A new number, and everybody of the old one is invited. */
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
        struct bw_message *on = bw_group_say(v, BW_MSG_INVITATION, list[i], actions);
        on->flags = BW_FLAG_TRANSFER | BW_FLAG_YES;
        on->group.counter = msg->term;
    }
}

static void on_ready(struct bw_group *v, const struct bw_message *msg, bw_time now,
                     struct bw_actions *actions)
{
    bool same = (same_group(v, msg) && msg->from == v->leader) ||
                BW_BUG(invitation_takes_foreign_ready); /* READY of a group it never joined */
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
               (bw_group_find_mate(v, msg->from) || BW_BUG(invitation_knows_everybody));
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
    v->next_at = now + BW_GROUP_ASK_PERIODS * v->period_ns + bw_group_share(v, v->period_ns / 2);
}

static void on_message(struct bw_group *v, const struct bw_message *msg, bw_time now,
                       struct bw_actions *actions)
{
    if (!bw_members_find(&v->members, msg->from) ||
        (msg->group.leader && !bw_members_find(&v->members, msg->group.leader))) {
        ignore(v, BW_TRACE_IGNORED_STRANGER, msg, actions);
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
        bw_group_drop_mate(v, event->node);
    if (event->kind != BW_EVENT_TRUST && event->kind != BW_EVENT_JOIN)
        on_leader_gone(v, event->node, event->now, actions);
    bw_group_hurry(v, event->now);
}

/* A member's question or acceptance that cannot reach the coordinator. */
static void on_send_failed(struct bw_group *v, const struct bw_event *event,
                           struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    bool needed = msg->kind == BW_MSG_ARE_YOU_THERE || msg->kind == BW_MSG_ACCEPT;
    if (needed && same_group(v, msg))
        on_leader_gone(v, msg->to, event->now, actions);
}

/* To `heir`, with the list of those it shall invite. */
static void hand_over(struct bw_group *v, bw_node heir, bool stay, struct bw_actions *actions)
{
    struct bw_message *msg = bw_group_say(v, BW_MSG_READY, heir, actions);
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->up_count; i++)
        if (v->up[i].id != heir)
            v->list[count++] = v->up[i].id;
    if (stay && count < v->members.cap)
        v->list[count++] = v->self;
    msg->flags = BW_FLAG_TRANSFER;
    msg->items = count;
    msg->data = v->list;
}

/* The highest mate thought alive, or none. */
static bw_node heir_of(const struct bw_group *v)
{
    bw_node heir = BW_NODE_NONE;
    for (uint32_t i = 0; bw_group_coordinates(v) && i < v->up_count; i++) {
        const struct bw_member_row *row = bw_members_find(&v->members, v->up[i].id);
        if (row && !row->suspect && row->id > heir)
            heir = row->id;
    }
    return heir;
}

static void give_up(struct bw_group *v, bw_node heir, enum bw_loss reason, bw_time now,
                    struct bw_actions *actions)
{
    if (heir != BW_NODE_NONE)
        hand_over(v, heir, true, actions);
    bw_group_become_handing(v, reason, now, actions);
}

/* "Invite now": the named one, or whoever is found. A member looks after its leader instead. */
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
        look_around(v, now, actions);
    }
}

static void on_command(struct bw_group *v, const struct bw_event *event, struct bw_actions *actions)
{
    const struct bw_command *command = &event->command;
    if (command->kind == BW_COMMAND_CAMPAIGN)
        on_campaign(v, command->node, event->now, actions);
    else if (command->kind == BW_COMMAND_RESIGN && bw_group_coordinates(v))
        give_up(v, heir_of(v), BW_LOSS_RESIGNED, event->now, actions);
    else if (command->kind == BW_COMMAND_TRANSFER && bw_group_coordinates(v) &&
             bw_group_find_mate(v, command->node))
        give_up(v, command->node, BW_LOSS_TRANSFERRED, event->now, actions);
    else
        bw_actions_trace(actions, BW_TRACE_IGNORED_STATE, v->self, event->kind, (uint64_t)v->state);
}

static void on_stop(struct bw_group *v, struct bw_actions *actions)
{
    bw_node heir = heir_of(v);
    if (heir != BW_NODE_NONE)
        hand_over(v, heir, false, actions);
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

/* Those who are in our group. */
static bool invitation_ready(const void *self, bw_node node)
{
    return bw_group_find_mate(self, node) != NULL;
}

/* At most one message to every member, and a few to one. */
static uint32_t invitation_actions_max(const struct bw_elector_config *config)
{
    return config->cap + 16;
}

const struct bw_elector_ops bw_elect_invitation = {
    .name = "invitation",
    .promise = "Every group of nodes that can talk has a leader of its own, so a partition has "
               "one on each side, by design; with the quorum guard only one may act.",
    .traits = BW_TRAIT_MAY_SPLIT | BW_TRAIT_GUARDABLE | BW_TRAIT_OWN_TIMERS,
    .bytes = bw_group_bytes,
    .actions_max = invitation_actions_max,
    .init = bw_group_init,
    .step = invitation_step,
    .deadline = invitation_deadline,
    .status = invitation_status,
    .ready = invitation_ready,
};
