/* The member list is a sorted bounded array; look-ups are binary searches. */
#include "core/base/members.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/limits.h"

#include <string.h>

/* Index of the first row whose id is not below `id`. */
static uint32_t place(const struct bw_members *members, bw_node id)
{
    uint32_t low = 0, high = members->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (members->at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct bw_member_row *bw_members_find(const struct bw_members *members, bw_node id)
{
    uint32_t guess = id - 1;
    if (guess < members->count && members->at[guess].id == id)
        return &members->at[guess];
    uint32_t i = place(members, id);
    return i < members->count && members->at[i].id == id ? &members->at[i] : NULL;
}

int bw_members_add(struct bw_members *members, const struct bw_member *member)
{
    if (member->id == BW_NODE_NONE)
        return BW_EINVAL;
    uint32_t i = place(members, member->id);
    bool known = i < members->count && members->at[i].id == member->id;
    if (!known) {
        if (members->count == members->cap)
            return BW_ELIMIT;
        memmove(&members->at[i + 1], &members->at[i], (members->count - i) * sizeof *members->at);
        members->at[i] = (struct bw_member_row){.id = member->id};
        members->count++;
    }
    members->at[i].priority = member->priority;
    members->at[i].ordinary = member->ordinary != 0;
    return 0;
}

void bw_members_remove(struct bw_members *members, bw_node id)
{
    struct bw_member_row *row = bw_members_find(members, id);
    if (!row)
        return;
    uint32_t i = (uint32_t)(row - members->at);
    members->count--;
    memmove(row, row + 1, (members->count - i) * sizeof *members->at);
}

int bw_members_init(struct bw_members *members, struct bw_arena *arena, uint32_t cap,
                    const struct bw_member *list, uint32_t count)
{
    if (cap > BW_DETECTOR_MEMBERS_MAX || count > cap)
        return BW_ELIMIT;
    members->at = bw_arena_take(arena, cap * sizeof *members->at);
    members->count = 0;
    members->cap = cap;
    if (!members->at)
        return arena->at ? BW_ENOMEM : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (bw_members_find(members, list[i].id))
            return BW_EINVAL;
        int error = bw_members_add(members, &list[i]);
        if (error)
            return error;
    }
    return 0;
}

bool bw_members_apply(struct bw_members *members, const struct bw_event *event)
{
    struct bw_member_row *row = bw_members_find(members, event->node);
    switch (event->kind) {
    case BW_EVENT_JOIN:
        return bw_members_add(members, &event->member) == 0 && !row;
    case BW_EVENT_LEAVE:
        bw_members_remove(members, event->node);
        return row != NULL;
    case BW_EVENT_SUSPECT:
    case BW_EVENT_CONFIRMED_DEAD:
        /* The death of its work does not prove that the node is dead: it may run and send. If we
         * suspected it here, no TRUST event would follow, because the detector withdraws only its
         * own suspicions. */
        if (!row || row->suspect || (event->alone && !BW_BUG(members_take_dead_work_for_the_node)))
            return false;
        return row->suspect = true;
    case BW_EVENT_TRUST:
        if (!row || !row->suspect)
            return false;
        row->suspect = false;
        return true;
    case BW_EVENT_START:
    case BW_EVENT_MESSAGE:
    case BW_EVENT_TIMEOUT:
    case BW_EVENT_HINT:
    case BW_EVENT_SEND_FAILED:
    case BW_EVENT_PERSISTED:
    case BW_EVENT_COMMAND:
    case BW_EVENT_STOP:
        break;
    }
    return false;
}
