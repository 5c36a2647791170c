/* Nested transactions: which branches run, what they see, and their limits. */
#include "core/base/error.h"
#include "registry_world.h"

static struct bw_op put_op(const char *key, const char *value)
{
    return (struct bw_op){.kind = BW_OP_PUT, .put = {.key = text(key), .value = text(value)}};
}

static struct bw_op delete_op(const char *key)
{
    return (struct bw_op){.kind = BW_OP_DELETE, .delete = {.keys = {.key = text(key)}}};
}

static struct bw_compare absent(const char *key)
{
    return (struct bw_compare){.what = BW_COMPARE_VERSION, .keys = {.key = text(key)}};
}

static struct bw_op txn_op(const struct bw_compare *compare, const struct bw_op *then,
                           const struct bw_op *otherwise)
{
    return (struct bw_op){.kind = BW_OP_TXN,
                          .txn = {.compares = compare,
                                  .compare_count = compare != NULL,
                                  .then = then,
                                  .then_count = then != NULL,
                                  .otherwise = otherwise,
                                  .otherwise_count = otherwise != NULL}};
}

static enum bw_refusal run(struct world *w, const struct bw_op *ops, uint32_t count)
{
    struct bw_txn txn = {.then = ops, .then_count = count};
    return bw_registry_txn(w->registry, &txn, &w->results);
}

static void nested_compares_see_the_state_before_the_outermost_transaction(void **state)
{
    (void)state;
    struct world w;
    struct bw_compare no_k = absent("k");
    struct bw_op then = put_op("l", "new"), otherwise = put_op("l", "old");
    struct bw_op ops[] = {put_op("k", "1"), txn_op(&no_k, &then, &otherwise)};
    world_open(&w);
    int64_t revision = revision_of(&w);
    assert_int_equal(run(&w, ops, 2), 0);
    assert_int_equal(revision_of(&w), revision + 1); /* one revision for all of it */
    assert_true(says(bw_kv_value(get(&w, "l")), "new"));
    assert_int_equal(run(&w, ops, 2), 0);
    assert_int_equal(w.results.op_count, 3);
    assert_int_equal(w.ops[1].kind, BW_OP_TXN);
    assert_false(w.ops[1].succeeded);
    assert_true(says(bw_kv_value(get(&w, "l")), "old"));
    world_close(&w);
}

static void nested_results_are_in_order_of_execution(void **state)
{
    (void)state;
    struct world w;
    struct bw_compare no_k = absent("k");
    struct bw_op deepest = put_op("a", "1"), inner = txn_op(&no_k, NULL, &deepest);
    struct bw_op ops[] = {txn_op(NULL, &inner, NULL), put_op("b", "2")};
    world_open(&w);
    put(&w, "k", "there");
    assert_int_equal(run(&w, ops, 2), 0);
    static const enum bw_op_kind kinds[] = {BW_OP_TXN, BW_OP_TXN, BW_OP_PUT, BW_OP_PUT};
    static const bool held[] = {true, false, false, false};
    assert_int_equal(w.results.op_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(w.ops[i].kind, kinds[i]);
        assert_int_equal(w.ops[i].succeeded, held[i]);
    }
    assert_non_null(get(&w, "a"));
    world_close(&w);
}

static void conflicting_nested_transactions_are_refused(void **state)
{
    (void)state;
    struct world w;
    struct bw_compare no_k = absent("k");
    struct bw_op puts = put_op("k", "1"), deletes = delete_op("k");
    struct bw_op with_put = txn_op(NULL, &puts, NULL), with_delete = txn_op(NULL, &deletes, NULL);
    struct bw_op either = txn_op(&no_k, &puts, &deletes);
    const struct {
        struct bw_op ops[2];
        enum bw_refusal refusal;
    } cases[] = {{{with_put, with_put}, BW_REFUSED_DUPLICATE},
                 {{with_put, puts}, BW_REFUSED_DUPLICATE},
                 {{deletes, with_put}, BW_REFUSED_DUPLICATE},
                 {{with_put, deletes}, BW_REFUSED_DUPLICATE},
                 {{with_delete, puts}, BW_REFUSED_DUPLICATE},
                 {{with_delete, with_put}, BW_REFUSED_DUPLICATE},
                 {{with_put, with_delete}, BW_REFUSED_NONE}, /* etcd does not detect this either */
                 {{deletes, with_delete}, BW_REFUSED_NONE},
                 {{either, put_op("l", "")}, BW_REFUSED_NONE}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        world_open(&w);
        assert_int_equal(run(&w, cases[i].ops, 2), cases[i].refusal);
        assert_int_equal(revision_of(&w) > 1,
                         cases[i].refusal == BW_REFUSED_NONE && cases[i].ops[0].kind == BW_OP_TXN);
        world_close(&w);
    }
}

static void invalid_nested_operation_prevents_all_effects(void **state)
{
    (void)state;
    struct world w;
    struct bw_op leased = put_op("b", "2");
    leased.put.lease = 99;
    struct bw_op ops[] = {put_op("a", "1"), txn_op(NULL, &leased, NULL)};
    world_open(&w);
    assert_int_equal(run(&w, ops, 2), BW_REFUSED_NO_LEASE);
    assert_int_equal(revision_of(&w), 1);
    assert_null(get(&w, "a"));
    world_close(&w);
}

static void nesting_depth_and_operations_are_bounded(void **state)
{
    (void)state;
    static struct bw_op chain[BW_TXN_DEPTH_MAX + 1], many[BW_TXN_OPS_MAX];
    static struct bw_op wide[BW_TXN_OPS_MAX];
    struct world w;
    world_open(&w);
    chain[0] = put_op("k", "deep");
    for (unsigned i = 1; i <= BW_TXN_DEPTH_MAX; i++)
        chain[i] = txn_op(NULL, &chain[i - 1], NULL);
    assert_int_equal(run(&w, &chain[BW_TXN_DEPTH_MAX], 1), BW_REFUSED_TOO_MANY);
    assert_int_equal(run(&w, &chain[BW_TXN_DEPTH_MAX - 1], 1), 0);
    for (unsigned i = 0; i < BW_TXN_OPS_MAX; i++)
        many[i] = delete_op("none");
    struct bw_txn outer = {.then = many, .then_count = 64};
    many[0] = (struct bw_op){.kind = BW_OP_TXN, .txn = {.then = many + 1, .then_count = 64}};
    assert_int_equal(bw_txn_shape(&outer), 0);
    many[0].txn.then_count = 65;
    assert_int_equal(bw_txn_shape(&outer), BW_REFUSED_TOO_MANY);
    for (unsigned i = 0; i < 60; i++)
        wide[i] = (struct bw_op){.kind = BW_OP_TXN, .txn = {.then = many + 1, .then_count = 10}};
    outer = (struct bw_txn){.then = wide, .then_count = 60};
    assert_int_equal(bw_txn_shape(&outer), BW_REFUSED_TOO_MANY);
    outer.then_count = 40;
    assert_int_equal(bw_txn_shape(&outer), 0);
    world_close(&w);
}

static void nested_transactions_decode_to_the_same_value(void **state)
{
    (void)state;
    static struct bw_entry_scratch room;
    static unsigned char bytes[4096], again[4096];
    struct bw_compare no_k = absent("k");
    struct bw_op leaf = put_op("k", "1"), inner = txn_op(&no_k, &leaf, &leaf);
    struct bw_op middle = txn_op(&no_k, &inner, &leaf);
    struct bw_entry read,
        entry = {
            .kind = BW_ENTRY_TXN,
            .txn = {.then = &middle, .then_count = 1, .otherwise = &leaf, .otherwise_count = 1}};
    int length = bw_entry_encode(&entry, bytes, sizeof bytes);
    assert_true(length > 0);
    assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)length), 0);
    const struct bw_txn *deep = &read.txn.then[0].txn.then[0].txn;
    assert_int_equal(deep->compare_count, 1);
    assert_true(says(deep->otherwise[0].put.value, "1"));
    assert_int_equal(bw_entry_encode(&read, again, sizeof again), length);
    assert_memory_equal(bytes, again, (size_t)length);
    for (int cut = 0; cut < length; cut++)
        assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)cut), BW_EMALFORMED);
}

/* Bytes that no version of ours writes: nested too deeply to read. */
static void too_deeply_nested_bytes_are_rejected(void **state)
{
    (void)state;
    static struct bw_entry_scratch room;
    static unsigned char bytes[4096];
    struct bw_entry read;
    size_t length = 0;
    bytes[length++] = BW_ENTRY_TXN;
    for (unsigned i = 0; i < 1000; i++) {
        bytes[length++] = 0; /* no compares */
        bytes[length++] = 1; /* one operation */
        bytes[length++] = BW_OP_TXN;
    }
    assert_int_equal(bw_entry_decode(&read, &room, bytes, length), BW_EMALFORMED);
}

static bool clashes(struct world *w, struct bw_op first, struct bw_op second)
{
    struct bw_op ops[] = {first, second};
    enum bw_refusal refusal = run(w, ops, 2);
    assert_true(refusal == 0 || refusal == BW_REFUSED_DUPLICATE);
    return refusal != 0;
}

static void conflicts_are_found_in_both_branches_of_both_operands(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct bw_op put_a = put_op("a", "1"), put_b = put_op("b", "1");
    struct bw_op then = txn_op(NULL, &put_a, NULL), otherwise = txn_op(NULL, NULL, &put_a);
    assert_true(clashes(&w, then, put_a));
    assert_true(clashes(&w, otherwise, put_a));
    assert_true(clashes(&w, put_a, then));
    assert_true(clashes(&w, put_a, otherwise));
    assert_true(clashes(&w, then, otherwise));
    assert_false(clashes(&w, then, put_b));
    assert_false(clashes(&w, put_b, otherwise));
    world_close(&w);
}

static void conflicts_inside_a_branch_that_does_not_run_are_refused(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct bw_op twice[] = {put_op("a", "1"), put_op("a", "2")};
    struct bw_txn txn = {.otherwise = twice, .otherwise_count = 2};
    assert_int_equal(bw_registry_txn(w.registry, &txn, &w.results), BW_REFUSED_DUPLICATE);
    struct bw_op inner = {.kind = BW_OP_TXN, .txn = txn};
    assert_int_equal(run(&w, &inner, 1), BW_REFUSED_DUPLICATE);
    world_close(&w);
}

static struct bw_op delete_range(const char *key, const void *end, size_t length)
{
    return (struct bw_op){.kind = BW_OP_DELETE,
                          .delete = {.keys = {.key = text(key), .end = {end, length}}}};
}

static void deleted_ranges_conflict_with_puts_inside_them(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct bw_op put_b = put_op("b", "1");
    assert_true(clashes(&w, put_b, delete_range("a", "c", 1)));
    assert_false(clashes(&w, put_b, delete_range("a", "b", 1)));
    assert_false(clashes(&w, put_b, delete_range("c", "d", 1)));
    assert_true(clashes(&w, put_b, delete_range("a", "", 1))); /* without an upper end */
    assert_true(clashes(&w, delete_range("a", "", 1), put_b));
    assert_false(clashes(&w, put_b, delete_range("c", "", 1)));
    assert_false(clashes(&w, put_b, delete_range("b", "b", 1))); /* empty */
    assert_false(clashes(&w, put_b, delete_range("b", "a", 1)));
    assert_false(clashes(&w, delete_range("b", "a", 1), put_b));
    world_close(&w);
}

/* Such a put would find no earlier version when its turn comes. */
static void put_that_keeps_the_value_of_a_key_deleted_before_it_is_refused(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "k", "1");
    int64_t revision = revision_of(&w);
    struct bw_op keep = {.kind = BW_OP_PUT, .put = {.key = text("k"), .ignore_value = true}};
    struct bw_op keep_lease = {.kind = BW_OP_PUT, .put = {.key = text("k"), .ignore_lease = true}};
    struct bw_op one = delete_op("k"), range = delete_range("a", "", 1);
    const struct bw_op *puts[] = {&keep, &keep_lease}, *deletes[] = {&one, &range};
    for (unsigned i = 0; i < 4; i++) {
        struct bw_op kept = *puts[i & 1], deleted = *deletes[i >> 1];
        struct bw_op put_inside = txn_op(NULL, &kept, NULL);
        struct bw_op delete_inside = txn_op(NULL, &deleted, NULL);
        assert_true(clashes(&w, deleted, kept));
        assert_true(clashes(&w, deleted, put_inside));
        assert_true(clashes(&w, delete_inside, kept));
        assert_true(clashes(&w, delete_inside, put_inside));
        assert_true(clashes(&w, delete_inside, txn_op(NULL, &put_inside, NULL)));
    }
    assert_int_equal(revision_of(&w), revision);
    world_close(&w);
}

static void compares_need_keys_and_are_bounded_in_total(void **state)
{
    (void)state;
    struct world w;
    static struct bw_compare compares[64];
    struct bw_op nested[9];
    world_open(&w);
    for (unsigned i = 0; i < 64; i++)
        compares[i] = absent("a");
    for (unsigned i = 0; i < 9; i++)
        nested[i] =
            (struct bw_op){.kind = BW_OP_TXN, .txn = {.compares = compares, .compare_count = 64}};
    assert_int_equal(run(&w, nested, 8), 0);
    assert_int_equal(run(&w, nested, 9), BW_REFUSED_TOO_MANY);
    compares[1].keys.key.length = 0;
    assert_int_equal(run(&w, nested, 1), BW_REFUSED_NO_KEY);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_compares_see_the_state_before_the_outermost_transaction),
        cmocka_unit_test(nested_results_are_in_order_of_execution),
        cmocka_unit_test(conflicting_nested_transactions_are_refused),
        cmocka_unit_test(invalid_nested_operation_prevents_all_effects),
        cmocka_unit_test(nesting_depth_and_operations_are_bounded),
        cmocka_unit_test(nested_transactions_decode_to_the_same_value),
        cmocka_unit_test(too_deeply_nested_bytes_are_rejected),
        cmocka_unit_test(conflicts_are_found_in_both_branches_of_both_operands),
        cmocka_unit_test(conflicts_inside_a_branch_that_does_not_run_are_refused),
        cmocka_unit_test(deleted_ranges_conflict_with_puts_inside_them),
        cmocka_unit_test(put_that_keeps_the_value_of_a_key_deleted_before_it_is_refused),
        cmocka_unit_test(compares_need_keys_and_are_bounded_in_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
