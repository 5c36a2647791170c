/* Wall clocks with a declared bound: what the lease elector concludes from them, and what not. */
#include "lease_story.h"

#define YEARS (50 * 365 * 86400 * BW_SEC)
#define BOUND (200 * BW_MS)

static void begin_bounded(struct story *s)
{
    struct bw_lease_config config = config_for("a", 7);
    config.terms.uncertainty_ns = BOUND;
    begin_with(s, config);
    s->wall_ahead = YEARS;
    happens(s, BW_LEASE_START);
}

static struct bw_store_record held_until(bw_time wall)
{
    struct bw_store_record record = held_by("b", 4, 77);
    record.until_wall_ns = wall;
    return record;
}

static void an_end_that_has_surely_passed_needs_no_watching(void **state)
{
    (void)state;
    struct story s;
    begin_bounded(&s);
    bw_time now = s.now + YEARS;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE,
           held_until(now - BOUND - 500 * BW_MS - 1)); /* the grace counts here too */
    assert_int_equal(asks(&s, BW_STORE_ACQUIRE)->steal, 77);
    free(s.lease);
}

static void an_end_that_may_not_have_passed_is_waited_for(void **state)
{
    (void)state;
    struct story s;
    begin_bounded(&s);
    bw_time now = s.now + YEARS, since = s.now;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_until(now));
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    time_passes(&s);
    assert_int_equal(s.now, since + BOUND + 500 * BW_MS + 1);
    assert_int_equal(asks(&s, BW_STORE_ACQUIRE)->steal, 77);
    free(s.lease);
}

static void a_wall_clock_that_was_set_back_meanwhile_is_looked_at_again(void **state)
{
    (void)state;
    struct story s;
    begin_bounded(&s);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_until(s.now + YEARS));
    s.wall_ahead -= 3 * BW_SEC;
    time_passes(&s);
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    assert_non_null(asks(&s, BW_STORE_READ));
    free(s.lease);
}

static void a_bound_that_only_one_of_the_two_declared_counts_for_nothing(void **state)
{
    (void)state;
    struct story s;
    begin_bounded(&s); /* the holder did not */
    bw_time since = s.now;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
    assert_int_equal(bw_lease_deadline(s.lease), since + TTL + 500 * BW_MS);
    free(s.lease);
    begin(&s); /* we did not */
    s.wall_ahead = YEARS;
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_until(1));
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    assert_int_equal(bw_lease_deadline(s.lease), s.now + TTL + 500 * BW_MS);
    free(s.lease);
}

static void a_store_that_judges_by_itself_is_not_overruled_by_a_wall_clock(void **state)
{
    (void)state;
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    config.terms.uncertainty_ns = BOUND;
    config.traits &= ~(unsigned)BW_STORE_OBSERVED;
    begin_with(&s, config);
    s.wall_ahead = YEARS;
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_until(1));
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    free(s.lease);
}

static void ends_that_nobody_could_mean_are_watched_as_if_there_were_none(void **state)
{
    (void)state;
    static const bw_time odd[] = {BW_TIME_NEVER, -1, INT64_MIN, BW_TIME_NEVER - 1};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct story s;
        begin_bounded(&s);
        bw_time since = s.now;
        answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_until(odd[i]));
        assert_null(asks(&s, BW_STORE_ACQUIRE));
        assert_int_equal(bw_lease_deadline(s.lease), since + TTL + 500 * BW_MS);
        free(s.lease);
    }
}

static void a_holder_writes_its_end_down_and_believes_in_less(void **state)
{
    (void)state;
    struct story s;
    begin_bounded(&s);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, (struct bw_store_record){.clean = true});
    const struct bw_store_request request = *asks(&s, BW_STORE_ACQUIRE);
    bw_time sent = s.now;
    assert_int_equal(request.until_wall_ns, sent + YEARS + TTL);
    struct bw_store_record record = held_by("a", 5, 9);
    record.request = request.id;
    answer(&s, &request, BW_OUTCOME_DONE, record);
    assert_int_equal(wants(&s, BW_LEASE_ELECTED)->schedule.end,
                     sent + bw_lease_span(TTL - BOUND, 10000));
    s.wall_ahead += 50 * BW_MS;
    time_passes(&s);
    assert_int_equal(asks(&s, BW_STORE_RENEW)->until_wall_ns, s.now + YEARS + 50 * BW_MS + TTL);
    free(s.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_that_has_surely_passed_needs_no_watching),
        cmocka_unit_test(an_end_that_may_not_have_passed_is_waited_for),
        cmocka_unit_test(a_wall_clock_that_was_set_back_meanwhile_is_looked_at_again),
        cmocka_unit_test(a_bound_that_only_one_of_the_two_declared_counts_for_nothing),
        cmocka_unit_test(a_store_that_judges_by_itself_is_not_overruled_by_a_wall_clock),
        cmocka_unit_test(ends_that_nobody_could_mean_are_watched_as_if_there_were_none),
        cmocka_unit_test(a_holder_writes_its_end_down_and_believes_in_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
