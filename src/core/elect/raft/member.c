/* The members of the group: those of the snapshot, plus the changes in the log above it.
 *
 * A change applies as soon as its entry is in the log, committed or not, and is undone if the entry
 * is truncated (thesis §4.1). So the active group is always the base plus all changes in the log.
 * Learners receive the log and never count for a majority. The detector's JOIN and LEAVE events do
 * not change the group: only the log defines the voters, otherwise majorities might not
 * intersect. */
#include "core/base/assert.h"
#include "core/elect/raft/raft_state.h"

#include <string.h>

static uint32_t place_of(const struct bw_raft_group *group, bw_node node)
{
    uint32_t i = 0;
    while (i < group->count && group->id[i] != node)
        i++;
    return i;
}

static void take_out(struct bw_raft_group *group, uint32_t i)
{
    if (i < group->voters)
        group->voters--;
    group->count--;
    memmove(&group->id[i], &group->id[i + 1], (group->count - i) * sizeof group->id[0]);
}

static void put_in(struct bw_raft_group *group, uint32_t i, bw_node node)
{
    memmove(&group->id[i + 1], &group->id[i], (group->count - i) * sizeof group->id[0]);
    group->id[i] = node;
    group->count++;
}

/* An check_members change has no effect, on every node alike. */
void bw_raft_group_apply(struct bw_raft_group *group, unsigned op, bw_node node)
{
    uint32_t i = place_of(group, node);
    bool member = i < group->count, voter = i < group->voters;
    if (op == BW_CHANGE_ADD_LEARNER && !member && group->count < BW_RAFT_MEMBERS_MAX) {
        put_in(group, group->count, node);
    } else if (op == BW_CHANGE_PROMOTE && member && !voter) {
        take_out(group, i);
        put_in(group, group->voters++, node);
    } else if (op == BW_CHANGE_REMOVE && member && !BW_BUG(raft_removed_still_votes)) {
        take_out(group, i);
    }
}

struct bw_raft_peer *bw_raft_peer_find(struct bw_raft *raft, bw_node id)
{
    if (id - 1 < raft->peers && raft->peer[id - 1].id == id)
        return &raft->peer[id - 1];
    for (uint32_t i = 0; i < raft->peers; i++)
        if (raft->peer[i].id == id)
            return &raft->peer[i];
    return NULL;
}

uint32_t bw_raft_voters(const struct bw_raft *raft)
{
    uint32_t voters = 0;
    for (uint32_t i = 0; i < raft->peers; i++)
        voters += raft->peer[i].voter;
    return voters;
}

static void peer_add(struct bw_raft *raft, bw_node id)
{
    uint32_t i = raft->peers++;
    while (i > 0 && raft->peer[i - 1].id > id) {
        raft->peer[i] = raft->peer[i - 1];
        i--;
    }
    uint8_t ring = (uint8_t)__builtin_ctz(~raft->rings_used);
    raft->rings_used |= 1u << ring;
    raft->peer[i] = (struct bw_raft_peer){.id = id, .ring = ring};
    bw_raft_progress_reset(&raft->peer[i], raft->log.last + 1);
}

static void peer_remove(struct bw_raft *raft, uint32_t i)
{
    raft->rings_used &= ~(1u << raft->peer[i].ring);
    raft->peers--;
    memmove(&raft->peer[i], &raft->peer[i + 1], (raft->peers - i) * sizeof raft->peer[0]);
}

static void group_at(const struct bw_raft *raft, bw_index index, struct bw_raft_group *group)
{
    *group = raft->base;
    for (uint32_t i = 0; i < raft->changes && raft->change[i].index <= index; i++)
        bw_raft_group_apply(group, raft->change[i].op, raft->change[i].node);
}

/* Updates the table of peers from the log. Members that stay keep their progress. */
void bw_raft_group_sync(struct bw_raft *raft)
{
    struct bw_raft_group group;
    group_at(raft, BW_BUG(raft_change_at_commit) ? raft->commit : raft->log.last, &group);
    for (uint32_t i = raft->peers; i-- > 0;)
        if (place_of(&group, raft->peer[i].id) >= group.count)
            peer_remove(raft, i);
    raft->voter = false;
    for (uint32_t i = 0; i < group.count; i++) {
        if (!bw_raft_peer_find(raft, group.id[i]))
            peer_add(raft, group.id[i]);
        bool voter = i < group.voters || BW_BUG(raft_learner_counts);
        bw_raft_peer_find(raft, group.id[i])->voter = voter;
        raft->voter |= group.id[i] == raft->self && voter;
    }
}

/* Returns false if the table is full; the caller must not append the entry then. */
bool bw_raft_change_add(struct bw_raft *raft, bw_index index, unsigned op, bw_node node)
{
    if (BW_NEVER(raft->changes >= BW_RAFT_CHANGES_MAX))
        return false;
    raft->change[raft->changes++] =
        (struct bw_raft_change){.index = index, .op = (uint8_t)op, .node = node};
    bw_raft_group_sync(raft);
    return true;
}

void bw_raft_change_rollback(struct bw_raft *raft, bw_index from)
{
    uint32_t before = raft->changes;
    while (raft->changes > 0 && raft->change[raft->changes - 1].index >= from)
        raft->changes--;
    if (raft->changes != before && !BW_BUG(raft_rollback_forgotten))
        bw_raft_group_sync(raft);
}

void bw_raft_change_compact(struct bw_raft *raft, bw_index index)
{
    uint32_t drop = 0;
    group_at(raft, index, &raft->base);
    while (drop < raft->changes && raft->change[drop].index <= index)
        drop++;
    raft->changes -= drop;
    memmove(raft->change, raft->change + drop, raft->changes * sizeof raft->change[0]);
}

static enum bw_raft_standing standing_in(const struct bw_raft_group *group, bw_node node)
{
    uint32_t i = place_of(group, node);
    if (i < group->voters)
        return BW_RAFT_VOTER;
    return i < group->count ? BW_RAFT_LEARNER : BW_RAFT_OUTSIDER;
}

/* The highest standing of this node in any group from the commit index on. Each of these groups may
 * be the committed one: a removal in the log counts only when it is known to be committed. A
 * restart forgets the commit index. The group there may then be one that this node had not joined
 * yet, and the last one may lack it again. */
enum bw_raft_standing bw_raft_own_standing(const struct bw_raft *raft)
{
    struct bw_raft_group group;
    group_at(raft, raft->commit, &group);
    enum bw_raft_standing best = standing_in(&group, raft->self);
    for (uint32_t i = 0; i < raft->changes; i++) {
        if (raft->change[i].index <= raft->commit)
            continue;
        bw_raft_group_apply(&group, raft->change[i].op, raft->change[i].node);
        enum bw_raft_standing next = standing_in(&group, raft->self);
        if (BW_BUG(raft_restart_forgets_membership) && i + 1 < raft->changes)
            continue;
        best = next > best ? next : best;
    }
    return best;
}

/* The index of the newest removal of `node` above the snapshot; 0: none. */
bw_index bw_raft_removed_at(const struct bw_raft *raft, bw_node node)
{
    for (uint32_t i = raft->changes; i-- > 0 && !BW_BUG(raft_sends_what_was_before_a_removal);)
        if (raft->change[i].node == node && raft->change[i].op == BW_CHANGE_REMOVE)
            return raft->change[i].index;
    return 0;
}

static int base_add(struct bw_raft_group *base, bw_node id, bool voter)
{
    if (id == BW_NODE_NONE || place_of(base, id) < base->count)
        return BW_EINVAL;
    if (base->count >= BW_RAFT_MEMBERS_MAX)
        return BW_ELIMIT;
    if (voter)
        put_in(base, base->voters++, id);
    else
        put_in(base, base->count, id);
    return 0;
}

static int base_load(struct bw_raft_group *base, const struct bw_elector_config *config)
{
    const struct bw_raft_saved *saved = config->saved;
    int error = 0;
    *base = (struct bw_raft_group){0};
    if (saved && saved->snapshot_index > 0) {
        for (uint32_t i = 0; i < saved->voters + saved->learners && !error; i++)
            error = base_add(base, saved->members[i], i < saved->voters);
    } else {
        for (uint32_t i = 0; i < config->count && !error; i++)
            error = base_add(base, config->members[i].id, !config->members[i].ordinary);
    }
    return error;
}

/* Loads the membership; the log is already loaded. A node that is not in its own group is new and
 * waits to be added. Returns 0, BW_EINVAL or BW_ELIMIT. */
int bw_raft_group_load(struct bw_raft *raft, const struct bw_elector_config *config)
{
    const struct bw_raft_saved *saved = config->saved;
    int error = base_load(&raft->base, config);
    if (error)
        return error;
    for (uint32_t i = 0; saved && i < saved->changes_count; i++) {
        const struct bw_raft_change *change = &saved->changes[i];
        if (change->index <= raft->log.snapshot_index || change->index > raft->log.last ||
            (i > 0 && change->index <= saved->changes[i - 1].index))
            return BW_EINVAL;
        if (raft->changes >= BW_RAFT_CHANGES_MAX)
            return BW_ELIMIT;
        raft->change[raft->changes++] = *change;
    }
    bw_raft_group_sync(raft);
    return 0;
}

uint32_t bw_raft_members_at(const struct bw_raft *raft, bw_index index, bw_node *out,
                            uint32_t *voters)
{
    struct bw_raft_group group;
    group_at(raft, index, &group);
    memcpy(out, group.id, group.count * sizeof out[0]);
    *voters = group.voters;
    return group.count;
}
