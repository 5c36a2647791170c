/* The live keys in order: a treap (Seidel and Aragon 1996). The priority of a node is a keyed hash
 * of its key, so the shape depends on the content and the key of the hash, and not on the order of
 * the changes. The expected depth is logarithmic, also for keys that a client has chosen, because
 * clients do not know the key of the hash. */
#include "core/registry/registry_state.h"

bw_ref tree_find(const struct bw_registry *r, struct bw_slice key)
{
    bw_ref at = r->root;
    while (at) {
        int order = slice_compare(key, node_key(r, at));
        if (order == 0)
            return at;
        at = order < 0 ? node_at(r, at)->left : node_at(r, at)->right;
    }
    return 0;
}

/* Splits the tree `at` at a key that it does not contain. Smaller keys go to *left. */
static void split(struct bw_registry *r, bw_ref at, struct bw_slice key, bw_ref *left,
                  bw_ref *right)
{
    while (at) {
        struct node *node = node_at(r, at);
        if (slice_compare(node_key(r, at), key) < 0) {
            *left = at;
            left = &node->right;
            at = node->right;
        } else {
            *right = at;
            right = &node->left;
            at = node->left;
        }
    }
    *left = *right = 0;
}

void tree_insert(struct bw_registry *r, bw_ref new)
{
    struct bw_slice key = node_key(r, new);
    struct node *node = node_at(r, new);
    node->priority = (uint32_t)bw_siphash(&r->config.hash_key, key.at, key.length);
    bw_ref *at = &r->root;
    while (*at && node_at(r, *at)->priority >= node->priority)
        at = slice_compare(key, node_key(r, *at)) < 0 ? &node_at(r, *at)->left
                                                      : &node_at(r, *at)->right;
    bw_ref below = *at;
    *at = new;
    split(r, below, key, &node->left, &node->right);
}

/* Joins two trees. All keys of `left` are smaller than all keys of `right`. */
static void join(struct bw_registry *r, bw_ref *at, bw_ref left, bw_ref right)
{
    while (left && right) {
        bool left_up = node_at(r, left)->priority >= node_at(r, right)->priority;
        *at = left_up ? left : right;
        if (left_up) {
            at = &node_at(r, left)->right;
            left = *at;
        } else {
            at = &node_at(r, right)->left;
            right = *at;
        }
    }
    *at = left ? left : right;
}

void tree_remove(struct bw_registry *r, bw_ref old)
{
    struct bw_slice key = node_key(r, old);
    bw_ref *at = &r->root;
    while (*at != old) {
        BW_ASSERT(*at);
        at = slice_compare(key, node_key(r, *at)) < 0 ? &node_at(r, *at)->left
                                                      : &node_at(r, *at)->right;
    }
    join(r, at, node_at(r, old)->left, node_at(r, old)->right);
}

/* The smallest key above `key`, or `key` itself if `itself`. */
static bw_ref next_from(const struct bw_registry *r, struct bw_slice key, bool itself)
{
    bw_ref best = 0;
    for (bw_ref at = r->root; at;) {
        int order = slice_compare(node_key(r, at), key);
        bool after = order > 0 || (order == 0 && itself);
        if (after)
            best = at;
        at = after ? node_at(r, at)->left : node_at(r, at)->right;
    }
    return best;
}

static bw_ref inside(const struct bw_registry *r, const struct bw_keys *keys, bw_ref found)
{
    return found && keys_hold(keys, node_key(r, found)) ? found : 0;
}

bw_ref tree_first(const struct bw_registry *r, const struct bw_keys *keys)
{
    return inside(r, keys,
                  keys_are_one(keys) ? tree_find(r, keys->key) : next_from(r, keys->key, true));
}

bw_ref tree_after(const struct bw_registry *r, const struct bw_keys *keys, struct bw_slice key)
{
    return keys_are_one(keys) ? 0 : inside(r, keys, next_from(r, key, false));
}
