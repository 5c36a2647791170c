/* All changes of a member's status, and of our own incarnation. */
#include "core/base/bug.h"
#include "core/detect/swim/swim.h"

static uint32_t group_size(const struct bw_swim *swim)
{
    return swim->members.live.count + 1;
}

static void disseminate(struct bw_swim *swim, const struct bw_swim_member *member, bw_node by)
{
    struct bw_swim_update update = {.node = member->id,
                                    .incarnation = member->incarnation,
                                    .status = member->status,
                                    .by = member->status == BW_MEMBER_ALIVE ? BW_NODE_NONE : by};
    bw_swim_gossip_add(&swim->gossip, &update);
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
    disseminate(swim, member, by);
}

void bw_swim_become_alive(struct bw_swim *swim, struct bw_swim_member *member,
                          struct bw_actions *actions)
{
    bw_swim_suspicions_end(&swim->suspicions, member->id);
    verdict(swim, member, BW_MEMBER_ALIVE, actions);
    disseminate(swim, member, BW_NODE_NONE);
}

/* If the table is full, the oldest suspicion becomes a death: it had the most time to be
 * refuted. */
static void evict_oldest(struct bw_swim *swim, struct bw_actions *actions)
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
    if (member->status == BW_MEMBER_SUSPECT) { /* suspected again, in a later incarnation */
        bw_swim_suspicions_confirm(&swim->suspicions, member->id, by);
    } else {
        evict_oldest(swim, actions);
        bw_swim_suspicions_begin(&swim->suspicions, member->id, by, group_size(swim), now);
    }
    verdict(swim, member, BW_MEMBER_SUSPECT, actions);
    disseminate(swim, member, by);
}

void bw_swim_apply(struct bw_swim *swim, struct bw_swim_member *member,
                   const struct bw_swim_update *update, bw_time now, struct bw_actions *actions)
{
    if (!bw_swim_overrides(update, (enum bw_member_status)member->status, member->incarnation)) {
        bool again = update->status == BW_MEMBER_SUSPECT && member->status == BW_MEMBER_SUSPECT &&
                     update->incarnation == member->incarnation;
        if (again && bw_swim_suspicions_confirm(&swim->suspicions, member->id, update->by))
            bw_swim_gossip_add(&swim->gossip, update);
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

/* Handles an update about us. If it shows us alive with a later incarnation than ours, we have lost
 * the record of an earlier run and adopt that incarnation. */
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
    bw_swim_gossip_add(&swim->gossip, &refutation);
}

void bw_swim_learn(struct bw_swim *swim, struct bw_swim_member *from, const struct bw_event *event,
                   struct bw_actions *actions)
{
    const struct bw_message *msg = event->msg;
    struct bw_swim_update alive = {.node = from->id, .incarnation = msg->probe.incarnation};
    if (from->status != BW_MEMBER_ALIVE)
        bw_swim_apply(swim, from, &alive, event->now, actions);
    else if (alive.incarnation > from->incarnation)
        from->incarnation = alive.incarnation;
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
