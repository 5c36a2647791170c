/* Bully as in the paper: exact message counts, and every pitfall the paper's model leaves out. */
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
    assert_int_equal(p->nodes[9].said.act_until, BW_TIME_NEVER);
    assert_int_equal(p->nodes[9].said.token, BW_TOKEN_NONE);
    assert_int_equal(p->nodes[3].said.act_until, 0);
    pump_free(p);
}

static void nobody_waits_for_an_answer_of_the_dead(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully, 5);
    pump_step(p, 4, (struct bw_event){.kind = BW_EVENT_HINT, .node = 5});
    suspect(p, 4, 5); /* not enough: it may be slow */
    run_for(p, p->config.answer_ns / 4);
    assert_false(pump_status(p, 4).leading);
    bw_time told = p->now;
    pump_step(p, 4, (struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = 5});
    pump_step(p, 3, (struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = 5});
    run_for(p, 500 * BW_MS);
    assert_int_equal(p->nodes[4].led_at, told);
    assert_int_equal(p->nodes[3].led_at, p->nodes[2].led_at); /* 4 lives: it was waited for */
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

static void a_restarted_higher_id_bullies_the_leader(void **state)
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

static void an_ok_of_an_earlier_round_is_no_answer_to_this_one(void **state)
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

static void whoever_said_ok_and_died_is_waited_for_until_t2(void **state)
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

static void an_announcement_from_below_is_challenged(void **state)
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

static void an_old_announcement_is_not_believed_but_answered(void **state)
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

static void a_leader_whose_epoch_is_old_news_takes_a_newer_one(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 3, 3);
    receive(p, 1, BW_MSG_COORDINATOR, 2, 8, 2); /* 2 led for a moment, unseen by 3 */
    suspect(p, 1, 2);
    pump_kill(p, 2);
    receive(p, 1, BW_MSG_COORDINATOR, 3, 0, 3); /* 3 goes on as if nothing had happened */
    run_for(p, 50 * BW_MS);
    assert_all_follow(p, 3);
    assert_true(pump_status(p, 3).term > 8);
    pump_free(p);
}

static void of_two_claims_to_one_epoch_the_higher_stands(void **state)
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

/* Carries nothing out: looks at the order of a step's actions. */
static void epochs_are_durable_before_they_are_spoken_of(void **state)
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

static void a_restarted_leader_goes_on_with_a_newer_epoch(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 3, 3);
    for (bw_term lives = 1; lives <= 4; lives++) {
        pump_kill(p, 3);
        pump_boot(p, 3, false, BW_NODE_NONE);
        run_for(p, 50 * BW_MS);
        assert_all_follow(p, 3);
        assert_int_equal(pump_status(p, 3).term, lives);
    }
    assert_int_equal(p->nodes[3].durable.starts, 5);
    pump_free(p);
}

static void a_closed_connection_proves_nothing(void **state)
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

static void a_partition_makes_two_leaders_and_healing_leaves_the_highest(void **state)
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

static void a_lost_announcement_is_made_up_for(void **state)
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

static void a_leader_that_does_not_know_that_it_leads_is_found_out(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 3, 2);
    receive(p, 1, BW_MSG_COORDINATOR, 3, 6, 3); /* 3 never said so, and never will */
    pump_kill(p, 2);
    pump_kill(p, 3);
    pump_boot(p, 3, true, 2);
    suspect(p, 1, 2);
    run_for(p, 12 * BW_SEC);
    assert_all_follow(p, 3);
    pump_free(p);
}

static void a_suspected_leader_that_announces_itself_and_dies_is_not_believed_for_ever(void **state)
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

static void strangers_and_bad_settings_are_turned_away(void **state)
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
        cmocka_unit_test(nobody_waits_for_an_answer_of_the_dead),
        cmocka_unit_test(the_highest_id_leads_at_once_when_it_starts),
        cmocka_unit_test(a_restarted_higher_id_bullies_the_leader),
        cmocka_unit_test(a_restarted_lower_id_changes_no_leader),
        cmocka_unit_test(a_late_ok_does_not_silence_the_leader),
        cmocka_unit_test(an_ok_of_an_earlier_round_is_no_answer_to_this_one),
        cmocka_unit_test(whoever_said_ok_and_died_is_waited_for_until_t2),
        cmocka_unit_test(an_announcement_from_below_is_challenged),
        cmocka_unit_test(a_leader_answers_a_lesser_claim_with_a_newer_epoch),
        cmocka_unit_test(an_old_announcement_is_not_believed_but_answered),
        cmocka_unit_test(a_leader_whose_epoch_is_old_news_takes_a_newer_one),
        cmocka_unit_test(of_two_claims_to_one_epoch_the_higher_stands),
        cmocka_unit_test(epochs_are_durable_before_they_are_spoken_of),
        cmocka_unit_test(a_restarted_leader_goes_on_with_a_newer_epoch),
        cmocka_unit_test(a_closed_connection_proves_nothing),
        cmocka_unit_test(a_partition_makes_two_leaders_and_healing_leaves_the_highest),
        cmocka_unit_test(a_lost_announcement_is_made_up_for),
        cmocka_unit_test(a_leader_that_does_not_know_that_it_leads_is_found_out),
        cmocka_unit_test(
            a_suspected_leader_that_announces_itself_and_dies_is_not_believed_for_ever),
        cmocka_unit_test(strangers_and_bad_settings_are_turned_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
