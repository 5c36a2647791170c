/* Two candidates with one id: the one that waits reports it. An earlier process of the candidate
 * that died, and whose record is still there, is not reported. */
#include "lease_story.h"

#define SERVER_EXPIRES (BW_STORE_TOKEN | BW_STORE_NOTIFIES | BW_STORE_NOTES)
#define RACE_LISTED    (ALL | BW_STORE_LISTS)

static struct bw_store_record namesake(uint64_t version)
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
    answer(s, asks(s, BW_STORE_READ), BW_OUTCOME_DONE, namesake(77));
    assert_null(wants(s, BW_LEASE_DUPLICATE));
}

/* The watch brings this record. */
static void news(struct story *s, struct bw_store_record record)
{
    const struct bw_store_request watch = *asks(s, BW_STORE_WATCH);
    s->now += TTL / 3;
    answer(s, &watch, BW_OUTCOME_DONE, record);
}

static void namesake_that_renews_is_reported_once(void **state)
{
    (void)state;
    struct story s;
    wait_behind_namesake(&s, ALL);
    news(&s, namesake(78));
    assert_null(wants(&s, BW_LEASE_DUPLICATE)); /* it may have been on its way */
    news(&s, namesake(79));
    assert_string_equal(wants(&s, BW_LEASE_DUPLICATE)->leader, "a");
    news(&s, namesake(80));
    assert_null(wants(&s, BW_LEASE_DUPLICATE));
    free(s.lease);
}

static void notes_on_a_dead_namesakes_record_are_not_taken_for_renewals(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_record record = namesake(77);
    wait_behind_namesake(&s, ALL);
    for (unsigned i = 0; i < 4; i++) {
        record.version++;
        record.note.serial++;
        news(&s, record);
        assert_null(wants(&s, BW_LEASE_DUPLICATE));
    }
    free(s.lease);
}

static void namesake_that_outlives_two_ttls_is_reported_where_the_server_expires(void **state)
{
    (void)state;
    struct story s;
    wait_behind_namesake(&s, SERVER_EXPIRES);
    bw_time since = s.now;
    bool told = false;
    while (s.now < since + 3 * TTL && !told) {
        const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
        s.now += TTL;
        answer(&s, &watch, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
        answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, namesake(77));
        told = wants(&s, BW_LEASE_DUPLICATE) != NULL;
        assert_true(!told || s.now > since + 2 * TTL);
    }
    assert_true(told);
    free(s.lease);
}

static void refuse_entry(struct story *s, struct bw_store_request enter)
{
    struct bw_store_reply refused = {
        .id = enter.id, .op = BW_STORE_ENTER, .outcome = BW_OUTCOME_REFUSED, .error = BW_EBUSY};
    step(s, (struct bw_lease_event){.kind = BW_LEASE_ANSWER, .answer = &refused});
}

static void registration_is_tried_again_and_reported_when_it_is_refused_again(void **state)
{
    (void)state;
    struct story s;
    struct bw_lease_config config = config_for("a", 7);
    config.traits = RACE_LISTED;
    begin_with(&s, config);
    happens(&s, BW_LEASE_START);
    const struct bw_store_request read = *asks(&s, BW_STORE_READ);
    refuse_entry(&s, *asks(&s, BW_STORE_ENTER));
    assert_null(wants(&s, BW_LEASE_DUPLICATE)); /* a process of ours may be about to end */
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
    assert_null(asks(&s, BW_STORE_ENTER)); /* registered: not again */
    free(s.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(namesake_that_renews_is_reported_once),
        cmocka_unit_test(notes_on_a_dead_namesakes_record_are_not_taken_for_renewals),
        cmocka_unit_test(namesake_that_outlives_two_ttls_is_reported_where_the_server_expires),
        cmocka_unit_test(registration_is_tried_again_and_reported_when_it_is_refused_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
