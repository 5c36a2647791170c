/* Lowest id: the leader follows from the detector, and announces itself once. */
#include "bully_story.h"

static void lowest_id_leads_at_start_and_announces_itself(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_lowest, 5, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    assert_true(pump_status(p, 1).leading);
    assert_int_equal(pump_status(p, 4).leader, 1);
    run_for(p, 100 * BW_MS);
    assert_int_equal(pump_total(p), 4);
    assert_all_follow(p, 1);
    pump_free(p);
}

static struct pump *lowest_died(uint32_t n)
{
    struct pump *p = settled(&bw_elect_lowest, n, 1);
    pump_kill(p, 1);
    return p;
}

static void next_id_leads_with_one_round_of_messages(void **state)
{
    (void)state;
    struct pump *p = lowest_died(5);
    pump_event_all(p, BW_EVENT_SUSPECT, 1);
    assert_true(pump_status(p, 2).leading);
    assert_int_equal(pump_status(p, 5).leader, 2);
    run_for(p, 100 * BW_MS);
    assert_int_equal(p->sent[BW_MSG_COORDINATOR], 4);
    assert_int_equal(pump_total(p), 4);
    assert_all_follow(p, 2);
    pump_free(p);
}

static void member_with_a_slow_detector_learns_from_the_announcement(void **state)
{
    (void)state;
    struct pump *p = lowest_died(5);
    suspect(p, 2, 1);
    assert_int_equal(pump_status(p, 4).leader, 1);
    run_for(p, 100 * BW_MS);
    assert_all_follow(p, 2);
    suspect(p, 4, 1); /* their own detectors are late, which changes nothing */
    assert_all_follow(p, 2);
    pump_free(p);
}

static void first_member_to_notice_asks_the_next_to_lead(void **state)
{
    (void)state;
    struct pump *p = lowest_died(5);
    pump_command(p, 4, BW_COMMAND_CAMPAIGN, 1);
    assert_int_equal(pump_status(p, 4).leader, 2);
    run_for(p, 100 * BW_MS);
    assert_int_equal(p->sent[BW_MSG_ELECTION], 1);
    assert_all_follow(p, 2);
    pump_free(p);
}

static void false_suspicion_is_corrected_by_its_target(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_lowest, 5, 1);
    suspect(p, 2, 1);
    run_for(p, 50 * BW_MS);
    assert_true(pump_status(p, 2).leading); /* its detector still considers it the lowest */
    assert_int_equal(pump_status(p, 4).leader, 1);
    trust(p, 2, 1);
    run_for(p, 50 * BW_MS);
    assert_false(pump_status(p, 2).leading);
    run_for(p, 2 * BW_SEC);
    assert_all_follow(p, 1);
    pump_free(p);
}

static void a_returning_lower_id_leads_again(void **state)
{
    (void)state;
    struct pump *p = lowest_died(5);
    pump_event_all(p, BW_EVENT_SUSPECT, 1);
    run_for(p, 100 * BW_MS);
    pump_boot(p, 1, false, BW_NODE_NONE);
    pump_event_all(p, BW_EVENT_TRUST, 1);
    run_for(p, 100 * BW_MS);
    assert_all_follow(p, 1);
    assert_int_equal(p->nodes[2].last_loss, BW_LOSS_TAKEN);
    pump_free(p);
}

static void lowest_id_leads_after_a_partition_heals(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_lowest, 5, 1);
    p->lost = across;
    split_at = 2;
    both_sides(p, 2, BW_EVENT_SUSPECT);
    run_for(p, 300 * BW_MS);
    assert_true(pump_status(p, 1).leading);
    assert_true(pump_status(p, 3).leading);
    split_at = 0;
    both_sides(p, 2, BW_EVENT_TRUST);
    run_for(p, 300 * BW_MS);
    assert_all_follow(p, 1);
    pump_free(p);
}

static void a_stopping_leader_hands_over(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_lowest, 5, 1);
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_STOP});
    pump_kill(p, 1);
    run_for(p, 2 * PUMP_LATENCY);
    assert_all_follow(p, 2);
    assert_int_equal(p->nodes[1].last_loss, BW_LOSS_SHUT_DOWN);
    pump_free(p);
}

static void a_resigned_leader_follows_its_successor(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_lowest, 5, 1);
    pump_command(p, 1, BW_COMMAND_TRANSFER, 4);
    assert_true(pump_status(p, 1).leading);
    pump_command(p, 1, BW_COMMAND_RESIGN, BW_NODE_NONE);
    run_for(p, 100 * BW_MS);
    assert_all_follow(p, 2);
    pump_kill(p, 2);
    pump_event_all(p, BW_EVENT_SUSPECT, 2);
    run_for(p, 100 * BW_MS);
    assert_true(pump_status(p, 1).leading);
    assert_all_follow(p, 1);
    pump_free(p);
}

static void lowest_id_ignores_stability(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_lowest, 3, NULL);
    p->config.rank = BW_RANK_STABILITY;
    p->nodes[2].durable.starts = 9;
    pump_boot_all(p, true, 1);
    pump_command(p, 1, BW_COMMAND_RESIGN, BW_NODE_NONE);
    run_for(p, 100 * BW_MS);
    assert_all_follow(p, 2);
    pump_free(p);
}

static void repeated_resignations_reach_every_member(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_lowest, 4, 1);
    bw_node leader = 1;
    for (unsigned turn = 0; turn < 6; turn++) {
        pump_command(p, leader, BW_COMMAND_RESIGN, BW_NODE_NONE);
        assert_int_not_equal(pump_status(p, leader).leader, leader);
        pump_command(p, leader, BW_COMMAND_RESIGN, BW_NODE_NONE); /* ignored: it follows now */
        run_for(p, 100 * BW_MS);
        leader = leader % 4 + 1;
        assert_all_follow(p, leader);
    }
    pump_free(p);
}

/* A leader stepped down for a successor that lost this in a restart. It leads again as soon as the
 * successor asks. */
static void a_resigned_leader_leads_again_when_its_successor_is_restarted_unnoticed(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_lowest, 5, 1);
    pump_command(p, 1, BW_COMMAND_RESIGN, BW_NODE_NONE);
    run_for(p, 100 * BW_MS);
    assert_all_follow(p, 2);
    pump_kill(p, 2);
    pump_boot(p, 2, false, BW_NODE_NONE);
    run_for(p, 100 * BW_MS); /* no detector has noticed, and no node waited for a timeout */
    assert_true(pump_status(p, 1).leading);
    assert_all_follow(p, 1);
    pump_free(p);
}

/* The successor asked before it learned that it is to lead. This does not undo the resignation. */
static void a_question_from_before_the_resignation_does_not_undo_it(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_lowest, 5, 1);
    bw_term before = p->nodes[1].durable.term;
    pump_command(p, 1, BW_COMMAND_RESIGN, BW_NODE_NONE);
    receive(p, 1, BW_MSG_ELECTION, 2, before, BW_NODE_NONE);
    assert_false(pump_status(p, 1).leading);
    run_for(p, 100 * BW_MS);
    assert_all_follow(p, 2);
    pump_free(p);
}

static void leadership_returns_to_a_resigned_leader(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_lowest, 3, 1);
    pump_command(p, 1, BW_COMMAND_TRANSFER, 2);
    run_for(p, 100 * BW_MS);
    assert_all_follow(p, 2);
    pump_command(p, 2, BW_COMMAND_TRANSFER, 1);
    run_for(p, 10 * BW_MS);
    assert_all_follow(p, 1);
    pump_free(p);
}

static void member_asks_for_a_lost_announcement(void **state)
{
    (void)state;
    struct pump *p = lowest_died(4);
    p->lost = across;
    split_at = 3; /* nothing reaches 4 */
    pump_event_all(p, BW_EVENT_SUSPECT, 1);
    run_for(p, 5 * BW_MS);
    split_at = 0;
    assert_true(pump_status(p, 4).electing);
    run_for(p, p->config.announce_ns + 10 * BW_MS);
    assert_false(pump_status(p, 4).electing);
    assert_all_follow(p, 2);
    pump_free(p);
}

static void members_come_and_go(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_lowest, 4, 1);
    pump_kill(p, 1);
    pump_event_all(p, BW_EVENT_LEAVE, 1);
    run_for(p, 50 * BW_MS);
    assert_all_follow(p, 2);
    pump_boot(p, 1, false, BW_NODE_NONE);
    for (bw_node id = 2; id <= 4; id++)
        pump_step(p, id, (struct bw_event){.kind = BW_EVENT_JOIN, .node = 1, .member = {.id = 1}});
    run_for(p, 50 * BW_MS);
    assert_all_follow(p, 1);
    pump_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lowest_id_leads_at_start_and_announces_itself),
        cmocka_unit_test(next_id_leads_with_one_round_of_messages),
        cmocka_unit_test(member_with_a_slow_detector_learns_from_the_announcement),
        cmocka_unit_test(first_member_to_notice_asks_the_next_to_lead),
        cmocka_unit_test(false_suspicion_is_corrected_by_its_target),
        cmocka_unit_test(a_returning_lower_id_leads_again),
        cmocka_unit_test(lowest_id_leads_after_a_partition_heals),
        cmocka_unit_test(a_stopping_leader_hands_over),
        cmocka_unit_test(a_resigned_leader_follows_its_successor),
        cmocka_unit_test(lowest_id_ignores_stability),
        cmocka_unit_test(repeated_resignations_reach_every_member),
        cmocka_unit_test(a_resigned_leader_leads_again_when_its_successor_is_restarted_unnoticed),
        cmocka_unit_test(a_question_from_before_the_resignation_does_not_undo_it),
        cmocka_unit_test(leadership_returns_to_a_resigned_leader),
        cmocka_unit_test(member_asks_for_a_lost_announcement),
        cmocka_unit_test(members_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
