/* The registry in the explorer: its digest holds keys, leases and deadlines, and nothing about when
 * they were made. */
#include "core/registry/digest.h"
#include "core/registry/expiry.h"
#include "core/registry/registry_state.h"
#include "registry_world.h"

#define NOW   (100 * BW_SEC)
#define WORDS 256u

struct words {
    uint64_t at[WORDS];
    struct bw_digest digest;
};

static void take(const struct world *w, bw_time now, struct words *words)
{
    words->digest =
        (struct bw_digest){.at = words->at, .cap = WORDS, .now = now, .next = BW_TIME_NEVER};
    bw_registry_digest(w->registry, &words->digest);
}

static bool same_words(const struct words *a, const struct words *b)
{
    return a->digest.count == b->digest.count &&
           memcmp(a->at, b->at, a->digest.count * sizeof a->at[0]) == 0;
}

/* Runs the first `steps` steps of a story that begins at `begin`, and takes the digest. */
static void tell(unsigned steps, bw_time begin, struct words *words)
{
    struct world w;
    int64_t expired[1];
    world_open(&w);
    if (steps > 0)
        assert_int_equal(bw_registry_grant(w.registry, 7, BW_SEC, 0), 0);
    if (steps > 1)
        assert_int_equal(put_leased(&w, "k", "1", 7), 0);
    if (steps > 2)
        assert_int_equal(put_leased(&w, "k", "2", 7), 0);
    if (steps > 3)
        bw_registry_lead(w.registry, begin);
    if (steps > 4)
        assert_int_equal(bw_registry_expired(w.registry, begin + 2 * BW_SEC, expired, 1), 1);
    for (uint64_t node = 6; node <= steps; node++)
        bw_registry_alarm_change(w.registry,
                                 &(struct bw_alarm_change){.raised = true, .node = node});
    take(&w, begin, words);
    assert_int_equal(bw_registry_is_timed(w.registry, 7), steps == 4);
    assert_true(bw_registry_keys_have_leases(w.registry));
    world_close(&w);
}

static void digest_tells_states_apart_and_not_when_they_were(void **state)
{
    (void)state;
    static struct words words[8], later;
    for (unsigned i = 0; i < 8; i++) {
        tell(i, NOW, &words[i]);
        tell(i, NOW + 5 * BW_SEC, &later);
        assert_true(same_words(&words[i], &later));
        for (unsigned k = 0; k < i; k++)
            assert_false(same_words(&words[i], &words[k]));
    }
    assert_true(words[4].digest.next > NOW && words[4].digest.next < BW_TIME_NEVER);
}

static void key_without_its_lease_is_found(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    put(&w, "a", "1");
    assert_true(bw_registry_keys_have_leases(w.registry));
    bw_ref node = tree_find(w.registry, text("a"));
    kv_at(w.registry, node_at(w.registry, node)->kv)->lease = 9; /* by a bug of ours */
    assert_false(bw_registry_keys_have_leases(w.registry));
    assert_false(bw_registry_is_timed(w.registry, 9));
    world_close(&w);
}

/* The explorer restores exactly these parts. */
static void extents_hold_all_that_a_small_registry_changes(void **state)
{
    (void)state;
    struct world w;
    struct bw_registry_extent extents[BW_REGISTRY_EXTENTS];
    static struct words before, after;
    unsigned char *saved[BW_REGISTRY_EXTENTS];
    world_open(&w);
    bw_registry_grant(w.registry, 7, BW_SEC, 0);
    put_leased(&w, "old", "1", 7);
    bw_registry_lead(w.registry, NOW);
    take(&w, NOW, &before);
    bw_registry_extents(w.registry, extents);
    for (unsigned i = 0; i < BW_REGISTRY_EXTENTS; i++) {
        saved[i] = malloc(extents[i].length);
        memcpy(saved[i], extents[i].at, extents[i].length);
    }
    put_leased(&w, "old", "2", 7);
    put_leased(&w, "k", "1", 7);
    assert_int_equal(bw_registry_compact(w.registry, revision_of(&w)), 0);
    for (int i = 0; i < 4; i++) /* one of them in the memory of the first version of "old" */
        put_leased(&w, "new", "3", 7);
    bw_registry_follow(w.registry);
    take(&w, NOW, &after);
    assert_false(same_words(&before, &after));
    for (unsigned i = 0; i < BW_REGISTRY_EXTENTS; i++) {
        memcpy(extents[i].at, saved[i], extents[i].length);
        free(saved[i]);
    }
    take(&w, NOW, &after);
    assert_true(same_words(&before, &after));
    assert_null(get(&w, "k"));
    assert_memory_equal(bw_kv_value(get(&w, "old")).at, "1", 1);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digest_tells_states_apart_and_not_when_they_were),
        cmocka_unit_test(key_without_its_lease_is_found),
        cmocka_unit_test(extents_hold_all_that_a_small_registry_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
