/* The hash of the keys at a revision: changes between its steps have no influence. */
#include "core/base/rng.h"
#include "registry_world.h"

#include <stdio.h>

#define KEYS 200u

static uint32_t hash_at_once(const struct world *w, int64_t revision)
{
    struct bw_hashing hashing;
    struct bw_slice visited = {0};
    assert_int_equal(bw_registry_hash_begin(w->registry, revision, &hashing), 0);
    assert_int_equal(bw_registry_hash(w->registry, &hashing, &visited, UINT64_MAX), BW_HASH_DONE);
    return bw_hashing_result(&hashing);
}

static void change(struct world *w, struct bw_rng *random)
{
    char key[16], value[16];
    uint64_t number = bw_rng_below(random, 3 * KEYS);
    snprintf(key, sizeof key, "k%03u", (unsigned)(number % KEYS));
    snprintf(value, sizeof value, "%u", (unsigned)bw_rng_below(random, 1000));
    if (number < KEYS)
        delete_keys(w, (struct bw_keys){.key = text(key)});
    else
        assert_int_equal(put(w, key, value), 0);
}

/* Takes small steps with changes in between. */
static uint32_t hash_in_steps(struct world *w, int64_t revision, struct bw_rng *random)
{
    struct bw_hashing hashing;
    char kept[16] = "";
    struct bw_slice visited = {0};
    enum bw_hash_result result;
    assert_int_equal(bw_registry_hash_begin(w->registry, revision, &hashing), 0);
    for (unsigned steps = 1;; steps++) {
        result = bw_registry_hash(w->registry, &hashing, &visited, 1000);
        if (result != BW_HASH_MORE)
            break;
        memcpy(kept, visited.at ? visited.at : (const unsigned char *)"", visited.length);
        visited.at = (const unsigned char *)kept;
        for (uint64_t i = bw_rng_below(random, 4); i > 0; i--)
            change(w, random);
        assert_true(steps < 1000);
    }
    assert_int_equal(result, BW_HASH_DONE);
    return bw_hashing_result(&hashing);
}

static void hash_of_a_revision_ignores_later_changes(void **state)
{
    struct world w;
    struct bw_rng random;
    (void)state;
    bw_rng_init(&random, 1);
    for (unsigned run = 0; run < 50; run++) {
        world_open(&w);
        for (unsigned i = 0; i < 300; i++)
            change(&w, &random);
        int64_t then = revision_of(&w);
        uint32_t expected = hash_at_once(&w, 0);
        for (unsigned i = 0; i < 50; i++)
            change(&w, &random);
        assert_int_equal(hash_at_once(&w, then), expected);
        assert_int_equal(hash_in_steps(&w, then, &random), expected);
        assert_int_not_equal(hash_at_once(&w, 0), expected);
        world_close(&w);
    }
}

static void hash_distinguishes_every_field(void **state)
{
    struct world a, b;
    (void)state;
    world_open(&a);
    world_open(&b);
    put(&a, "ab", "c");
    put(&b, "a", "bc"); /* the same bytes */
    assert_int_not_equal(hash_at_once(&a, 0), hash_at_once(&b, 0));
    bw_registry_grant(a.registry, 7, BW_SEC, 0);
    put(&a, "k", "v");
    put(&b, "k", "v");
    uint32_t before = hash_at_once(&a, 0);
    world_close(&b);
    world_open(&b);
    bw_registry_grant(b.registry, 7, BW_SEC, 0);
    put(&b, "ab", "c");
    put_leased(&b, "k", "v", 7);
    assert_int_not_equal(hash_at_once(&b, 0), before);
    world_close(&a);
    world_close(&b);
}

static void hash_covers_every_byte_of_a_long_value(void **state)
{
    struct world a, b;
    char value[32] = "a value of more than eight bytes";
    (void)state;
    value[sizeof value - 1] = '\0';
    for (size_t i = 0; i + 1 < sizeof value; i++) {
        world_open(&a);
        world_open(&b);
        put(&a, "k", value);
        value[i] ^= 1;
        put(&b, "k", value);
        assert_int_not_equal(hash_at_once(&a, 0), hash_at_once(&b, 0));
        world_close(&a);
        world_close(&b);
    }
}

/* A snapshot of the leader may replace the registry between two steps. */
static void hash_ends_if_the_registry_was_replaced(void **state)
{
    struct world a, b;
    struct bw_hashing hashing;
    struct bw_slice visited = {0};
    (void)state;
    world_open(&a);
    world_open(&b);
    for (unsigned i = 0; i < 10; i++)
        put(&a, "k", "v");
    assert_int_equal(bw_registry_hash_begin(a.registry, 0, &hashing), 0);
    assert_int_equal(bw_registry_hash(b.registry, &hashing, &visited, 1000), BW_HASH_LOST);
    world_close(&a);
    world_close(&b);
}

static void hash_of_a_dropped_revision_is_refused(void **state)
{
    struct world w;
    struct bw_hashing hashing;
    struct bw_slice visited = {0};
    (void)state;
    world_open(&w);
    for (unsigned i = 0; i < 10; i++)
        put(&w, "k", "v");
    assert_int_equal(bw_registry_hash_begin(w.registry, 12, &hashing), BW_REFUSED_FUTURE);
    assert_int_equal(bw_registry_hash_begin(w.registry, 6, &hashing), 0);
    assert_int_equal(bw_registry_compact(w.registry, 9), 0);
    assert_int_equal(bw_registry_hash(w.registry, &hashing, &visited, 1000), BW_HASH_LOST);
    assert_int_equal(bw_registry_hash_begin(w.registry, 9, &hashing), BW_REFUSED_COMPACTED);
    assert_int_equal(bw_registry_hash_begin(w.registry, 10, &hashing), 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_of_a_revision_ignores_later_changes),
        cmocka_unit_test(hash_distinguishes_every_field),
        cmocka_unit_test(hash_covers_every_byte_of_a_long_value),
        cmocka_unit_test(hash_ends_if_the_registry_was_replaced),
        cmocka_unit_test(hash_of_a_dropped_revision_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
