/* Shards over candidates: balanced, equal for all that see the same candidates, and few moves when
 * a candidate joins or leaves. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/shards/assignment.h"

#include <stdio.h>

#define MOST 24u

static struct bw_spread before, after;

static void name_some(uint64_t *keys, uint32_t count, unsigned round)
{
    char name[32];
    for (uint32_t i = 0; i < count; i++) {
        int length = snprintf(name, sizeof name, "host%u-%u", i, 1000 + round * 7);
        keys[i] = bw_spread_key(name, (size_t)length);
    }
}

static uint32_t load_of(const struct bw_spread *spread, uint64_t key)
{
    uint32_t load = 0;
    for (uint32_t i = 0; i < spread->shards; i++)
        load += bw_spread_owner(spread, i) == key;
    return load;
}

static void check_balance(const struct bw_spread *spread)
{
    uint32_t least = spread->shards / spread->count;
    uint32_t most = least + (spread->shards % spread->count != 0);
    for (uint32_t i = 0; i < spread->count; i++)
        assert_in_range(load_of(spread, spread->keys[i]), least, most);
}

static void every_load_is_rounded_down_or_up(void **state)
{
    static const uint32_t shards[] = {1, 2, 3, 9, 16, 100, 1024};
    uint64_t keys[MOST];
    (void)state;
    for (unsigned s = 0; s < sizeof shards / sizeof shards[0]; s++)
        for (uint32_t count = 1; count <= MOST; count++) {
            name_some(keys, count, s);
            assert_int_equal(bw_spread_make(&after, shards[s], keys, count), 0);
            check_balance(&after);
        }
}

static void the_largest_case_is_balanced_too(void **state)
{
    static uint64_t keys[BW_SPREAD_CANDIDATES_MAX];
    (void)state;
    name_some(keys, BW_SPREAD_CANDIDATES_MAX, 1);
    assert_int_equal(bw_spread_make(&after, BW_SHARDS_MAX, keys, BW_SPREAD_CANDIDATES_MAX), 0);
    check_balance(&after);
}

static void assignment_does_not_depend_on_candidate_order(void **state)
{
    uint64_t keys[MOST];
    struct bw_rng rng;
    (void)state;
    bw_rng_init(&rng, 3);
    name_some(keys, MOST, 0);
    bw_spread_make(&before, 100, keys, MOST);
    for (unsigned round = 0; round < 20; round++) {
        for (uint32_t i = MOST - 1; i > 0; i--) {
            uint32_t other = (uint32_t)bw_rng_below(&rng, i + 1);
            uint64_t key = keys[i];
            keys[i] = keys[other];
            keys[other] = key;
        }
        bw_spread_make(&after, 100, keys, MOST);
        for (uint32_t i = 0; i < 100; i++)
            assert_true(bw_spread_owner(&before, i) == bw_spread_owner(&after, i));
    }
}

/* Number of shards whose owner differs between `before` and `after`. */
static uint32_t moves(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < before.shards; i++)
        count += bw_spread_owner(&before, i) != bw_spread_owner(&after, i);
    return count;
}

/* Compares the moves when a candidate joins (or, read backwards, leaves) with the minimum: the
 * newcomer's share. */
static void measure(uint32_t shards, uint32_t count, double most)
{
    uint64_t keys[MOST + 1];
    uint32_t moved = 0, least = 0;
    for (unsigned round = 0; round < 40; round++) {
        name_some(keys, count + 1, round);
        bw_spread_make(&before, shards, keys, count);
        bw_spread_make(&after, shards, keys, count + 1);
        moved += moves();
        least += load_of(&after, keys[count]);
    }
    double ratio = (double)moved / (double)least;
    print_message("# %4u shards, %2u candidates and one more: %.2f times the least moves\n", shards,
                  count, ratio);
    assert_true(ratio >= 1 && ratio <= most);
}

static void join_or_leave_moves_few_shards(void **state)
{
    (void)state;
    measure(9, 2, 1.5);
    measure(9, 3, 1.6);
    measure(64, 3, 1.25);
    measure(64, 8, 1.6);
    measure(256, 5, 1.25);
    measure(256, 16, 1.75);
    measure(1024, 3, 1.1);
    measure(1024, 10, 1.3);
}

static void ranks_order_the_other_candidates(void **state)
{
    uint64_t keys[5];
    (void)state;
    name_some(keys, 5, 0);
    bw_spread_make(&after, 9, keys, 5);
    for (uint32_t shard = 0; shard < 9; shard++) {
        bool taken[4] = {false};
        for (uint32_t i = 0; i < 5; i++) {
            if (keys[i] == bw_spread_owner(&after, shard))
                continue;
            uint32_t rank = bw_spread_rank(&after, shard, keys[i]);
            assert_in_range(rank, 0, 3);
            assert_false(taken[rank]);
            taken[rank] = true;
        }
        assert_int_equal(bw_spread_rank(&after, shard, 12345), 5);
    }
}

static void invalid_spread_arguments_are_rejected(void **state)
{
    uint64_t keys[3] = {1, 2, 1};
    (void)state;
    assert_int_equal(bw_spread_make(&after, 0, keys, 2), BW_EINVAL);
    assert_int_equal(bw_spread_make(&after, 9, keys, 0), BW_EINVAL);
    assert_int_equal(bw_spread_make(&after, 9, keys, 3), BW_EINVAL);
    assert_int_equal(bw_spread_make(&after, BW_SHARDS_MAX + 1, keys, 2), BW_ELIMIT);
    assert_int_equal(bw_spread_make(&after, 9, keys, BW_SPREAD_CANDIDATES_MAX + 1), BW_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_load_is_rounded_down_or_up),
        cmocka_unit_test(the_largest_case_is_balanced_too),
        cmocka_unit_test(assignment_does_not_depend_on_candidate_order),
        cmocka_unit_test(join_or_leave_moves_few_shards),
        cmocka_unit_test(ranks_order_the_other_candidates),
        cmocka_unit_test(invalid_spread_arguments_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
