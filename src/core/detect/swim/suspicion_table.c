/* Current suspicions: a bounded table with the reporters of each, and the time at which the suspect
 * becomes dead.
 *
 * Independent reports shorten a suspicion (Lifeguard, LHA-Suspicion), so each suspicion stores its
 * reporters. `earliest_ns` is a lower bound of the due times, made exact when it fires. */
#include "core/base/bug.h"
#include "core/detect/swim/swim.h"

void bw_swim_suspicions_init(struct bw_swim_suspicions *all, struct bw_arena *arena,
                             const struct bw_detector_config *config)
{
    uint32_t members = config->cap > config->count ? config->cap : config->count;
    uint32_t cap = members < BW_SWIM_SUSPICIONS_MAX ? members : BW_SWIM_SUSPICIONS_MAX;
    *all = (struct bw_swim_suspicions){.at = bw_arena_take(arena, cap * sizeof *all->at),
                                       .cap = cap,
                                       .earliest_ns = BW_TIME_NEVER,
                                       .period_ns = config->period_ns,
                                       .alpha = config->suspicion_min,
                                       .beta = config->suspicion_max};
}

struct bw_swim_suspicion *bw_swim_suspicions_find(const struct bw_swim_suspicions *all,
                                                  bw_node node)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (all->at[i].node == node)
            return &all->at[i];
    return NULL;
}

static void set_due(struct bw_swim_suspicions *all, struct bw_swim_suspicion *suspicion)
{
    bw_time lasts = bw_lifeguard_suspicion_ns(suspicion->members, all->period_ns, all->alpha,
                                              all->beta, suspicion->reports - 1);
    suspicion->due_ns = bw_time_add(suspicion->began_ns, lasts);
    all->earliest_ns = bw_time_min(all->earliest_ns, suspicion->due_ns);
}

void bw_swim_suspicions_begin(struct bw_swim_suspicions *all, bw_node node, bw_node by,
                              uint32_t members, bw_time now)
{
    BW_ASSERT(all->count < all->cap);
    struct bw_swim_suspicion *suspicion = &all->at[all->count++];
    *suspicion = (struct bw_swim_suspicion){
        .node = node, .reports = 1, .by = {by}, .members = members, .began_ns = now};
    set_due(all, suspicion);
}

bool bw_swim_suspicions_confirm(struct bw_swim_suspicions *all, bw_node node, bw_node by)
{
    struct bw_swim_suspicion *suspicion = bw_swim_suspicions_find(all, node);
    if (!suspicion || suspicion->reports > BW_LIFEGUARD_CONFIRMATIONS)
        return false;
    for (uint32_t i = 0; i < suspicion->reports; i++)
        if (suspicion->by[i] == by && !BW_BUG(lifeguard_counts_a_report_twice))
            return false;
    suspicion->by[suspicion->reports++] = by;
    set_due(all, suspicion);
    return true;
}

void bw_swim_suspicions_end(struct bw_swim_suspicions *all, bw_node node)
{
    struct bw_swim_suspicion *suspicion = bw_swim_suspicions_find(all, node);
    if (suspicion)
        *suspicion = all->at[--all->count];
    if (all->count == 0)
        all->earliest_ns = BW_TIME_NEVER;
}

bw_node bw_swim_suspicions_oldest(const struct bw_swim_suspicions *all)
{
    const struct bw_swim_suspicion *oldest = NULL;
    for (uint32_t i = 0; i < all->count; i++)
        if (!oldest || all->at[i].began_ns < oldest->began_ns)
            oldest = &all->at[i];
    return oldest ? oldest->node : BW_NODE_NONE;
}

bw_node bw_swim_suspicions_due(struct bw_swim_suspicions *all, bw_time now)
{
    if (now < all->earliest_ns)
        return BW_NODE_NONE;
    bw_time earliest = BW_TIME_NEVER;
    for (uint32_t i = 0; i < all->count; i++) {
        bw_node node = all->at[i].node;
        if (all->at[i].due_ns <= now) {
            bw_swim_suspicions_end(all, node);
            return node;
        }
        earliest = bw_time_min(earliest, all->at[i].due_ns);
    }
    all->earliest_ns = earliest;
    return BW_NODE_NONE;
}
