/* Versions of keys: written once, counted by who can see them (the tree, the history). */
#include "core/registry/registry_state.h"

#include <string.h>

struct bw_slice node_key(const struct bw_registry *r, bw_ref node)
{
    return bw_kv_key(kv_at(r, node_at(r, node)->kv));
}

uint64_t kv_bytes(size_t key, size_t value)
{
    return sizeof(struct bw_kv) + key + value;
}

bw_ref kv_new(struct bw_registry *r, struct bw_slice key, struct bw_slice value)
{
    bw_ref ref = bw_heap_take(&r->heap, kv_bytes(key.length, value.length));
    BW_ASSERT(ref); /* the quota is smaller than the memory */
    struct bw_kv *kv = kv_at(r, ref);
    *kv = (struct bw_kv){
        .refs = 1, .key_length = (uint32_t)key.length, .value_length = (uint32_t)value.length};
    if (key.length)
        memcpy(kv->bytes, key.at, key.length);
    if (value.length)
        memcpy(kv->bytes + key.length, value.at, value.length);
    r->bytes += kv_bytes(key.length, value.length);
    return ref;
}

void kv_hold(struct bw_registry *r, bw_ref ref)
{
    kv_at(r, ref)->refs++;
}

void kv_drop(struct bw_registry *r, bw_ref ref)
{
    struct bw_kv *kv = kv_at(r, ref);
    if (--kv->refs > 0)
        return;
    uint64_t bytes = kv_bytes(kv->key_length, kv->value_length);
    bw_heap_give(&r->heap, ref, bytes);
    r->bytes -= bytes;
}
