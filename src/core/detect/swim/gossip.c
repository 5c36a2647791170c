/* The updates that SWIM disseminates, and their precedence.
 *
 * Precedence (SWIM §4.2); i and j are incarnations, which only the member itself increments:
 *
 *     Alive(i)    overrides Alive(j), Suspect(j) and Confirm(j) with j < i
 *     Suspect(i)  overrides Alive(j) with j <= i and Suspect(j) with j < i
 *     Confirm(i)  overrides Alive(j) and Suspect(j) with j <= i, and Confirm(j) with j < i
 *
 * Difference from the paper: there, a Confirm overrides everything, because a confirmed member is
 * gone and would return under another name. Here members keep their ids when they restart, and
 * partitions may outlast suspicions. So an Alive with a later incarnation, which only the member
 * itself can have made, overrides an earlier Confirm. A Confirm of that earlier incarnation that
 * arrives late changes nothing.
 *
 * Dissemination (SWIM §4.1): an update is sent about 3 log10(n + 1) times, piggybacked on messages
 * that are sent anyway, least often sent updates first. The list is bounded: when it is full, the
 * most often sent update is dropped. */
#include "core/base/bug.h"
#include "core/detect/portable_math.h"
#include "core/detect/swim/swim.h"

#include <math.h>
#include <string.h>

#define SEND_FACTOR 3

bool bw_swim_overrides(const struct bw_swim_update *update, enum bw_member_status status,
                       uint32_t incarnation)
{
    bool newer = update->incarnation > incarnation;
    bool same = update->incarnation == incarnation;
    switch (update->status) {
    case BW_MEMBER_ALIVE:
        return newer || (BW_BUG(swim_old_alive_revives) && status != BW_MEMBER_ALIVE);
    case BW_MEMBER_SUSPECT:
        return status != BW_MEMBER_DEAD && (newer || (same && status == BW_MEMBER_ALIVE));
    case BW_MEMBER_DEAD:
        return newer || (same && status != BW_MEMBER_DEAD);
    default:
        return false;
    }
}

static void remove_at(struct bw_swim_gossip *gossip, uint32_t i)
{
    gossip->count--;
    memmove(&gossip->at[i], &gossip->at[i + 1], (gossip->count - i) * sizeof gossip->at[0]);
}

void bw_swim_gossip_drop(struct bw_swim_gossip *gossip, bw_node node)
{
    for (uint32_t i = gossip->count; i > 0; i--)
        if (gossip->at[i - 1].update.node == node)
            remove_at(gossip, i - 1);
}

/* Reports of one suspicion by different members are kept side by side; any other update supersedes
 * the older ones of its node. */
static bool superseded(const struct bw_swim_update *old, const struct bw_swim_update *update)
{
    if (old->node != update->node)
        return false;
    bool both_suspect = old->status == BW_MEMBER_SUSPECT && update->status == BW_MEMBER_SUSPECT;
    return !both_suspect || old->incarnation < update->incarnation || old->by == update->by;
}

void bw_swim_gossip_add(struct bw_swim_gossip *gossip, const struct bw_swim_update *update)
{
    for (uint32_t i = gossip->count; i > 0; i--)
        if (superseded(&gossip->at[i - 1].update, update))
            remove_at(gossip, i - 1);
    if (gossip->count == BW_SWIM_GOSSIP_MAX)
        gossip->count--;
    memmove(&gossip->at[1], &gossip->at[0], gossip->count * sizeof gossip->at[0]);
    gossip->at[0] = (struct bw_swim_item){.update = *update};
    gossip->count++;
}

/* Updates that were sent go to the end and new ones enter at the front, so the list is ordered by
 * how often each was sent. */
uint32_t bw_swim_gossip_take(struct bw_swim_gossip *gossip, uint32_t members,
                             struct bw_swim_update *out, uint32_t max)
{
    if (gossip->count == 0)
        return 0;
    uint32_t often = (uint32_t)ceil(SEND_FACTOR * bw_log10((double)members + 1));
    uint32_t taken = gossip->count < max ? gossip->count : max;
    struct bw_swim_item again[BW_SWIM_UPDATES_MAX];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < taken; i++) {
        struct bw_swim_item item = gossip->at[i];
        out[i] = item.update;
        if (++item.sent < often)
            again[kept++] = item;
    }
    uint32_t rest = gossip->count - taken;
    memmove(&gossip->at[0], &gossip->at[taken], rest * sizeof gossip->at[0]);
    memcpy(&gossip->at[rest], again, kept * sizeof again[0]);
    gossip->count = rest + kept;
    return taken;
}
