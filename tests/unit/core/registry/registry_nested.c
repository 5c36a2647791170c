/* Transactions inside transactions: what is taken, what they see, and their bounds. */
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

static void compares_inside_see_what_was_before_all_of_it(void **state)
{
    (void)state;
    struct world w;
    struct bw_compare no_k = absent("k");
    struct bw_op then = put_op("l", "new"), otherwise = put_op("l", "old");
    struct bw_op ops[] = {put_op("k", "1"), txn_op(&no_k, &then, &otherwise)};
    world_open(&w);
    int64_t revision = revision_of(&w);
    assert_int_equal(run(&w, ops, 2), 0);
    assert_int_equal(revision_of(&w), revision + 1); /* one for all of it */
    assert_true(says(bw_kv_value(get(&w, "l")), "new"));
    assert_int_equal(run(&w, ops, 2), 0);
    assert_int_equal(w.results.op_count, 3);
    assert_int_equal(w.ops[1].kind, BW_OP_TXN);
    assert_false(w.ops[1].succeeded);
    assert_true(says(bw_kv_value(get(&w, "l")), "old"));
    world_close(&w);
}

static void results_stand_in_the_order_of_what_was_done(void **state)
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

static void what_contradicts_itself_is_refused(void **state)
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
                 {{with_put, with_delete}, BW_REFUSED_NOT}, /* etcd does not see it either */
                 {{deletes, with_delete}, BW_REFUSED_NOT},
                 {{either, put_op("l", "")}, BW_REFUSED_NOT}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        world_open(&w);
        assert_int_equal(run(&w, cases[i].ops, 2), cases[i].refusal);
        assert_int_equal(revision_of(&w) > 1,
                         cases[i].refusal == BW_REFUSED_NOT && cases[i].ops[0].kind == BW_OP_TXN);
        world_close(&w);
    }
}

static void one_bad_operation_inside_undoes_nothing_because_nothing_was_done(void **state)
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

static void depth_and_number_are_bounded(void **state)
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

static void they_survive_as_bytes(void **state)
{
    (void)state;
    static struct bw_entry_room room;
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

/* Bytes that nobody of ours writes: deeper than can be read. */
static void too_deep_bytes_are_refused(void **state)
{
    (void)state;
    static struct bw_entry_room room;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compares_inside_see_what_was_before_all_of_it),
        cmocka_unit_test(results_stand_in_the_order_of_what_was_done),
        cmocka_unit_test(what_contradicts_itself_is_refused),
        cmocka_unit_test(one_bad_operation_inside_undoes_nothing_because_nothing_was_done),
        cmocka_unit_test(depth_and_number_are_bounded),
        cmocka_unit_test(they_survive_as_bytes),
        cmocka_unit_test(too_deep_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
