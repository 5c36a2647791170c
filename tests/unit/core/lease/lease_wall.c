/* Wall clocks with a declared bound: what the lease elector concludes from them. */
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

static void end_that_certainly_passed_allows_takeover_at_once(void **state)
{
    (void)state;
    struct story s;
    begin_bounded(&s);
    bw_time now = s.now + YEARS;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE,
           held_until(now - BOUND - 500 * BW_MS - 1)); /* the grace applies here too */
    assert_int_equal(asks(&s, BW_STORE_ACQUIRE)->steal, 77);
    free(s.lease);
}

static void end_that_may_not_have_passed_is_waited_for(void **state)
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

static void wall_clock_set_back_is_checked_again(void **state)
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

static void clock_bound_declared_by_one_side_is_ignored(void **state)
{
    (void)state;
    struct story s;
    begin_bounded(&s); /* the holder declared no bound */
    bw_time since = s.now;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
    assert_int_equal(bw_lease_deadline(s.lease), since + TTL + 500 * BW_MS);
    free(s.lease);
    begin(&s); /* we declared no bound */
    s.wall_ahead = YEARS;
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_until(1));
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    assert_int_equal(bw_lease_deadline(s.lease), s.now + TTL + 500 * BW_MS);
    free(s.lease);
}

static void wall_clock_does_not_overrule_a_store_that_expires_leases(void **state)
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

static void implausible_ends_are_ignored(void **state)
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

static void holder_publishes_its_end_and_shortens_its_window(void **state)
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

/* A machine whose uptime counter is ahead of its wall clock, as after a reset of that clock. */
static void a_wall_clock_behind_our_own_clock_is_subtracted_correctly(void **state)
{
    (void)state;
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    config.terms.uncertainty_ns = BOUND;
    begin_with(&s, config);
    s.wall_ahead = -90 * BW_SEC; /* now is 100 s, the wall clock shows 10 s */
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_until(12 * BW_SEC));
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    assert_int_equal(bw_lease_deadline(s.lease), 102 * BW_SEC + 500 * BW_MS + BOUND + 1);
    time_passes(&s);
    assert_non_null(asks(&s, BW_STORE_ACQUIRE));
    free(s.lease);
}

/* The takeover was refused, and meanwhile the machine lost its bound. The record must then be
 * watched for a whole TTL. */
static void takeover_by_the_wall_clock_ends_when_that_clock_is_lost(void **state)
{
    (void)state;
    struct story s;
    begin_bounded(&s);
    bw_time since = s.now;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_until(1));
    const struct bw_store_request acquire = *asks(&s, BW_STORE_ACQUIRE);
    s.wall_ahead = 0;
    answer(&s, &acquire, BW_OUTCOME_REFUSED, held_until(1));
    assert_int_equal(bw_lease_deadline(s.lease), since + TTL + 500 * BW_MS);
    assert_non_null(asks(&s, BW_STORE_WATCH));
    free(s.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(end_that_certainly_passed_allows_takeover_at_once),
        cmocka_unit_test(end_that_may_not_have_passed_is_waited_for),
        cmocka_unit_test(wall_clock_set_back_is_checked_again),
        cmocka_unit_test(clock_bound_declared_by_one_side_is_ignored),
        cmocka_unit_test(wall_clock_does_not_overrule_a_store_that_expires_leases),
        cmocka_unit_test(implausible_ends_are_ignored),
        cmocka_unit_test(holder_publishes_its_end_and_shortens_its_window),
        cmocka_unit_test(a_wall_clock_behind_our_own_clock_is_subtracted_correctly),
        cmocka_unit_test(takeover_by_the_wall_clock_ends_when_that_clock_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
