/* Keys and key ranges as in etcd's API. */
#include "core/base/assert.h"
#include "core/registry/registry_state.h"

#include <string.h>

int slice_compare(struct bw_slice a, struct bw_slice b)
{
    size_t shorter = a.length < b.length ? a.length : b.length;
    int order = shorter ? memcmp(a.at, b.at, shorter) : 0;
    if (order)
        return order;
    return a.length < b.length ? -1 : a.length > b.length;
}

bool keys_are_one(const struct bw_keys *keys)
{
    return keys->end.length == 0;
}

static bool has_no_end(const struct bw_keys *keys)
{
    return keys->end.length == 1 && keys->end.at[0] == '\0';
}

bool keys_hold(const struct bw_keys *keys, struct bw_slice key)
{
    int order = slice_compare(key, keys->key);
    if (keys_are_one(keys))
        return order == 0;
    return order >= 0 && (has_no_end(keys) || slice_compare(key, keys->end) < 0);
}

/* Whether `b` begins before `a` ends. */
static bool begins_before_end(const struct bw_keys *a, const struct bw_keys *b)
{
    if (has_no_end(a) && BW_ALWAYS(!keys_are_one(a)))
        return true;
    if (keys_are_one(a))
        return slice_compare(b->key, a->key) <= 0;
    return slice_compare(b->key, a->end) < 0;
}

bool bw_keys_are_empty(const struct bw_keys *keys)
{
    return !keys_are_one(keys) && !has_no_end(keys) && slice_compare(keys->key, keys->end) >= 0;
}

bool keys_overlap(const struct bw_keys *a, const struct bw_keys *b)
{
    return !bw_keys_are_empty(a) && !bw_keys_are_empty(b) && begins_before_end(a, b) &&
           begins_before_end(b, a);
}
