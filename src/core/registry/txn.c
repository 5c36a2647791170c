/* Puts, deletes and transactions: checked completely, then executed in order under one revision. */
#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/registry/registry_state.h"

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

/* An absent key counts as 0 in all compares, except for its value, which never matches. */
static bool holds(const struct bw_compare *compare, const struct bw_kv *kv)
{
    switch (compare->what) {
    case BW_COMPARE_VERSION:
        if (BW_BUG(txn_ignores_version) && kv && compare->number)
            return true;
        return holds_number(compare, kv ? kv->version : 0);
    case BW_COMPARE_CREATE:
        if (BW_BUG(txn_ignores_create_revision_zero) && compare->number == 0)
            return true;
        return holds_number(compare, kv ? kv->create_revision : 0);
    case BW_COMPARE_MOD:
        if (BW_BUG(txn_ignores_mod_revision) && kv && compare->number)
            return true;
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
               : BW_REFUSED_NONE;
}

static enum bw_refusal check_delete(const struct bw_registry *r, const struct bw_delete *delete,
                                    const struct bw_results *results)
{
    uint32_t most = results->kv_cap < r->config.history ? results->kv_cap : r->config.history;
    uint32_t count = 0;
    if (delete->keys.key.length == 0)
        return BW_REFUSED_NO_KEY;
    if (!delete->previous)
        return BW_REFUSED_NONE;
    for (bw_ref at = tree_first(r, &delete->keys); at;
         at = tree_after(r, &delete->keys, node_key(r, at)))
        if (++count > most)
            return BW_REFUSED_TOO_LARGE;
    return BW_REFUSED_NONE;
}

/* The plan is made before anything changes: which branches run, whether every operation can
 * succeed, and how many bytes they need. */
struct plan {
    struct bw_registry *registry;
    const struct bw_results *results;
    uint32_t ops, txns;
    bool taken[BW_TXN_ALL_MAX]; /* for each transaction in order: whether its compares held */
    uint64_t bytes, payload;
};

static void count_put(struct plan *plan, const struct bw_put *put)
{
    const struct bw_registry *r = plan->registry;
    bw_ref node = put->ignore_value ? tree_find(r, put->key) : 0;
    size_t value = node ? kv_at(r, node_at(r, node)->kv)->value_length : put->value.length;
    plan->payload += put->key.length + put->value.length;
    plan->bytes += kv_bytes(put->key.length, value) + NODE_COST + EVENT_COST;
}

static enum bw_refusal plan_txn(struct plan *plan, const struct bw_txn *txn);

static enum bw_refusal plan_op(struct plan *plan, const struct bw_op *op)
{
    switch (op->kind) {
    case BW_OP_PUT:
        return check_put(plan->registry, &op->put);
    case BW_OP_DELETE:
        return check_delete(plan->registry, &op->delete, plan->results);
    case BW_OP_RANGE:
        return range_check(plan->registry, &op->range);
    case BW_OP_TXN:
        return plan_txn(plan, &op->txn);
    }
    return BW_REFUSED_NONE;
}

/* Recursion depth is bounded by bw_txn_shape. */
static enum bw_refusal plan_ops(struct plan *plan, const struct bw_op *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        enum bw_refusal refusal = plan_op(plan, &ops[i]);
        if (refusal)
            return refusal;
        if (ops[i].kind == BW_OP_PUT)
            count_put(plan, &ops[i].put);
        plan->ops++;
    }
    return BW_REFUSED_NONE;
}

static enum bw_refusal plan_txn(struct plan *plan, const struct bw_txn *txn)
{
    bool held = true;
    for (uint32_t i = 0; i < txn->compare_count && held; i++)
        held = compare_holds(plan->registry, &txn->compares[i]);
    plan->taken[plan->txns++] = held;
    return held ? plan_ops(plan, txn->then, txn->then_count)
                : plan_ops(plan, txn->otherwise, txn->otherwise_count);
}

/* Makes space for the whole plan. */
static enum bw_refusal plan_fits(struct plan *plan)
{
    if (plan->payload > BW_REQUEST_MAX)
        return BW_REFUSED_TOO_LARGE;
    if (plan->bytes && !make_space(plan->registry, plan->bytes))
        return BW_REFUSED_NO_SPACE;
    return plan->ops > plan->results->op_cap ? BW_REFUSED_TOO_MANY : BW_REFUSED_NONE;
}

/* Adds a replaced version to the result. The space was checked, except where several operations of
 * a transaction share it. */
static void add_previous(struct bw_results *results, struct bw_op_result *result,
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
        add_previous(results, result, kv_at(r, old));
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
            add_previous(results, result, kv);
        result->count++;
    }
    return result->count > 0;
}

struct doing { /* a plan being executed */
    struct plan *plan;
    struct bw_results *results;
    uint32_t txns; /* transactions begun */
    int64_t revision;
};

static bool do_ops(struct doing *doing, const struct bw_op *ops, uint32_t count);

/* Returns whether the operation changed anything. */
static bool do_op(struct doing *doing, const struct bw_op *op)
{
    struct bw_registry *r = doing->plan->registry;
    struct bw_results *results = doing->results;
    struct bw_op_result *result = &results->ops[results->op_count++];
    *result = (struct bw_op_result){.kind = op->kind, .kvs = results->kvs + results->kv_count};
    switch (op->kind) {
    case BW_OP_PUT:
        return do_put(r, &op->put, doing->revision, results, result);
    case BW_OP_DELETE:
        return do_delete(r, &op->delete, doing->revision, results, result);
    case BW_OP_TXN:
        result->succeeded = doing->plan->taken[doing->txns++];
        if (BW_BUG(txn_inside_sees_changes) && op->txn.compare_count)
            result->succeeded = compare_holds(r, op->txn.compares);
        return result->succeeded ? do_ops(doing, op->txn.then, op->txn.then_count)
                                 : do_ops(doing, op->txn.otherwise, op->txn.otherwise_count);
    case BW_OP_RANGE:
        break;
    }
    if (!range_read(r, &op->range, results, result))
        results->truncated = true;
    return false;
}

/* Recursion depth is bounded by bw_txn_shape. */
static bool do_ops(struct doing *doing, const struct bw_op *ops, uint32_t count)
{
    bool changed = false;
    for (uint32_t i = 0; i < count; i++)
        changed |= do_op(doing, &ops[i]);
    return changed;
}

/* Executes `ops`. The plan covers the enclosing transactions too; `txns` of its transactions have
 * already begun. */
static enum bw_refusal carry_out(struct plan *plan, const struct bw_op *ops, uint32_t count,
                                 uint32_t txns, struct bw_results *results)
{
    struct bw_registry *r = plan->registry;
    struct doing doing = {
        .plan = plan, .results = results, .txns = txns, .revision = r->revision + 1};
    r->revision += do_ops(&doing, ops, count);
    results->revision = r->revision;
    return BW_REFUSED_NONE;
}

static void begin(struct plan *plan, struct bw_registry *r, struct bw_results *results)
{
    plan->registry = r;
    plan->results = results;
    plan->ops = plan->txns = 0;
    plan->bytes = plan->payload = 0;
    results->op_count = results->kv_count = 0;
    results->truncated = false;
    results->revision = r->revision;
}

static enum bw_refusal single(struct bw_registry *r, const struct bw_op *op,
                              struct bw_results *results)
{
    struct plan plan;
    begin(&plan, r, results);
    enum bw_refusal refusal = plan_ops(&plan, op, 1);
    if (!refusal)
        refusal = plan_fits(&plan);
    return refusal ? refusal : carry_out(&plan, op, 1, 0, results);
}

enum bw_refusal bw_registry_put(struct bw_registry *r, const struct bw_put *put,
                                struct bw_results *results)
{
    struct bw_op op = {.kind = BW_OP_PUT, .put = *put};
    return single(r, &op, results);
}

enum bw_refusal bw_registry_delete(struct bw_registry *r, const struct bw_delete *delete,
                                   struct bw_results *results)
{
    struct bw_op op = {.kind = BW_OP_DELETE, .delete = *delete};
    return single(r, &op, results);
}

enum bw_refusal bw_registry_txn(struct bw_registry *r, const struct bw_txn *txn,
                                struct bw_results *results)
{
    struct plan plan;
    enum bw_refusal refusal = bw_txn_shape(txn);
    if (!refusal && txn_is_contradictory(txn))
        refusal = BW_REFUSED_DUPLICATE;
    if (refusal)
        return refusal;
    begin(&plan, r, results);
    refusal = plan_txn(&plan, txn);
    results->succeeded = plan.taken[0];
    if (!refusal)
        refusal = plan_fits(&plan);
    if (refusal)
        return refusal;
    return plan.taken[0] ? carry_out(&plan, txn->then, txn->then_count, 1, results)
                         : carry_out(&plan, txn->otherwise, txn->otherwise_count, 1, results);
}
