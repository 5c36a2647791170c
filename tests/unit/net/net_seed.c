/* Generators for backoff: no two are alike. */
#include "unit/unit.h"

#include "net/seed.h"

static void no_two_generators_draw_the_same_pauses(void **state)
{
    (void)state;
    enum { GENERATORS = 64 };
    uint64_t first[GENERATORS];
    for (unsigned i = 0; i < GENERATORS; i++) {
        struct bw_rng rng;
        bw_net_seed(&rng);
        first[i] = bw_rng_next(&rng);
        for (unsigned k = 0; k < i; k++)
            assert_int_not_equal(first[i], first[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_generators_draw_the_same_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
