/* The simulator's lease check accepts correct leases and rejects incorrect ones. */
#include "unit/unit.h"

#include "sim/checks/lease_check.h"

#define BOUND 0.01

static struct bw_lease_check check;

static int set_up(void **state)
{
    (void)state;
    bw_lease_check_clear(&check, BOUND);
    return 0;
}

static bool found(void)
{
    bw_time at;
    return bw_lease_check_violation(&check, &at) != NULL;
}

static void lease_that_expires_after_its_ttl_on_the_fastest_clock_is_correct(void **state)
{
    (void)state;
    bw_lease_check_renewed(&check, BW_SEC + BW_MS, 1, BW_SEC, BW_SEC);
    bw_lease_check_ended(&check, BW_SEC + (bw_time)((double)BW_SEC / (1 + BOUND)), 1);
    assert_false(found());
    bw_lease_check_clear(&check, BOUND);
    bw_lease_check_renewed(&check, BW_SEC + BW_MS, 1, BW_SEC, BW_SEC);
    bw_lease_check_ended(&check, BW_SEC + (bw_time)((double)BW_SEC / (1 + BOUND)) - BW_US, 1);
    assert_true(found());
}

static void renewal_counts_from_sending_when_the_answer_is_late(void **state)
{
    (void)state;
    bw_lease_check_renewed(&check, BW_MS, 1, BW_SEC, 0);
    bw_lease_check_ended(&check, BW_SEC, 1);
    assert_false(found());
    bw_lease_check_renewed(&check, BW_SEC + BW_MS, 1, BW_SEC, BW_SEC / 2);
    assert_true(found());
}

static void released_lease_may_end_at_once(void **state)
{
    (void)state;
    bw_lease_check_renewed(&check, BW_MS, 1, BW_SEC, 0);
    bw_lease_check_given_up(&check, 1);
    bw_lease_check_ended(&check, 2 * BW_MS, 1);
    assert_false(found());
}

static void two_holders_acting_at_one_instant_are_rejected(void **state)
{
    (void)state;
    bw_lease_check_acts(&check, 10, 1, 0, 5, (struct bw_act_window){10, 100});
    bw_lease_check_acts(&check, 20, 2, 1, 6, (struct bw_act_window){20, 100});
    assert_false(found());
    bw_lease_check_acts(&check, 100, 3, 0, 7, (struct bw_act_window){100, 200});
    assert_false(found());
    bw_lease_check_acts(&check, 150, 1, 0, 8, (struct bw_act_window){150, 300});
    assert_true(found());
}

static void released_lease_allows_a_successor(void **state)
{
    (void)state;
    bw_lease_check_acts(&check, 10, 1, 0, 5, (struct bw_act_window){10, 100});
    bw_lease_check_acts(&check, 20, 1, 0, 5, (struct bw_act_window){0});
    bw_lease_check_acts(&check, 30, 2, 0, 6, (struct bw_act_window){30, 100});
    assert_false(found());
}

static void tokens_of_successive_holders_only_grow(void **state)
{
    (void)state;
    bw_lease_check_acts(&check, 10, 1, 0, 5, (struct bw_act_window){10, 20});
    bw_lease_check_acts(&check, 30, 1, 0, 5, (struct bw_act_window){30, 40});
    assert_false(found());
    bw_lease_check_acts(&check, 50, 2, 0, 4, (struct bw_act_window){50, 60});
    assert_true(found());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(lease_that_expires_after_its_ttl_on_the_fastest_clock_is_correct,
                               set_up),
        cmocka_unit_test_setup(renewal_counts_from_sending_when_the_answer_is_late, set_up),
        cmocka_unit_test_setup(released_lease_may_end_at_once, set_up),
        cmocka_unit_test_setup(two_holders_acting_at_one_instant_are_rejected, set_up),
        cmocka_unit_test_setup(released_lease_allows_a_successor, set_up),
        cmocka_unit_test_setup(tokens_of_successive_holders_only_grow, set_up),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bw_lease_check_deinit(&check);
    return failed;
}
