/* The random generator: the same seed gives the same stream, every draw is in its range, and draws
 * are uniform. */
#include "unit/unit.h"

#include "core/base/rng.h"

#include <math.h>

static void one_seed_gives_one_stream_and_its_neighbour_another(void **state)
{
    (void)state;
    struct bw_rng a, b, c;
    bw_rng_init(&a, 7);
    bw_rng_init(&b, 7);
    bw_rng_init(&c, 8);
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = bw_rng_next(&a);
        assert_true(x == bw_rng_next(&b));
        same += x == bw_rng_next(&c);
    }
    assert_int_equal(same, 0);
}

/* Traces must be the same on every machine and in every release, so the generator must be too. */
static void stream_of_seed_one_has_known_first_values(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 1);
    assert_true(bw_rng_next(&rng) == UINT64_C(0xb3f2af6d0fc710c5));
    assert_true(bw_rng_next(&rng) == UINT64_C(0x853b559647364cea));
}

static void draws_below_n_are_uniform(void **state)
{
    (void)state;
    struct bw_rng rng;
    uint32_t seen[7] = {0};
    bw_rng_init(&rng, 3);
    for (int i = 0; i < 70000; i++)
        seen[bw_rng_below(&rng, 7)]++;
    double chi = 0;
    for (int i = 0; i < 7; i++)
        chi += pow((double)seen[i] - 10000, 2) / 10000;
    assert_true(chi < 22.5); /* chi-square, 6 degrees of freedom: 0.1 % */
}

static void a_range_includes_both_ends_and_may_be_empty_or_reversed(void **state)
{
    (void)state;
    struct bw_rng rng;
    bool low = false, high = false;
    bw_rng_init(&rng, 4);
    for (int i = 0; i < 1000; i++) {
        bw_time t = bw_rng_between(&rng, -2, 2);
        assert_true(t >= -2 && t <= 2);
        low |= t == -2;
        high |= t == 2;
    }
    assert_true(low && high);
    assert_int_equal(bw_rng_between(&rng, 5, 5), 5);
    assert_int_equal(bw_rng_between(&rng, 5, 1), 5);
}

static void chance_zero_never_and_chance_one_always_happens(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 5);
    for (int i = 0; i < 1000; i++) {
        assert_false(bw_rng_chance(&rng, 0));
        assert_false(bw_rng_chance(&rng, -1));
        assert_true(bw_rng_chance(&rng, 1));
        double u = bw_rng_unit(&rng);
        assert_true(u >= 0 && u < 1);
    }
}

static void shuffle_keeps_all_items_and_reaches_every_order(void **state)
{
    (void)state;
    struct bw_rng rng;
    bool seen[1000] = {false};
    int orders = 0;
    bw_rng_init(&rng, 6);
    for (int i = 0; i < 1000; i++) {
        bw_node ids[] = {1, 2, 3, 4};
        bw_rng_shuffle(&rng, ids, 4);
        assert_int_equal(ids[0] + ids[1] + ids[2] + ids[3], 10);
        assert_int_equal(ids[0] * ids[1] * ids[2] * ids[3], 24);
        uint32_t code = ids[0] * 100 + ids[1] * 10 + ids[2];
        orders += !seen[code];
        seen[code] = true;
    }
    assert_int_equal(orders, 24);
}

static void impossible_event_never_happens_and_draws_nothing(void **state)
{
    (void)state;
    struct bw_rng a, b;
    bw_rng_init(&a, 5);
    bw_rng_init(&b, 5);
    int happened = 0;
    for (int i = 0; i < 1000; i++) {
        assert_false(bw_rng_chance(&a, 0));
        assert_false(bw_rng_chance(&a, -1));
    }
    assert_true(bw_rng_next(&a) == bw_rng_next(&b));
    for (int i = 0; i < 1000; i++)
        happened += bw_rng_chance(&a, 0.5);
    assert_in_range(happened, 400, 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_seed_gives_one_stream_and_its_neighbour_another),
        cmocka_unit_test(stream_of_seed_one_has_known_first_values),
        cmocka_unit_test(draws_below_n_are_uniform),
        cmocka_unit_test(a_range_includes_both_ends_and_may_be_empty_or_reversed),
        cmocka_unit_test(chance_zero_never_and_chance_one_always_happens),
        cmocka_unit_test(shuffle_keeps_all_items_and_reaches_every_order),
        cmocka_unit_test(impossible_event_never_happens_and_draws_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
