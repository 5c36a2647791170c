/* The effect of requests on a row of the PostgreSQL store. */
#include "store/kit/record.h"
#include "store/postgres/verdict.h"
#include "unit/unit.h"

static struct bw_store_record led_by_ada(void)
{
    struct bw_store_record record = {.version = 0};
    struct bw_store_request request = {.op = BW_STORE_ACQUIRE, .id = 7, .candidate = "ada"};
    struct bw_pg_verdict verdict = bw_pg_decide(&record, &request, false);
    assert_int_equal(verdict.outcome, BW_OUTCOME_DONE);
    assert_true(verdict.change && verdict.take);
    record.token = 41; /* assigned by the server */
    record.version = 100;
    return record;
}

static struct bw_pg_verdict ask(struct bw_store_record *record, enum bw_store_op op, uint64_t id,
                                const char *candidate, bw_token token)
{
    struct bw_store_request request = {
        .op = op, .id = id, .candidate = candidate, .token = token, .clean = true};
    return bw_pg_decide(record, &request, false);
}

static void held_row_is_taken_over_only_at_the_watched_version(void **unused)
{
    (void)unused;
    const uint64_t others[] = {0, 99, 101};
    for (unsigned i = 0; i < 3; i++) {
        struct bw_store_record record = led_by_ada();
        struct bw_store_request steal = {
            .op = BW_STORE_ACQUIRE, .id = 8, .candidate = "ben", .steal = others[i]};
        assert_int_equal(bw_pg_decide(&record, &steal, false).outcome, BW_OUTCOME_REFUSED);
        assert_string_equal(record.holder, "ada");
    }
    struct bw_store_record record = led_by_ada();
    struct bw_store_request steal = {
        .op = BW_STORE_ACQUIRE, .id = 8, .candidate = "ben", .steal = 100};
    struct bw_pg_verdict verdict = bw_pg_decide(&record, &steal, false);
    assert_true(verdict.outcome == BW_OUTCOME_DONE && verdict.take);
    assert_string_equal(record.holder, "ben");
}

static void repeated_acquire_succeeds_without_a_change(void **unused)
{
    (void)unused;
    struct bw_store_record record = led_by_ada();
    struct bw_pg_verdict verdict = ask(&record, BW_STORE_ACQUIRE, 7, "ada", 0);
    assert_true(verdict.outcome == BW_OUTCOME_DONE && !verdict.change);
}

static void renewal_and_release_are_refused_for_another_leadership(void **unused)
{
    (void)unused;
    const enum bw_store_op ops[] = {BW_STORE_RENEW, BW_STORE_RELEASE};
    for (unsigned i = 0; i < 2; i++) {
        struct bw_store_record record = led_by_ada();
        assert_int_equal(ask(&record, ops[i], 9, "ben", 41).outcome, BW_OUTCOME_REFUSED);
        assert_int_equal(ask(&record, ops[i], 9, "ada", 40).outcome, BW_OUTCOME_REFUSED);
        assert_true(record.held);
        struct bw_pg_verdict own = ask(&record, ops[i], 9, "ada", 41);
        assert_true(own.outcome == BW_OUTCOME_DONE && own.change);
    }
}

static void renewal_is_refused_when_the_server_lost_the_leadership(void **unused)
{
    (void)unused;
    struct bw_store_record record = led_by_ada();
    struct bw_store_request renew = {
        .op = BW_STORE_RENEW, .id = 9, .candidate = "ada", .token = 41};
    assert_int_equal(bw_pg_decide(&record, &renew, true).outcome, BW_OUTCOME_REFUSED);
}

static void repeated_release_succeeds_and_a_later_renewal_is_refused(void **unused)
{
    (void)unused;
    struct bw_store_record record = led_by_ada();
    assert_true(ask(&record, BW_STORE_RELEASE, 9, "ada", 41).change);
    struct bw_pg_verdict again = ask(&record, BW_STORE_RELEASE, 10, "ada", 41);
    assert_true(again.outcome == BW_OUTCOME_DONE && !again.change);
    assert_int_equal(ask(&record, BW_STORE_RENEW, 11, "ada", 41).outcome, BW_OUTCOME_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_row_is_taken_over_only_at_the_watched_version),
        cmocka_unit_test(repeated_acquire_succeeds_without_a_change),
        cmocka_unit_test(renewal_and_release_are_refused_for_another_leadership),
        cmocka_unit_test(renewal_is_refused_when_the_server_lost_the_leadership),
        cmocka_unit_test(repeated_release_succeeds_and_a_later_renewal_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
