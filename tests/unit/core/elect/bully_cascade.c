/* Bully as in the paper: exact message counts, and the faults that the paper's model excludes. */
#include "bully_story.h"

#include "core/base/error.h"

static void counts(bw_node initiator, uint64_t election, uint64_t ok, uint64_t coordinator)
{
    struct pump *p = leader_died(&bw_elect_bully, 10);
    pump_command(p, initiator, BW_COMMAND_CAMPAIGN, 10);
    run_for(p, 500 * BW_MS);
    assert_int_equal(p->sent[BW_MSG_ELECTION], election);
    assert_int_equal(p->sent[BW_MSG_OK], ok);
    assert_int_equal(p->sent[BW_MSG_COORDINATOR], coordinator);
    assert_int_equal(pump_total(p), election + ok + coordinator);
    assert_all_follow(p, 9);
    pump_free(p);
}

static void ten_nodes_take_89_33_or_9_messages(void **state)
{
    (void)state;
    counts(1, 45, 36, 8);
    counts(5, 15, 10, 8);
    counts(9, 1, 0, 8);
}

static void the_winner_waits_for_t1_and_no_longer(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully, 10);
    pump_command(p, 9, BW_COMMAND_CAMPAIGN, 10);
    run_for(p, BW_SEC);
    assert_int_equal(p->nodes[9].led_at, p->config.answer_ns);
    assert_int_equal(p->nodes[9].announced.act_until, BW_TIME_NEVER);
    assert_int_equal(p->nodes[9].announced.token, BW_TOKEN_NONE);
    assert_int_equal(p->nodes[3].announced.act_until, 0);
    pump_free(p);
}

static void no_node_waits_for_a_reply_of_a_dead_member(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully, 5);
    pump_step(p, 4, (struct bw_event){.kind = BW_EVENT_HINT, .node = 5});
    suspect(p, 4, 5); /* not enough: it may only be slow */
    run_for(p, p->config.answer_ns / 4);
    assert_false(pump_status(p, 4).leading);
    bw_time handed_at = p->now;
    pump_step(p, 4, (struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = 5});
    pump_step(p, 3, (struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = 5});
    run_for(p, 500 * BW_MS);
    assert_int_equal(p->nodes[4].led_at, handed_at);
    /* 4 is alive, so the winner waits for it */
    assert_int_equal(p->nodes[3].led_at, p->nodes[2].led_at);
    assert_all_follow(p, 4);
    pump_free(p);
}

static void the_highest_id_leads_at_once_when_it_starts(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_bully, 5, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    assert_true(pump_status(p, 5).leading);
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 5);
    assert_int_equal(pump_status(p, 5).term, 1);
    pump_free(p);
}

static void restarted_higher_id_takes_leadership(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully, 5);
    suspect(p, 2, 5);
    run_for(p, 200 * BW_MS);
    assert_all_follow(p, 4);
    pump_boot(p, 5, false, BW_NODE_NONE);
    run_for(p, 200 * BW_MS);
    assert_all_follow(p, 5);
    assert_int_equal(p->nodes[4].last_loss, BW_LOSS_TAKEN);
    pump_free(p);
}

static void a_restarted_lower_id_changes_no_leader(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    pump_kill(p, 2);
    pump_boot(p, 2, false, BW_NODE_NONE);
    run_for(p, 200 * BW_MS);
    assert_all_follow(p, 5);
    assert_int_equal(p->nodes[5].losses, 0);
    pump_free(p);
}

static void a_late_ok_does_not_silence_the_leader(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully, 5);
    pump_command(p, 4, BW_COMMAND_CAMPAIGN, 5);
    run_for(p, 100 * BW_MS);
    bw_term term = pump_status(p, 4).term;
    receive(p, 4, BW_MSG_OK, 5, term, BW_NODE_NONE);
    assert_true(pump_status(p, 4).leading);
    assert_false(pump_status(p, 4).electing);
    pump_free(p);
}

static void ok_of_an_earlier_round_is_ignored(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully, 5);
    pump_command(p, 4, BW_COMMAND_CAMPAIGN, 5);
    receive(p, 4, BW_MSG_OK, 5, 0, BW_NODE_NONE);
    assert_string_equal(pump_status(p, 4).state, "electing");
    run_for(p, p->config.answer_ns);
    assert_true(pump_status(p, 4).leading);
    pump_free(p);
}

static void node_waits_until_t2_when_the_member_that_sent_ok_dies(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully, 5);
    pump_kill(p, 4);
    pump_command(p, 3, BW_COMMAND_CAMPAIGN, 5);
    receive(p, 3, BW_MSG_OK, 4, p->nodes[3].durable.term, BW_NODE_NONE);
    assert_string_equal(pump_status(p, 3).state, "waiting");
    run_for(p, p->config.announce_ns - 1);
    assert_string_equal(pump_status(p, 3).state, "waiting");
    run_for(p, 1 + p->config.answer_ns + 10 * BW_MS);
    assert_all_follow(p, 3);
    pump_free(p);
}

static void announcement_of_a_lower_rank_is_challenged(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    receive(p, 4, BW_MSG_COORDINATOR, 2, 7, 2);
    assert_int_not_equal(pump_status(p, 4).leader, 2);
    run_for(p, 200 * BW_MS);
    assert_all_follow(p, 5);
    assert_true(pump_status(p, 5).term > 7);
    pump_free(p);
}

static void a_leader_answers_a_lesser_claim_with_a_newer_epoch(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 3, 3);
    receive(p, 3, BW_MSG_COORDINATOR, 1, 4, 1);
    assert_true(pump_status(p, 3).leading);
    run_for(p, 10 * BW_MS);
    assert_all_follow(p, 3);
    assert_int_equal(pump_status(p, 3).term, 5);
    pump_free(p);
}

static void old_announcement_is_rejected_and_answered(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully, 5);
    pump_command(p, 4, BW_COMMAND_CAMPAIGN, 5);
    run_for(p, 100 * BW_MS);
    uint64_t before = p->sent[BW_MSG_COORDINATOR];
    receive(p, 2, BW_MSG_COORDINATOR, 5, 0, 5);
    assert_int_equal(pump_status(p, 2).leader, 4);
    assert_int_equal(p->sent[BW_MSG_COORDINATOR], before + 1);
    pump_free(p);
}

static void leader_takes_a_newer_epoch_when_its_own_is_stale(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 3, 3);
    receive(p, 1, BW_MSG_COORDINATOR, 2, 8, 2); /* 2 led briefly, unnoticed by 3 */
    suspect(p, 1, 2);
    pump_kill(p, 2);
    receive(p, 1, BW_MSG_COORDINATOR, 3, 0, 3); /* 3 continues with its old epoch */
    run_for(p, 50 * BW_MS);
    assert_all_follow(p, 3);
    assert_true(pump_status(p, 3).term > 8);
    pump_free(p);
}

static void higher_rank_wins_when_two_claim_one_epoch(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    receive(p, 1, BW_MSG_COORDINATOR, 4, 3, 4);
    receive(p, 1, BW_MSG_COORDINATOR, 3, 3, 3);
    assert_int_equal(pump_status(p, 1).leader, 4);
    receive(p, 1, BW_MSG_COORDINATOR, 5, 3, 5);
    assert_int_equal(pump_status(p, 1).leader, 5);
    pump_free(p);
}

/* Does not carry out the actions, but checks their order within a step. */
static void epoch_is_durable_before_it_is_sent(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully, 5);
    struct bw_event event = {.kind = BW_EVENT_SUSPECT, .node = 5, .now = 1};
    p->actions.count = 0;
    p->ops->step(p->nodes[3].memory, &event, &p->actions);
    bw_term durable = 0;
    unsigned sends = 0;
    for (uint32_t i = 0; i < p->actions.count; i++) {
        const struct bw_action *action = &p->actions.at[i];
        if (action->kind == BW_ACTION_PERSIST)
            durable = action->durable.term;
        if (action->kind != BW_ACTION_SEND)
            continue;
        assert_true(action->msg.term <= durable);
        sends++;
    }
    assert_int_equal(sends, 2);
    pump_free(p);
}

static void restarted_leader_continues_with_a_newer_epoch(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 3, 3);
    for (bw_term starts = 1; starts <= 4; starts++) {
        pump_kill(p, 3);
        pump_boot(p, 3, false, BW_NODE_NONE);
        run_for(p, 50 * BW_MS);
        assert_all_follow(p, 3);
        assert_int_equal(pump_status(p, 3).term, starts);
    }
    assert_int_equal(p->nodes[3].durable.starts, 5);
    pump_free(p);
}

static void closed_connection_does_not_depose_the_leader(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    pump_step(p, 2, (struct bw_event){.kind = BW_EVENT_HINT, .node = 5});
    assert_int_equal(pump_status(p, 2).leader, 5);
    assert_true(pump_status(p, 2).electing);
    run_for(p, 100 * BW_MS);
    assert_all_follow(p, 5);
    assert_int_equal(p->nodes[5].losses, 0);
    pump_free(p);
}

static void partition_has_two_leaders_and_the_highest_remains_after_healing(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    p->lost = across;
    split_at = 3;
    both_sides(p, 3, BW_EVENT_SUSPECT);
    run_for(p, 300 * BW_MS);
    assert_true(pump_status(p, 3).leading);
    assert_true(pump_status(p, 5).leading);
    split_at = 0;
    both_sides(p, 3, BW_EVENT_TRUST);
    run_for(p, 300 * BW_MS);
    assert_all_follow(p, 5);
    pump_free(p);
}

static bool drop_announcements;

static bool lose_announcements(const struct bw_message *msg)
{
    return drop_announcements && msg->kind == BW_MSG_COORDINATOR;
}

static void lost_announcement_is_repeated(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully, 5);
    p->lost = lose_announcements;
    drop_announcements = true;
    pump_command(p, 2, BW_COMMAND_CAMPAIGN, 5);
    run_for(p, p->config.announce_ns / 2);
    drop_announcements = false;
    assert_int_equal(pump_status(p, 1).leader, 5);
    run_for(p, 3 * BW_SEC);
    assert_all_follow(p, 4);
    pump_free(p);
}

static void follower_starts_an_election_when_its_leader_does_not_lead(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 3, 2);
    receive(p, 1, BW_MSG_COORDINATOR, 3, 6, 3); /* 3 never announced this and never will */
    pump_kill(p, 2);
    pump_kill(p, 3);
    pump_boot(p, 3, true, 2);
    suspect(p, 1, 2);
    run_for(p, 12 * BW_SEC);
    assert_all_follow(p, 3);
    pump_free(p);
}

static void suspected_leader_is_replaced_when_it_dies_after_announcing(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 3, 2);
    suspect(p, 1, 3);
    suspect(p, 2, 3);
    pump_kill(p, 3);
    receive(p, 1, BW_MSG_COORDINATOR, 3, 9, 3);
    receive(p, 2, BW_MSG_COORDINATOR, 3, 9, 3);
    assert_int_equal(pump_status(p, 2).leader, 3);
    run_for(p, 2 * BW_SEC);
    assert_all_follow(p, 2);
    pump_free(p);
}

static void unknown_senders_and_invalid_settings_are_rejected(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 3, 3);
    receive(p, 2, BW_MSG_COORDINATOR, 9, 5, 9);
    receive(p, 2, BW_MSG_COORDINATOR, 3, 6, 9);
    assert_int_equal(pump_status(p, 2).leader, 3);
    struct bw_elector_config config = p->config;
    config.self = 9;
    assert_int_equal(p->ops->init(p->nodes[1].memory, &config), BW_EINVAL);
    pump_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_nodes_take_89_33_or_9_messages),
        cmocka_unit_test(the_winner_waits_for_t1_and_no_longer),
        cmocka_unit_test(no_node_waits_for_a_reply_of_a_dead_member),
        cmocka_unit_test(the_highest_id_leads_at_once_when_it_starts),
        cmocka_unit_test(restarted_higher_id_takes_leadership),
        cmocka_unit_test(a_restarted_lower_id_changes_no_leader),
        cmocka_unit_test(a_late_ok_does_not_silence_the_leader),
        cmocka_unit_test(ok_of_an_earlier_round_is_ignored),
        cmocka_unit_test(node_waits_until_t2_when_the_member_that_sent_ok_dies),
        cmocka_unit_test(announcement_of_a_lower_rank_is_challenged),
        cmocka_unit_test(a_leader_answers_a_lesser_claim_with_a_newer_epoch),
        cmocka_unit_test(old_announcement_is_rejected_and_answered),
        cmocka_unit_test(leader_takes_a_newer_epoch_when_its_own_is_stale),
        cmocka_unit_test(higher_rank_wins_when_two_claim_one_epoch),
        cmocka_unit_test(epoch_is_durable_before_it_is_sent),
        cmocka_unit_test(restarted_leader_continues_with_a_newer_epoch),
        cmocka_unit_test(closed_connection_does_not_depose_the_leader),
        cmocka_unit_test(partition_has_two_leaders_and_the_highest_remains_after_healing),
        cmocka_unit_test(lost_announcement_is_repeated),
        cmocka_unit_test(follower_starts_an_election_when_its_leader_does_not_lead),
        cmocka_unit_test(suspected_leader_is_replaced_when_it_dies_after_announcing),
        cmocka_unit_test(unknown_senders_and_invalid_settings_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
