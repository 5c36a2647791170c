/* A preferred candidate asks the holder to hand over, on every kind of store. */
#include "lease_story.h"

#define SERVER_EXPIRES (BW_STORE_TOKEN | BW_STORE_NOTIFIES | BW_STORE_NOTES)

/* Waits while "b" leads. */
static void wait_for(struct story *s, unsigned traits, bool preferred)
{
    struct bw_lease_config config = config_for("a", 7);
    config.traits = traits;
    config.preferred = preferred;
    begin_with(s, config);
    happens(s, BW_LEASE_START);
    answer(s, asks(s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
}

/* Runs until a note is written or `span` has passed; the record does not change. */
static const struct bw_note *note_within(struct story *s, bw_time span)
{
    bw_time until = s->now + span;
    while (bw_lease_deadline(s->lease) <= until) {
        time_passes(s);
        if (asks(s, BW_STORE_NOTE))
            return &asks(s, BW_STORE_NOTE)->note;
        if (asks(s, BW_STORE_READ))
            answer(s, asks(s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
    }
    return NULL;
}

static void expect_transfer(struct story *s)
{
    const struct bw_note *note = note_within(s, TTL);
    assert_non_null(note);
    assert_int_equal(note->kind, BW_NOTE_TRANSFER);
    assert_string_equal(note->to, "a");
}

static void preferred_candidate_requests_leadership_on_observed_stores(void **state)
{
    (void)state;
    struct story s;
    wait_for(&s, ALL, true);
    expect_transfer(&s);
    free(s.lease);
}

static void preferred_candidate_requests_leadership_when_the_server_expires_leases(void **state)
{
    (void)state;
    static const unsigned kinds[] = {SERVER_EXPIRES, SERVER_EXPIRES | BW_STORE_LISTS,
                                     SERVER_EXPIRES | BW_STORE_LISTS | BW_STORE_QUEUE,
                                     BW_STORE_TOKEN | BW_STORE_NOTES};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct story s;
        wait_for(&s, kinds[i], true);
        expect_transfer(&s);
        free(s.lease);
    }
}

static void preferred_candidate_asks_again_after_each_ttl(void **state)
{
    (void)state;
    struct story s;
    wait_for(&s, SERVER_EXPIRES, true);
    expect_transfer(&s);
    bw_time asked = s.now;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
    expect_transfer(&s);
    assert_int_equal(s.now, asked + TTL);
    free(s.lease);
}

static void ordinary_or_unhealthy_candidate_does_not_request_leadership(void **state)
{
    (void)state;
    struct story s;
    wait_for(&s, SERVER_EXPIRES, false);
    assert_null(note_within(&s, 3 * TTL));
    free(s.lease);
    wait_for(&s, SERVER_EXPIRES, true);
    happens(&s, BW_LEASE_HEALTH); /* yes = false */
    const struct bw_note *note = note_within(&s, TTL);
    assert_null(note);
    free(s.lease);
}

static void preferred_candidate_sends_nothing_without_notes(void **state)
{
    (void)state;
    struct story s;
    wait_for(&s, BW_STORE_TOKEN | BW_STORE_NOTIFIES, true);
    assert_null(note_within(&s, 3 * TTL));
    free(s.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preferred_candidate_requests_leadership_on_observed_stores),
        cmocka_unit_test(preferred_candidate_requests_leadership_when_the_server_expires_leases),
        cmocka_unit_test(preferred_candidate_asks_again_after_each_ttl),
        cmocka_unit_test(ordinary_or_unhealthy_candidate_does_not_request_leadership),
        cmocka_unit_test(preferred_candidate_sends_nothing_without_notes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
