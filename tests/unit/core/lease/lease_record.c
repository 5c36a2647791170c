/* Version and request together identify the record that a candidate observed. */
#include "lease_story.h"

/* A store that was deleted and created again restarts its versions. */
static void recreated_store_with_equal_version_restarts_the_observation(void **state)
{
    (void)state;
    struct bw_store_record others[] = {
        held_by("c", 4, 77), held_by("b", 3, 77), held_by("b", 4, 77), {.version = 77, .token = 4}};
    others[2].request = 12345;
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        struct story s;
        begin(&s);
        happens(&s, BW_LEASE_START);
        answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
        const struct bw_store_request watch = *asks(&s, BW_STORE_WATCH);
        s.now += 9 * BW_SEC;
        answer(&s, &watch, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
        answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, others[i]);
        if (!others[i].held)
            assert_non_null(asks(&s, BW_STORE_ACQUIRE));
        else
            assert_int_equal(bw_lease_deadline(s.lease), s.now + TTL + 500 * BW_MS);
        free(s.lease);
    }
}

static void stolen_record_is_identified_by_version_and_request(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_record record = held_by("b", 4, 77);
    record.request = 12345;
    begin(&s);
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, record);
    time_passes(&s);
    assert_int_equal(asks(&s, BW_STORE_ACQUIRE)->steal, 77);
    assert_int_equal(asks(&s, BW_STORE_ACQUIRE)->steal_request, 12345);
    free(s.lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recreated_store_with_equal_version_restarts_the_observation),
        cmocka_unit_test(stolen_record_is_identified_by_version_and_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
