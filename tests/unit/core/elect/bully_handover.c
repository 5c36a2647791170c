/* Leadership given away in good order, members that come and go, and rank by stability. */
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
    pump_tell_all(p, BW_EVENT_LEAVE, 4);
    run_for(p, 2 * PUMP_LATENCY);
    assert_all_follow(p, 3);
    pump_free(p);
}

static void a_resigned_leader_does_not_bully_its_successor(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    pump_command(p, 5, BW_COMMAND_RESIGN, BW_NODE_NONE);
    assert_int_equal(p->nodes[5].last_loss, BW_LOSS_RESIGNED);
    run_for(p, 900 * BW_MS);
    assert_all_follow(p, 4);
    pump_kill(p, 2);
    pump_boot(p, 2, false, BW_NODE_NONE); /* an election: 5 stays out of it */
    run_for(p, 1500 * BW_MS);
    assert_all_follow(p, 4);
    pump_free(p);
}

static void a_resigned_leader_steps_in_when_its_successor_dies(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully, 5, 5);
    pump_command(p, 5, BW_COMMAND_RESIGN, BW_NODE_NONE);
    run_for(p, 100 * BW_MS);
    pump_kill(p, 4);
    pump_tell_all(p, BW_EVENT_SUSPECT, 4);
    run_for(p, 200 * BW_MS);
    assert_all_follow(p, 5);
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

static void a_hand_over_that_gets_lost_is_taken_back(void **state)
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

static void a_new_member_learns_who_leads(void **state)
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
    assert_all_follow(p, 4); /* the leader's word reached it, and it is the highest */
    pump_free(p);
}

static void priority_stands_before_the_id(void **state)
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

/* The top id dies and comes back `flaps` times; how often did the others lose the lead to it? */
static uint64_t flap(enum bw_rank rank, uint32_t flaps)
{
    struct pump *p = pump_new(&bw_elect_bully, 5, NULL);
    p->config.rank = rank;
    pump_boot_all(p, true, 5);
    for (uint32_t i = 0; i < flaps; i++) {
        pump_kill(p, 5);
        pump_tell_all(p, BW_EVENT_SUSPECT, 5);
        run_for(p, 200 * BW_MS);
        pump_boot(p, 5, false, BW_NODE_NONE);
        pump_tell_all(p, BW_EVENT_TRUST, 5);
        run_for(p, 300 * BW_MS);
        assert_all_follow(p, pump_agreed(p));
    }
    uint64_t taken = losses(p);
    pump_free(p);
    return taken;
}

static void a_flapping_top_id_preempts_once_and_then_no_more(void **state)
{
    (void)state;
    assert_int_equal(flap(BW_RANK_ID, 20), 20);
    assert_int_equal(flap(BW_RANK_STABILITY, 20), 1);
    assert_int_equal(flap(BW_RANK_STABILITY, 60), 1);
}

static void members_that_disagree_about_rank_do_not_argue_for_ever(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_bully, 4, NULL);
    p->config.rank = BW_RANK_STABILITY;
    p->config.period_ns = 0;
    pump_boot_all(p, true, 3);
    struct bw_message flapped = {.kind = BW_MSG_OK, .from = 4, .to = 1};
    flapped.bully.demerits = 5;
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = 4, .msg = &flapped});
    receive(p, 1, BW_MSG_COORDINATOR, 3, 6, 3);
    receive(p, 2, BW_MSG_COORDINATOR, 4, 6, 4);
    receive(p, 1, BW_MSG_COORDINATOR, 2, 6, 4); /* to 1 it is 3 that stands, to 2 it is 4 */
    receive(p, 2, BW_MSG_COORDINATOR, 1, 6, 3);
    run_for(p, 500 * BW_MS);
    assert_true(pump_total(p) < 30);
    pump_free(p);
}

static void a_long_life_is_forgiven(void **state)
{
    (void)state;
    struct pump *p = pump_new(&bw_elect_bully, 3, NULL);
    p->config.rank = BW_RANK_STABILITY;
    p->config.forgive_ns = 10 * BW_SEC;
    p->config.period_ns = 0;
    p->nodes[3].durable.starts = 3; /* with this start four: two demerits beyond the free one */
    pump_boot_all(p, false, BW_NODE_NONE);
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 2);
    run_for(p, 15 * BW_SEC);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 2); /* one demerit left */
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
        cmocka_unit_test(a_resigned_leader_does_not_bully_its_successor),
        cmocka_unit_test(a_resigned_leader_steps_in_when_its_successor_dies),
        cmocka_unit_test(a_lone_leader_that_resigns_leads_again),
        cmocka_unit_test(a_transfer_goes_to_the_next_best_only),
        cmocka_unit_test(a_hand_over_that_gets_lost_is_taken_back),
        cmocka_unit_test(a_new_member_learns_who_leads),
        cmocka_unit_test(priority_stands_before_the_id),
        cmocka_unit_test(a_flapping_top_id_preempts_once_and_then_no_more),
        cmocka_unit_test(members_that_disagree_about_rank_do_not_argue_for_ever),
        cmocka_unit_test(a_long_life_is_forgiven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
