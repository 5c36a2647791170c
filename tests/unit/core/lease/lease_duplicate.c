/* Two candidates with the same id: the waiting one reports it. The record of an earlier process of
 * the same candidate, which died, is not reported. */
#include "lease_story.h"

#define SERVER_EXPIRES (BW_STORE_TOKEN | BW_STORE_NOTIFIES | BW_STORE_NOTES)
#define RACE_LISTED    (ALL | BW_STORE_LISTS)

static struct bw_store_record duplicate_record(uint64_t version)
{
    struct bw_store_record record = held_by("a", 4, version);
    record.request = 12345;
    return record;
}

static void wait_behind_namesake(struct story *s, unsigned traits)
{
    struct bw_lease_config config = config_for("a", 7);
    config.traits = traits;
    begin_with(s, config);
    happens(s, BW_LEASE_START);
    answer(s, asks(s, BW_STORE_READ), BW_OUTCOME_DONE, duplicate_record(77));
    assert_null(wants(s, BW_LEASE_DUPLICATE));
}

/* The watch returns this record. */
static void watch_returns(struct story *s, struct bw_store_record record)
{
    const struct bw_store_request watch = *asks(s, BW_STORE_WATCH);
    s->now += TTL / 3;
    answer(s, &watch, BW_OUTCOME_DONE, record);
}

static void duplicate_that_renews_is_reported_once(void **state)
{
    (void)state;
    struct story s;
    wait_behind_namesake(&s, ALL);
    watch_returns(&s, duplicate_record(78));
    assert_null(wants(&s, BW_LEASE_DUPLICATE)); /* one renewal may have been in flight */
    watch_returns(&s, duplicate_record(79));
    assert_string_equal(wants(&s, BW_LEASE_DUPLICATE)->leader, "a");
    watch_returns(&s, duplicate_record(80));
    assert_null(wants(&s, BW_LEASE_DUPLICATE));
    free(s.lease);
}

static void notes_on_a_dead_duplicates_record_do_not_count_as_renewals(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_record record = duplicate_record(77);
    wait_behind_namesake(&s, ALL);
    for (unsigned i = 0; i < 4; i++) {
        record.version++;
        record.note.serial++;
        watch_returns(&s, record);
        assert_null(wants(&s, BW_LEASE_DUPLICATE));
    }
    free(s.lease);
}

static void
duplicate_that_outlives_two_ttls_is_reported_when_the_server_expires_leases(void **state)
{
    (void)state;
    struct story s;
    wait_behind_namesake(&s, SERVER_EXPIRES);
    bw_time since = s.now;
    bool reported = false;
    while (s.now < since + 3 * TTL && !reported) {
        const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
        s.now += TTL;
        answer(&s, &watch, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
        answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, duplicate_record(77));
        reported = wants(&s, BW_LEASE_DUPLICATE) != NULL;
        assert_true(!reported || s.now > since + 2 * TTL);
    }
    assert_true(reported);
    free(s.lease);
}

static void refuse_entry(struct story *s, struct bw_store_request enter)
{
    struct bw_store_reply refused = {
        .id = enter.id, .op = BW_STORE_ENTER, .outcome = BW_OUTCOME_REFUSED, .error = BW_EBUSY};
    step(s, (struct bw_lease_event){.kind = BW_LEASE_ANSWER, .answer = &refused});
}

static void repeatedly_refused_registration_is_reported(void **state)
{
    (void)state;
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    config.traits = RACE_LISTED;
    begin_with(&s, config);
    happens(&s, BW_LEASE_START);
    const struct bw_store_request read = *asks(&s, BW_STORE_READ);
    refuse_entry(&s, *asks(&s, BW_STORE_ENTER));
    assert_null(wants(&s, BW_LEASE_DUPLICATE)); /* an earlier process of ours may be ending */
    answer(&s, &read, BW_OUTCOME_DONE, held_by("b", 4, 77));
    assert_null(asks(&s, BW_STORE_ENTER)); /* not at once */
    struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
    s.now += TTL;
    answer(&s, &watch, BW_OUTCOME_DONE, held_by("b", 4, 78));
    watch = *asks(&s, BW_STORE_WATCH);
    refuse_entry(&s, *asks(&s, BW_STORE_ENTER));
    assert_non_null(wants(&s, BW_LEASE_DUPLICATE));
    s.now += TTL;
    answer(&s, &watch, BW_OUTCOME_DONE, held_by("b", 4, 79));
    watch = *asks(&s, BW_STORE_WATCH);
    const struct bw_store_request again = *asks(&s, BW_STORE_ENTER);
    answer(&s, &again, BW_OUTCOME_DONE, (struct bw_store_record){0});
    s.now += TTL;
    answer(&s, &watch, BW_OUTCOME_DONE, held_by("b", 4, 80));
    assert_null(asks(&s, BW_STORE_ENTER)); /* registered: not repeated */
    free(s.lease);
}

static void other_refusals_of_the_registration_are_no_duplicate(void **state)
{
    (void)state;
    for (int busy = 0; busy < 2; busy++) {
        struct story s;
        struct bw_lease_config config = config_for("a", 7);
        config.traits = ALL | BW_STORE_LISTS;
        begin_with(&s, config);
        happens(&s, BW_LEASE_START);
        bool reported = false;
        struct bw_store_request enter = *asks(&s, BW_STORE_ENTER);
        struct bw_store_request read = *asks(&s, BW_STORE_READ);
        answer(&s, &read, BW_OUTCOME_DONE, held_by("b", 4, 40));
        struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
        for (uint64_t i = 0; i < 3; i++) {
            struct bw_store_reply reply = {.id = enter.id,
                                           .op = BW_STORE_ENTER,
                                           .outcome = BW_OUTCOME_REFUSED,
                                           .error = busy ? BW_EBUSY : BW_ELIMIT};
            step(&s, (struct bw_lease_event){.kind = BW_LEASE_ANSWER, .answer = &reply});
            reported = reported || wants(&s, BW_LEASE_DUPLICATE);
            s.now += TTL;
            answer(&s, &watch, BW_OUTCOME_DONE, held_by("b", 4, 41 + i));
            enter = *asks(&s, BW_STORE_ENTER);
            watch = *asks(&s, BW_STORE_WATCH);
        }
        assert_int_equal(reported, busy);
        free(s.lease);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duplicate_that_renews_is_reported_once),
        cmocka_unit_test(notes_on_a_dead_duplicates_record_do_not_count_as_renewals),
        cmocka_unit_test(
            duplicate_that_outlives_two_ttls_is_reported_when_the_server_expires_leases),
        cmocka_unit_test(repeatedly_refused_registration_is_reported),
        cmocka_unit_test(other_refusals_of_the_registration_are_no_duplicate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
