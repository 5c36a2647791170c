/* Puts, deletes and transactions: checked whole, then carried out in order under one revision. */
#include "base/bug.h"
#include "registry/registry_state.h"

static bool holds_number(const struct bw_compare *compare, int64_t number)
{
    switch (compare->how) {
    case BW_COMPARE_EQUAL:
        return number == compare->number;
    case BW_COMPARE_GREATER:
        return number > compare->number;
    case BW_COMPARE_LESS:
        return number < compare->number;
    case BW_COMPARE_NOT_EQUAL:
        break;
    }
    return number != compare->number;
}

/* An absent key counts as 0 in everything but its value, which compares as false. */
static bool holds(const struct bw_compare *compare, const struct bw_kv *kv)
{
    switch (compare->what) {
    case BW_COMPARE_VERSION:
        if (BW_BUG(txn_ignores_version) && kv && compare->number)
            return true;
        return holds_number(compare, kv ? kv->version : 0);
    case BW_COMPARE_CREATE:
        if (BW_BUG(txn_creates_anew) && compare->number == 0)
            return true;
        return holds_number(compare, kv ? kv->create_revision : 0);
    case BW_COMPARE_MOD:
        return holds_number(compare, kv ? kv->mod_revision : 0);
    case BW_COMPARE_LEASE:
        return holds_number(compare, kv ? kv->lease : 0);
    case BW_COMPARE_VALUE:
        break;
    }
    struct bw_compare order = {.how = compare->how};
    return kv && holds_number(&order, slice_compare(bw_kv_value(kv), compare->value));
}

static bool compare_holds(const struct bw_registry *r, const struct bw_compare *compare)
{
    bw_ref at = tree_first(r, &compare->keys);
    if (!at)
        return holds(compare, NULL);
    for (; at; at = tree_after(r, &compare->keys, node_key(r, at)))
        if (!holds(compare, kv_at(r, node_at(r, at)->kv)))
            return false;
    return true;
}

static enum bw_refusal check_put(const struct bw_registry *r, const struct bw_put *put)
{
    if (put->key.length == 0)
        return BW_REFUSED_NO_KEY;
    if (put->key.length + put->value.length > BW_REQUEST_MAX)
        return BW_REFUSED_TOO_LARGE;
    if (put->ignore_value && put->value.length)
        return BW_REFUSED_VALUE_GIVEN;
    if (put->ignore_lease && put->lease)
        return BW_REFUSED_LEASE_GIVEN;
    if (put->lease && !lease_find(r, put->lease))
        return BW_REFUSED_NO_LEASE;
    return (put->ignore_value || put->ignore_lease) && !tree_find(r, put->key)
               ? BW_REFUSED_KEY_UNKNOWN
               : BW_REFUSED_NOT;
}

static enum bw_refusal check_delete(const struct bw_registry *r, const struct bw_delete *delete,
                                    const struct bw_results *results)
{
    uint32_t most = results->kv_cap < r->config.history ? results->kv_cap : r->config.history;
    uint32_t count = 0;
    if (delete->keys.key.length == 0)
        return BW_REFUSED_NO_KEY;
    if (!delete->previous)
        return BW_REFUSED_NOT;
    for (bw_ref at = tree_first(r, &delete->keys); at;
         at = tree_after(r, &delete->keys, node_key(r, at)))
        if (++count > most)
            return BW_REFUSED_TOO_LARGE;
    return BW_REFUSED_NOT;
}

static enum bw_refusal check_op(const struct bw_registry *r, const struct bw_op *op,
                                const struct bw_results *results)
{
    switch (op->kind) {
    case BW_OP_PUT:
        return check_put(r, &op->put);
    case BW_OP_DELETE:
        return check_delete(r, &op->delete, results);
    case BW_OP_RANGE:
        break;
    }
    return range_check(r, &op->range);
}

/* Keys that an operation writes; false: none. */
static bool writes(const struct bw_op *op, struct bw_keys *keys)
{
    if (op->kind == BW_OP_PUT)
        *keys = (struct bw_keys){.key = op->put.key};
    else if (op->kind == BW_OP_DELETE)
        *keys = op->delete.keys;
    return op->kind != BW_OP_RANGE;
}

/* What one revision cannot say: a key put twice, or put and deleted. Two deletes may overlap. */
static bool is_contradictory(const struct bw_op *ops, uint32_t count)
{
    struct bw_keys a, b;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < i; j++) {
            bool deletes = ops[i].kind == BW_OP_DELETE && ops[j].kind == BW_OP_DELETE;
            if (!deletes && writes(&ops[i], &a) && writes(&ops[j], &b) && keys_overlap(&a, &b))
                return true;
        }
    return false;
}

/* Everything that must be known before the first change, room for all of them included. */
static enum bw_refusal check_ops(struct bw_registry *r, const struct bw_op *ops, uint32_t count,
                                 const struct bw_results *results)
{
    uint64_t bytes = 0, payload = 0;
    for (uint32_t i = 0; i < count; i++) {
        enum bw_refusal refusal = check_op(r, &ops[i], results);
        if (refusal)
            return refusal;
        if (ops[i].kind != BW_OP_PUT)
            continue;
        const struct bw_put *put = &ops[i].put;
        bw_ref node = put->ignore_value ? tree_find(r, put->key) : 0;
        size_t value = node ? kv_at(r, node_at(r, node)->kv)->value_length : put->value.length;
        payload += put->key.length + put->value.length;
        bytes += kv_bytes(put->key.length, value) + NODE_COST + EVENT_COST;
    }
    if (payload > BW_REQUEST_MAX)
        return BW_REFUSED_TOO_LARGE;
    return bytes && !make_room(r, bytes) ? BW_REFUSED_NO_SPACE : BW_REFUSED_NOT;
}

/* A version that was replaced, if it was asked for and there is room (checked, except where several
 * operations of a transaction share the room). */
static void tell_previous(struct bw_results *results, struct bw_op_result *result,
                          const struct bw_kv *kv)
{
    if (results->kv_count == results->kv_cap) {
        results->truncated = true;
        return;
    }
    results->kvs[results->kv_count++] = kv;
    result->kv_count++;
}

static bool do_put(struct bw_registry *r, const struct bw_put *put, int64_t revision,
                   struct bw_results *results, struct bw_op_result *result)
{
    bw_ref old = change_put(r, put, revision);
    if (old && put->previous)
        tell_previous(results, result, kv_at(r, old));
    return true;
}

static bool do_delete(struct bw_registry *r, const struct bw_delete *delete, int64_t revision,
                      struct bw_results *results, struct bw_op_result *result)
{
    bw_ref at;
    while ((at = tree_first(r, &delete->keys))) {
        const struct bw_kv *kv = kv_at(r, node_at(r, at)->kv);
        change_delete(r, at, revision);
        if (delete->previous)
            tell_previous(results, result, kv);
        result->count++;
    }
    return result->count > 0;
}

/* True if it changed anything. */
static bool do_op(struct bw_registry *r, const struct bw_op *op, int64_t revision,
                  struct bw_results *results)
{
    struct bw_op_result *result = &results->ops[results->op_count++];
    *result = (struct bw_op_result){.kind = op->kind, .kvs = results->kvs + results->kv_count};
    switch (op->kind) {
    case BW_OP_PUT:
        return do_put(r, &op->put, revision, results, result);
    case BW_OP_DELETE:
        return do_delete(r, &op->delete, revision, results, result);
    case BW_OP_RANGE:
        break;
    }
    if (!range_look(r, &op->range, results, result))
        results->truncated = true;
    return false;
}

static enum bw_refusal carry_out(struct bw_registry *r, const struct bw_op *ops, uint32_t count,
                                 struct bw_results *results)
{
    enum bw_refusal refusal = check_ops(r, ops, count, results);
    results->op_count = results->kv_count = 0;
    results->truncated = false;
    results->revision = r->revision;
    if (refusal)
        return refusal;
    if (count > results->op_cap)
        return BW_REFUSED_TOO_MANY;
    bool changed = false;
    for (uint32_t i = 0; i < count; i++)
        changed |= do_op(r, &ops[i], r->revision + 1, results);
    r->revision += changed;
    results->revision = r->revision;
    return BW_REFUSED_NOT;
}

enum bw_refusal bw_registry_put(struct bw_registry *r, const struct bw_put *put,
                                struct bw_results *results)
{
    struct bw_op op = {.kind = BW_OP_PUT, .put = *put};
    return carry_out(r, &op, 1, results);
}

enum bw_refusal bw_registry_delete(struct bw_registry *r, const struct bw_delete *delete,
                                   struct bw_results *results)
{
    struct bw_op op = {.kind = BW_OP_DELETE, .delete = *delete};
    return carry_out(r, &op, 1, results);
}

enum bw_refusal bw_registry_txn(struct bw_registry *r, const struct bw_txn *txn,
                                struct bw_results *results)
{
    if (txn->compare_count > BW_TXN_OPS_MAX || txn->then_count > BW_TXN_OPS_MAX ||
        txn->otherwise_count > BW_TXN_OPS_MAX)
        return BW_REFUSED_TOO_MANY;
    for (uint32_t i = 0; i < txn->compare_count; i++)
        if (txn->compares[i].keys.key.length == 0)
            return BW_REFUSED_NO_KEY;
    if (is_contradictory(txn->then, txn->then_count) ||
        is_contradictory(txn->otherwise, txn->otherwise_count))
        return BW_REFUSED_DUPLICATE;
    bool held = true;
    for (uint32_t i = 0; i < txn->compare_count && held; i++)
        held = compare_holds(r, &txn->compares[i]);
    results->succeeded = held;
    return held ? carry_out(r, txn->then, txn->then_count, results)
                : carry_out(r, txn->otherwise, txn->otherwise_count, results);
}
