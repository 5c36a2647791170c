/* A holder's deadlines: never late for any pair of clocks. Terms that leave too little time are
 * refused with the rule's name. */
#include "unit/unit.h"

#include "core/base/limits.h"
#include "core/base/rng.h"
#include "core/lease/lease_deadline.h"

static const struct bw_lease_terms usual = {.ttl_ns = 10 * BW_SEC,
                                            .drift_ppm = 10000,
                                            .kill_after_ns = 2 * BW_SEC,
                                            .margin_ns = 50 * BW_MS};

static void ten_seconds_at_one_percent_are_9_80198_seconds(void **state)
{
    (void)state;
    assert_int_equal(bw_lease_span(10 * BW_SEC, 10000), 9801980198);
    assert_int_equal(bw_lease_span(10 * BW_SEC, 0), 10 * BW_SEC);
    assert_int_equal(bw_lease_span(0, 10000), 0);
}

/* The holder counts `span` on its clock, the granter T on its own. Whatever the two rates, the
 * holder's span must end first. Fractions are compared, so that rounding hides nothing. */
static void no_pair_of_clock_rates_lets_the_holder_outlive_the_granter(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 1);
    for (int i = 0; i < 200000; i++) {
        uint32_t ppm = (uint32_t)bw_rng_below(&rng, 333333);
        bw_time ttl = bw_rng_between(&rng, 1, BW_LEASE_TTL_MAX);
        bw_time span = bw_lease_span(ttl, ppm);
        int64_t slowest = 1000000 - (int64_t)ppm, fastest = 1000000 + (int64_t)ppm;
        assert_true((__int128)span * fastest <= (__int128)ttl * slowest);
        assert_true((__int128)(span + 1) * fastest > (__int128)ttl * slowest);
    }
}

static void default_terms_give_the_expected_schedule(void **state)
{
    (void)state;
    struct bw_lease_schedule plan;
    assert_int_equal(bw_lease_check(&usual), BW_LEASE_RULE_NONE);
    bw_lease_plan(&plan, &usual, 100 * BW_SEC);
    assert_int_equal(plan.renew, 103333333333);
    assert_int_equal(plan.retry, 105 * BW_SEC);
    assert_int_equal(plan.term, 106666666666);
    assert_int_equal(plan.end, 109801980198);
    assert_int_equal(plan.kill, 109751980198);
}

static void long_kill_time_moves_sigterm_earlier(void **state)
{
    (void)state;
    struct bw_lease_terms terms = usual;
    terms.kill_after_ns = 4 * BW_SEC;
    struct bw_lease_schedule plan;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_NONE);
    bw_lease_plan(&plan, &terms, 0);
    assert_int_equal(plan.term, 9801980198 - 4 * BW_SEC - 50 * BW_MS);
    assert_int_equal(plan.kill - plan.term, 4 * BW_SEC);
}

static void accepted_schedules_are_ordered_and_leave_the_kill_time(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 2);
    int accepted = 0;
    for (int i = 0; i < 100000; i++) {
        struct bw_lease_terms terms = {.ttl_ns = bw_rng_between(&rng, 1, 100 * BW_SEC),
                                       .drift_ppm = (uint32_t)bw_rng_below(&rng, 200000),
                                       .kill_after_ns = bw_rng_between(&rng, 0, 20 * BW_SEC),
                                       .margin_ns = bw_rng_between(&rng, 0, BW_SEC)};
        if (bw_lease_check(&terms) != BW_LEASE_RULE_NONE)
            continue;
        accepted++;
        struct bw_lease_schedule plan;
        bw_time sent = bw_rng_between(&rng, 0, 1000 * BW_SEC);
        bw_lease_plan(&plan, &terms, sent);
        assert_true(sent <= plan.renew && plan.renew <= plan.retry && plan.retry <= plan.term);
        assert_true(plan.term <= plan.kill && plan.kill <= plan.end);
        assert_true(plan.kill - plan.term >= terms.kill_after_ns);
        assert_true(plan.end - plan.kill == terms.margin_ns);
    }
    assert_true(accepted > 10000);
}

static void ttl_too_short_for_the_kill_time_violates_kill_time_rule(void **state)
{
    (void)state;
    struct bw_lease_terms terms = usual;
    terms.kill_after_ns = 6 * BW_SEC;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_KILL_TIME);
    assert_non_null(strstr(bw_lease_rule_text(BW_LEASE_RULE_KILL_TIME), "kill-after"));
    assert_non_null(strstr(bw_lease_rule_text(BW_LEASE_RULE_KILL_TIME), "ttl / 2"));
    terms.kill_after_ns = INT64_MAX;
    terms.margin_ns = INT64_MAX;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_KILL_TIME);
}

/* A request sent at wall clock w publishes w + T. True time was then at most w + u. The slowest
 * clock within the drift bound makes the window last at most end / (1 - rho). */
static void holder_never_outlives_its_published_end_within_the_clock_bound(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 5);
    int accepted = 0;
    for (int i = 0; i < 100000; i++) {
        struct bw_lease_terms terms = {.ttl_ns = bw_rng_between(&rng, 1, 100 * BW_SEC),
                                       .drift_ppm = (uint32_t)bw_rng_below(&rng, 200000),
                                       .uncertainty_ns = bw_rng_between(&rng, 0, 10 * BW_SEC)};
        struct bw_lease_schedule plan;
        if (bw_lease_check(&terms) != BW_LEASE_RULE_NONE)
            continue;
        accepted++;
        bw_lease_plan(&plan, &terms, 0);
        __int128 latest = (__int128)terms.uncertainty_ns * (1000000 - terms.drift_ppm) +
                          (__int128)plan.end * 1000000;
        assert_true(latest <= (__int128)terms.ttl_ns * (1000000 - terms.drift_ppm));
    }
    assert_true(accepted > 10000);
}

static void ttl_too_short_for_the_clock_bound_violates_clock_rule(void **state)
{
    (void)state;
    struct bw_lease_terms terms = usual;
    terms.uncertainty_ns = 4 * BW_SEC;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_CLOCK);
    assert_non_null(strstr(bw_lease_rule_text(BW_LEASE_RULE_CLOCK), "clock-uncertainty"));
    terms.uncertainty_ns = BW_TIME_NEVER;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_CLOCK);
    assert_int_equal(bw_lease_ttl_least(&terms), BW_TIME_NEVER);
    terms.uncertainty_ns = -1;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_SPANS);
}

static void zero_negative_and_endless_ttls_are_refused(void **state)
{
    (void)state;
    struct bw_lease_terms terms = usual;
    terms.ttl_ns = 0;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_TTL_POSITIVE);
    terms.ttl_ns = INT64_MIN;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_TTL_POSITIVE);
    terms.ttl_ns = BW_LEASE_TTL_MAX + 1;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_TTL_MAX);
    terms.ttl_ns = BW_TIME_NEVER;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_TTL_MAX);
    terms = usual;
    terms.margin_ns = -1;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_SPANS);
    terms = usual;
    terms.drift_ppm = 333334;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_DRIFT);
}

static void every_rule_has_a_text_and_no_rule_has_none(void **state)
{
    (void)state;
    for (int rule = BW_LEASE_RULE_TTL_POSITIVE; rule <= BW_LEASE_RULE_CLOCK; rule++)
        assert_true(strlen(bw_lease_rule_text((enum bw_lease_rule)rule)) > 0);
    assert_string_equal(bw_lease_rule_text(BW_LEASE_RULE_NONE), "");
    assert_string_equal(bw_lease_rule_text((enum bw_lease_rule)99), "");
}

static void the_least_ttl_is_accepted_and_one_millisecond_less_is_not(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 3);
    for (int i = 0; i < 20000; i++) {
        struct bw_lease_terms terms = {.drift_ppm = (uint32_t)bw_rng_below(&rng, 333334),
                                       .kill_after_ns = bw_rng_between(&rng, 0, 60 * BW_SEC),
                                       .margin_ns = bw_rng_between(&rng, 0, BW_SEC),
                                       .uncertainty_ns = bw_rng_between(&rng, 0, 2 * BW_SEC)};
        bw_time least = bw_lease_ttl_least(&terms);
        assert_true(least > 0 && least < BW_TIME_NEVER);
        terms.ttl_ns = least;
        assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_NONE);
        terms.ttl_ns = least - BW_MS;
        if (terms.ttl_ns > 0)
            assert_in_range(bw_lease_check(&terms), BW_LEASE_RULE_KILL_TIME, BW_LEASE_RULE_CLOCK);
    }
}

static void no_ttl_is_long_enough_for_a_kill_time_of_a_year_or_a_third_of_drift(void **state)
{
    (void)state;
    struct bw_lease_terms terms = {.kill_after_ns = BW_LEASE_TTL_MAX};
    assert_int_equal(bw_lease_ttl_least(&terms), BW_TIME_NEVER);
    terms = (struct bw_lease_terms){.drift_ppm = 333334};
    assert_int_equal(bw_lease_ttl_least(&terms), BW_TIME_NEVER);
}

static void the_worst_gap_is_a_sum_that_cannot_overflow(void **state)
{
    (void)state;
    assert_int_equal(bw_lease_gap_by_expiry(10 * BW_SEC, BW_SEC, 200 * BW_MS), 11200 * BW_MS);
    assert_int_equal(bw_lease_gap_by_detector(3, 100 * BW_MS, 20 * BW_MS), 320 * BW_MS);
    assert_int_equal(bw_lease_gap_by_expiry(BW_TIME_NEVER, BW_SEC, BW_SEC), BW_TIME_NEVER);
    assert_int_equal(bw_lease_gap_by_detector(UINT32_MAX, BW_TIME_NEVER, 1), BW_TIME_NEVER);
}

static void negative_spans_are_refused(void **state)
{
    (void)state;
    struct bw_lease_terms terms = {.ttl_ns = 10 * BW_SEC};
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_NONE);
    terms.kill_after_ns = -1;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_SPANS);
    terms.kill_after_ns = 0;
    terms.margin_ns = -1;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_SPANS);
    terms.margin_ns = 0;
    terms.uncertainty_ns = -1;
    assert_int_equal(bw_lease_check(&terms), BW_LEASE_RULE_SPANS);
}

static void the_least_ttl_lies_between_a_millisecond_and_a_year(void **state)
{
    (void)state;
    struct bw_lease_terms terms = {0};
    assert_int_equal(bw_lease_ttl_least(&terms), BW_MS);
    terms.kill_after_ns = BW_LEASE_TTL_MAX / 2;
    assert_int_equal(bw_lease_ttl_least(&terms), BW_LEASE_TTL_MAX);
    terms.kill_after_ns++; /* the next millisecond is past the longest TTL */
    assert_int_equal(bw_lease_ttl_least(&terms), BW_TIME_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_seconds_at_one_percent_are_9_80198_seconds),
        cmocka_unit_test(no_pair_of_clock_rates_lets_the_holder_outlive_the_granter),
        cmocka_unit_test(default_terms_give_the_expected_schedule),
        cmocka_unit_test(long_kill_time_moves_sigterm_earlier),
        cmocka_unit_test(accepted_schedules_are_ordered_and_leave_the_kill_time),
        cmocka_unit_test(ttl_too_short_for_the_kill_time_violates_kill_time_rule),
        cmocka_unit_test(holder_never_outlives_its_published_end_within_the_clock_bound),
        cmocka_unit_test(ttl_too_short_for_the_clock_bound_violates_clock_rule),
        cmocka_unit_test(zero_negative_and_endless_ttls_are_refused),
        cmocka_unit_test(every_rule_has_a_text_and_no_rule_has_none),
        cmocka_unit_test(the_least_ttl_is_accepted_and_one_millisecond_less_is_not),
        cmocka_unit_test(no_ttl_is_long_enough_for_a_kill_time_of_a_year_or_a_third_of_drift),
        cmocka_unit_test(the_worst_gap_is_a_sum_that_cannot_overflow),
        cmocka_unit_test(negative_spans_are_refused),
        cmocka_unit_test(the_least_ttl_lies_between_a_millisecond_and_a_year),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
