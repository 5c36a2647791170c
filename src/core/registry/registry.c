/* Memory layout and status of the registry. */
#include "core/registry/registry.h"

#include "core/base/arena.h"
#include "core/base/bug.h"
#include "core/registry/registry_state.h"

#include <string.h>

/* A smaller history could drop versions that a result still points to. */
#define HISTORY_MIN 1024u

/* Lays out everything except the heap. Only measures if `arena` has no memory. */
static struct bw_registry *lay_out(struct bw_arena *arena, const struct bw_registry_config *config)
{
    uint32_t leases = config->leases_max;
    size_t buckets = leases > BUCKETS_MIN ? leases : BUCKETS_MIN;
    struct bw_registry *r = bw_arena_take(arena, sizeof *r);
    bw_ref *bucket = bw_arena_take(arena, buckets * sizeof(bw_ref));
    bw_ref *queue = bw_arena_take(arena, ((size_t)leases + 1) * sizeof(bw_ref));
    struct event *events = bw_arena_take(arena, config->history * sizeof(struct event));
    struct bw_user *users = bw_arena_take(arena, (BW_USERS_MAX + 1) * sizeof(struct bw_user));
    struct bw_key_role *roles = bw_arena_take(arena, BW_KEY_ROLES_MAX * sizeof(struct bw_key_role));
    if (!bw_arena_fits(arena))
        return NULL;
    *r = (struct bw_registry){.config = *config,
                              .level = 1,
                              .revision = 1,
                              .buckets = bucket,
                              .bucket_count = BUCKETS_MIN,
                              .queue = queue,
                              .events = events,
                              .users = users,
                              .roles = roles};
    if (BW_BUG(registry_ignores_its_hash_key))
        r->config.hash_key = (struct bw_hash_key){{0}};
    return r;
}

static uint64_t quota_of(const struct bw_registry_config *config)
{
    return config->ceiling > config->quota ? config->ceiling : config->quota;
}

/* What is in use needs at most 5/4 of the quota, because a block is at most a quarter larger than
 * its content. The rest is used up between two moves (kv.c). */
static size_t half_for(const struct bw_registry_config *config)
{
    return (quota_of(config) * 3 / 2 + ((size_t)8 << 20)) & ~(size_t)(BW_HEAP_PAGE - 1);
}

_Static_assert(sizeof(struct node) <= NODE_COST, "the quota counts nodes at their size");

/* Nodes and leases. Every key counts at least as much again as its node. */
static size_t heap_for(const struct bw_registry_config *config)
{
    uint64_t quota = quota_of(config), leases = quota / LEASE_COST;
    leases = config->leases_max < leases ? config->leases_max : leases;
    uint64_t bytes = quota / 2 + leases * bw_heap_cost(sizeof(struct lease)) + ((size_t)1 << 20);
    return bytes & ~(uint64_t)(BW_HEAP_PAGE - 1);
}

size_t bw_registry_bytes(const struct bw_registry_config *config)
{
    struct bw_arena arena = {0};
    lay_out(&arena, config);
    return arena.used + BW_ARENA_ALIGN + heap_for(config) + BW_HEAP_UNIT + 2 * half_for(config);
}

int bw_registry_init(struct bw_registry **out, void *memory, size_t bytes,
                     const struct bw_registry_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = bytes};
    if (config->history < HISTORY_MIN || config->leases_max == 0 || config->quota < 65536 ||
        (config->ceiling && config->ceiling < config->quota) ||
        2 * half_for(config) > BW_HEAP_BYTES_MAX - BW_HEAP_UNIT)
        return BW_EINVAL;
    if (bytes < bw_registry_bytes(config))
        return BW_ENOMEM;
    struct bw_registry *r = lay_out(&arena, config);
    size_t rest = (arena.used + BW_ARENA_ALIGN - 1) & ~(size_t)(BW_ARENA_ALIGN - 1);
    bw_heap_init(&r->heap, arena.at + rest, heap_for(config));
    r->versions_half = half_for(config);
    bw_heap_init_part(&r->versions, arena.at + rest + heap_for(config), BW_HEAP_UNIT,
                      BW_HEAP_UNIT + r->versions_half);
    *out = r;
    return 0;
}

/* Below this, the next versions use the memory. */
#define RELEASE_FROM ((size_t)16 << 20)

#define PIECE ((size_t)1 << 20) /* returned at once */

/* After a move: the next piece of the memory that is not in use any more. */
static bool release_left(struct bw_registry *r, struct bw_heap_pages *out)
{
    if (r->left >= r->left_end || r->left_units)
        return false;
    uintptr_t at = (uintptr_t)r->versions.base + r->left;
    size_t length = PIECE - at % PIECE, rest = r->left_end - r->left;
    *out = (struct bw_heap_pages){.at = r->versions.base + r->left,
                                  .length = length < rest ? length : rest};
    r->left += out->length;
    return true;
}

bool bw_registry_release(struct bw_registry *r, void **at, size_t *length)
{
    struct bw_heap_pages pages;
    if (!release_left(r, &pages) &&
        (r->versions.free_large < RELEASE_FROM || BW_NEVER(!bw_heap_release(&r->versions, &pages))))
        return false;
    *at = pages.at;
    *length = pages.length;
    return true;
}

void bw_registry_status(const struct bw_registry *r, struct bw_registry_status *out)
{
    *out = (struct bw_registry_status){.level = r->level,
                                       .revision = r->revision,
                                       .floor = r->compacted,
                                       .keys = r->keys,
                                       .leases = r->leases,
                                       .bytes = r->bytes,
                                       .history_bytes = history_size(r)};
}

void bw_registry_raise(struct bw_registry *r, uint32_t level)
{
    if (level > r->level && level <= BW_REGISTRY_LEVEL)
        r->level = level;
}
