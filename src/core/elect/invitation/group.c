/* Groups: memory, lists of members and of other coordinators, states. */
#include "core/elect/invitation/group.h"
#include "core/base/assert.h"

#include "core/base/bug.h"
#include "core/base/error.h"

#include <string.h>

/* ---- memory ---- */

static int lay_out(struct bw_group *v, struct bw_arena *arena,
                   const struct bw_elector_config *config)
{
    struct bw_group scratch;
    struct bw_group *to = v ? v : &scratch;
    int error = bw_members_init(&to->members, arena, config->cap, config->members, config->count);
    to->up = bw_arena_take(arena, config->cap * sizeof *to->up);
    to->others = bw_arena_take(arena, config->cap * sizeof *to->others);
    to->list = bw_arena_take(arena, config->cap * sizeof *to->list);
    return error;
}

size_t bw_group_bytes(const struct bw_elector_config *config)
{
    struct bw_arena measure = {0};
    bw_arena_take(&measure, sizeof(struct bw_group));
    lay_out(NULL, &measure, config);
    return measure.used;
}

int bw_group_init(void *memory, const struct bw_elector_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = bw_group_bytes(config)};
    struct bw_group *v = bw_arena_take(&arena, sizeof *v);
    if (config->cap > BW_ELECTOR_MEMBERS_MAX)
        return BW_ELIMIT;
    if (config->answer_ns <= 0 || config->period_ns <= 0)
        return BW_EINVAL;
    memset(v, 0, sizeof *v);
    v->self = config->self;
    v->answer_ns = config->answer_ns;
    v->period_ns = config->period_ns;
    v->join_ns = BW_GROUP_JOIN_ANSWERS * config->answer_ns;
    v->next_at = BW_TIME_NEVER;
    bw_rng_init(&v->rng, config->seed ^ 0x696e76697465u);
    int error = lay_out(v, &arena, config);
    if (error)
        return error;
    return bw_members_find(&v->members, config->self) ? 0 : BW_EINVAL;
}

/* ---- the group ---- */

bool bw_group_coordinates(const struct bw_group *v)
{
    return v->state == BW_GROUP_COORDINATING;
}

uint32_t bw_group_size(const struct bw_group *v)
{
    uint32_t size = 1;
    for (uint32_t i = 0; bw_group_coordinates(v) && i < v->up_count; i++) {
        const struct bw_member_row *row = bw_members_find(&v->members, v->up[i].id);
        size += BW_ALWAYS(row) && !row->suspect;
    }
    return size;
}

struct bw_group_peer *bw_group_find_peer(const struct bw_group *v, bw_node id)
{
    for (uint32_t i = 0; i < v->up_count; i++)
        if (v->up[i].id == id)
            return &v->up[i];
    return NULL;
}

void bw_group_drop_peer(struct bw_group *v, bw_node id)
{
    struct bw_group_peer *peer = bw_group_find_peer(v, id);
    if (peer)
        *peer = v->up[--v->up_count];
}

struct bw_group_peer *bw_group_add_peer(struct bw_group *v, bw_node id)
{
    struct bw_group_peer *peer = bw_group_find_peer(v, id);
    if (!peer && BW_ALWAYS(v->up_count < v->members.cap)) {
        peer = &v->up[v->up_count++];
        *peer = (struct bw_group_peer){.id = id, .check = v->check};
    }
    return peer;
}

struct bw_group_other *bw_group_find_other(const struct bw_group *v, bw_node id)
{
    for (uint32_t i = 0; i < v->others_count; i++)
        if (v->others[i].id == id)
            return &v->others[i];
    return NULL;
}

struct bw_group_other *bw_group_add_other(struct bw_group *v, bw_node id)
{
    struct bw_group_other *other = bw_group_find_other(v, id);
    if (!other && v->others_count < v->members.cap) {
        other = &v->others[v->others_count++];
        *other = (struct bw_group_other){.id = id};
    }
    return other;
}

/* ---- waiting for replies ---- */

void bw_group_await(struct bw_group *v, bw_time now)
{
    v->answer_at = v->next_at = now + v->answer_ns;
    v->timeout_at = now + BW_GROUP_ANSWER_TIMES * v->answer_ns;
}

static bool awaited(const struct bw_group *v, const struct bw_member_row *row)
{
    return row && !row->answered && !row->suspect && row->id != v->lost;
}

bool bw_group_awaits(const struct bw_group *v)
{
    bool awaits = false;
    if (v->phase == BW_GROUP_ASKING)
        for (uint32_t i = 0; i < v->members.count && !awaits; i++)
            awaits = awaited(v, &v->members.at[i]);
    else if (v->phase == BW_GROUP_INVITING)
        for (uint32_t i = 0; i < v->others_count && !awaits; i++)
            awaits = awaited(v, bw_members_find(&v->members, v->others[i].id));
    return awaits && !BW_BUG(invitation_hasty);
}

void bw_group_shorten_wait(struct bw_group *v, bw_time now)
{
    bool waits = v->phase == BW_GROUP_ASKING || v->phase == BW_GROUP_INVITING;
    if (bw_group_coordinates(v) && waits && !bw_group_awaits(v))
        v->next_at = bw_time_max(now, v->answer_at);
}

void bw_group_answered(struct bw_group *v, bw_node id, bw_time now)
{
    struct bw_member_row *row = bw_members_find(&v->members, id);
    if (BW_ALWAYS(row))
        row->answered = true;
    bw_group_shorten_wait(v, now);
}

bw_time bw_group_random_share(struct bw_group *v, bw_time span)
{
    return bw_rng_between(&v->rng, 0, span);
}

/* ---- messages ---- */

struct bw_message *bw_group_send(const struct bw_group *v, enum bw_message_kind kind, bw_node to,
                                 struct bw_actions *actions)
{
    struct bw_message *msg = bw_actions_send(actions, kind, v->self, to, v->counter);
    msg->group.leader = v->leader;
    msg->group.size = bw_group_size(v);
    return msg;
}

static void announce_leader(const struct bw_group *v, bw_node leader, enum bw_loss reason,
                            struct bw_actions *actions)
{
    bool leads = leader == v->self;
    struct bw_announcement a = {.leader = leader,
                                .reason = reason,
                                .term = v->counter,
                                .act_from = leads ? v->act_from : 0,
                                .act_until = leads ? BW_TIME_NEVER : 0};
    bw_actions_announce(actions, &a);
}

static void persist(struct bw_group *v, struct bw_actions *actions)
{
    /* otherwise planted bug: the group of a restarted node has an old counter */
    if (!BW_BUG(invitation_counter_not_durable))
        bw_actions_persist(actions, &v->durable);
}

/* ---- states ---- */

static void set_state(struct bw_group *v, enum bw_group_state state, struct bw_actions *actions)
{
    if (v->state != state)
        bw_actions_trace(actions, BW_TRACE_STATE, v->self, (uint64_t)v->state, (uint64_t)state);
    v->state = state;
}

/* The known leader no longer leads, as far as this node knows. */
static void drop_leader(struct bw_group *v, enum bw_loss reason, struct bw_actions *actions)
{
    bool led = bw_group_coordinates(v) && v->claimed;
    if (led)
        bw_actions_trace(actions, BW_TRACE_STEP_DOWN, v->self, v->counter, (uint64_t)reason);
    if (led || v->state == BW_GROUP_MEMBER)
        announce_leader(v, BW_NODE_NONE, led ? reason : BW_LOSS_NONE, actions);
    v->claimed = false;
}

void bw_group_become_coordinator(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    drop_leader(v, BW_LOSS_NONE, actions);
    v->counter = ++v->durable.term;
    persist(v, actions);
    v->leader = v->self;
    v->up_count = v->others_count = 0;
    v->lost = BW_NODE_NONE;
    set_state(v, BW_GROUP_COORDINATING, actions);
    v->phase = BW_GROUP_PAUSING;
    v->next_at = now + bw_group_random_share(v, v->answer_ns);
}

void bw_group_recover(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    bw_node lost = v->leader;
    bw_term counter = v->counter;
    bw_group_become_coordinator(v, now, actions);
    v->lost = lost;
    v->lost_counter = counter;
}

void bw_group_become_joining(struct bw_group *v, bw_node leader, bw_term counter, bw_time now,
                             struct bw_actions *actions)
{
    drop_leader(v, BW_LOSS_TAKEN, actions);
    v->leader = leader;
    v->counter = counter;
    v->up_count = v->others_count = 0;
    if (counter > v->durable.term) {
        v->durable.term = counter;
        persist(v, actions);
    }
    set_state(v, BW_GROUP_JOINING, actions);
    v->next_at = now + v->join_ns + bw_group_random_share(v, v->answer_ns);
}

void bw_group_become_member(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    set_state(v, BW_GROUP_MEMBER, actions);
    v->asks = 0;
    v->next_at =
        now + BW_GROUP_ASK_PERIODS * v->period_ns + bw_group_random_share(v, v->period_ns / 2);
    bw_actions_trace(actions, BW_TRACE_LEADER, v->leader, v->counter, 0);
    announce_leader(v, v->leader, BW_LOSS_NONE, actions);
}

void bw_group_become_handing(struct bw_group *v, enum bw_loss reason, bw_time now,
                             struct bw_actions *actions)
{
    drop_leader(v, reason, actions);
    set_state(v, BW_GROUP_HANDING, actions);
    v->next_at = now + v->join_ns + bw_group_random_share(v, v->answer_ns);
}

void bw_group_become_stopped(struct bw_group *v, struct bw_actions *actions)
{
    drop_leader(v, BW_LOSS_SHUT_DOWN, actions);
    set_state(v, BW_GROUP_STOPPED, actions);
    v->next_at = BW_TIME_NEVER;
}

/* One check found no other node that leads this group. */
void bw_group_claim(struct bw_group *v, bw_time now, struct bw_actions *actions)
{
    if (v->claimed)
        return;
    v->claimed = true;
    v->act_from = now;
    bw_actions_trace(actions, BW_TRACE_WON, v->self, v->counter, 0);
    announce_leader(v, v->self, BW_LOSS_NONE, actions);
}
