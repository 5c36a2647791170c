/* Watchers: turns, parking, filters, and a registry that was loaded again. */
#include "core/base/error.h"
#include "core/registry/watch.h"
#include "registry_world.h"

#define MOST 16u

struct watching {
    struct world w;
    struct bw_watches *watches;
    void *memory;
};

static void begin(struct watching *t)
{
    world_open(&t->w);
    t->memory = calloc(1, bw_watches_bytes(MOST));
    assert_int_equal(bw_watches_init(&t->watches, t->memory, bw_watches_bytes(MOST), MOST), 0);
}

static void end(struct watching *t)
{
    free(t->memory);
    world_close(&t->w);
}

static bw_ref watch(struct watching *t, const char *key, int64_t start)
{
    struct bw_watcher_spec spec = {.keys = {.key = text(key)}, .start = start};
    bw_ref ref = bw_watcher_add(t->watches, t->w.registry, &spec);
    assert_int_not_equal(ref, 0);
    return ref;
}

static void write_key(struct watching *t, const char *key)
{
    assert_int_equal(put(&t->w, key, "v"), 0);
    bw_watches_scan(t->watches, t->w.registry);
}

/* The revision of the next event, or minus the result. */
static int64_t next(struct watching *t, bw_ref ref)
{
    struct bw_kv_event event;
    enum bw_watcher_result result = bw_watcher_next(t->watches, t->w.registry, ref, &event);
    return result == BW_WATCHER_EVENT ? event.revision : -(int64_t)result;
}

static void event_that_was_put_back_comes_again(void **state)
{
    struct watching t;
    (void)state;
    begin(&t);
    bw_ref ref = watch(&t, "k", 1);
    write_key(&t, "k");
    write_key(&t, "other");
    write_key(&t, "k");
    int64_t last = revision_of(&t.w);
    bw_watches_turn(t.watches, 100);
    assert_int_equal(next(&t, ref), last - 2);
    assert_int_equal(next(&t, ref), last);
    bw_watcher_put_back(t.watches, ref);
    bw_watcher_park(t.watches, ref);
    assert_int_equal(next(&t, ref), last);
    assert_int_equal(next(&t, ref), -BW_WATCHER_NOTHING);
    end(&t);
}

static void senseless_watch_settings_are_refused(void **state)
{
    (void)state;
    size_t bytes = bw_watches_bytes(100);
    void *memory = calloc(1, bytes);
    struct bw_watches *watches;
    assert_int_equal(bw_watches_init(&watches, memory, bytes, 0), BW_EINVAL);
    assert_int_equal(bw_watches_init(&watches, memory, bytes - 1, 100), BW_ENOMEM);
    assert_int_equal(bw_watches_init(&watches, memory, bytes, 100), 0);
    /* the hash table stops growing at a million buckets */
    assert_true(bw_watches_bytes(4u << 20) - bw_watches_bytes(2u << 20) == (size_t)2048 << 20);
    free(memory);
}

static void too_long_keys_and_a_full_memory_are_refused(void **state)
{
    (void)state;
    static unsigned char long_key[65537];
    struct watching t;
    world_open(&t.w);
    size_t bytes = bw_watches_bytes(1000);
    t.memory = calloc(1, bytes);
    assert_int_equal(bw_watches_init(&t.watches, t.memory, bytes, 1000), 0);
    struct bw_watcher_spec spec = {.keys = {.key = {long_key, sizeof long_key}}};
    assert_int_equal(bw_watcher_add(t.watches, t.w.registry, &spec), 0);
    spec.keys.key.length--;
    uint32_t count = 0;
    while (count < 1000 && bw_watcher_add(t.watches, t.w.registry, &spec))
        count++;
    assert_in_range(count, 50, 999); /* the memory is full before the table */
    assert_int_equal(bw_watches_count(t.watches), count);
    end(&t);
}

static void a_watcher_of_all_keys_may_begin_with_the_empty_key(void **state)
{
    (void)state;
    static const unsigned char zero[1];
    struct watching t;
    begin(&t);
    struct bw_watcher_spec spec = {.keys = {.end = {zero, 1}}};
    bw_ref all = bw_watcher_add(t.watches, t.w.registry, &spec);
    spec.keys = (struct bw_keys){.key = text("b"), .end = text("c")};
    bw_ref some = bw_watcher_add(t.watches, t.w.registry, &spec);
    write_key(&t, "a");
    assert_int_equal(bw_watches_ready(t.watches), all); /* "a" is before the other range */
    assert_int_equal(bw_watches_ready(t.watches), 0);
    write_key(&t, "b");
    assert_int_equal(bw_watches_ready(t.watches), some);
    assert_int_equal(next(&t, some), 3);
    end(&t);
}

static void filters_hide_puts_or_deletes(void **state)
{
    (void)state;
    struct watching t;
    begin(&t);
    struct bw_watcher_spec spec = {.keys = {.key = text("a")}, .no_put = true};
    bw_ref deletes = bw_watcher_add(t.watches, t.w.registry, &spec);
    spec = (struct bw_watcher_spec){.keys = {.key = text("a")}, .no_delete = true};
    bw_ref puts = bw_watcher_add(t.watches, t.w.registry, &spec);
    write_key(&t, "a");
    assert_int_equal(bw_watches_ready(t.watches), puts);
    assert_int_equal(next(&t, puts), 2);
    assert_int_equal(next(&t, puts), -BW_WATCHER_NOTHING);
    assert_true(bw_watches_are_idle(t.watches));
    delete_keys(&t.w, (struct bw_keys){.key = text("a")});
    bw_watches_scan(t.watches, t.w.registry);
    assert_int_equal(bw_watches_ready(t.watches), deletes);
    assert_int_equal(next(&t, deletes), 3);
    assert_true(bw_watches_are_idle(t.watches));
    end(&t);
}

static void a_watcher_of_the_future_waits_for_its_revision(void **state)
{
    (void)state;
    struct watching t;
    begin(&t);
    bw_ref ref = watch(&t, "a", 4);
    write_key(&t, "a");
    write_key(&t, "a");
    assert_true(bw_watches_are_idle(t.watches));
    write_key(&t, "a");
    assert_int_equal(bw_watches_ready(t.watches), ref);
    assert_int_equal(next(&t, ref), 4);
    end(&t);
}

static void a_turn_ends_after_its_steps(void **state)
{
    (void)state;
    struct watching t;
    begin(&t);
    bw_ref first = watch(&t, "a", 0), second = watch(&t, "b", 0);
    write_key(&t, "a");
    write_key(&t, "b");
    bw_watches_turn(t.watches, 1);
    assert_int_equal(bw_watches_ready(t.watches), first);
    assert_int_equal(bw_watches_steps_left(t.watches), 0);
    assert_int_equal(bw_watches_ready(t.watches), 0);
    assert_false(bw_watches_are_idle(t.watches));
    assert_int_equal(next(&t, first), -BW_WATCHER_LATER); /* it is ready again, behind the other */
    bw_watches_turn(t.watches, 10);
    assert_int_equal(bw_watches_ready(t.watches), second);
    assert_int_equal(bw_watches_ready(t.watches), first);
    assert_int_equal(next(&t, first), 2);
    end(&t);
}

static void work_of_the_caller_counts_as_steps(void **state)
{
    (void)state;
    struct watching t;
    begin(&t);
    bw_ref first = watch(&t, "a", 0), second = watch(&t, "b", 0);
    bw_watches_spend(t.watches, 5);
    assert_int_equal(bw_watches_steps_left(t.watches), UINT32_MAX); /* unlimited stays unlimited */
    write_key(&t, "a");
    write_key(&t, "b");
    bw_watches_turn(t.watches, 10);
    assert_int_equal(bw_watches_ready(t.watches), first);
    bw_watches_spend(t.watches, 4);
    assert_int_equal(bw_watches_steps_left(t.watches), 5);
    bw_watches_spend(t.watches, 6);
    assert_int_equal(bw_watches_steps_left(t.watches), 0);
    assert_int_equal(bw_watches_ready(t.watches), 0);
    bw_watches_turn(t.watches, 10);
    assert_int_equal(bw_watches_ready(t.watches), second);
    end(&t);
}

static const struct bw_kv *created_before(const struct world *w, int64_t revision, uint32_t most)
{
    struct bw_keys keys = {.key = text("a/"), .end = text("a0")};
    return bw_registry_created_before(w->registry, &keys, revision, most);
}

static void is_key(const struct bw_kv *kv, const char *key)
{
    assert_non_null(kv);
    assert_int_equal(bw_kv_key(kv).length, strlen(key));
    assert_memory_equal(bw_kv_key(kv).at, key, strlen(key));
}

static void key_created_last_is_found_among_recent_events(void **state)
{
    (void)state;
    static const char *const written[] = {"a/1", "a/2", "b/1", "a/1", "a/3"};
    struct world w;
    world_open(&w);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(put(&w, written[i], "v"), 0);
    int64_t own = revision_of(&w);
    assert_null(created_before(&w, own, 2)); /* another range, and a second version */
    is_key(created_before(&w, own, 3), "a/2");
    assert_int_equal(delete_keys(&w, (struct bw_keys){.key = text("a/2")}), 1);
    is_key(created_before(&w, own, 10), "a/1");
    is_key(created_before(&w, own + 2, 10), "a/3"); /* a deletion creates nothing */
    assert_int_equal(put(&w, "a/2", "v"), 0);
    is_key(created_before(&w, own, 10), "a/1"); /* the first a/2 does not exist any more */
    assert_int_equal(bw_registry_compact(w.registry, revision_of(&w)), 0);
    assert_null(created_before(&w, own, 10)); /* its creation is not in the history any more */
    world_close(&w);
}

/* Two keys change in revision 3. A turn that ends there does not split them. */
static void a_turn_does_not_split_a_revision(void **state)
{
    (void)state;
    static const unsigned char zero[1];
    struct watching t;
    begin(&t);
    struct bw_watcher_spec spec = {.keys = {.key = text("a"), .end = {zero, 1}}};
    bw_ref ref = bw_watcher_add(t.watches, t.w.registry, &spec);
    write_key(&t, "a");
    struct bw_op ops[] = {{.kind = BW_OP_PUT, .put = {.key = text("b")}},
                          {.kind = BW_OP_PUT, .put = {.key = text("c")}}};
    struct bw_txn txn = {.then = ops, .then_count = 2};
    assert_int_equal(bw_registry_txn(t.w.registry, &txn, &t.w.results), 0);
    write_key(&t, "d");
    bw_watches_turn(t.watches, 3);
    assert_int_equal(bw_watches_ready(t.watches), ref);
    assert_int_equal(next(&t, ref), 2);
    assert_int_equal(next(&t, ref), 3);
    assert_int_equal(bw_watches_steps_left(t.watches), 0);
    assert_int_equal(next(&t, ref), 3);
    assert_int_equal(next(&t, ref), -BW_WATCHER_LATER);
    bw_watches_turn(t.watches, 0);
    assert_int_equal(bw_watches_ready(t.watches), 0);
    end(&t);
}

/* Nothing before the first event of the history, and nothing left of an earlier revision. */
static void a_turn_may_end_before_the_first_event(void **state)
{
    (void)state;
    struct watching t;
    begin(&t);
    write_key(&t, "a");
    write_key(&t, "a");
    assert_int_equal(bw_registry_compact(t.w.registry, 3), 0);
    bw_ref old = watch(&t, "a", 3);
    assert_int_equal(bw_watches_ready(t.watches), old);
    bw_watches_turn(t.watches, 0);
    assert_int_equal(next(&t, old), -BW_WATCHER_LATER); /* event 1 is the oldest that is kept */
    end(&t);
    begin(&t);
    write_key(&t, "a");
    bw_ref first = watch(&t, "a", 1);
    assert_int_equal(bw_watches_ready(t.watches), first);
    bw_watches_turn(t.watches, 0);
    assert_int_equal(next(&t, first), -BW_WATCHER_LATER); /* event 0 */
    end(&t);
}

static void a_parked_watcher_is_not_ready_until_its_owner_asks(void **state)
{
    (void)state;
    struct watching t;
    begin(&t);
    bw_ref ref = watch(&t, "a", 0);
    write_key(&t, "a");
    bw_watcher_park(t.watches, ref); /* while it is ready */
    assert_true(bw_watches_are_idle(t.watches));
    write_key(&t, "a");
    assert_true(bw_watches_are_idle(t.watches));
    bw_watcher_park(t.watches, ref);
    assert_int_equal(next(&t, ref), 2);
    write_key(&t, "a"); /* in the middle of its delivery */
    assert_int_equal(bw_watches_ready(t.watches), ref);
    assert_int_equal(next(&t, ref), 3);
    assert_int_equal(next(&t, ref), 4);
    assert_int_equal(next(&t, ref), -BW_WATCHER_NOTHING);
    bw_watcher_skip(t.watches, t.w.registry, ref);
    assert_int_equal(next(&t, ref), -BW_WATCHER_NOTHING);
    end(&t);
}

static void watchers_leave_the_middle_of_their_lists(void **state)
{
    (void)state;
    struct watching t;
    begin(&t);
    bw_ref refs[4];
    for (unsigned i = 0; i < 4; i++)
        refs[i] = watch(&t, "a", 0);
    write_key(&t, "a"); /* ready in reverse order */
    bw_watcher_remove(t.watches, refs[1]);
    bw_watcher_remove(t.watches, refs[3]);
    assert_int_equal(bw_watches_count(t.watches), 2);
    assert_int_equal(bw_watches_ready(t.watches), refs[2]);
    assert_int_equal(bw_watches_ready(t.watches), refs[0]);
    assert_int_equal(bw_watches_ready(t.watches), 0);
    bw_watcher_remove(t.watches, refs[0]);
    while (next(&t, refs[2]) > 0)
        ;
    write_key(&t, "a");
    assert_int_equal(bw_watches_ready(t.watches), refs[2]);
    end(&t);
}

/* The registry was replaced by a snapshot; every watcher resumes at its revision. */
static void reset_makes_every_watcher_ready_that_missed_something(void **state)
{
    (void)state;
    struct watching t;
    begin(&t);
    bw_ref behind = watch(&t, "a", 2), ahead = watch(&t, "b", 9), parked = watch(&t, "c", 2),
           ready = watch(&t, "d", 1);
    bw_watcher_park(t.watches, parked);
    assert_int_equal(put(&t.w, "a", "v"), 0);
    assert_int_equal(put(&t.w, "a", "v"), 0);
    bw_watches_reset(t.watches, t.w.registry);
    unsigned found = 0;
    for (bw_ref ref; (ref = bw_watches_ready(t.watches)); found++)
        assert_true(ref == behind || ref == ready);
    assert_int_equal(found, 2);
    assert_int_equal(next(&t, behind), 2);
    assert_int_equal(next(&t, ahead), -BW_WATCHER_NOTHING);
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event_that_was_put_back_comes_again),
        cmocka_unit_test(senseless_watch_settings_are_refused),
        cmocka_unit_test(too_long_keys_and_a_full_memory_are_refused),
        cmocka_unit_test(a_watcher_of_all_keys_may_begin_with_the_empty_key),
        cmocka_unit_test(filters_hide_puts_or_deletes),
        cmocka_unit_test(a_watcher_of_the_future_waits_for_its_revision),
        cmocka_unit_test(a_turn_ends_after_its_steps),
        cmocka_unit_test(work_of_the_caller_counts_as_steps),
        cmocka_unit_test(key_created_last_is_found_among_recent_events),
        cmocka_unit_test(a_turn_does_not_split_a_revision),
        cmocka_unit_test(a_turn_may_end_before_the_first_event),
        cmocka_unit_test(a_parked_watcher_is_not_ready_until_its_owner_asks),
        cmocka_unit_test(watchers_leave_the_middle_of_their_lists),
        cmocka_unit_test(reset_makes_every_watcher_ready_that_missed_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
