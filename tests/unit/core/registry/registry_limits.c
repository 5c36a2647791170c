/* Limits of the registry: sizes, quotas and result arrays; ranges sorted and filtered in every way;
 * every kind of entry encoded and decoded. */
#include "core/base/error.h"
#include "registry_world.h"

#include <stdio.h>

static const unsigned char zero[1];
static unsigned char large[BW_REQUEST_MAX + 1];

static struct bw_slice bytes_of(size_t length)
{
    return (struct bw_slice){large, length};
}

static struct bw_keys all_from(const char *key)
{
    return (struct bw_keys){.key = text(key), .end = {zero, 1}};
}

static void open_large(struct world *w)
{
    world_open_with(
        w, &(struct bw_registry_config){.quota = 8 << 20, .leases_max = 1000, .history = 1024});
}

static enum bw_refusal run(struct world *w, const struct bw_compare *compares,
                           uint32_t compare_count, const struct bw_op *ops, uint32_t count)
{
    struct bw_txn txn = {
        .compares = compares, .compare_count = compare_count, .then = ops, .then_count = count};
    return bw_registry_txn(w->registry, &txn, &w->results);
}

static struct bw_op put_op(const char *key, struct bw_slice value)
{
    return (struct bw_op){.kind = BW_OP_PUT, .put = {.key = text(key), .value = value}};
}

static void senseless_registry_settings_are_refused(void **state)
{
    (void)state;
    const struct bw_registry_config good = {.quota = 65536, .leases_max = 5000, .history = 1024};
    struct bw_registry_config config = good;
    size_t bytes = bw_registry_bytes(&good);
    void *memory = calloc(1, bytes);
    struct bw_registry *registry;
    assert_int_equal(bw_registry_init(&registry, memory, bytes, &config), 0);
    assert_int_equal(bw_registry_init(&registry, memory, bytes - 1, &config), BW_ENOMEM);
    config.history = 1023;
    assert_int_equal(bw_registry_init(&registry, memory, bytes, &config), BW_EINVAL);
    config = good;
    config.leases_max = 0;
    assert_int_equal(bw_registry_init(&registry, memory, bytes, &config), BW_EINVAL);
    config = good;
    config.quota = 65535;
    assert_int_equal(bw_registry_init(&registry, memory, bytes, &config), BW_EINVAL);
    config = good;
    config.ceiling = 65535; /* below the quota */
    assert_int_equal(bw_registry_init(&registry, memory, bytes, &config), BW_EINVAL);
    config = good;
    config.ceiling = (uint64_t)1 << 40; /* more than references can address */
    assert_int_equal(bw_registry_init(&registry, memory, bytes, &config), BW_EINVAL);
    config = good;
    config.leases_max = UINT32_MAX - 1; /* the hash table does not grow without end */
    assert_true(bw_registry_bytes(&config) < (uint64_t)16 << 30 << 2);
    free(memory);
}

static void a_write_beyond_the_quota_is_refused(void **state)
{
    (void)state;
    struct world w;
    world_open_with(
        &w, &(struct bw_registry_config){.quota = 65536, .leases_max = 1000, .history = 1024});
    struct bw_put put_large = {.key = text("a"), .value = bytes_of(65536)};
    assert_int_equal(bw_registry_put(w.registry, &put_large, &w.results), BW_REFUSED_NO_SPACE);
    put_large.value.length = 65536 - 64 - 32 - 32 - 63; /* version, node, event, and a little */
    assert_int_equal(bw_registry_put(w.registry, &put_large, &w.results), 0);
    assert_int_equal(bw_registry_grant(w.registry, 1, BW_SEC, 0), 0);
    int64_t id = 2; /* the history is dropped first, then leases are refused */
    while (id < 9 && bw_registry_grant(w.registry, id, BW_SEC, 0) == BW_REFUSED_NONE)
        id++;
    assert_in_range(id, 2, 3);
    world_close(&w);
}

static void requests_and_transactions_are_bounded_in_bytes(void **state)
{
    (void)state;
    struct world w;
    open_large(&w);
    struct bw_put one = {.key = text("a"), .value = bytes_of(BW_REQUEST_MAX)};
    assert_int_equal(bw_registry_put(w.registry, &one, &w.results), BW_REFUSED_TOO_LARGE);
    one.value.length--;
    assert_int_equal(bw_registry_put(w.registry, &one, &w.results), 0);
    struct bw_op two[] = {put_op("b", bytes_of(BW_REQUEST_MAX / 2)),
                          put_op("c", bytes_of(BW_REQUEST_MAX / 2))};
    assert_int_equal(run(&w, NULL, 0, two, 2), BW_REFUSED_TOO_LARGE);
    assert_null(get(&w, "b"));
    two[1].put.value.length -= 2;
    assert_int_equal(run(&w, NULL, 0, two, 2), 0);
    world_close(&w);
}

static void a_delete_needs_a_key_and_space_for_what_it_returns(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a", "1");
    put(&w, "b", "2");
    struct bw_delete delete = {.keys = {.key = text("")}, .previous = true};
    assert_int_equal(bw_registry_delete(w.registry, &delete, &w.results), BW_REFUSED_NO_KEY);
    delete.keys = all_from("a");
    w.results.kv_cap = 1;
    assert_int_equal(bw_registry_delete(w.registry, &delete, &w.results), BW_REFUSED_TOO_LARGE);
    assert_non_null(get(&w, "b"));
    delete.previous = false;
    assert_int_equal(bw_registry_delete(w.registry, &delete, &w.results), 0);
    assert_int_equal(w.ops[0].count, 2);
    world_close(&w);
}

/* What does not fit is cut and marked; the transaction itself is carried out. */
static void results_that_do_not_fit_are_marked_as_truncated(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a", "1");
    put(&w, "b", "1");
    struct bw_op ops[] = {put_op("a", text("2")), put_op("b", text("2"))};
    ops[0].put.previous = ops[1].put.previous = true;
    w.results.kv_cap = 2;
    assert_int_equal(run(&w, NULL, 0, ops, 2), 0);
    assert_false(w.results.truncated);
    w.results.kv_cap = 1;
    assert_int_equal(run(&w, NULL, 0, ops, 2), 0);
    assert_true(w.results.truncated);
    assert_int_equal(w.ops[1].kv_count, 0);
    struct bw_op both = {.kind = BW_OP_RANGE, .range = {.keys = all_from("a")}};
    assert_int_equal(run(&w, NULL, 0, &both, 1), 0);
    assert_true(w.results.truncated);
    struct bw_op_result result;
    assert_int_equal(bw_registry_range(w.registry, &both.range, &w.results, &result),
                     BW_REFUSED_TOO_LARGE);
    both.range.limit = 1; /* asked for no more */
    assert_int_equal(bw_registry_range(w.registry, &both.range, &w.results, &result), 0);
    assert_true(result.more);
    w.results.op_cap = 1;
    assert_int_equal(run(&w, NULL, 0, ops, 2), BW_REFUSED_TOO_MANY);
    world_close(&w);
}

static void a_sorted_range_without_space_is_refused(void **state)
{
    (void)state;
    struct world w;
    struct bw_op_result result;
    world_open(&w);
    put(&w, "a", "1");
    struct bw_range ask = {.keys = all_from("a"), .order = BW_SORT_DESCEND};
    w.results.kv_cap = 0;
    assert_int_equal(bw_registry_range(w.registry, &ask, &w.results, &result),
                     BW_REFUSED_TOO_LARGE);
    ask.keys.key.length = 0;
    assert_int_equal(bw_registry_range(w.registry, &ask, &w.results, &result), BW_REFUSED_NO_KEY);
    world_close(&w);
}

static void ignored_value_and_lease_are_kept(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    bw_registry_grant(w.registry, 7, BW_SEC, 0);
    put_leased(&w, "a", "old", 7);
    struct bw_put keep = {.key = text("a"), .ignore_value = true};
    assert_int_equal(bw_registry_put(w.registry, &keep, &w.results), 0);
    assert_true(says(bw_kv_value(get(&w, "a")), "old"));
    assert_int_equal(get(&w, "a")->lease, 0);
    put_leased(&w, "a", "old", 7);
    keep = (struct bw_put){.key = text("a"), .value = text("new"), .ignore_lease = true};
    assert_int_equal(bw_registry_put(w.registry, &keep, &w.results), 0);
    assert_true(says(bw_kv_value(get(&w, "a")), "new"));
    assert_int_equal(get(&w, "a")->lease, 7);
    world_close(&w);
}

/* Revisions 2 to 5: b, c, a, b. */
static void open_four(struct world *w)
{
    world_open(w);
    put(w, "b", "y");
    put(w, "c", "x");
    put(w, "a", "z");
    put(w, "b", "w");
}

/* The keys that a range returns, as one string. */
static const char *keys_of(struct world *w, struct bw_range ask)
{
    static char out[16];
    if (!ask.keys.key.length)
        ask.keys = all_from("a");
    const struct bw_op_result *found = range(w, &ask);
    for (uint32_t i = 0; i < found->kv_count; i++)
        out[i] = (char)found->kvs[i]->bytes[0];
    out[found->kv_count] = 0;
    return out;
}

static void ranges_sort_by_every_target(void **state)
{
    (void)state;
    static const struct {
        enum bw_sort_target target;
        const char *up, *down;
    } cases[] = {{BW_SORT_KEY, "abc", "cba"},
                 {BW_SORT_VERSION, "acb", "bac"}, /* ties by key */
                 {BW_SORT_CREATE, "bca", "acb"},
                 {BW_SORT_MOD, "cab", "bac"},
                 {BW_SORT_VALUE, "bca", "acb"}};
    struct world w;
    open_four(&w);
    for (unsigned i = 0; i < 5; i++) {
        struct bw_range ask = {.target = cases[i].target, .order = BW_SORT_ASCEND};
        assert_string_equal(keys_of(&w, ask), cases[i].up);
        ask.order = BW_SORT_NONE;
        assert_string_equal(keys_of(&w, ask), cases[i].up);
        ask.order = BW_SORT_DESCEND;
        assert_string_equal(keys_of(&w, ask), cases[i].down);
        ask.limit = 2;
        assert_memory_equal(keys_of(&w, ask), cases[i].down, 2);
    }
    world_close(&w);
}

static void ranges_filter_by_both_revisions(void **state)
{
    (void)state;
    struct world w;
    open_four(&w);
    assert_string_equal(keys_of(&w, (struct bw_range){.mod_min = 4}), "ab");
    assert_string_equal(keys_of(&w, (struct bw_range){.mod_max = 4}), "ac");
    assert_string_equal(keys_of(&w, (struct bw_range){.create_min = 3}), "ac");
    assert_string_equal(keys_of(&w, (struct bw_range){.create_max = 3}), "bc");
    assert_string_equal(keys_of(&w, (struct bw_range){.create_min = 3, .create_max = 3}), "c");
    world_close(&w);
}

static void past_ranges_hold_only_their_keys(void **state)
{
    (void)state;
    struct world w;
    open_four(&w);
    delete_keys(&w, (struct bw_keys){.key = text("c")});
    struct bw_range ask = {.keys = {.key = text("a"), .end = text("b")}, .revision = 4};
    assert_string_equal(keys_of(&w, ask), "a"); /* b was replaced and c deleted later */
    ask.keys = all_from("b");
    assert_string_equal(keys_of(&w, ask), "bc");
    ask.revision = 6; /* the current revision is not the past */
    assert_string_equal(keys_of(&w, ask), "b");
    ask.limit = 100000; /* more than the results hold */
    assert_string_equal(keys_of(&w, ask), "b");
    world_close(&w);
}

static bool compares(struct world *w, struct bw_compare compare)
{
    assert_int_equal(run(w, &compare, 1, NULL, 0), 0);
    return w->results.succeeded;
}

static void compares_see_every_field_of_a_key(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    bw_registry_grant(w.registry, 7, BW_SEC, 0);
    put(&w, "a", "x");
    put_leased(&w, "a", "y", 7);
    struct bw_compare c = {.keys = {.key = text("a")}, .what = BW_COMPARE_MOD, .number = 3};
    assert_true(compares(&w, c));
    c.number = 2;
    assert_false(compares(&w, c));
    c = (struct bw_compare){.keys = c.keys, .what = BW_COMPARE_LEASE, .number = 7};
    assert_true(compares(&w, c));
    c.number = 0;
    assert_false(compares(&w, c));
    c = (struct bw_compare){.keys = c.keys, .what = BW_COMPARE_VALUE, .value = text("y")};
    assert_true(compares(&w, c));
    c.value = text("x");
    assert_false(compares(&w, c));
    c.how = BW_COMPARE_GREATER;
    assert_true(compares(&w, c));
    struct bw_compare two[] = {{.keys = c.keys, .what = BW_COMPARE_VERSION, .number = 9}, c};
    assert_int_equal(run(&w, two, 2, NULL, 0), 0); /* the first one already fails */
    assert_false(w.results.succeeded);
    world_close(&w);
}

static void compacting_an_empty_history_only_raises_the_floor(void **state)
{
    (void)state;
    struct world w;
    struct bw_kv_event event;
    struct bw_registry_status status;
    world_open(&w);
    assert_int_equal(bw_registry_compact(w.registry, 1), 0);
    bw_registry_status(w.registry, &status);
    assert_int_equal(status.floor, 1);
    put(&w, "a", "1");
    put(&w, "a", "2");
    assert_true(bw_registry_event(w.registry, 0, &event));
    assert_int_equal(bw_registry_compact(w.registry, 3), 0);
    assert_false(bw_registry_event(w.registry, 0, &event)); /* dropped */
    assert_true(bw_registry_event(w.registry, 1, &event));
    assert_false(bw_registry_event(w.registry, 2, &event));
    world_close(&w);
}

static void keys_of_a_lease_are_listed_up_to_the_capacity(void **state)
{
    (void)state;
    struct world w;
    struct bw_slice out[2] = {{0}};
    world_open(&w);
    assert_int_equal(bw_registry_lease_keys(w.registry, 7, out, 2), 0);
    bw_registry_grant(w.registry, 7, BW_SEC, 0);
    put_leased(&w, "a", "1", 7);
    assert_int_equal(bw_registry_lease_keys(w.registry, 7, out, 2), 1);
    assert_true(says(out[0], "a"));
    put_leased(&w, "b", "1", 7);
    put_leased(&w, "c", "1", 7);
    assert_int_equal(bw_registry_lease_keys(w.registry, 7, out, 2), 3);
    assert_true(says(out[0], "c") && says(out[1], "b"));
    world_close(&w);
}

/* As many leases as there are buckets, so many share one. */
static void leases_that_share_a_bucket_are_found_and_freed(void **state)
{
    (void)state;
    struct world w;
    struct bw_lease_view view;
    world_open(&w);
    for (int64_t id = 1; id <= 1000; id++)
        assert_int_equal(bw_registry_grant(w.registry, id, BW_SEC, 0), 0);
    assert_int_equal(bw_registry_grant(w.registry, 1001, BW_SEC, 0), BW_REFUSED_NO_SPACE);
    for (int64_t id = 1; id <= 1000; id++) {
        assert_int_equal(bw_registry_revoke(w.registry, id, 0), 0);
        assert_false(bw_registry_lease(w.registry, id, &view));
        if (id < 1000)
            assert_true(bw_registry_lease(w.registry, id + 1, &view));
    }
    world_close(&w);
}

static void leases_expire_in_the_order_of_their_deadlines(void **state)
{
    (void)state;
    struct world w;
    int64_t ids[4];
    world_open(&w);
    for (int64_t i = 0; i < 100; i++)
        bw_registry_grant(w.registry, i + 1, (1 + i * 37 % 100) * BW_SEC, 0);
    bw_registry_begin(w.registry, 1, 0); /* not the leader */
    assert_int_equal(bw_registry_next_expiry(w.registry), BW_TIME_NEVER);
    bw_registry_lead(w.registry, 0);
    bw_registry_begin(w.registry, 500, 0);         /* unknown */
    bw_registry_begin(w.registry, 1, 50 * BW_SEC); /* already running: not prolonged */
    assert_int_equal(bw_registry_left(w.registry, 1, 0), BW_SEC);
    assert_int_equal(bw_registry_left(w.registry, 1, 2 * BW_SEC), 0);
    assert_int_equal(bw_registry_left(w.registry, 500, 0), -1);
    assert_int_equal(bw_registry_keep_alive(w.registry, 500, 0), 0);
    assert_int_equal(bw_registry_expired(w.registry, 100 * BW_SEC, ids, 4), 4);
    assert_int_equal(bw_registry_left(w.registry, ids[0], 0), 0); /* it is being revoked */
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(ids[i] * 37 % 100, (37 + i) % 100);
    for (bw_time at = 5; at <= 100; at++) {
        assert_int_equal(bw_registry_next_expiry(w.registry), at * BW_SEC);
        assert_int_equal(bw_registry_expired(w.registry, at * BW_SEC, ids, 4), 1);
        assert_int_equal((ids[0] - 1) * 37 % 100 + 1, at);
    }
    assert_int_equal(bw_registry_expired(w.registry, 1000 * BW_SEC, ids, 4), 0);
    world_close(&w);
}

/* Encodes, decodes and encodes again; both encodings are the same. */
static void round_trip(const struct bw_entry *entry)
{
    static struct bw_entry_scratch room;
    unsigned char bytes[256], again[256];
    struct bw_entry read;
    int length = bw_entry_encode(entry, bytes, SIZE_MAX); /* however large the buffer is */
    assert_true(length > 0 && (size_t)length < sizeof bytes);
    assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)length), 0);
    assert_int_equal(read.kind, entry->kind);
    assert_int_equal(bw_entry_encode(&read, again, sizeof again), length);
    assert_memory_equal(bytes, again, (size_t)length);
}

static void every_entry_decodes_to_what_was_encoded(void **state)
{
    (void)state;
    struct bw_entry entries[] = {
        {.kind = BW_ENTRY_NOTHING},
        {.kind = BW_ENTRY_PUT, .put = {.key = text("k"), .previous = true}},
        {.kind = BW_ENTRY_PUT, .put = {.key = text("k"), .ignore_value = true}},
        {.kind = BW_ENTRY_PUT, .put = {.key = text("k"), .lease = 3, .ignore_lease = true}},
        {.kind = BW_ENTRY_DELETE, .delete = {.keys = all_from("a"), .previous = true}},
        {.kind = BW_ENTRY_GRANT, .lease = {.id = 7, .ttl_ns = 9, .binding = 5}},
        {.kind = BW_ENTRY_REVOKE, .lease = {.id = 7, .binding = 5}},
        {.kind = BW_ENTRY_BIND, .lease = {.id = 7, .binding = 5}},
        {.kind = BW_ENTRY_COMPACT, .revision = 88},
        {.kind = BW_ENTRY_LEVEL, .level = 2},
    };
    for (unsigned i = 0; i < sizeof entries / sizeof entries[0]; i++)
        round_trip(&entries[i]);
    struct bw_op ranges[] = {
        {.kind = BW_OP_RANGE, .range = {.keys = all_from("a"), .count_only = true}},
        {.kind = BW_OP_RANGE, .range = {.keys = all_from("a"), .keys_only = true, .mod_min = 4}}};
    struct bw_entry txn = {.kind = BW_ENTRY_TXN, .txn = {.then = ranges, .then_count = 2}};
    round_trip(&txn);
    static struct bw_entry_scratch room;
    unsigned char bytes[256];
    struct bw_entry read;
    int length = bw_entry_encode(&txn, bytes, sizeof bytes);
    assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)length), 0);
    assert_true(read.txn.then[0].range.count_only && !read.txn.then[0].range.keys_only);
    assert_true(!read.txn.then[1].range.count_only && read.txn.then[1].range.keys_only);
    length = bw_entry_encode(&entries[2], bytes, sizeof bytes);
    assert_int_equal(bw_entry_decode(&read, &room, bytes, (size_t)length), 0);
    assert_true(read.put.ignore_value && !read.put.previous && !read.put.ignore_lease);
}

static void transactions_with_too_many_parts_are_neither_encoded_nor_decoded(void **state)
{
    (void)state;
    static struct bw_entry_scratch room;
    static struct bw_op many[BW_TXN_OPS_MAX + 1];
    static unsigned char bytes[4096];
    struct bw_entry read;
    struct bw_entry entry = {.kind = BW_ENTRY_TXN,
                             .txn = {.then = many, .then_count = BW_TXN_OPS_MAX + 1}};
    assert_int_equal(bw_entry_encode(&entry, bytes, sizeof bytes), BW_ELIMIT);
    const unsigned char compares_129[] = {BW_ENTRY_TXN, 0x81, 0x01};
    const unsigned char ops_129[] = {BW_ENTRY_TXN, 0, 0x81, 0x01};
    memcpy(bytes, compares_129, sizeof compares_129);
    assert_int_equal(bw_entry_decode(&read, &room, bytes, sizeof bytes), BW_EMALFORMED);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, ops_129, sizeof ops_129);
    assert_int_equal(bw_entry_decode(&read, &room, bytes, sizeof bytes), BW_EMALFORMED);
    room.compare_count = room.op_count = 0;
    for (unsigned i = 0; i < BW_TXN_ALL_MAX / BW_TXN_OPS_MAX; i++) {
        assert_non_null(bw_scratch_ops(&room, BW_TXN_OPS_MAX));
        assert_non_null(bw_scratch_compares(&room, BW_TXN_OPS_MAX));
    }
    assert_null(bw_scratch_ops(&room, 1));
    assert_null(bw_scratch_compares(&room, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(senseless_registry_settings_are_refused),
        cmocka_unit_test(a_write_beyond_the_quota_is_refused),
        cmocka_unit_test(requests_and_transactions_are_bounded_in_bytes),
        cmocka_unit_test(a_delete_needs_a_key_and_space_for_what_it_returns),
        cmocka_unit_test(results_that_do_not_fit_are_marked_as_truncated),
        cmocka_unit_test(a_sorted_range_without_space_is_refused),
        cmocka_unit_test(ignored_value_and_lease_are_kept),
        cmocka_unit_test(ranges_sort_by_every_target),
        cmocka_unit_test(ranges_filter_by_both_revisions),
        cmocka_unit_test(past_ranges_hold_only_their_keys),
        cmocka_unit_test(compares_see_every_field_of_a_key),
        cmocka_unit_test(compacting_an_empty_history_only_raises_the_floor),
        cmocka_unit_test(keys_of_a_lease_are_listed_up_to_the_capacity),
        cmocka_unit_test(leases_that_share_a_bucket_are_found_and_freed),
        cmocka_unit_test(leases_expire_in_the_order_of_their_deadlines),
        cmocka_unit_test(every_entry_decodes_to_what_was_encoded),
        cmocka_unit_test(transactions_with_too_many_parts_are_neither_encoded_nor_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
