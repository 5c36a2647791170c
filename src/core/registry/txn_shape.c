/* Checks of a transaction that need no keys: its limits, and conflicting operations on one key. The
 * rules are etcd 3.4's, including an irregularity: of two transactions nested in one list, the
 * first may put a key that the second deletes, but not the other way round. */
#include "core/registry/registry_state.h"

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

struct shape {
    uint32_t compares, ops; /* in all nested transactions */
};

static enum bw_refusal check_txn(struct shape *shape, const struct bw_txn *txn, uint32_t budget,
                                 unsigned depth);

/* Recursion depth is bounded by `depth`. */
static enum bw_refusal check_ops(struct shape *shape, const struct bw_op *ops, uint32_t count,
                                 uint32_t budget, unsigned depth)
{
    for (uint32_t i = 0; i < count; i++) {
        enum bw_refusal refusal = ops[i].kind == BW_OP_TXN
                                      ? check_txn(shape, &ops[i].txn, budget, depth + 1)
                                      : BW_REFUSED_NONE;
        if (refusal)
            return refusal;
    }
    return BW_REFUSED_NONE;
}

/* Nested transactions share the remaining budget of operations. */
static enum bw_refusal check_txn(struct shape *shape, const struct bw_txn *txn, uint32_t budget,
                                 unsigned depth)
{
    uint32_t most = larger(txn->compare_count, larger(txn->then_count, txn->otherwise_count));
    if (most > budget || depth >= BW_TXN_DEPTH_MAX)
        return BW_REFUSED_TOO_MANY;
    shape->compares += txn->compare_count;
    shape->ops += txn->then_count + txn->otherwise_count;
    if (shape->compares > BW_TXN_ALL_MAX || shape->ops > BW_TXN_ALL_MAX)
        return BW_REFUSED_TOO_MANY;
    for (uint32_t i = 0; i < txn->compare_count; i++)
        if (txn->compares[i].keys.key.length == 0)
            return BW_REFUSED_NO_KEY;
    enum bw_refusal refusal = check_ops(shape, txn->then, txn->then_count, budget - most, depth);
    return refusal ? refusal
                   : check_ops(shape, txn->otherwise, txn->otherwise_count, budget - most, depth);
}

enum bw_refusal bw_txn_shape(const struct bw_txn *txn)
{
    struct shape shape = {0};
    return check_txn(&shape, txn, BW_TXN_OPS_MAX, 0);
}

/* ── conflicts within one revision: a key put twice, or put and deleted ── */

/* The keys that an operation writes. Returns false if it writes none. */
static bool writes(const struct bw_op *op, struct bw_keys *keys)
{
    if (op->kind == BW_OP_PUT)
        *keys = (struct bw_keys){.key = op->put.key};
    else if (op->kind == BW_OP_DELETE)
        *keys = op->delete.keys;
    return op->kind == BW_OP_PUT || op->kind == BW_OP_DELETE;
}

static bool clash(const struct bw_op *a, bool a_inside, const struct bw_op *b, bool b_inside);

/* Recursion depth is bounded by bw_txn_shape. */
static bool any_clash(const struct bw_op *inside, uint32_t count, const struct bw_op *other,
                      bool other_inside, bool other_first)
{
    for (uint32_t i = 0; i < count; i++)
        if (other_first ? clash(other, other_inside, &inside[i], true)
                        : clash(&inside[i], true, other, other_inside))
            return true;
    return false;
}

/* `a`, or the transaction it is nested in, precedes `b` in one list. Two deletes may overlap. */
static bool clash(const struct bw_op *a, bool a_inside, const struct bw_op *b, bool b_inside)
{
    struct bw_keys keys, others;
    if (a->kind == BW_OP_TXN)
        return any_clash(a->txn.then, a->txn.then_count, b, b_inside, false) ||
               any_clash(a->txn.otherwise, a->txn.otherwise_count, b, b_inside, false);
    if (b->kind == BW_OP_TXN)
        return any_clash(b->txn.then, b->txn.then_count, a, a_inside, true) ||
               any_clash(b->txn.otherwise, b->txn.otherwise_count, a, a_inside, true);
    bool unseen = b->kind == BW_OP_DELETE && (a->kind == BW_OP_DELETE || (a_inside && b_inside));
    return !unseen && writes(a, &keys) && writes(b, &others) && keys_overlap(&keys, &others);
}

static bool list_is_contradictory(const struct bw_op *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].kind == BW_OP_TXN && txn_is_contradictory(&ops[i].txn))
            return true;
        for (uint32_t j = 0; j < i; j++)
            if (clash(&ops[j], false, &ops[i], false))
                return true;
    }
    return false;
}

bool txn_is_contradictory(const struct bw_txn *txn)
{
    return list_is_contradictory(txn->then, txn->then_count) ||
           list_is_contradictory(txn->otherwise, txn->otherwise_count);
}
