/* What SWIM passes on, and which news beats which.
 *
 * Precedence (SWIM section 4.2), i and j being incarnations, which only the member itself raises:
 *
 *     Alive(i)    beats Alive(j), Suspect(j) and Confirm(j) with j < i
 *     Suspect(i)  beats Alive(j) with j <= i and Suspect(j) with j < i
 *     Confirm(i)  beats Alive(j) and Suspect(j) with j <= i, and Confirm(j) with j < i
 *
 * In the paper Confirm beats everything for ever, because a confirmed member is gone and would come
 * back under another name. Here members keep their names: they restart, and partitions last longer
 * than suspicions. So a member that is alive in a later incarnation, which is its own word, beats a
 * Confirm of an earlier one, and such a Confirm that arrives late kills nobody.
 *
 * An item goes out about 3 log10(n + 1) times on messages that are sent anyway, those told least
 * first. The list is bounded; when it is full the item told most gives way. */
#include "core/base/bug.h"
#include "core/detect/swim/swim.h"

#include <math.h>
#include <string.h>

#define TOLD_FACTOR 3

bool bw_swim_beats(const struct bw_swim_update *update, enum bw_member_status status,
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

static void remove_at(struct bw_swim_news *news, uint32_t i)
{
    news->count--;
    memmove(&news->at[i], &news->at[i + 1], (news->count - i) * sizeof news->at[0]);
}

void bw_swim_news_drop(struct bw_swim_news *news, bw_node node)
{
    for (uint32_t i = news->count; i > 0; i--)
        if (news->at[i - 1].update.node == node)
            remove_at(news, i - 1);
}

/* Voices of one suspicion stand beside each other; anything else replaces what was said before. */
static bool worthless(const struct bw_swim_update *old, const struct bw_swim_update *update)
{
    if (old->node != update->node)
        return false;
    bool both_suspect = old->status == BW_MEMBER_SUSPECT && update->status == BW_MEMBER_SUSPECT;
    return !both_suspect || old->incarnation < update->incarnation || old->by == update->by;
}

void bw_swim_news_add(struct bw_swim_news *news, const struct bw_swim_update *update)
{
    for (uint32_t i = news->count; i > 0; i--)
        if (worthless(&news->at[i - 1].update, update))
            remove_at(news, i - 1);
    if (news->count == BW_SWIM_NEWS_MAX)
        news->count--;
    memmove(&news->at[1], &news->at[0], news->count * sizeof news->at[0]);
    news->at[0] = (struct bw_swim_item){.update = *update};
    news->count++;
}

/* What was told goes to the end, so the order is by how often: new items enter at the front. */
uint32_t bw_swim_news_take(struct bw_swim_news *news, uint32_t members, struct bw_swim_update *out,
                           uint32_t room)
{
    if (news->count == 0)
        return 0;
    uint32_t often = (uint32_t)ceil(TOLD_FACTOR * log10((double)members + 1));
    uint32_t taken = news->count < room ? news->count : room;
    struct bw_swim_item again[BW_SWIM_UPDATES_MAX];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < taken; i++) {
        struct bw_swim_item item = news->at[i];
        out[i] = item.update;
        if (++item.told < often)
            again[kept++] = item;
    }
    uint32_t rest = news->count - taken;
    memmove(&news->at[0], &news->at[taken], rest * sizeof news->at[0]);
    memcpy(&news->at[rest], again, kept * sizeof again[0]);
    news->count = rest + kept;
    return taken;
}
