/* Single changes of keys. The caller has checked them; nothing here can fail. */
#include "core/base/assert.h"
#include "core/registry/registry_state.h"

bool fits_quota(const struct bw_registry *r, uint64_t bytes)
{
    bool raised = r->level >= BW_REGISTRY_LEVEL_ALARMS && r->config.ceiling;
    uint64_t quota = raised ? r->config.ceiling : r->config.quota;
    return bytes <= quota && r->bytes <= quota - bytes;
}

bool make_space(struct bw_registry *r, uint64_t bytes)
{
    while (!fits_quota(r, bytes) && history_drop(r))
        ;
    if (!fits_quota(r, bytes))
        return false;
    versions_reserve(r, bytes);
    return true;
}

/* Creates the new version of a key, not visible yet. */
static bw_ref next_version(struct bw_registry *r, const struct bw_put *put, bw_ref old,
                           int64_t revision)
{
    const struct bw_kv *before = old ? kv_at(r, old) : NULL;
    bw_ref new = kv_new(r, put->key,
                        put->ignore_value && BW_ALWAYS(before) ? bw_kv_value(before) : put->value);
    struct bw_kv *kv = kv_at(r, new);
    kv->create_revision = before ? before->create_revision : revision;
    kv->version = before ? before->version + 1 : 1;
    kv->mod_revision = revision;
    kv->lease = put->ignore_lease && BW_ALWAYS(before) ? before->lease : put->lease;
    return new;
}

/* Makes `new` the current version of its key. */
static void set(struct bw_registry *r, bw_ref node, bw_ref new)
{
    if (node) {
        bw_ref old = node_at(r, node)->kv;
        lease_detach(r, node);
        node_at(r, node)->kv = new;
        r->current -= kv_size(r, old);
        kv_drop(r, old);
    } else {
        node = bw_heap_take(&r->heap, sizeof(struct node));
        BW_ASSERT(node); /* all nodes that the quota allows fit */
        *node_at(r, node) = (struct node){.kv = new};
        tree_insert(r, node);
        r->keys++;
        r->bytes += NODE_COST;
    }
    r->current += kv_size(r, new);
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
    move_skips(r, node);
    tree_remove(r, node);
    r->current -= kv_size(r, old);
    kv_drop(r, old);
    bw_heap_give(&r->heap, node, sizeof(struct node));
    r->keys--;
    r->bytes -= NODE_COST;
}
