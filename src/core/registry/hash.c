/* A hash of all keys at one revision, computed in steps between which the registry may change.
 *
 * The hash is a sum over the versions of that revision, so their order has no influence. A step
 * first looks at the changes since the previous step. The version that such a change replaced
 * belongs to the sum unless its key was visited before the change. Then the step visits further
 * keys in order. */
#include "core/base/little.h"
#include "core/registry/registry_state.h"

#include <string.h>

#define FACTOR  0x9e3779b97f4a7c15u
#define KV_COST 64u /* cost of visiting a version, in addition to its bytes */
/* arbitrary nonzero seed, so that the hash of an empty registry is not 0 */
#define HASH_KEY 0x6265

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * FACTOR;
    return hash ^ hash >> 32;
}

static uint64_t hash_version(const struct bw_kv *kv)
{
    size_t length = (size_t)kv->key_length + kv->value_length, at = 0;
    uint64_t hash = mix(kv->key_length, length);
    unsigned char last[8] = {0};
    for (; length - at >= sizeof last; at += sizeof last)
        hash = mix(hash, bw_get64(kv->bytes + at));
    memcpy(last, kv->bytes + at, length - at);
    hash = mix(hash, bw_get64(last));
    hash = mix(hash, (uint64_t)kv->create_revision);
    hash = mix(hash, (uint64_t)kv->mod_revision);
    hash = mix(hash, (uint64_t)kv->version);
    return mix(hash, (uint64_t)kv->lease);
}

static void add(struct bw_hashing *hashing, const struct bw_kv *kv, uint64_t *cost)
{
    hashing->sum += hash_version(kv);
    *cost += KV_COST + kv->key_length + kv->value_length;
}

enum bw_refusal bw_registry_hash_begin(const struct bw_registry *r, int64_t revision,
                                       struct bw_hashing *hashing)
{
    if (revision > r->revision)
        return BW_REFUSED_FUTURE;
    if (revision > 0 && revision <= r->compacted)
        return BW_REFUSED_COMPACTED;
    if (revision <= 0)
        revision = r->revision;
    *hashing = (struct bw_hashing){.revision = revision,
                                   .next_event = bw_registry_events_from(r, revision + 1),
                                   .sum = mix(HASH_KEY, (uint64_t)revision)};
    return BW_REFUSED_NONE;
}

/* Returns false if the budget is used up. */
static bool take_events(const struct bw_registry *r, struct bw_hashing *hashing,
                        struct bw_slice visited, uint64_t budget, uint64_t *cost)
{
    struct bw_kv_event event;
    for (; *cost < budget && bw_registry_event(r, hashing->next_event, &event);
         hashing->next_event++) {
        const struct bw_kv *old = event.deleted ? event.kv : event.previous;
        *cost += KV_COST;
        if (old && old->mod_revision <= hashing->revision &&
            (visited.length == 0 || slice_compare(bw_kv_key(old), visited) > 0))
            add(hashing, old, cost);
    }
    return hashing->next_event == r->event_end;
}

enum bw_hash_result bw_registry_hash(const struct bw_registry *r, struct bw_hashing *hashing,
                                     struct bw_slice *visited, uint64_t budget)
{
    static const unsigned char zero = 0;
    const struct bw_keys all = {.key = {&zero, 0}, .end = {&zero, 1}};
    uint64_t cost = 0;
    if (hashing->next_event < r->event_first || hashing->next_event > r->event_end)
        return BW_HASH_LOST;
    if (!take_events(r, hashing, *visited, budget, &cost))
        return BW_HASH_MORE;
    bw_ref at = visited->length ? tree_after(r, &all, *visited) : tree_first(r, &all);
    for (; at && cost < budget; at = tree_after(r, &all, *visited)) {
        const struct bw_kv *kv = kv_at(r, node_at(r, at)->kv);
        if (kv->mod_revision <= hashing->revision)
            add(hashing, kv, &cost);
        *visited = bw_kv_key(kv);
        cost += KV_COST;
    }
    return at ? BW_HASH_MORE : BW_HASH_DONE;
}

uint32_t bw_hashing_result(const struct bw_hashing *hashing)
{
    uint64_t hash = mix(hashing->sum, FACTOR);
    return (uint32_t)(hash ^ hash >> 32);
}
