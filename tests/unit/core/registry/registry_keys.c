/* Keys, revisions, leases and transactions as etcd's clients see them. */
#include "registry_world.h"

#include <stdio.h>

static void the_first_write_is_revision_two(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(revision_of(&w), 1);
    assert_int_equal(put(&w, "a", "1"), 0);
    assert_int_equal(w.results.revision, 2);
    const struct bw_kv *kv = get(&w, "a");
    assert_int_equal(kv->create_revision, 2);
    assert_int_equal(kv->mod_revision, 2);
    assert_int_equal(kv->version, 1);
    world_close(&w);
}

static void create_revision_survives_put_but_not_delete(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a", "1");
    put(&w, "a", "2");
    assert_int_equal(w.ops[0].kv_count, 1);
    assert_true(says(bw_kv_value(w.ops[0].kvs[0]), "1"));
    const struct bw_kv *kv = get(&w, "a");
    assert_int_equal(kv->create_revision, 2);
    assert_int_equal(kv->mod_revision, 3);
    assert_int_equal(kv->version, 2);
    assert_int_equal(delete_keys(&w, (struct bw_keys){.key = text("a")}), 1);
    assert_true(says(bw_kv_value(w.ops[0].kvs[0]), "2"));
    assert_null(get(&w, "a"));
    put(&w, "a", "3");
    assert_int_equal(get(&w, "a")->create_revision, 5);
    assert_int_equal(get(&w, "a")->version, 1);
    world_close(&w);
}

static void request_without_effect_has_no_revision(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a", "1");
    assert_int_equal(delete_keys(&w, (struct bw_keys){.key = text("b")}), 0);
    assert_int_equal(w.results.revision, 2);
    assert_int_equal(bw_registry_grant(w.registry, 7, BW_SEC, 0), 0);
    assert_int_equal(bw_registry_revoke(w.registry, 7, 0), 0);
    assert_int_equal(revision_of(&w), 2);
    world_close(&w);
}

static void range_filters_then_sorts_then_limits(void **state)
{
    (void)state;
    struct world w;
    char key[8], end[8];
    world_open(&w);
    for (int i = 0; i < 9; i++) { /* revisions 2..10, keys in another order */
        snprintf(key, sizeof key, "e/%d", i * 4 % 9);
        put(&w, key, "v");
    }
    struct bw_range ask = {.keys = prefix("e/", end),
                           .limit = 1,
                           .order = BW_SORT_DESCEND,
                           .target = BW_SORT_CREATE,
                           .create_max = 6};
    const struct bw_op_result *found = range(&w, &ask);
    assert_int_equal(found->kv_count, 1);
    assert_int_equal(found->kvs[0]->create_revision, 6);
    assert_int_equal(found->count, 9);
    assert_true(found->more);
    ask.limit = 5;
    found = range(&w, &ask);
    assert_int_equal(found->kv_count, 5);
    assert_int_equal(found->kvs[4]->create_revision, 2);
    assert_false(found->more);
    found =
        range(&w, &(struct bw_range){.keys = {.key = text("e/3"), .end = {(const void *)"", 1}}});
    assert_int_equal(found->kv_count, 6);
    assert_true(says(bw_kv_key(found->kvs[0]), "e/3"));
    ask = (struct bw_range){.keys = prefix("e/", end), .count_only = true};
    found = range(&w, &ask);
    assert_int_equal(found->kv_count, 0);
    assert_int_equal(found->count, 9);
    world_close(&w);
}

static void past_revisions_are_readable_until_compacted(void **state)
{
    (void)state;
    struct world w;
    char end[8];
    struct bw_op_result result;
    world_open(&w);
    put(&w, "k/a", "1");                                   /* 2 */
    put(&w, "k/b", "1");                                   /* 3 */
    put(&w, "k/a", "2");                                   /* 4 */
    delete_keys(&w, (struct bw_keys){.key = text("k/b")}); /* 5 */
    put(&w, "k/c", "1");                                   /* 6 */
    struct bw_range ask = {.keys = prefix("k/", end), .revision = 3};
    const struct bw_op_result *found = range(&w, &ask);
    assert_int_equal(found->kv_count, 2);
    assert_true(says(bw_kv_value(found->kvs[0]), "1"));
    assert_true(says(bw_kv_key(found->kvs[1]), "k/b"));
    ask.revision = 7;
    assert_int_equal(bw_registry_range(w.registry, &ask, &w.results, &result), BW_REFUSED_FUTURE);
    assert_int_equal(bw_registry_compact(w.registry, 4), 0);
    ask.revision = 3;
    assert_int_equal(bw_registry_range(w.registry, &ask, &w.results, &result),
                     BW_REFUSED_COMPACTED);
    ask.revision = 4;
    assert_int_equal(range(&w, &ask)->kv_count, 2);
    assert_int_equal(bw_registry_compact(w.registry, 4), BW_REFUSED_COMPACTED);
    assert_int_equal(bw_registry_compact(w.registry, 7), BW_REFUSED_FUTURE);
    world_close(&w);
}

static void campaign(struct world *w, const char *key, int64_t lease)
{
    struct bw_compare absent = {.what = BW_COMPARE_CREATE, .keys = {.key = text(key)}};
    struct bw_op put_op = {.kind = BW_OP_PUT, .put = {.key = text(key), .lease = lease}};
    struct bw_op get_op = {.kind = BW_OP_RANGE, .range = {.keys = {.key = text(key)}}};
    struct bw_txn txn = {.compares = &absent,
                         .compare_count = 1,
                         .then = &put_op,
                         .then_count = 1,
                         .otherwise = &get_op,
                         .otherwise_count = 1};
    assert_int_equal(bw_registry_txn(w->registry, &txn, &w->results), 0);
}

static void repeated_campaign_puts_its_key_only_once(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    bw_registry_grant(w.registry, 1, 5 * BW_SEC, 0);
    campaign(&w, "e/1", 1);
    assert_true(w.results.succeeded);
    assert_int_equal(w.results.revision, 2);
    campaign(&w, "e/1", 1);
    assert_false(w.results.succeeded);
    assert_int_equal(w.results.revision, 2);
    assert_int_equal(w.ops[0].kvs[0]->create_revision, 2);
    assert_int_equal(w.ops[0].kvs[0]->lease, 1);
    assert_int_equal(bw_registry_revoke(w.registry, 1, 0), 0);
    assert_null(get(&w, "e/1"));
    assert_int_equal(revision_of(&w), 3);
    world_close(&w);
}

static void absent_keys_compare_as_zero_and_never_by_value(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct {
        struct bw_compare compare;
        bool holds;
    } cases[] = {
        {{.what = BW_COMPARE_VERSION, .how = BW_COMPARE_EQUAL}, true},
        {{.what = BW_COMPARE_MOD, .how = BW_COMPARE_LESS, .number = 1}, true},
        {{.what = BW_COMPARE_LEASE, .how = BW_COMPARE_NOT_EQUAL}, false},
        {{.what = BW_COMPARE_VALUE, .how = BW_COMPARE_EQUAL, .value = text("")}, false},
        {{.what = BW_COMPARE_VALUE, .how = BW_COMPARE_NOT_EQUAL, .value = text("x")}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cases[i].compare.keys.key = text("no");
        struct bw_txn txn = {.compares = &cases[i].compare, .compare_count = 1};
        assert_int_equal(bw_registry_txn(w.registry, &txn, &w.results), 0);
        assert_int_equal(w.results.succeeded, cases[i].holds);
    }
    put(&w, "no", "x");
    struct bw_compare greater = {.what = BW_COMPARE_VALUE,
                                 .how = BW_COMPARE_GREATER,
                                 .keys.key = text("no"),
                                 .value = text("w")};
    struct bw_txn txn = {.compares = &greater, .compare_count = 1};
    bw_registry_txn(w.registry, &txn, &w.results);
    assert_true(w.results.succeeded);
    world_close(&w);
}

static void a_transaction_sees_its_own_writes_under_one_revision(void **state)
{
    (void)state;
    struct world w;
    char end[8];
    world_open(&w);
    put(&w, "k/z", "0");
    struct bw_keys all = prefix("k/", end);
    struct bw_op ops[] = {{.kind = BW_OP_PUT, .put = {.key = text("k/a"), .value = text("1")}},
                          {.kind = BW_OP_RANGE, .range = {.keys = all}},
                          {.kind = BW_OP_DELETE, .delete = {.keys = {.key = text("k/z")}}},
                          {.kind = BW_OP_RANGE, .range = {.keys = all}},
                          {.kind = BW_OP_PUT, .put = {.key = text("k/b"), .value = text("2")}}};
    struct bw_txn txn = {.then = ops, .then_count = 5};
    assert_int_equal(bw_registry_txn(w.registry, &txn, &w.results), 0);
    assert_int_equal(w.ops[1].kv_count, 2);
    assert_int_equal(w.ops[3].kv_count, 1);
    assert_int_equal(w.results.revision, 3);
    assert_int_equal(get(&w, "k/a")->mod_revision, get(&w, "k/b")->mod_revision);
    world_close(&w);
}

static void conflicting_transaction_is_refused_without_effect(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct bw_op put_a = {.kind = BW_OP_PUT, .put = {.key = text("a"), .value = text("1")}};
    struct bw_op put_b = {.kind = BW_OP_PUT, .put = {.key = text("b"), .value = text("1")}};
    struct bw_op leased = {.kind = BW_OP_PUT, .put = {.key = text("c"), .lease = 99}};
    struct bw_op wipe = {.kind = BW_OP_DELETE,
                         .delete = {.keys = {.key = text("a"), .end = text("b")}}};
    struct bw_op future = {.kind = BW_OP_RANGE,
                           .range = {.keys = {.key = text("a")}, .revision = 9}};
    struct {
        struct bw_op ops[2];
        enum bw_refusal refusal;
    } cases[] = {{{put_a, put_a}, BW_REFUSED_DUPLICATE}, {{put_a, wipe}, BW_REFUSED_DUPLICATE},
                 {{wipe, put_a}, BW_REFUSED_DUPLICATE},  {{put_a, leased}, BW_REFUSED_NO_LEASE},
                 {{put_a, future}, BW_REFUSED_FUTURE},   {{put_b, wipe}, BW_REFUSED_NONE},
                 {{wipe, wipe}, BW_REFUSED_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bw_txn txn = {.then = cases[i].ops, .then_count = 2};
        assert_int_equal(bw_registry_txn(w.registry, &txn, &w.results), cases[i].refusal);
        assert_null(get(&w, "a"));
    }
    struct bw_op many[BW_TXN_OPS_MAX + 1] = {{0}};
    struct bw_txn txn = {.then = many, .then_count = BW_TXN_OPS_MAX + 1};
    assert_int_equal(bw_registry_txn(w.registry, &txn, &w.results), BW_REFUSED_TOO_MANY);
    world_close(&w);
}

static void invalid_requests_are_refused(void **state)
{
    (void)state;
    struct world w;
    struct bw_op_result result;
    world_open(&w);
    assert_int_equal(put(&w, "", "x"), BW_REFUSED_NO_KEY);
    assert_int_equal(put_leased(&w, "a", "x", 5), BW_REFUSED_NO_LEASE);
    struct bw_put odd = {.key = text("a"), .ignore_value = true};
    assert_int_equal(bw_registry_put(w.registry, &odd, &w.results), BW_REFUSED_KEY_UNKNOWN);
    odd.value = text("x");
    assert_int_equal(bw_registry_put(w.registry, &odd, &w.results), BW_REFUSED_VALUE_GIVEN);
    odd = (struct bw_put){.key = text("a"), .lease = 5, .ignore_lease = true};
    assert_int_equal(bw_registry_put(w.registry, &odd, &w.results), BW_REFUSED_LEASE_GIVEN);
    struct bw_range empty = {.limit = 1};
    assert_int_equal(bw_registry_range(w.registry, &empty, &w.results, &result), BW_REFUSED_NO_KEY);
    assert_int_equal(bw_registry_grant(w.registry, 1, 0, 0), BW_REFUSED_TTL);
    assert_int_equal(bw_registry_grant(w.registry, 1, BW_TIME_NEVER, 0), BW_REFUSED_TTL);
    assert_int_equal(bw_registry_revoke(w.registry, 1, 0), BW_REFUSED_NO_LEASE);
    assert_int_equal(revision_of(&w), 1);
    world_close(&w);
}

static void revoked_lease_deletes_its_keys_in_one_revision(void **state)
{
    (void)state;
    struct world w;
    char key[16];
    struct bw_kv_event event;
    world_open(&w);
    assert_int_equal(bw_registry_grant(w.registry, 5, BW_SEC, 0), 0);
    assert_int_equal(bw_registry_grant(w.registry, 5, BW_SEC, 0), BW_REFUSED_LEASE_EXISTS);
    for (int i = 0; i < 50; i++) {
        snprintf(key, sizeof key, "k%02d", i * 7 % 50);
        put_leased(&w, key, "v", 5);
    }
    put(&w, "k10", "no lease any more");
    struct bw_put keep = {.key = text("k11"), .value = text("new"), .ignore_lease = true};
    bw_registry_put(w.registry, &keep, &w.results);
    assert_int_equal(get(&w, "k11")->lease, 5);
    struct bw_lease_view view;
    assert_true(bw_registry_lease(w.registry, 5, &view));
    assert_int_equal(view.keys, 49);
    int64_t before = revision_of(&w);
    assert_int_equal(bw_registry_revoke(w.registry, 5, 0), 0);
    assert_int_equal(revision_of(&w), before + 1);
    assert_non_null(get(&w, "k10"));
    assert_null(get(&w, "k11"));
    uint64_t at = bw_registry_events_from(w.registry, before + 1);
    const struct bw_kv *last = NULL;
    unsigned count = 0;
    for (; bw_registry_event(w.registry, at, &event); at++, count++, last = event.kv) {
        assert_true(event.deleted);
        assert_true(!last || memcmp(last->bytes, event.kv->bytes, 3) < 0); /* in order */
    }
    assert_int_equal(count, 49);
    world_close(&w);
}

static void revocation_by_binding_has_no_effect_after_rebinding(void **state)
{
    (void)state;
    struct world w;
    struct bw_lease_view view;
    world_open(&w);
    bw_registry_grant(w.registry, 5, BW_SEC, 100);
    assert_int_equal(bw_registry_bind(w.registry, 5, 101), 0);
    assert_int_equal(bw_registry_revoke(w.registry, 5, 100), 0);
    assert_true(bw_registry_lease(w.registry, 5, &view));
    assert_int_equal(bw_registry_revoke(w.registry, 5, 101), 0);
    assert_false(bw_registry_lease(w.registry, 5, &view));
    world_close(&w);
}

static void all_leases_can_be_walked(void **state)
{
    (void)state;
    struct world w;
    uint64_t cursor = 0;
    struct bw_lease_view view;
    bool seen[1001] = {false};
    world_open(&w);
    for (int64_t id = 1; id <= 1000; id++)
        assert_int_equal(bw_registry_grant(w.registry, id, BW_SEC, 0), 0);
    assert_int_equal(bw_registry_grant(w.registry, 1001, BW_SEC, 0), BW_REFUSED_NO_SPACE);
    unsigned count = 0;
    for (; bw_registry_next_lease(w.registry, &cursor, &view); count++) {
        assert_false(seen[view.id]);
        seen[view.id] = true;
    }
    assert_int_equal(count, 1000);
    world_close(&w);
}

static void only_the_leader_keeps_deadlines(void **state)
{
    (void)state;
    struct world w;
    int64_t ids[8];
    world_open(&w);
    for (int64_t id = 1; id <= 5; id++)
        bw_registry_grant(w.registry, id, id * BW_SEC, 0);
    assert_int_equal(bw_registry_next_expiry(w.registry), BW_TIME_NEVER);
    assert_int_equal(bw_registry_keep_alive(w.registry, 1, 0), 0); /* a follower renews nothing */
    bw_registry_lead(w.registry, 100 * BW_SEC);
    assert_int_equal(bw_registry_next_expiry(w.registry), 101 * BW_SEC);
    assert_int_equal(bw_registry_keep_alive(w.registry, 1, 100 * BW_SEC + BW_SEC / 2), BW_SEC);
    assert_int_equal(bw_registry_expired(w.registry, 101 * BW_SEC, ids, 8), 0);
    assert_int_equal(bw_registry_left(w.registry, 1, 101 * BW_SEC), BW_SEC / 2);
    assert_int_equal(bw_registry_expired(w.registry, 102 * BW_SEC, ids, 8), 2);
    assert_int_equal(ids[0] + ids[1], 3);
    assert_int_equal(bw_registry_expired(w.registry, 102 * BW_SEC, ids, 8), 0); /* returned only
                                                                                 * once */
    assert_int_equal(bw_registry_keep_alive(w.registry, 1, 102 * BW_SEC), 0);   /* too late */
    bw_registry_revoke(w.registry, 3, 0);
    assert_int_equal(bw_registry_expired(w.registry, 104 * BW_SEC, ids, 8), 1);
    assert_int_equal(ids[0], 4);
    bw_registry_lead(w.registry, 200 * BW_SEC); /* a new leader: the full TTL, also for 1 and 2 */
    assert_int_equal(bw_registry_left(w.registry, 1, 200 * BW_SEC), BW_SEC);
    assert_int_equal(bw_registry_left(w.registry, 9, 200 * BW_SEC), -1);
    bw_registry_grant(w.registry, 9, BW_SEC / 2, 0);
    bw_registry_begin(w.registry, 9, 200 * BW_SEC);
    assert_int_equal(bw_registry_next_expiry(w.registry), 200 * BW_SEC + BW_SEC / 2);
    bw_registry_follow(w.registry);
    assert_int_equal(bw_registry_next_expiry(w.registry), BW_TIME_NEVER);
    world_close(&w);
}

static void history_is_dropped_before_a_write_is_refused(void **state)
{
    (void)state;
    struct world w;
    static char large[60001];
    char key[16];
    struct bw_registry_status status;
    world_open(&w);
    memset(large, 'x', 60000);
    for (int i = 0; i < 100; i++) /* 6 MB through a quota of 1 MB */
        assert_int_equal(put(&w, "same", large), 0);
    bw_registry_status(w.registry, &status);
    assert_true(status.bytes <= 1 << 20);
    assert_true(status.floor > 50);
    int i = 0;
    do
        snprintf(key, sizeof key, "k%d", i);
    while (put(&w, key, large) == 0 && ++i < 100);
    assert_in_range(i, 15, 17); /* live content alone fills the quota */
    assert_int_equal(put(&w, "another", large), BW_REFUSED_NO_SPACE);
    assert_int_equal(delete_keys(&w, (struct bw_keys){.key = text("k0")}), 1);
    assert_int_equal(put(&w, "another", large), 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_write_is_revision_two),
        cmocka_unit_test(create_revision_survives_put_but_not_delete),
        cmocka_unit_test(request_without_effect_has_no_revision),
        cmocka_unit_test(range_filters_then_sorts_then_limits),
        cmocka_unit_test(past_revisions_are_readable_until_compacted),
        cmocka_unit_test(repeated_campaign_puts_its_key_only_once),
        cmocka_unit_test(absent_keys_compare_as_zero_and_never_by_value),
        cmocka_unit_test(a_transaction_sees_its_own_writes_under_one_revision),
        cmocka_unit_test(conflicting_transaction_is_refused_without_effect),
        cmocka_unit_test(invalid_requests_are_refused),
        cmocka_unit_test(revoked_lease_deletes_its_keys_in_one_revision),
        cmocka_unit_test(revocation_by_binding_has_no_effect_after_rebinding),
        cmocka_unit_test(all_leases_can_be_walked),
        cmocka_unit_test(only_the_leader_keeps_deadlines),
        cmocka_unit_test(history_is_dropped_before_a_write_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
