/* Candidates and ordinary members: which member may lead, which one runs the election, and the
 * number of messages. */
#include "bully_story.h"

/* Members 1..n, candidates from `first` on; n was the leader and is dead. */
static struct pump *candidates_from(bw_node first, uint32_t n)
{
    struct pump *p = pump_new(&bw_elect_bully_candidates, n, NULL);
    for (bw_node id = 1; id < first; id++)
        p->members[id - 1].ordinary = 1;
    pump_boot_all(p, true, n);
    pump_kill(p, n);
    return p;
}

static void three_live_candidates_of_nine_take_2c_plus_n_minus_2_messages(void **state)
{
    (void)state;
    struct pump *p = candidates_from(6, 9);
    pump_command(p, 2, BW_COMMAND_CAMPAIGN, 9);
    run_for(p, 900 * BW_MS);
    assert_int_equal(p->sent[BW_MSG_POLL], 3);
    assert_int_equal(p->sent[BW_MSG_ANSWER], 3);
    assert_int_equal(p->sent[BW_MSG_COORDINATOR], 7);
    assert_int_equal(pump_total(p), 13);
    assert_all_follow(p, 8);
    pump_free(p);
}

static void one_member_acts_when_several_detect_the_failure_at_once(void **state)
{
    (void)state;
    struct pump *p = candidates_from(6, 9);
    pump_event_all(p, BW_EVENT_SUSPECT, 9);
    run_for(p, 900 * BW_MS);
    assert_int_equal(pump_total(p), 13);
    assert_int_equal(p->elections, 1);
    assert_all_follow(p, 8);
    pump_free(p);
}

static void next_member_acts_one_gap_later_when_the_first_is_dead(void **state)
{
    (void)state;
    struct pump *p = candidates_from(6, 9);
    pump_kill(p, 5);
    pump_event_all(p, BW_EVENT_SUSPECT, 9);
    run_for(p, p->config.answer_ns);
    assert_int_equal(pump_total(p), 0);
    run_for(p, 900 * BW_MS);
    assert_int_equal(p->elections, 1);
    assert_all_follow(p, 8);
    pump_free(p);
}

static void dead_candidate_is_skipped_after_t1(void **state)
{
    (void)state;
    struct pump *p = candidates_from(6, 9);
    pump_kill(p, 8);
    pump_command(p, 5, BW_COMMAND_CAMPAIGN, 9);
    run_for(p, 900 * BW_MS);
    assert_int_equal(p->sent[BW_MSG_ANSWER], 2);
    assert_int_equal(p->nodes[7].led_at, p->config.answer_ns + PUMP_LATENCY);
    assert_all_follow(p, 7);
    pump_free(p);
}

static void ordinary_members_run_bully_when_no_candidate_is_alive(void **state)
{
    (void)state;
    struct pump *p = candidates_from(5, 6);
    pump_kill(p, 5);
    pump_command(p, 2, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 900 * BW_MS);
    assert_true(p->sent[BW_MSG_ELECTION] > 0);
    assert_all_follow(p, 4);
    pump_boot(p, 5, false, BW_NODE_NONE); /* a candidate restarts */
    run_for(p, 900 * BW_MS);
    assert_all_follow(p, 5);
    pump_free(p);
}

static bool lose_the_appointment;

static bool appointment(const struct bw_message *msg)
{
    return lose_the_appointment && msg->kind == BW_MSG_COORDINATOR && msg->to == msg->bully.leader;
}

static void candidate_asks_again_when_its_appointment_is_lost(void **state)
{
    (void)state;
    struct pump *p = candidates_from(6, 9);
    p->lost = appointment;
    lose_the_appointment = true;
    pump_command(p, 5, BW_COMMAND_CAMPAIGN, 9);
    run_for(p, 20 * BW_MS);
    assert_int_equal(pump_status(p, 2).leader, 8);
    assert_false(pump_status(p, 8).leading);
    lose_the_appointment = false;
    run_for(p, BW_SEC);
    assert_all_follow(p, 8);
    pump_free(p);
}

static void late_answer_is_ignored(void **state)
{
    (void)state;
    struct pump *p = candidates_from(6, 9);
    pump_kill(p, 8);
    pump_command(p, 5, BW_COMMAND_CAMPAIGN, 9);
    run_for(p, 100 * BW_MS);
    receive(p, 5, BW_MSG_ANSWER, 8, p->nodes[5].durable.term, 9);
    assert_all_follow(p, 7);
    pump_free(p);
}

static void highest_candidate_leads_after_a_partition_heals(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_bully_candidates, 6, NULL);
    p->members[3].ordinary = p->members[4].ordinary = p->members[5].ordinary = 1;
    pump_boot_all(p, true, 3);
    split_and_heal(p, 3);
    assert_all_follow(p, 3);
    pump_free(p);
}

static void candidates_hand_over_to_each_other_before_ordinary_members(void **state)
{
    (void)state;
    static const bw_node leaders[] = {4, 5, 4};
    struct pump *p = pump_new(&bw_elect_bully_candidates, 5, NULL);
    for (bw_node id = 1; id <= 3; id++)
        p->members[id - 1].ordinary = 1;
    pump_boot_all(p, true, 5);
    bw_node leader = 5;
    for (unsigned turn = 0; turn < 3; turn++) {
        pump_command(p, leader, BW_COMMAND_RESIGN, BW_NODE_NONE);
        run_for(p, 100 * BW_MS);
        leader = leaders[turn];
        assert_all_follow(p, leader);
    }
    suspect(p, 4, 5); /* no other candidate is alive */
    pump_command(p, 4, BW_COMMAND_RESIGN, BW_NODE_NONE);
    run_for(p, PUMP_LATENCY);
    assert_true(pump_status(p, 3).leading);
    pump_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_hand_over_to_each_other_before_ordinary_members),
        cmocka_unit_test(three_live_candidates_of_nine_take_2c_plus_n_minus_2_messages),
        cmocka_unit_test(one_member_acts_when_several_detect_the_failure_at_once),
        cmocka_unit_test(next_member_acts_one_gap_later_when_the_first_is_dead),
        cmocka_unit_test(dead_candidate_is_skipped_after_t1),
        cmocka_unit_test(ordinary_members_run_bully_when_no_candidate_is_alive),
        cmocka_unit_test(candidate_asks_again_when_its_appointment_is_lost),
        cmocka_unit_test(late_answer_is_ignored),
        cmocka_unit_test(highest_candidate_leads_after_a_partition_heals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
