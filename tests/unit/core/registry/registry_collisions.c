/* A client that chooses its lease ids or keys so that they collide cannot make the registry slow.
 *
 * The registry hashes both with a key that clients do not know. The tests choose ids and keys that
 * collide under another hash and measure the longest walk: the longest chain of the table of
 * leases, and the depth of the tree of keys. Another test applies the same changes to registries
 * with different keys, which must not differ. */
#include "core/registry/digest.h"
#include "core/registry/registry_state.h"
#include "core/registry/snapshot.h"
#include "registry_world.h"

#include <stdio.h>

#define LEASES    2000u
#define KEYS      2000u
#define CHAIN_MAX 12u /* random ids: more than 7 of 2,000 in one bucket have a chance of 1 % */
#define DEPTH_MAX 60u /* random priorities: about 2 ln 2,000 = 15 on average, below 40 at most */

static const struct bw_hash_key secret = {{0x243f6a8885a308d3u, 0x13198a2e03707344u}};

static void open_keyed(struct world *w, const struct bw_hash_key *key)
{
    world_open_with(w,
                    &(struct bw_registry_config){
                        .quota = 1 << 20, .leases_max = LEASES, .history = 1024, .hash_key = *key});
}

static uint32_t longest_chain(const struct bw_registry *r)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < r->bucket_count; i++) {
        uint32_t length = 0;
        for (bw_ref at = r->buckets[i]; at; at = lease_at(r, at)->chain)
            length++;
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* ---- leases ---- */

/* Grants `LEASES` leases, and checks that each is found. */
static void grant_all(struct world *w, const int64_t *ids)
{
    struct bw_lease_view found;
    open_keyed(w, &secret);
    for (uint32_t i = 0; i < LEASES; i++)
        assert_int_equal(bw_registry_grant(w->registry, ids[i], BW_SEC, 0), 0);
    for (uint32_t i = 0; i < LEASES; i++)
        assert_true(bw_registry_lease(w->registry, ids[i], &found));
    print_message("longest chain: %u\n", longest_chain(w->registry));
    assert_true(longest_chain(w->registry) <= CHAIN_MAX);
    world_close(w);
}

/* The product of a multiplier and these ids is small, so its high bits are equal. */
static void leases_are_spread_when_a_multiplicative_hash_of_their_ids_collides(void **state)
{
    (void)state;
    static int64_t ids[LEASES];
    struct world w;
    uint64_t inverse = 1; /* by Newton's method; each round doubles the correct bits */
    for (unsigned i = 0; i < 6; i++)
        inverse *= 2 - 0x9e3779b97f4a7c15u * inverse;
    uint32_t count = 0;
    for (uint64_t j = 1; count < LEASES; j++)
        if ((int64_t)(j * inverse) > 0)
            ids[count++] = (int64_t)(j * inverse);
    grant_all(&w, ids);
}

static void leases_are_spread_when_their_ids_collide_under_another_key(void **state)
{
    (void)state;
    static const struct bw_hash_key other = {{0}};
    static int64_t ids[LEASES];
    struct world w;
    uint32_t count = 0;
    for (uint64_t id = 1; count < LEASES; id++)
        if ((bw_siphash_number(&other, id) & 2047) == 0)
            ids[count++] = (int64_t)id;
    grant_all(&w, ids);
}

/* ---- keys ---- */

static uint32_t depth(const struct bw_registry *r, bw_ref at, uint32_t above)
{
    if (!at || above == KEYS)
        return above;
    uint32_t left = depth(r, node_at(r, at)->left, above + 1);
    uint32_t right = depth(r, node_at(r, at)->right, above + 1);
    return left > right ? left : right;
}

static uint32_t fnv_priority(const unsigned char *key, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ key[i]) * 0x100000001b3u;
    hash ^= hash >> 32;
    hash *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash >> 32);
}

static uint32_t keyless_priority(const unsigned char *key, size_t length)
{
    static const struct bw_hash_key other = {{0}};
    return (uint32_t)bw_siphash(&other, key, length);
}

/* Puts keys whose order is the reverse order of their priorities under `priority`: each would be
 * above all that follow it. */
static void put_sorted(uint32_t (*priority)(const unsigned char *key, size_t length))
{
    struct world w;
    const uint32_t slot = UINT32_MAX / KEYS;
    open_keyed(&w, &secret);
    for (uint32_t i = 0; i < KEYS; i++) {
        char key[32];
        uint32_t suffix = 0;
        int length;
        do
            length = snprintf(key, sizeof key, "%04u-%u", i, suffix++);
        while (priority((const unsigned char *)key, (size_t)length) / slot != KEYS - 1 - i);
        assert_int_equal(put(&w, key, ""), 0);
    }
    print_message("depth of %u keys: %u\n", KEYS, depth(w.registry, w.registry->root, 0));
    assert_true(depth(w.registry, w.registry->root, 0) <= DEPTH_MAX);
    world_close(&w);
}

static void tree_is_flat_when_fnv_hashes_of_the_keys_are_sorted(void **state)
{
    (void)state;
    put_sorted(fnv_priority);
}

static void tree_is_flat_when_hashes_of_the_keys_under_another_key_are_sorted(void **state)
{
    (void)state;
    put_sorted(keyless_priority);
}

/* ---- nodes with different keys ---- */

struct image {
    uint64_t words[256];
    struct bw_digest digest;
    unsigned char *snapshot;
    size_t length;
    int64_t expired[16];
    uint32_t expired_count;
};

/* The same changes, whatever the key of the hash is. */
static void change_all(struct world *w)
{
    char name[16];
    for (int64_t i = 1; i <= 12; i++)
        assert_int_equal(bw_registry_grant(w->registry, i * 7919, BW_SEC, 0), 0);
    for (int64_t i = 1; i <= 10; i++) {
        snprintf(name, sizeof name, "key-%d", (int)i);
        assert_int_equal(put_leased(w, name, "value", i * 7919), 0);
    }
    for (int64_t i = 2; i <= 12; i += 3)
        assert_int_equal(bw_registry_revoke(w->registry, i * 7919, 0), 0);
    bw_registry_lead(w->registry, BW_SEC);
}

static void take_image(struct image *image, const struct bw_hash_key *key)
{
    struct world w;
    struct bw_saving saving;
    open_keyed(&w, key);
    change_all(&w);
    image->digest =
        (struct bw_digest){.at = image->words, .cap = 256, .now = BW_SEC, .next = BW_TIME_NEVER};
    bw_registry_digest(w.registry, &image->digest);
    image->snapshot = malloc(BW_SNAPSHOT_PIECE_MAX);
    assert_non_null(image->snapshot);
    bw_registry_save_begin(w.registry, &saving);
    image->length = bw_registry_save(w.registry, &saving, image->snapshot, BW_SNAPSHOT_PIECE_MAX);
    image->expired_count = bw_registry_expired(w.registry, 3 * BW_SEC, image->expired, 16);
    world_close(&w);
}

static void registries_are_equal_when_the_keys_of_their_hashes_differ(void **state)
{
    (void)state;
    static const struct bw_hash_key other = {{1, 2}};
    static struct image a, b;
    take_image(&a, &secret);
    take_image(&b, &other);
    assert_int_equal(a.digest.count, b.digest.count);
    assert_memory_equal(a.words, b.words, a.digest.count * sizeof a.words[0]);
    assert_int_equal(a.length, b.length);
    assert_memory_equal(a.snapshot, b.snapshot, a.length);
    assert_int_equal(a.expired_count, 8);
    assert_memory_equal(a.expired, b.expired, sizeof a.expired);
    free(a.snapshot);
    free(b.snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leases_are_spread_when_a_multiplicative_hash_of_their_ids_collides),
        cmocka_unit_test(leases_are_spread_when_their_ids_collide_under_another_key),
        cmocka_unit_test(tree_is_flat_when_fnv_hashes_of_the_keys_are_sorted),
        cmocka_unit_test(tree_is_flat_when_hashes_of_the_keys_under_another_key_are_sorted),
        cmocka_unit_test(registries_are_equal_when_the_keys_of_their_hashes_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
