/* Tests the portable functions against <math.h>. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "core/detect/portable_math.h"

#include <math.h>

static double worst;

/* Updates the largest relative error. */
static void compare(double ours, double theirs)
{
    if (ours == theirs)
        return;
    double error = fabs(ours - theirs) / fmax(fabs(theirs), 1e-300);
    worst = fmax(worst, error);
}

/* Returns a number of random size: 2^-60 to 2^60. */
static double any(struct bw_rng *rng)
{
    return (1 + bw_rng_unit(rng)) * ldexp(1, (int)bw_rng_between(rng, -60, 60));
}

static void log_is_close_to_the_library_and_exact_at_its_limits(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 1);
    worst = 0;
    for (int i = 0; i < 200000; i++) {
        double x = any(&rng), near = 0.5 + bw_rng_unit(&rng);
        compare(bw_log(x), log(x));
        compare(bw_log(near), log(near));
    }
    assert_true(worst < 1e-15);
    assert_true(bw_log(1) == 0 && bw_log(0) == -INFINITY && bw_log(INFINITY) == INFINITY);
    assert_true(isnan(bw_log(-1)) && isnan(bw_log(NAN)));
    assert_true(fabs(bw_log(5e-324) - log(5e-324)) < 1e-12); /* the smallest number */
    assert_true(fabs(bw_log(1.7e308) - log(1.7e308)) < 1e-12);
}

static void log1p_is_close_to_the_library_for_small_numbers_too(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 2);
    worst = 0;
    for (int i = 0; i < 200000; i++) {
        double x = any(&rng), unit = bw_rng_unit(&rng);
        compare(bw_log1p(x), log1p(x));
        compare(bw_log1p(-unit), log1p(-unit));
    }
    assert_true(worst < 2e-15);
    assert_true(bw_log1p(0) == 0 && bw_log1p(1e-20) == 1e-20);
    assert_true(bw_log1p(-1) == -INFINITY && isnan(bw_log1p(-2)) && isnan(bw_log1p(NAN)));
    assert_true(bw_log1p(INFINITY) == INFINITY);
}

static void log10_is_exact_for_powers_of_ten(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 3);
    worst = 0;
    for (int i = 0; i < 100000; i++) {
        double x = any(&rng);
        compare(bw_log10(x), log10(x));
    }
    assert_true(worst < 2e-15);
    double power = 1;
    for (int n = 0; n <= 22; n++, power *= 10)
        assert_true(bw_log10(power) == n);
    assert_true(bw_log10(0) == -INFINITY && isnan(bw_log10(-1)) && isnan(bw_log10(NAN)));
    assert_true(bw_log10(INFINITY) == INFINITY);
}

static void exp_is_close_to_the_library_and_exact_at_its_limits(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 4);
    worst = 0;
    for (int i = 0; i < 200000; i++) {
        double x = (bw_rng_unit(&rng) - 0.5) * 1400, small = (bw_rng_unit(&rng) - 0.5) * 2;
        compare(bw_exp(x), exp(x));
        compare(bw_exp(small), exp(small));
    }
    assert_true(worst < 2e-15);
    assert_true(bw_exp(0) == 1 && bw_exp(710) == INFINITY && bw_exp(-746) == 0);
    assert_true(bw_exp(INFINITY) == INFINITY && bw_exp(-INFINITY) == 0 && isnan(bw_exp(NAN)));
    assert_true(bw_exp(-740) > 0 && bw_exp(-740) < 1e-300); /* subnormal */
}

static void erfc_is_close_to_the_library_over_its_whole_range(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 5);
    worst = 0;
    for (int i = 0; i < 50000; i++) {
        double x = (bw_rng_unit(&rng) - 0.25) * 30, middle = 1.9 + bw_rng_unit(&rng) * 0.2;
        compare(bw_erfc(x), erfc(x));
        compare(bw_erfc(middle), erfc(middle));
        compare(bw_erfc(-middle), erfc(-middle));
    }
    assert_true(worst < 2e-13);
    assert_true(bw_erfc(0) == 1 && bw_erfc(28) == 0 && bw_erfc(-28) == 2);
    assert_true(bw_erfc(INFINITY) == 0 && bw_erfc(-INFINITY) == 2 && isnan(bw_erfc(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_is_close_to_the_library_and_exact_at_its_limits),
        cmocka_unit_test(log1p_is_close_to_the_library_for_small_numbers_too),
        cmocka_unit_test(log10_is_exact_for_powers_of_ten),
        cmocka_unit_test(exp_is_close_to_the_library_and_exact_at_its_limits),
        cmocka_unit_test(erfc_is_close_to_the_library_over_its_whole_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
