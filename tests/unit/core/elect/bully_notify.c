/* Bully, textbook form: the initiator collects and tells the highest. */
#include "bully_story.h"

static void six_nodes_and_initiator_three_take_ten_messages(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_notify, 6);
    pump_command(p, 3, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 500 * BW_MS);
    assert_int_equal(p->sent[BW_MSG_ELECTION], 3);
    assert_int_equal(p->sent[BW_MSG_ALIVE], 2);
    assert_int_equal(p->sent[BW_MSG_NOTICE], 1);
    assert_int_equal(p->sent[BW_MSG_COORDINATOR], 4);
    assert_int_equal(pump_total(p), 10);
    assert_all_follow(p, 5);
    pump_free(p);
}

static void once_all_that_may_live_have_answered_nobody_waits(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_notify, 6);
    pump_command(p, 3, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 500 * BW_MS);
    assert_int_equal(p->nodes[5].led_at, 3 * PUMP_LATENCY);
    pump_free(p);
}

static void one_that_does_not_answer_costs_t1(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_notify, 6);
    pump_kill(p, 5);
    pump_command(p, 3, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 500 * BW_MS);
    assert_int_equal(p->nodes[4].led_at, p->config.answer_ns + PUMP_LATENCY);
    assert_all_follow(p, 4);
    pump_free(p);
}

static void several_initiators_agree(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_notify, 6);
    pump_tell_all(p, BW_EVENT_SUSPECT, 6);
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 5);
    pump_free(p);
}

static void an_initiator_that_dies_is_made_up_for(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_notify, 6);
    pump_command(p, 3, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, PUMP_LATENCY);
    pump_kill(p, 3);
    run_for(p, BW_SEC);
    assert_all_follow(p, 5);
    pump_free(p);
}

static void a_notice_of_an_old_round_makes_nobody_leader(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_notify, 6);
    pump_command(p, 3, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 100 * BW_MS);
    receive(p, 4, BW_MSG_NOTICE, 3, 1, 6);
    assert_false(pump_status(p, 4).leading);
    receive(p, 4, BW_MSG_ALIVE, 5, 1, 6);
    assert_all_follow(p, 5);
    pump_free(p);
}

static void a_healed_partition_leaves_the_highest(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully_notify, 5, 5);
    split_and_heal(p, 3);
    assert_all_follow(p, 5);
    pump_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(six_nodes_and_initiator_three_take_ten_messages),
        cmocka_unit_test(once_all_that_may_live_have_answered_nobody_waits),
        cmocka_unit_test(one_that_does_not_answer_costs_t1),
        cmocka_unit_test(several_initiators_agree),
        cmocka_unit_test(an_initiator_that_dies_is_made_up_for),
        cmocka_unit_test(a_notice_of_an_old_round_makes_nobody_leader),
        cmocka_unit_test(a_healed_partition_leaves_the_highest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
