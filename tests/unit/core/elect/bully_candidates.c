/* Candidates and ordinary members: who may lead, who acts, and how many messages it takes. */
#include "bully_story.h"

/* Members 1..n, candidates from `first` up; n led and is dead. */
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

static void of_all_that_detect_at_once_one_acts(void **state)
{
    (void)state;
    struct pump *p = candidates_from(6, 9);
    pump_tell_all(p, BW_EVENT_SUSPECT, 9);
    run_for(p, 900 * BW_MS);
    assert_int_equal(pump_total(p), 13);
    assert_int_equal(p->elections, 1);
    assert_all_follow(p, 8);
    pump_free(p);
}

static void if_the_best_detector_is_dead_the_next_one_acts_a_gap_later(void **state)
{
    (void)state;
    struct pump *p = candidates_from(6, 9);
    pump_kill(p, 5);
    pump_tell_all(p, BW_EVENT_SUSPECT, 9);
    run_for(p, p->config.answer_ns);
    assert_int_equal(pump_total(p), 0);
    run_for(p, 900 * BW_MS);
    assert_int_equal(p->elections, 1);
    assert_all_follow(p, 8);
    pump_free(p);
}

static void a_dead_candidate_is_passed_over_after_t1(void **state)
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

static void without_a_live_candidate_the_ordinary_hold_a_bully_election(void **state)
{
    (void)state;
    struct pump *p = candidates_from(5, 6);
    pump_kill(p, 5);
    pump_command(p, 2, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 900 * BW_MS);
    assert_true(p->sent[BW_MSG_ELECTION] > 0);
    assert_all_follow(p, 4);
    pump_boot(p, 5, false, BW_NODE_NONE); /* a candidate is back */
    run_for(p, 900 * BW_MS);
    assert_all_follow(p, 5);
    pump_free(p);
}

static bool lose_the_appointment;

static bool appointment(const struct bw_message *msg)
{
    return lose_the_appointment && msg->kind == BW_MSG_COORDINATOR && msg->to == msg->bully.leader;
}

static void one_that_never_hears_of_its_appointment_asks_again(void **state)
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

static void a_late_answer_counts_for_nothing(void **state)
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

static void a_healed_partition_leaves_the_highest_candidate(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_bully_candidates, 6, NULL);
    p->members[3].ordinary = p->members[4].ordinary = p->members[5].ordinary = 1;
    pump_boot_all(p, true, 3);
    split_and_heal(p, 3);
    assert_all_follow(p, 3);
    pump_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_live_candidates_of_nine_take_2c_plus_n_minus_2_messages),
        cmocka_unit_test(of_all_that_detect_at_once_one_acts),
        cmocka_unit_test(if_the_best_detector_is_dead_the_next_one_acts_a_gap_later),
        cmocka_unit_test(a_dead_candidate_is_passed_over_after_t1),
        cmocka_unit_test(without_a_live_candidate_the_ordinary_hold_a_bully_election),
        cmocka_unit_test(one_that_never_hears_of_its_appointment_asks_again),
        cmocka_unit_test(a_late_answer_counts_for_nothing),
        cmocka_unit_test(a_healed_partition_leaves_the_highest_candidate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
