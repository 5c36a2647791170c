/* The members of a group as one instance sees them: a bounded list sorted by id, with the
 * detector's verdict on each.
 *
 * Ids are usually 1..n without gaps, so a look-up tries index id - 1 first. Every elector keeps its
 * own list and passes membership and suspicion events to bw_members_apply. */
#ifndef BW_CORE_BASE_MEMBERS_H
#define BW_CORE_BASE_MEMBERS_H

#include "core/base/arena.h"
#include "core/base/event.h"
#include "core/base/types.h"

struct bw_member_row {
    bw_node id;
    uint32_t priority;
    /* flapping penalty that the member last reported; 0 before its first report */
    uint32_t penalty;
    bool ordinary;
    bool suspect;
    bool answered; /* scratch flag of the owning elector: the member replied in this round */
};

struct bw_members {
    struct bw_member_row *at;
    uint32_t count, cap;
};

/* Takes space for `cap` members from `arena` and fills the list. Returns 0, BW_EINVAL (an id is 0
 * or a duplicate) or BW_ELIMIT (count > cap). With a measuring arena it only measures and returns
 * 0. */
int bw_members_init(struct bw_members *members, struct bw_arena *arena, uint32_t cap,
                    const struct bw_member *list, uint32_t count);

/* Returns the row of `id`, or NULL. The pointer is valid until the next add or remove. */
struct bw_member_row *bw_members_find(const struct bw_members *members, bw_node id);

/* Adds a member, or updates the role and priority of a known one. Returns 0, BW_EINVAL or
 * BW_ELIMIT. */
int bw_members_add(struct bw_members *members, const struct bw_member *member);
void bw_members_remove(struct bw_members *members, bw_node id);

/* Applies JOIN, LEAVE, SUSPECT, TRUST and CONFIRMED_DEAD; ignores other events. Returns true if the
 * list changed. (An update of a known member's role or priority does not count.) */
bool bw_members_apply(struct bw_members *members, const struct bw_event *event);

/* A majority of the configured members: count / 2 + 1. */
static inline uint32_t bw_members_majority(const struct bw_members *members)
{
    return members->count / 2 + 1;
}

#endif
