/* Derived terms: whatever single term the user gives, the others follow from it and satisfy every
 * rule. A given term never changes. For terms that contradict each other, the named value is
 * valid, and a slightly larger or smaller one is not. */
#include "unit/unit.h"

#include "core/base/limits.h"
#include "core/base/rng.h"
#include "core/lease/derive.h"

static const struct bw_lease_given nothing = {.kill_after_ns = -1,
                                              .kill_default_ns = 2 * BW_SEC,
                                              .drift_ppm = 10000,
                                              .ttl_default_ns = 10 * BW_SEC};

static struct bw_lease_terms derived(const struct bw_lease_given *given)
{
    struct bw_lease_terms terms;
    bw_lease_derive(&terms, given);
    return terms;
}

static void nothing_given_means_the_defaults(void **state)
{
    (void)state;
    struct bw_lease_terms terms = derived(&nothing);
    assert_int_equal(terms.ttl_ns, 10 * BW_SEC);
    assert_int_equal(terms.kill_after_ns, 2 * BW_SEC);
    assert_int_equal(terms.margin_ns, 500 * BW_MS);
    assert_int_equal(terms.drift_ppm, 10000);
}

static void short_ttl_shortens_the_kill_time(void **state)
{
    (void)state;
    struct bw_lease_given given = nothing;
    given.ttl_ns = 5 * BW_SEC; /* 2 s still fit */
    assert_int_equal(derived(&given).kill_after_ns, 2 * BW_SEC);
    given.ttl_ns = 2 * BW_SEC;
    assert_int_equal(derived(&given).kill_after_ns, 400 * BW_MS);
    given.ttl_ns = 150 * BW_MS; /* 50 ms of margin leave less than a fifth */
    struct bw_lease_terms terms = derived(&given);
    assert_in_range(terms.kill_after_ns, 20 * BW_MS, 30 * BW_MS);
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_NONE);
}

static void long_kill_time_drift_and_renewal_lengthen_the_ttl(void **state)
{
    (void)state;
    struct bw_lease_given given = nothing;
    given.kill_after_ns = 5 * BW_SEC;
    assert_int_equal(derived(&given).ttl_ns, 12 * BW_SEC);
    given = nothing;
    given.drift_ppm = 200000;
    assert_int_equal(derived(&given).ttl_ns, 18 * BW_SEC);
    assert_int_equal(derived(&given).kill_after_ns, 2 * BW_SEC);
    given = nothing;
    given.renew_ns = 5 * BW_SEC;
    assert_int_equal(derived(&given).ttl_ns, 15 * BW_SEC);
}

static void the_stores_longest_lease_shortens_the_kill_time(void **state)
{
    (void)state;
    struct bw_lease_given given = nothing;
    given.drift_ppm = 300000;
    given.ttl_max_ns = 60 * BW_SEC;
    struct bw_lease_terms terms = derived(&given);
    assert_int_equal(terms.ttl_ns, 60 * BW_SEC);
    assert_true(terms.kill_after_ns < 2 * BW_SEC);
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_NONE);
}

static void given_margin_stays_and_lengthens_the_ttl(void **state)
{
    (void)state;
    struct bw_lease_given given = nothing;
    given.margin_ns = 2 * BW_SEC; /* still fits into the default TTL */
    struct bw_lease_terms terms = derived(&given);
    assert_int_equal(terms.ttl_ns, 10 * BW_SEC);
    assert_int_equal(terms.margin_ns, 2 * BW_SEC);
    given.margin_ns = 5 * BW_SEC;
    terms = derived(&given);
    assert_int_equal(terms.ttl_ns, 15 * BW_SEC);
    assert_int_equal(terms.margin_ns, 5 * BW_SEC);
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_NONE);
}

/* No TTL is long enough for these terms: they stay as given, and the check refuses them. */
static void term_that_no_ttl_allows_gives_the_longest_ttl(void **state)
{
    (void)state;
    struct bw_lease_given given = nothing;
    given.kill_after_ns = BW_LEASE_TTL_MAX;
    struct bw_lease_terms terms = derived(&given);
    assert_int_equal(bw_lease_ttl_needed(&terms), BW_TIME_NEVER);
    assert_int_equal(terms.ttl_ns, BW_LEASE_TTL_MAX);
    assert_int_equal(terms.kill_after_ns, BW_LEASE_TTL_MAX);
    assert_int_not_equal(bw_lease_check(&terms), BW_LEASE_RULE_NONE);
    given = nothing;
    given.renew_ns = BW_LEASE_TTL_MAX / 3 + 1;
    assert_int_equal(derived(&given).ttl_ns, BW_LEASE_TTL_MAX);
    given.renew_ns = INT64_MAX;
    given.ttl_max_ns = 60 * BW_SEC;
    assert_int_equal(derived(&given).ttl_ns, 60 * BW_SEC);
}

/* A random span whose order of magnitude is random too. */
static bw_time any_span(struct bw_rng *rng, bw_time low, bw_time high)
{
    bw_time top = low;
    while (top < high && bw_rng_below(rng, 12) != 0)
        top *= 4;
    return bw_rng_between(rng, low, bw_time_min(bw_time_max(top, low + 1), high));
}

static void any_single_term_gives_valid_terms_and_stays_as_given(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 7);
    for (int i = 0; i < 100000; i++) {
        struct bw_lease_given given = nothing;
        switch (bw_rng_below(&rng, 5)) {
        case 0:
            given.ttl_ns = any_span(&rng, 110 * BW_MS, BW_LEASE_TTL_MAX);
            break;
        case 1:
            given.kill_after_ns = any_span(&rng, 1, BW_LEASE_TTL_MAX / 3);
            break;
        case 2:
            given.renew_ns = any_span(&rng, 1, BW_LEASE_TTL_MAX / 3);
            break;
        case 3:
            given.uncertainty_ns = any_span(&rng, 1, BW_LEASE_TTL_MAX / 3);
            break;
        default:
            given.drift_ppm = (uint32_t)bw_rng_below(&rng, 300001);
        }
        struct bw_lease_terms terms = derived(&given);
        assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_NONE);
        assert_int_equal(terms.margin_ns, bw_lease_margin(terms.ttl_ns));
        assert_true(given.ttl_ns == 0 || terms.ttl_ns == given.ttl_ns);
        assert_true(given.kill_after_ns < 0 || terms.kill_after_ns == given.kill_after_ns);
        assert_true(given.renew_ns <= terms.ttl_ns / 3);
        assert_int_equal(terms.uncertainty_ns, given.uncertainty_ns);
        assert_int_equal(terms.drift_ppm, given.drift_ppm);
    }
}

static bool is_valid(struct bw_lease_terms terms)
{
    return bw_lease_check(&terms) == BW_LEASE_RULE_NONE;
}

static void check_named_values(struct bw_lease_terms terms)
{
    struct bw_lease_terms other = terms;
    other.ttl_ns = bw_lease_ttl_needed(&terms);
    if (other.ttl_ns != BW_TIME_NEVER) {
        other.margin_ns = bw_lease_margin(other.ttl_ns);
        assert_true(is_valid(other));
    }
    other = terms;
    other.kill_after_ns = bw_lease_kill_after_most(&terms);
    assert_true(other.kill_after_ns < 0 || is_valid(other));
    other.kill_after_ns++;
    assert_false(is_valid(other));
    other = terms;
    other.uncertainty_ns = bw_lease_uncertainty_most(&terms);
    assert_true(other.uncertainty_ns < 0 || is_valid(other));
    other.uncertainty_ns++;
    assert_false(is_valid(other));
    other = terms;
    int64_t drift = bw_lease_drift_most(&terms);
    other.drift_ppm = (uint32_t)(drift < 0 ? 0 : drift);
    assert_int_equal(is_valid(other), drift >= 0);
    other.drift_ppm = (uint32_t)(drift + 1);
    assert_false(is_valid(other));
}

static void every_refused_combination_names_values_that_are_valid(void **state)
{
    (void)state;
    struct bw_rng rng;
    unsigned refused = 0;
    bw_rng_init(&rng, 11);
    for (int i = 0; i < 3000; i++) {
        struct bw_lease_given given = nothing;
        given.ttl_ns = any_span(&rng, BW_MS, 1000 * BW_SEC);
        given.kill_after_ns = any_span(&rng, 1, 1000 * BW_SEC);
        given.uncertainty_ns = bw_rng_below(&rng, 2) ? any_span(&rng, 1, 100 * BW_SEC) : 0;
        given.drift_ppm = (uint32_t)bw_rng_below(&rng, 300001);
        struct bw_lease_terms terms = derived(&given);
        if (is_valid(terms))
            continue;
        refused++;
        check_named_values(terms);
    }
    assert_true(refused > 300 && refused < 2990);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_given_means_the_defaults),
        cmocka_unit_test(short_ttl_shortens_the_kill_time),
        cmocka_unit_test(long_kill_time_drift_and_renewal_lengthen_the_ttl),
        cmocka_unit_test(the_stores_longest_lease_shortens_the_kill_time),
        cmocka_unit_test(given_margin_stays_and_lengthens_the_ttl),
        cmocka_unit_test(term_that_no_ttl_allows_gives_the_longest_ttl),
        cmocka_unit_test(any_single_term_gives_valid_terms_and_stays_as_given),
        cmocka_unit_test(every_refused_combination_names_values_that_are_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
