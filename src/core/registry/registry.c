/* The registry's memory, and facts about it. */
#include "core/registry/registry.h"

#include "core/base/arena.h"
#include "core/registry/registry_state.h"

#include <string.h>

/* Fewer could drop what an answer still points to. */
#define HISTORY_MIN 1024u

static uint32_t buckets_for(uint32_t leases)
{
    uint32_t count = 1024;
    while (count < leases && count < 1u << 30)
        count *= 2;
    return count;
}

/* Lays out everything but the heap; measures while `arena` has no memory. */
static struct bw_registry *lay_out(struct bw_arena *arena, const struct bw_registry_config *config)
{
    uint32_t buckets = buckets_for(config->leases_max);
    struct bw_registry *r = bw_arena_take(arena, sizeof *r);
    bw_ref *bucket = bw_arena_take(arena, buckets * sizeof(bw_ref));
    bw_ref *queue = bw_arena_take(arena, (config->leases_max + 1u) * sizeof(bw_ref));
    struct event *events = bw_arena_take(arena, config->history * sizeof(struct event));
    struct bw_user *users = bw_arena_take(arena, (BW_USERS_MAX + 1) * sizeof(struct bw_user));
    if (!bw_arena_fits(arena))
        return NULL;
    *r = (struct bw_registry){.config = *config,
                              .level = 1,
                              .revision = 1,
                              .buckets = bucket,
                              .bucket_count = buckets,
                              .queue = queue,
                              .events = events,
                              .users = users};
    return r;
}

/* Blocks are up to a quarter larger than their content, and freed ones of another size do not
 * serve; nodes and leases are counted in the quota at what they take. */
static size_t heap_for(const struct bw_registry_config *config)
{
    return 4 * config->quota + ((size_t)16 << 20);
}

size_t bw_registry_bytes(const struct bw_registry_config *config)
{
    struct bw_arena arena = {0};
    lay_out(&arena, config);
    return arena.used + BW_ARENA_ALIGN + heap_for(config);
}

int bw_registry_init(struct bw_registry **out, void *memory, size_t bytes,
                     const struct bw_registry_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = bytes};
    if (config->history < HISTORY_MIN || config->leases_max == 0 || config->quota < 65536)
        return BW_EINVAL;
    if (bytes < bw_registry_bytes(config))
        return BW_ENOMEM;
    struct bw_registry *r = lay_out(&arena, config);
    size_t rest = (arena.used + BW_ARENA_ALIGN - 1) & ~(size_t)(BW_ARENA_ALIGN - 1);
    bw_heap_init(&r->heap, arena.at + rest, bytes - rest);
    *out = r;
    return 0;
}

void bw_registry_status(const struct bw_registry *r, struct bw_registry_status *out)
{
    *out = (struct bw_registry_status){.level = r->level,
                                       .revision = r->revision,
                                       .floor = r->compacted,
                                       .keys = r->keys,
                                       .leases = r->leases,
                                       .bytes = r->bytes};
}

void bw_registry_raise(struct bw_registry *r, uint32_t level)
{
    if (level > r->level && level <= BW_REGISTRY_LEVEL)
        r->level = level;
}
