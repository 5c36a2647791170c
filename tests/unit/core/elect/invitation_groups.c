/* Invitation: groups form, merge, lose their coordinator, and merge again. */
#include "ring_pump.h"

#define OPS (&bw_elect_invitation)

static struct pump *quiet_group(uint32_t n)
{
    struct pump *p = pump_new(OPS, n, NULL);
    pump_boot_all(p, true, BW_NODE_NONE);
    return p;
}

static void step_message(struct pump *p, const struct bw_message *msg)
{
    pump_step(p, msg->to,
              (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = msg->from, .msg = msg});
}

static void singletons_invite_pairwise_and_merge_under_the_inviter(void **state)
{
    (void)state;
    struct pump *p = quiet_group(4);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, 2);
    pump_command(p, 3, BW_COMMAND_CAMPAIGN, 4);
    pump_run(p, 20 * BW_MS);
    assert_int_equal(p->nodes[2].announced.leader, 1);
    assert_int_equal(p->nodes[4].announced.leader, 3);
    assert_true(pump_status(p, 1).leading && pump_status(p, 3).leading);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, 3);
    pump_run(p, 60 * BW_MS);
    assert_int_equal(pump_agreed(p), 1);
    assert_int_equal(p->nodes[3].last_loss, BW_LOSS_TAKEN);
    assert_int_equal(p->nodes[1].losses, 0);
    pump_free(p);
}

static void a_larger_groups_leader_stays_even_if_the_smaller_one_asks(void **state)
{
    (void)state;
    struct pump *p = quiet_group(5);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, 2);
    pump_run(p, 15 * BW_MS);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, 3);
    pump_command(p, 4, BW_COMMAND_CAMPAIGN, 5);
    pump_run(p, 30 * BW_MS);
    assert_int_equal(p->nodes[3].announced.leader, 1);
    assert_int_equal(p->nodes[5].announced.leader, 4);
    uint32_t announcements = p->nodes[2].announcements;
    pump_command(p, 4, BW_COMMAND_CAMPAIGN, 1);
    pump_run(p, 70 * BW_MS);
    assert_int_equal(pump_agreed(p), 1);
    assert_int_equal(p->nodes[2].announcements,
                     announcements); /* only the smaller group is informed */
    assert_int_equal(p->nodes[1].losses, 0);
    pump_free(p);
}

static void invited_member_names_its_leader_which_is_invited_instead(void **state)
{
    (void)state;
    struct pump *p = quiet_group(4);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, 2);
    pump_command(p, 3, BW_COMMAND_CAMPAIGN, 4);
    pump_run(p, 15 * BW_MS);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, 4);
    pump_run(p, 50 * BW_MS);
    assert_int_equal(p->sent[BW_MSG_COORDINATOR_ANSWER], 1);
    assert_int_equal(pump_agreed(p), 1);
    pump_free(p);
}

static void higher_id_leads_when_two_invite_each_other(void **state)
{
    (void)state;
    struct pump *p = quiet_group(2);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, 2);
    pump_command(p, 2, BW_COMMAND_CAMPAIGN, 1);
    pump_run(p, 20 * BW_MS);
    assert_int_equal(pump_agreed(p), 2);
    pump_free(p);
}

static void a_fresh_cluster_becomes_one_group_with_one_claim(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 8; n++) {
        struct pump *p = pump_new(OPS, n, NULL);
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        bw_node leader = pump_agreed(p);
        assert_int_equal(leader, n);
        /* no node led before */
        for (bw_node id = 1; id < n; id++)
            assert_int_equal(p->nodes[id].losses, 0);
        pump_free(p);
    }
}

static void a_dead_coordinator_is_noticed_without_a_detector(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 5, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    pump_kill(p, 5);
    pump_run(p, 3 * BW_SEC);
    assert_in_range(pump_agreed(p), 1, 4);
    pump_free(p);
}

static void a_suspected_coordinator_is_replaced(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 5, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    pump_kill(p, 5);
    pump_event_all(p, BW_EVENT_SUSPECT, 5);
    pump_run(p, BW_SEC + 100 * BW_MS);
    assert_int_equal(pump_agreed(p), 4);
    pump_free(p);
}

static bool between_sides(const struct bw_message *msg)
{
    return (msg->from <= 3) != (msg->to <= 3);
}

static void partition_sides_have_a_leader_each_and_merge_after_healing(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 5, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    p->lost = between_sides;
    pump_run(p, 4 * BW_SEC);
    bw_node side = p->nodes[1].announced.leader;
    assert_in_range(side, 1, 3);
    assert_true(pump_status(p, side).leading && pump_status(p, 5).leading);
    assert_int_equal(p->nodes[2].announced.leader, side);
    assert_int_equal(p->nodes[3].announced.leader, side);
    assert_int_equal(p->nodes[4].announced.leader, 5);
    p->lost = NULL;
    pump_run(p, 6 * BW_SEC);
    assert_true(pump_agreed(p) == side || pump_agreed(p) == 5);
    pump_free(p);
}

static void restarted_coordinator_has_a_new_group_counter(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    bw_term before = pump_status(p, 3).term;
    pump_boot(p, 3, false, BW_NODE_NONE);
    assert_true(pump_status(p, 3).term > before);
    pump_run(p, 3 * BW_SEC);
    assert_int_not_equal(pump_agreed(p), BW_NODE_NONE);
    pump_free(p);
}

static void ready_of_another_group_is_ignored(void **state)
{
    (void)state;
    struct pump *p = quiet_group(4);
    struct bw_message msg = {.kind = BW_MSG_INVITATION, .from = 3, .to = 1, .term = 7};
    msg.group = (struct bw_group_part){.leader = 3, .size = 2};
    step_message(p, &msg);
    assert_string_equal(pump_status(p, 1).state, "joining");
    msg = (struct bw_message){.kind = BW_MSG_READY, .from = 4, .to = 1, .term = 7};
    msg.group.leader = 4;
    step_message(p, &msg);
    msg.from = msg.group.leader = 3;
    msg.term = 6;
    step_message(p, &msg);
    assert_string_equal(pump_status(p, 1).state, "joining");
    msg.term = 7;
    step_message(p, &msg);
    assert_int_equal(p->nodes[1].announced.leader, 3);
    assert_int_equal(p->nodes[1].durable.term, 7);
    pump_free(p);
}

static void coordinator_answers_no_to_an_unknown_member(void **state)
{
    (void)state;
    struct pump *p = quiet_group(3);
    struct bw_message msg = {.kind = BW_MSG_ARE_YOU_THERE, .from = 1, .to = 3, .term = 1};
    msg.group.leader = 3;
    step_message(p, &msg);
    const struct bw_message *answer = &p->actions.at[0].msg;
    assert_int_equal(answer->kind, BW_MSG_THERE_ANSWER);
    assert_int_equal(answer->flags & BW_FLAG_YES, 0);
    pump_free(p);
}

static void member_recovers_when_its_coordinator_does_not_know_it(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    struct bw_message no = {.kind = BW_MSG_THERE_ANSWER, .from = 3, .to = 1};
    no.term = pump_status(p, 1).term;
    no.group = (struct bw_group_part){.leader = 3, .counter = no.term};
    step_message(p, &no);
    assert_string_equal(pump_status(p, 1).state, "coordinator");
    pump_run(p, 2 * BW_SEC);
    assert_int_equal(pump_agreed(p), 3);
    pump_free(p);
}

static void stopping_leader_hands_over_its_group(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 5, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    pump_step(p, 5, (struct bw_event){.kind = BW_EVENT_STOP});
    assert_int_equal(p->nodes[5].last_loss, BW_LOSS_SHUT_DOWN);
    pump_kill(p, 5);
    pump_run(p, BW_SEC + 20 * BW_MS);
    assert_int_equal(pump_agreed(p), 4);
    pump_free(p);
}

static void a_transfer_and_a_resignation_keep_the_group_together(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 5, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    pump_command(p, 5, BW_COMMAND_TRANSFER, 2);
    assert_int_equal(p->nodes[5].last_loss, BW_LOSS_TRANSFERRED);
    pump_run(p, 2 * BW_SEC);
    assert_int_equal(pump_agreed(p), 2);
    pump_command(p, 2, BW_COMMAND_RESIGN, BW_NODE_NONE);
    assert_int_equal(p->nodes[2].last_loss, BW_LOSS_RESIGNED);
    pump_run(p, 3 * BW_SEC);
    assert_int_equal(pump_agreed(p), 3);
    pump_free(p);
}

static void repeated_resignations_reach_every_member(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 5, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    bw_node leader = pump_agreed(p);
    assert_int_equal(leader, 5);
    for (int turn = 0; turn < 5; turn++) {
        pump_command(p, leader, BW_COMMAND_RESIGN, BW_NODE_NONE);
        pump_run(p, p->now + BW_SEC);
        assert_int_equal(pump_agreed(p), leader % 5 + 1);
        leader = leader % 5 + 1;
    }
    pump_free(p);
}

static void resigning_member_skips_suspects(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    pump_kill(p, 1);
    pump_step(p, 3, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = 1});
    pump_command(p, 3, BW_COMMAND_RESIGN, BW_NODE_NONE);
    pump_run(p, 2 * BW_SEC);
    assert_int_equal(pump_status(p, 2).leader, 2);
    assert_int_equal(pump_status(p, 3).leader, 2);
    pump_free(p);
}

/* The answer time is half of a round trip. */
static void no_node_claims_too_early_on_a_slow_network(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 8; n++) {
        struct pump *p = pump_new(OPS, n, NULL);
        p->config.answer_ns = PUMP_LATENCY;
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, BW_SEC);
        assert_int_not_equal(pump_agreed(p), BW_NODE_NONE);
        assert_int_equal(p->leaders_most, 1);
        for (bw_node id = 1; id <= n; id++)
            assert_int_equal(p->nodes[id].losses, 0);
        pump_free(p);
    }
}

static void recovered_node_does_not_wait_for_its_dead_leader(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    pump_kill(p, 3);
    bw_time since = p->now;
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = 3});
    pump_step(p, 2, (struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = 3});
    pump_run(p, since + 4 * p->config.answer_ns);
    assert_int_equal(pump_agreed(p), 2);
    pump_free(p);
}

/* Node 1 of three leads a group of its own; the others are dead. */
static struct pump *lonely_leader(void)
{
    struct pump *p = quiet_group(3);
    pump_kill(p, 2);
    pump_kill(p, 3);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    pump_run(p, 10 * p->config.answer_ns);
    assert_true(pump_status(p, 1).leading);
    return p;
}

static void forming_group_does_not_depose_a_leader(void **state)
{
    (void)state;
    struct pump *p = lonely_leader();
    struct bw_message msg = {.kind = BW_MSG_INVITATION, .from = 3, .to = 1, .term = 7};
    msg.group = (struct bw_group_part){.leader = 3, .size = 2};
    step_message(p, &msg);
    assert_true(pump_status(p, 1).leading);
    const struct bw_message *back = &p->actions.at[0].msg;
    assert_int_equal(back->kind, BW_MSG_INVITATION);
    assert_int_equal(back->to, 3);
    assert_true(back->flags & BW_FLAG_YES);
    msg.flags = BW_FLAG_YES; /* of two groups with a leader, the larger stays */
    step_message(p, &msg);
    assert_string_equal(pump_status(p, 1).state, "joining");
    pump_free(p);
}

static bool is_member(struct pump *p, bw_node from)
{
    struct bw_message msg = {.kind = BW_MSG_ARE_YOU_THERE, .from = from, .to = 1};
    msg.term = pump_status(p, 1).term;
    msg.group.leader = 1;
    step_message(p, &msg);
    return p->actions.at[0].msg.flags & BW_FLAG_YES;
}

static void reply_from_before_joining_does_not_remove_a_member(void **state)
{
    (void)state;
    struct pump *p = lonely_leader();
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    bw_term check = p->actions.at[0].msg.group.counter;
    struct bw_message accept = {.kind = BW_MSG_ACCEPT, .from = 2, .to = 1};
    accept.term = pump_status(p, 1).term;
    accept.group.leader = 1;
    step_message(p, &accept);
    struct bw_message own = {.kind = BW_MSG_COORDINATOR_ANSWER, .from = 2, .to = 1, .term = 9};
    own.group = (struct bw_group_part){.leader = 2, .size = 1, .counter = check};
    own.flags = BW_FLAG_YES;
    step_message(p, &own); /* arrives after its acceptance */
    assert_true(is_member(p, 2));
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    step_message(p, &own); /* reply to the previous check */
    assert_true(is_member(p, 2));
    own.group.counter = check + 1;
    step_message(p, &own); /* reply to a later check, from another group */
    assert_false(is_member(p, 2));
    pump_free(p);
}

/* The work ends, all nodes learn that it is dead, and then leadership is handed over. */
static void successor_inherits_when_it_learns_of_the_dead_work_first(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 5, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    pump_event_all(p, BW_EVENT_CONFIRMED_DEAD, 5);
    pump_command(p, 5, BW_COMMAND_RESIGN, BW_NODE_NONE);
    pump_run(p, p->now + PUMP_LATENCY);
    assert_true(pump_status(p, 1).leading);
    pump_boot(p, 5, false, BW_NODE_NONE); /* it restarts before the others are in the new group */
    pump_run(p, p->now + BW_SEC);
    assert_int_equal(pump_agreed(p), 1);
    assert_int_equal(p->nodes[1].losses, 0);
    pump_free(p);
}

static uint32_t dice;

static bool one_in_five(const struct bw_message *msg)
{
    (void)msg;
    dice = dice * 1664525u + 1013904223u;
    return (dice >> 16) % 5 == 0;
}

static void groups_merge_despite_message_loss(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 40; seed++) {
        struct pump *p = pump_new(OPS, 6, NULL);
        dice = seed;
        p->lost = one_in_five;
        pump_boot_all(p, false, BW_NODE_NONE);
        pump_run(p, 5 * BW_SEC);
        p->lost = NULL;
        pump_run(p, 8 * BW_SEC);
        assert_int_not_equal(pump_agreed(p), BW_NODE_NONE);
        pump_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(singletons_invite_pairwise_and_merge_under_the_inviter),
        cmocka_unit_test(a_larger_groups_leader_stays_even_if_the_smaller_one_asks),
        cmocka_unit_test(invited_member_names_its_leader_which_is_invited_instead),
        cmocka_unit_test(higher_id_leads_when_two_invite_each_other),
        cmocka_unit_test(a_fresh_cluster_becomes_one_group_with_one_claim),
        cmocka_unit_test(a_dead_coordinator_is_noticed_without_a_detector),
        cmocka_unit_test(a_suspected_coordinator_is_replaced),
        cmocka_unit_test(partition_sides_have_a_leader_each_and_merge_after_healing),
        cmocka_unit_test(restarted_coordinator_has_a_new_group_counter),
        cmocka_unit_test(ready_of_another_group_is_ignored),
        cmocka_unit_test(coordinator_answers_no_to_an_unknown_member),
        cmocka_unit_test(member_recovers_when_its_coordinator_does_not_know_it),
        cmocka_unit_test(stopping_leader_hands_over_its_group),
        cmocka_unit_test(a_transfer_and_a_resignation_keep_the_group_together),
        cmocka_unit_test(repeated_resignations_reach_every_member),
        cmocka_unit_test(resigning_member_skips_suspects),
        cmocka_unit_test(no_node_claims_too_early_on_a_slow_network),
        cmocka_unit_test(recovered_node_does_not_wait_for_its_dead_leader),
        cmocka_unit_test(forming_group_does_not_depose_a_leader),
        cmocka_unit_test(reply_from_before_joining_does_not_remove_a_member),
        cmocka_unit_test(successor_inherits_when_it_learns_of_the_dead_work_first),
        cmocka_unit_test(groups_merge_despite_message_loss),
    };
    return cmocka_run_group_tests_name("invitation_groups", tests, NULL, NULL);
}
