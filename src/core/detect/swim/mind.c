/* How SWIM changes its mind about a member, and about itself: every way a status changes is here.
 */
#include "core/base/bug.h"
#include "core/detect/swim/swim.h"

static uint32_t group_size(const struct bw_swim *swim)
{
    return swim->members.live.count + 1;
}

static void tell(struct bw_swim *swim, const struct bw_swim_member *member, bw_node by)
{
    struct bw_swim_update update = {.node = member->id,
                                    .incarnation = member->incarnation,
                                    .status = member->status,
                                    .by = member->status == BW_MEMBER_ALIVE ? BW_NODE_NONE : by};
    bw_swim_news_add(&swim->news, &update);
}

static void verdict(struct bw_swim *swim, struct bw_swim_member *member,
                    enum bw_member_status status, struct bw_actions *actions)
{
    bool was_alive = member->status == BW_MEMBER_ALIVE, is_alive = status == BW_MEMBER_ALIVE;
    bw_swim_members_become(&swim->members, member, status);
    if (was_alive == is_alive)
        return;
    struct bw_action *action =
        bw_actions_add(actions, is_alive ? BW_ACTION_TRUST : BW_ACTION_SUSPECT);
    action->node = member->id;
    action->level = status;
}

void bw_swim_become_dead(struct bw_swim *swim, struct bw_swim_member *member, bw_node by,
                         struct bw_actions *actions)
{
    bw_swim_suspicions_end(&swim->suspicions, member->id);
    verdict(swim, member, BW_MEMBER_DEAD, actions);
    tell(swim, member, by);
}

void bw_swim_become_alive(struct bw_swim *swim, struct bw_swim_member *member,
                          struct bw_actions *actions)
{
    bw_swim_suspicions_end(&swim->suspicions, member->id);
    verdict(swim, member, BW_MEMBER_ALIVE, actions);
    tell(swim, member, BW_NODE_NONE);
}

/* A full table makes the oldest suspicion a death: it has had the most time to be refuted. */
static void make_room(struct bw_swim *swim, struct bw_actions *actions)
{
    if (swim->suspicions.count < swim->suspicions.cap)
        return;
    bw_node oldest = bw_swim_suspicions_oldest(&swim->suspicions);
    bw_swim_become_dead(swim, bw_swim_members_find(&swim->members, oldest), swim->self, actions);
}

static void become_suspect(struct bw_swim *swim, struct bw_swim_member *member, bw_node by,
                           bw_time now, struct bw_actions *actions)
{
    if (swim->suspicions.alpha <= 0) {
        bw_swim_become_dead(swim, member, by, actions);
        return;
    }
    if (member->status == BW_MEMBER_SUSPECT) { /* suspected anew in a later incarnation */
        bw_swim_suspicions_confirm(&swim->suspicions, member->id, by);
    } else {
        make_room(swim, actions);
        bw_swim_suspicions_begin(&swim->suspicions, member->id, by, group_size(swim), now);
    }
    verdict(swim, member, BW_MEMBER_SUSPECT, actions);
    tell(swim, member, by);
}

void bw_swim_apply(struct bw_swim *swim, struct bw_swim_member *member,
                   const struct bw_swim_update *update, bw_time now, struct bw_actions *actions)
{
    if (!bw_swim_beats(update, (enum bw_member_status)member->status, member->incarnation)) {
        bool again = update->status == BW_MEMBER_SUSPECT && member->status == BW_MEMBER_SUSPECT &&
                     update->incarnation == member->incarnation;
        if (again && bw_swim_suspicions_confirm(&swim->suspicions, member->id, update->by))
            bw_swim_news_add(&swim->news, update);
        return;
    }
    member->incarnation = update->incarnation;
    if (update->status == BW_MEMBER_ALIVE)
        bw_swim_become_alive(swim, member, actions);
    else if (update->status == BW_MEMBER_SUSPECT)
        become_suspect(swim, member, update->by, now, actions);
    else
        bw_swim_become_dead(swim, member, update->by, actions);
}

/* Somebody speaks of us. Alive in a later incarnation than ours: a life that we forgot. */
static void apply_self(struct bw_swim *swim, const struct bw_swim_update *update)
{
    if (update->incarnation < swim->incarnation)
        return;
    if (update->status == BW_MEMBER_ALIVE) {
        swim->incarnation = update->incarnation;
        return;
    }
    bool raise = update->incarnation < UINT32_MAX && !BW_BUG(swim_refutes_without_raising);
    swim->incarnation = update->incarnation + (raise ? 1 : 0);
    bw_lifeguard_worse(&swim->health, 1);
    struct bw_swim_update refutation = {
        .node = swim->self, .incarnation = swim->incarnation, .status = BW_MEMBER_ALIVE};
    bw_swim_news_add(&swim->news, &refutation);
}

/* What a message says besides its purpose: its sender's incarnation, and the news on it. */
void bw_swim_learn(struct bw_swim *swim, struct bw_swim_member *from, const struct bw_event *event,
                   struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    struct bw_swim_update speaks = {.node = from->id, .incarnation = msg->probe.incarnation};
    if (from->status != BW_MEMBER_ALIVE)
        bw_swim_apply(swim, from, &speaks, event->now, actions);
    else if (speaks.incarnation > from->incarnation)
        from->incarnation = speaks.incarnation;
    uint32_t items = msg->items < BW_SWIM_UPDATES_MAX ? msg->items : BW_SWIM_UPDATES_MAX;
    const struct bw_swim_update *updates = msg->data;
    for (uint32_t i = 0; i < items; i++) {
        struct bw_swim_member *member = bw_swim_members_find(&swim->members, updates[i].node);
        if (updates[i].node == swim->self)
            apply_self(swim, &updates[i]);
        else if (member)
            bw_swim_apply(swim, member, &updates[i], event->now, actions);
    }
}
