/* Single changes of keys. Everything was checked before; nothing here can fail. */
#include "core/registry/registry_state.h"

bool room_for(const struct bw_registry *r, uint64_t bytes)
{
    return bytes <= r->config.quota && r->bytes <= r->config.quota - bytes;
}

bool make_room(struct bw_registry *r, uint64_t bytes)
{
    while (!room_for(r, bytes) && history_drop(r))
        ;
    return room_for(r, bytes);
}

/* The new version of a key, seen by nobody yet. */
static bw_ref next_version(struct bw_registry *r, const struct bw_put *put, bw_ref old,
                           int64_t revision)
{
    const struct bw_kv *before = old ? kv_at(r, old) : NULL;
    bw_ref new =
        kv_new(r, put->key, put->ignore_value && before ? bw_kv_value(before) : put->value);
    struct bw_kv *kv = kv_at(r, new);
    kv->create_revision = before ? before->create_revision : revision;
    kv->version = before ? before->version + 1 : 1;
    kv->mod_revision = revision;
    kv->lease = put->ignore_lease && before ? before->lease : put->lease;
    return new;
}

/* `new` becomes what its key is. */
static void set(struct bw_registry *r, bw_ref node, bw_ref new)
{
    if (node) {
        bw_ref old = node_at(r, node)->kv;
        lease_detach(r, node);
        node_at(r, node)->kv = new;
        kv_drop(r, old);
    } else {
        node = bw_heap_take(&r->heap, sizeof(struct node));
        BW_ASSERT(node); /* the quota is smaller than the memory */
        *node_at(r, node) = (struct node){.kv = new};
        tree_insert(r, node);
        r->keys++;
        r->bytes += NODE_COST;
    }
    lease_attach(r, kv_at(r, new)->lease, node);
}

void change_set(struct bw_registry *r, bw_ref new, bool event)
{
    bw_ref node = tree_find(r, bw_kv_key(kv_at(r, new)));
    bw_ref old = node ? node_at(r, node)->kv : 0;
    if (event)
        history_add(r, &(struct event){
                           .revision = kv_at(r, new)->mod_revision, .kv = new, .previous = old});
    set(r, node, new);
}

bw_ref change_put(struct bw_registry *r, const struct bw_put *put, int64_t revision)
{
    bw_ref node = tree_find(r, put->key), old = node ? node_at(r, node)->kv : 0;
    bw_ref new = next_version(r, put, old, revision);
    history_add(r, &(struct event){.revision = revision, .kv = new, .previous = old});
    set(r, node, new);
    return old;
}

void change_delete(struct bw_registry *r, bw_ref node, int64_t revision)
{
    bw_ref old = node_at(r, node)->kv;
    history_add(r, &(struct event){.revision = revision, .kv = old, .deleted = true});
    lease_detach(r, node);
    tree_remove(r, node);
    kv_drop(r, old);
    bw_heap_give(&r->heap, node, sizeof(struct node));
    r->keys--;
    r->bytes -= NODE_COST;
}
