/* Planned hand-over of leadership, members that join and leave, and rank by stability. */
#include "bully_story.h"

static void a_stopping_leader_hands_over_without_a_timeout(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    pump_step(p, 5, (struct bw_event){.kind = BW_EVENT_STOP});
    assert_int_equal(p->nodes[5].last_loss, BW_LOSS_SHUT_DOWN);
    pump_kill(p, 5);
    run_for(p, 2 * PUMP_LATENCY);
    assert_all_follow(p, 4);
    assert_int_equal(p->sent[BW_MSG_NOTICE], 1);
    assert_int_equal(p->sent[BW_MSG_COORDINATOR], 3);
    assert_int_equal(pump_total(p), 4);
    pump_free(p);
}

static void a_stopped_node_ignores_everything(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 3, 3);
    pump_step(p, 2, (struct bw_event){.kind = BW_EVENT_STOP});
    suspect(p, 2, 3);
    receive(p, 2, BW_MSG_ELECTION, 1, 4, BW_NODE_NONE);
    run_for(p, 500 * BW_MS);
    assert_int_equal(pump_total(p), 0);
    assert_string_equal(pump_status(p, 2).state, "stopped");
    pump_free(p);
}

static void a_leader_that_left_is_replaced_at_once(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully, 4);
    pump_event_all(p, BW_EVENT_LEAVE, 4);
    run_for(p, 2 * PUMP_LATENCY);
    assert_all_follow(p, 3);
    pump_free(p);
}

static void resigned_leader_does_not_take_leadership_from_its_successor(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    pump_command(p, 5, BW_COMMAND_RESIGN, BW_NODE_NONE);
    assert_int_equal(p->nodes[5].last_loss, BW_LOSS_RESIGNED);
    run_for(p, 900 * BW_MS);
    assert_all_follow(p, 4);
    pump_kill(p, 2);
    pump_boot(p, 2, false, BW_NODE_NONE); /* starts an election, in which 5 abstains */
    run_for(p, 1500 * BW_MS);
    assert_all_follow(p, 4);
    pump_free(p);
}

static void resigned_leader_takes_part_when_its_successor_dies(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    pump_command(p, 5, BW_COMMAND_RESIGN, BW_NODE_NONE);
    run_for(p, 100 * BW_MS);
    pump_kill(p, 4);
    pump_event_all(p, BW_EVENT_SUSPECT, 4);
    run_for(p, 200 * BW_MS);
    assert_all_follow(p, 5);
    pump_free(p);
}

static void repeated_resignations_reach_every_member(void **state)
{
    (void)state;
    static const struct bw_elector_ops *const variants[] = {&bw_elect_bully, &bw_elect_bully_notify,
                                                            &bw_elect_bully_next};
    for (unsigned i = 0; i < 3; i++) {
        struct pump *p = settled(variants[i], 5, 5);
        bw_node leader = 5;
        for (unsigned turn = 0; turn < 7; turn++) {
            pump_command(p, leader, BW_COMMAND_RESIGN, BW_NODE_NONE);
            run_for(p, 100 * BW_MS);
            leader = leader == 1 ? 5 : leader - 1;
            assert_all_follow(p, leader);
        }
        pump_free(p);
    }
}

static void resigning_leader_skips_a_suspected_member(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    suspect(p, 5, 4);
    pump_command(p, 5, BW_COMMAND_RESIGN, BW_NODE_NONE);
    run_for(p, PUMP_LATENCY);
    assert_true(pump_status(p, 3).leading);
    pump_free(p);
}

/* Members learn penalties at different times. With an order that depends on them, a few members
 * could hand over to each other only. */
static void order_of_turns_ignores_penalties(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_bully, 4, NULL);
    p->config.rank = BW_RANK_STABILITY;
    pump_boot_all(p, true, 4);
    struct bw_message msg = {.kind = BW_MSG_ALIVE, .from = 3, .to = 4};
    msg.bully.penalty = 5;
    pump_step(p, 4, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = 3, .msg = &msg});
    pump_command(p, 4, BW_COMMAND_RESIGN, BW_NODE_NONE);
    run_for(p, PUMP_LATENCY);
    assert_true(pump_status(p, 3).leading);
    pump_free(p);
}

static void a_lone_leader_that_resigns_leads_again(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 1, 1);
    pump_command(p, 1, BW_COMMAND_RESIGN, BW_NODE_NONE);
    assert_false(pump_status(p, 1).leading);
    run_for(p, p->config.announce_ns);
    assert_true(pump_status(p, 1).leading);
    pump_free(p);
}

static void a_transfer_goes_to_the_next_best_only(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    pump_command(p, 5, BW_COMMAND_TRANSFER, 2);
    run_for(p, 100 * BW_MS);
    assert_int_equal(pump_total(p), 0);
    assert_all_follow(p, 5);
    pump_command(p, 5, BW_COMMAND_TRANSFER, 4);
    run_for(p, 100 * BW_MS);
    assert_all_follow(p, 4);
    assert_int_equal(p->nodes[5].last_loss, BW_LOSS_TRANSFERRED);
    pump_free(p);
}

static bool everything(const struct bw_message *msg)
{
    (void)msg;
    return true;
}

static void leader_resumes_when_its_hand_over_is_lost(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 3, 3);
    p->lost = everything;
    pump_command(p, 3, BW_COMMAND_RESIGN, BW_NODE_NONE);
    run_for(p, PUMP_LATENCY);
    p->lost = NULL;
    run_for(p, p->config.announce_ns + 10 * BW_MS);
    assert_all_follow(p, 3);
    pump_free(p);
}

static void new_member_learns_the_leader(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_bully, 4, NULL);
    p->config.count = 3;
    for (bw_node id = 1; id <= 3; id++)
        pump_boot(p, id, true, 3);
    p->config.count = 4;
    struct bw_event joined = {.kind = BW_EVENT_JOIN, .node = 4, .member = {.id = 4}};
    pump_boot(p, 4, true, BW_NODE_NONE);
    for (bw_node id = 1; id <= 3; id++)
        pump_step(p, id, joined);
    run_for(p, 100 * BW_MS);
    /* the node got the leader's announcement, and the leader has the highest rank */
    assert_all_follow(p, 4);
    pump_free(p);
}

static void priority_ranks_before_id(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_bully, 5, NULL);
    p->members[1].priority = 3;
    pump_boot_all(p, false, BW_NODE_NONE);
    run_for(p, 200 * BW_MS);
    assert_all_follow(p, 2);
    pump_free(p);
}

static uint64_t losses(const struct pump *p)
{
    uint64_t sum = 0;
    for (bw_node id = 1; id <= p->count; id++)
        sum += p->nodes[id].losses;
    return sum;
}

/* The highest id crashes and restarts `flaps` times. Returns how often the others lost leadership
 * to it. */
static uint64_t flap(enum bw_rank rank, uint32_t flaps)
{
    struct pump *p = pump_new(&bw_elect_bully, 5, NULL);
    p->config.rank = rank;
    pump_boot_all(p, true, 5);
    for (uint32_t i = 0; i < flaps; i++) {
        pump_kill(p, 5);
        pump_event_all(p, BW_EVENT_SUSPECT, 5);
        run_for(p, 200 * BW_MS);
        pump_boot(p, 5, false, BW_NODE_NONE);
        pump_event_all(p, BW_EVENT_TRUST, 5);
        run_for(p, 300 * BW_MS);
        assert_all_follow(p, pump_agreed(p));
    }
    uint64_t taken = losses(p);
    pump_free(p);
    return taken;
}

static void flapping_highest_id_preempts_only_once(void **state)
{
    (void)state;
    assert_int_equal(flap(BW_RANK_ID, 20), 20);
    assert_int_equal(flap(BW_RANK_STABILITY, 20), 1);
    assert_int_equal(flap(BW_RANK_STABILITY, 60), 1);
}

static void members_that_disagree_about_rank_stop_answering_each_other(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_bully, 4, NULL);
    p->config.rank = BW_RANK_STABILITY;
    p->config.period_ns = 0;
    pump_boot_all(p, true, 3);
    struct bw_message flapped = {.kind = BW_MSG_OK, .from = 4, .to = 1};
    flapped.bully.penalty = 5;
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = 4, .msg = &flapped});
    receive(p, 1, BW_MSG_COORDINATOR, 3, 6, 3);
    receive(p, 2, BW_MSG_COORDINATOR, 4, 6, 4);
    receive(p, 1, BW_MSG_COORDINATOR, 2, 6, 4); /* for 1 the leader is 3, for 2 it is 4 */
    receive(p, 2, BW_MSG_COORDINATOR, 1, 6, 3);
    run_for(p, 500 * BW_MS);
    assert_true(pump_total(p) < 30);
    pump_free(p);
}

static void long_uptime_removes_the_penalty(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_bully, 3, NULL);
    p->config.rank = BW_RANK_STABILITY;
    p->config.forgive_ns = 10 * BW_SEC;
    p->config.period_ns = 0;
    p->nodes[3].durable.starts = 3; /* four with this start: a penalty of two beyond the free one */
    pump_boot_all(p, false, BW_NODE_NONE);
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 2);
    run_for(p, 15 * BW_SEC);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 2); /* a penalty of one is left */
    run_for(p, 10 * BW_SEC);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 3);
    pump_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopping_leader_hands_over_without_a_timeout),
        cmocka_unit_test(a_stopped_node_ignores_everything),
        cmocka_unit_test(a_leader_that_left_is_replaced_at_once),
        cmocka_unit_test(resigned_leader_does_not_take_leadership_from_its_successor),
        cmocka_unit_test(resigned_leader_takes_part_when_its_successor_dies),
        cmocka_unit_test(repeated_resignations_reach_every_member),
        cmocka_unit_test(resigning_leader_skips_a_suspected_member),
        cmocka_unit_test(order_of_turns_ignores_penalties),
        cmocka_unit_test(a_lone_leader_that_resigns_leads_again),
        cmocka_unit_test(a_transfer_goes_to_the_next_best_only),
        cmocka_unit_test(leader_resumes_when_its_hand_over_is_lost),
        cmocka_unit_test(new_member_learns_the_leader),
        cmocka_unit_test(priority_ranks_before_id),
        cmocka_unit_test(flapping_highest_id_preempts_only_once),
        cmocka_unit_test(members_that_disagree_about_rank_stop_answering_each_other),
        cmocka_unit_test(long_uptime_removes_the_penalty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
