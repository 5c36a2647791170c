/* Bully, textbook form: the initiator collects the replies and notifies the highest. */
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

static void initiator_stops_waiting_when_all_live_members_have_replied(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_notify, 6);
    pump_command(p, 3, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 500 * BW_MS);
    assert_int_equal(p->nodes[5].led_at, 3 * PUMP_LATENCY);
    pump_free(p);
}

static void initiator_waits_t1_when_a_reply_is_missing(void **state)
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
    pump_event_all(p, BW_EVENT_SUSPECT, 6);
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 5);
    pump_free(p);
}

static void another_member_starts_when_the_initiator_dies(void **state)
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

static void notice_of_an_old_round_is_ignored(void **state)
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

static void highest_rank_leads_after_a_partition_heals(void **state)
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
        cmocka_unit_test(initiator_stops_waiting_when_all_live_members_have_replied),
        cmocka_unit_test(initiator_waits_t1_when_a_reply_is_missing),
        cmocka_unit_test(several_initiators_agree),
        cmocka_unit_test(another_member_starts_when_the_initiator_dies),
        cmocka_unit_test(notice_of_an_old_round_is_ignored),
        cmocka_unit_test(highest_rank_leads_after_a_partition_heals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
