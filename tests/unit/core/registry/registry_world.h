/* A registry with memory for results, and helpers to query it. */
#ifndef BW_TESTS_UNIT_CORE_REGISTRY_REGISTRY_WORLD_H
#define BW_TESTS_UNIT_CORE_REGISTRY_REGISTRY_WORLD_H

#include "core/registry/entry.h"
#include "core/registry/expiry.h"
#include "core/registry/registry.h"
#include "unit/unit.h"

#include <stdlib.h>

struct world {
    struct bw_registry *registry;
    void *memory;
    struct bw_op_result ops[BW_TXN_ALL_MAX];
    const struct bw_kv *kvs[4096];
    struct bw_results results;
};

static inline struct bw_slice text(const char *string)
{
    return (struct bw_slice){(const unsigned char *)string, strlen(string)};
}

static inline bool says(struct bw_slice slice, const char *string)
{
    return slice.length == strlen(string) && memcmp(slice.at, string, slice.length) == 0;
}

static inline void world_open_with(struct world *world, const struct bw_registry_config *config)
{
    size_t bytes = bw_registry_bytes(config);
    memset(world, 0, sizeof *world);
    world->memory = calloc(1, bytes);
    assert_non_null(world->memory);
    assert_int_equal(bw_registry_init(&world->registry, world->memory, bytes, config), 0);
    world->results.ops = world->ops;
    world->results.kvs = world->kvs;
    world->results.op_cap = BW_TXN_ALL_MAX;
    world->results.kv_cap = 4096;
}

static inline void world_open(struct world *world)
{
    world_open_with(
        world, &(struct bw_registry_config){.quota = 1 << 20, .leases_max = 1000, .history = 1024});
}

static inline void world_close(struct world *world)
{
    free(world->memory);
}

static inline int64_t revision_of(const struct world *world)
{
    struct bw_registry_status status;
    bw_registry_status(world->registry, &status);
    return status.revision;
}

static inline enum bw_refusal put_leased(struct world *world, const char *key, const char *value,
                                         int64_t lease)
{
    struct bw_put put = {.key = text(key), .value = text(value), .lease = lease, .previous = true};
    return bw_registry_put(world->registry, &put, &world->results);
}

static inline enum bw_refusal put(struct world *world, const char *key, const char *value)
{
    return put_leased(world, key, value, 0);
}

static inline struct bw_keys prefix(const char *key, char *end)
{
    strcpy(end, key);
    end[strlen(end) - 1]++;
    return (struct bw_keys){.key = text(key), .end = text(end)};
}

static inline int64_t delete_keys(struct world *world, struct bw_keys keys)
{
    struct bw_delete delete = {.keys = keys, .previous = true};
    assert_int_equal(bw_registry_delete(world->registry, &delete, &world->results), 0);
    return world->ops[0].count;
}

static inline const struct bw_op_result *range(struct world *world, const struct bw_range *range)
{
    static struct bw_op_result result;
    assert_int_equal(bw_registry_range(world->registry, range, &world->results, &result), 0);
    return &result;
}

/* The current version of a key, or NULL. */
static inline const struct bw_kv *get(struct world *world, const char *key)
{
    const struct bw_op_result *found = range(world, &(struct bw_range){.keys = {.key = text(key)}});
    return found->kv_count ? found->kvs[0] : NULL;
}

#endif
