/* The members of a group as one instance sees them: sorted by id, bounded, with what the detector
 * says of each.
 *
 * Ids are usually 1..n without gaps, so a look-up tries that place first. Every elector keeps its
 * own list and feeds it the membership and suspicion events through bw_members_apply. */
#ifndef BW_BASE_MEMBERS_H
#define BW_BASE_MEMBERS_H

#include "core/base/arena.h"
#include "core/base/event.h"
#include "core/base/types.h"

struct bw_member_row {
    bw_node id;
    uint32_t priority;
    uint32_t demerits; /* flapping as last heard from it; 0 until then */
    bool ordinary;
    bool suspect;
    bool answered; /* scratch of the elector that owns the list: answered in this round */
};

struct bw_members {
    struct bw_member_row *at;
    uint32_t count, cap;
};

/* Lays the list out in `arena` with room for `cap` members and fills it. Returns 0, BW_EINVAL (id 0
 * or twice) or BW_ELIMIT (count > cap). With a measuring arena it only measures and returns 0. */
int bw_members_init(struct bw_members *members, struct bw_arena *arena, uint32_t cap,
                    const struct bw_member *list, uint32_t count);

/* The row of `id`, or NULL. Valid until the next add or remove. */
struct bw_member_row *bw_members_find(const struct bw_members *members, bw_node id);

/* Returns 0 (also when it was there: role and priority are then renewed), BW_EINVAL or BW_ELIMIT.
 */
int bw_members_add(struct bw_members *members, const struct bw_member *member);
void bw_members_remove(struct bw_members *members, bw_node id);

/* Takes JOIN, LEAVE, SUSPECT, TRUST and CONFIRMED_DEAD into the list; other events do nothing. True
 * if it changed. */
bool bw_members_apply(struct bw_members *members, const struct bw_event *event);

/* The majority of the configured members: count / 2 + 1. */
static inline uint32_t bw_members_majority(const struct bw_members *members)
{
    return members->count / 2 + 1;
}

#endif
