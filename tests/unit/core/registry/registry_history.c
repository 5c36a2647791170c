/* The bound on the bytes of the history: when it begins, what it keeps, and that every node that
 * applied the same log drops the same events. */
#include "core/registry/snapshot.h"
#include "unit/core/registry/registry_world.h"

#include <stdio.h>

#define VALUE 10000u
#define BOUND 100000u

static const struct bw_registry_config config = {
    .quota = 4 << 20, .leases_max = 100, .history = 1024, .history_bytes = BOUND};

static char value[VALUE + 1];

static void open_world(struct world *w)
{
    memset(value, 'v', VALUE);
    world_open_with(w, &config);
}

static enum bw_refusal apply(struct world *w, const struct bw_entry *entry)
{
    return bw_registry_apply(w->registry, entry, &w->results);
}

static void apply_put(struct world *w, unsigned key, size_t length)
{
    char name[16];
    snprintf(name, sizeof name, "k%03u", key);
    struct bw_entry entry = {.kind = BW_ENTRY_PUT,
                             .put = {.key = text(name), .value = text(value), .previous = true}};
    entry.put.value.length = length;
    assert_int_equal(apply(w, &entry), BW_REFUSED_NONE);
}

static void raise_level(struct world *w)
{
    apply(w, &(struct bw_entry){.kind = BW_ENTRY_LEVEL, .level = BW_REGISTRY_LEVEL});
}

static struct bw_registry_status status_of(const struct world *w)
{
    struct bw_registry_status status;
    bw_registry_status(w->registry, &status);
    return status;
}

static void bound_begins_with_level_three(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    for (unsigned i = 0; i < 50; i++)
        apply_put(&w, 0, VALUE);
    assert_true(status_of(&w).history_bytes > 49 * VALUE);
    assert_int_equal(status_of(&w).floor, 0);
    raise_level(&w);
    apply_put(&w, 0, VALUE);
    assert_in_range(status_of(&w).history_bytes, BOUND - VALUE, BOUND + 2 * VALUE);
    assert_true(status_of(&w).floor > 40);
    world_close(&w);
}

static void live_content_does_not_count(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    raise_level(&w);
    for (unsigned i = 0; i < 100; i++)
        apply_put(&w, i, VALUE);
    assert_true(status_of(&w).bytes > 100 * VALUE);
    assert_true(status_of(&w).history_bytes < 10000); /* the events, without their versions */
    assert_int_equal(status_of(&w).floor, 0);
    world_close(&w);
}

/* The deleted versions are many times the bound, and only the history keeps them. */
static void results_of_a_large_delete_stay_valid(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    raise_level(&w);
    for (unsigned i = 0; i < 100; i++)
        apply_put(&w, i, VALUE);
    struct bw_entry all = {
        .kind = BW_ENTRY_DELETE,
        .delete = {.keys = {.key = text("k"), .end = text("l")}, .previous = true}};
    assert_int_equal(apply(&w, &all), BW_REFUSED_NONE);
    assert_int_equal(w.ops[0].kv_count, 100);
    for (unsigned i = 0; i < 100; i++) {
        struct bw_slice found = bw_kv_value(w.ops[0].kvs[i]);
        assert_int_equal(found.length, VALUE);
        assert_memory_equal(found.at, value, VALUE);
    }
    assert_true(status_of(&w).history_bytes > 100 * VALUE);
    apply_put(&w, 0, 1);
    assert_true(status_of(&w).history_bytes <= BOUND + 100);
    world_close(&w);
}

static void compaction_drops_the_bytes_of_the_history(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    raise_level(&w);
    for (unsigned i = 0; i < 8; i++)
        apply_put(&w, i % 2, VALUE);
    assert_true(status_of(&w).history_bytes > 6 * VALUE);
    struct bw_entry compact = {.kind = BW_ENTRY_COMPACT, .revision = revision_of(&w)};
    assert_int_equal(apply(&w, &compact), BW_REFUSED_NONE);
    assert_in_range(status_of(&w).history_bytes, VALUE, VALUE + 200); /* the last put's previous */
    assert_true(status_of(&w).bytes > 3 * VALUE);
    world_close(&w);
}

static void copy_by_snapshot(struct world *from, struct world *to)
{
    static unsigned char bytes[4 << 20];
    struct bw_saving saving;
    struct bw_loading loading = {0};
    size_t used = 0, length;
    bw_registry_save_begin(from->registry, &saving);
    while ((length = bw_registry_save(from->registry, &saving, bytes + used, sizeof bytes - used)) >
           0)
        used += length;
    open_world(to);
    assert_int_equal(bw_registry_load(to->registry, &loading, bytes, used), used);
    assert_true(loading.ended);
}

static void change(struct world *w, unsigned number)
{
    uint32_t r = number * 2654435761u;
    char name[16];
    snprintf(name, sizeof name, "k%03u", r >> 8 & 15);
    if (r >> 28 == 0)
        apply(w, &(struct bw_entry){.kind = BW_ENTRY_DELETE, .delete = {.keys.key = text(name)}});
    else if (r >> 28 == 1)
        apply(w, &(struct bw_entry){.kind = BW_ENTRY_GRANT,
                                    .lease = {.id = 1 + (r >> 8 & 63), .ttl_ns = BW_SEC}});
    else
        apply_put(w, r >> 8 & 15, r >> 12 & 8191);
}

/* A node that loaded a snapshot goes on like the node that wrote it, whichever entry it covers. */
static void loaded_registry_drops_the_same_events(void **state)
{
    (void)state;
    for (unsigned cut = 20; cut < 220; cut += 9) {
        struct world a, b;
        open_world(&a);
        for (unsigned i = 0; i < cut; i++) {
            if (i == 60)
                raise_level(&a);
            change(&a, i);
        }
        copy_by_snapshot(&a, &b);
        for (unsigned i = cut; i < 260; i++) {
            struct bw_registry_status one = status_of(&a), other = status_of(&b);
            assert_memory_equal(&one, &other, sizeof one);
            change(&a, i);
            change(&b, i);
        }
        world_close(&a);
        world_close(&b);
    }
}

static void memory_of_dropped_versions_is_released_above_a_threshold(void **state)
{
    (void)state;
    struct world w;
    void *at;
    size_t length, released = 0;
    struct bw_registry_config large = {.quota = 64 << 20, .leases_max = 100, .history = 4096};
    memset(value, 'v', VALUE);
    world_open_with(&w, &large);
    for (unsigned i = 0; i < 1000; i++)
        apply_put(&w, 0, VALUE);
    assert_int_equal(bw_registry_compact(w.registry, revision_of(&w)), 0);
    assert_false(bw_registry_release(w.registry, &at, &length));
    for (unsigned i = 0; i < 3000; i++)
        apply_put(&w, i % 500, VALUE);
    assert_int_equal(bw_registry_compact(w.registry, revision_of(&w)), 0);
    for (; bw_registry_release(w.registry, &at, &length); released += length)
        assert_true(length > 0 && released < (size_t)64 << 20);
    assert_true(released > 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bound_begins_with_level_three),
        cmocka_unit_test(live_content_does_not_count),
        cmocka_unit_test(results_of_a_large_delete_stay_valid),
        cmocka_unit_test(compaction_drops_the_bytes_of_the_history),
        cmocka_unit_test(loaded_registry_drops_the_same_events),
        cmocka_unit_test(memory_of_dropped_versions_is_released_above_a_threshold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
