/* Alarms: what they stop, that snapshots keep them, and the quota that begins with their level. */
#include "core/registry/alarm.h"
#include "core/registry/snapshot.h"
#include "unit/core/registry/registry_world.h"

static enum bw_refusal apply(struct world *w, const struct bw_entry *entry)
{
    return bw_registry_apply(w->registry, entry, &w->results);
}

static enum bw_refusal change(struct world *w, uint64_t node, bool raised)
{
    return apply(
        w, &(struct bw_entry){.kind = BW_ENTRY_ALARM, .alarm = {.raised = raised, .node = node}});
}

static void raise_level(struct world *w)
{
    apply(w, &(struct bw_entry){.kind = BW_ENTRY_LEVEL, .level = BW_REGISTRY_LEVEL});
}

static void alarm_stops_only_what_needs_space(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    raise_level(&w);
    put(&w, "a", "1");
    put(&w, "b", "1");
    bw_registry_grant(w.registry, 7, BW_SEC, 0);
    assert_int_equal(change(&w, 3, true), BW_REFUSED_NONE);
    const struct bw_op puts = {.kind = BW_OP_PUT, .put = {.key = text("c"), .value = text("1")}};
    const struct bw_op inner = {.kind = BW_OP_TXN,
                                .txn = {.otherwise = &puts, .otherwise_count = 1}};
    const struct bw_op reads = {.kind = BW_OP_RANGE, .range = {.keys.key = text("a")}};
    const struct bw_op deletes = {.kind = BW_OP_DELETE, .delete = {.keys.key = text("b")}};
    const struct {
        struct bw_entry entry;
        enum bw_refusal refusal;
    } cases[] = {
        {{.kind = BW_ENTRY_PUT, .put = {.key = text("a")}}, BW_REFUSED_NO_SPACE},
        {{.kind = BW_ENTRY_GRANT, .lease = {.id = 8, .ttl_ns = BW_SEC}}, BW_REFUSED_NO_SPACE},
        {{.kind = BW_ENTRY_TXN, .txn = {.then = &puts, .then_count = 1}}, BW_REFUSED_NO_SPACE},
        {{.kind = BW_ENTRY_TXN, .txn = {.otherwise = &puts, .otherwise_count = 1}},
         BW_REFUSED_NO_SPACE},
        {{.kind = BW_ENTRY_TXN, .txn = {.then = &inner, .then_count = 1}}, BW_REFUSED_NO_SPACE},
        {{.kind = BW_ENTRY_TXN, .txn = {.then = &reads, .then_count = 1}}, BW_REFUSED_NONE},
        {{.kind = BW_ENTRY_TXN, .txn = {.then = &deletes, .then_count = 1}}, BW_REFUSED_NONE},
        {{.kind = BW_ENTRY_DELETE, .delete = {.keys.key = text("a")}}, BW_REFUSED_NONE},
        {{.kind = BW_ENTRY_BIND, .lease = {.id = 7, .binding = 1}}, BW_REFUSED_NONE},
        {{.kind = BW_ENTRY_COMPACT, .revision = 3}, BW_REFUSED_NONE},
        {{.kind = BW_ENTRY_REVOKE, .lease = {.id = 7}}, BW_REFUSED_NONE}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(apply(&w, &cases[i].entry), cases[i].refusal);
    assert_null(get(&w, "a"));
    assert_null(get(&w, "b"));
    assert_int_equal(change(&w, 3, false), BW_REFUSED_NONE);
    assert_int_equal(apply(&w, &cases[0].entry), BW_REFUSED_NONE);
    world_close(&w);
}

static void alarms_form_a_bounded_set(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    raise_level(&w);
    const struct bw_alarms *alarms = bw_registry_alarms(w.registry);
    for (uint64_t node = BW_ALARMS_MAX; node > 0; node--)
        assert_int_equal(change(&w, 2 * node, true), BW_REFUSED_NONE);
    assert_int_equal(change(&w, 2, true), BW_REFUSED_NONE); /* again */
    assert_int_equal(change(&w, 3, true), BW_REFUSED_NO_SPACE);
    assert_int_equal(alarms->count, BW_ALARMS_MAX);
    for (uint32_t i = 0; i < alarms->count; i++)
        assert_int_equal(alarms->nodes[i], 2 * (i + 1));
    assert_int_equal(change(&w, 3, false), BW_REFUSED_NONE); /* not raised */
    assert_int_equal(change(&w, 4, false), BW_REFUSED_NONE);
    assert_int_equal(alarms->count, BW_ALARMS_MAX - 1);
    assert_int_equal(alarms->nodes[1], 6);
    world_close(&w);
}

static void snapshot_keeps_alarms(void **state)
{
    (void)state;
    static unsigned char bytes[BW_SNAPSHOT_PIECE_MAX];
    struct bw_saving saving;
    struct bw_loading loading = {0};
    struct world w, other;
    world_open(&w);
    raise_level(&w);
    put(&w, "a", "1");
    change(&w, 9, true);
    change(&w, UINT64_MAX, true);
    bw_registry_save_begin(w.registry, &saving);
    size_t length = bw_registry_save(w.registry, &saving, bytes, sizeof bytes);
    world_open(&other);
    assert_int_equal(bw_registry_load(other.registry, &loading, bytes, length), length);
    assert_memory_equal(bw_registry_alarms(other.registry), bw_registry_alarms(w.registry),
                        sizeof(struct bw_alarms));
    world_close(&other);
    world_close(&w);
}

static void entry_has_at_most_one_requester(void **state)
{
    (void)state;
    static struct bw_entry_scratch room;
    struct bw_entry read;
    const unsigned char alarm[] = {12, 1, 5}, by_node[] = {11, 12, 1, 5}, twice[] = {11, 11, 12},
                        then_user[] = {11, 10, 1, 1, 'a', 12, 1, 5}, unknown[] = {13};
    unsigned char bytes[8];
    assert_int_equal(bw_entry_decode(&read, &room, alarm, sizeof alarm), 0);
    assert_true(read.kind == BW_ENTRY_ALARM && read.alarm.raised && read.alarm.node == 5);
    assert_int_equal(bw_entry_encode(&read, bytes, sizeof bytes), sizeof alarm);
    assert_memory_equal(bytes, alarm, sizeof alarm);
    assert_int_equal(bw_entry_decode(&read, &room, by_node, sizeof by_node), 0);
    assert_int_equal(bw_entry_decode(&read, &room, twice, sizeof twice), BW_EMALFORMED);
    assert_int_equal(bw_entry_decode(&read, &room, then_user, sizeof then_user), BW_EMALFORMED);
    assert_int_equal(bw_entry_decode(&read, &room, unknown, sizeof unknown), BW_EMALFORMED);
}

static void ceiling_replaces_the_quota_from_level_three_on(void **state)
{
    (void)state;
    struct world w;
    static char large[40001];
    memset(large, 'x', 40000);
    world_open_with(&w, &(struct bw_registry_config){
                            .quota = 65536, .ceiling = 1 << 20, .leases_max = 10, .history = 1024});
    assert_int_equal(put(&w, "a", large), BW_REFUSED_NONE);
    assert_int_equal(put(&w, "b", large), BW_REFUSED_NO_SPACE);
    raise_level(&w);
    assert_int_equal(put(&w, "b", large), BW_REFUSED_NONE);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alarm_stops_only_what_needs_space),
        cmocka_unit_test(alarms_form_a_bounded_set),
        cmocka_unit_test(snapshot_keeps_alarms),
        cmocka_unit_test(entry_has_at_most_one_requester),
        cmocka_unit_test(ceiling_replaces_the_quota_from_level_three_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
