/* Next-in-line failover: the list, its order, its age, and the fallback when it is useless. */
#include "bully_story.h"

#include "core/base/error.h"

static void the_first_alternative_takes_over_with_six_messages(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_next, 6);
    pump_command(p, 2, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 500 * BW_MS);
    assert_int_equal(p->sent[BW_MSG_FAILOVER], 1);
    assert_int_equal(p->sent[BW_MSG_OK], 1);
    assert_int_equal(p->sent[BW_MSG_COORDINATOR], 4);
    assert_int_equal(pump_total(p), 6);
    assert_int_equal(p->nodes[5].led_at, PUMP_LATENCY);
    assert_all_follow(p, 5);
    pump_free(p);
}

static void a_dead_alternative_costs_one_message_and_one_timeout(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_next, 6);
    pump_kill(p, 5);
    pump_command(p, 2, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 500 * BW_MS);
    assert_int_equal(pump_total(p), 7);
    assert_int_equal(p->nodes[4].led_at, p->config.answer_ns + PUMP_LATENCY);
    assert_all_follow(p, 4);
    pump_free(p);
}

static void next_in_line_leads_at_once_when_it_detects_the_failure(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_next, 6);
    pump_command(p, 5, BW_COMMAND_CAMPAIGN, 6);
    assert_true(pump_status(p, 5).leading);
    run_for(p, 500 * BW_MS);
    assert_int_equal(pump_total(p), 4);
    assert_all_follow(p, 5);
    pump_free(p);
}

static struct pump *with_list(const bw_node *list, uint32_t count)
{
    struct pump *p = pump_new(&bw_elect_bully_next, 6, NULL);
    p->config.alternatives = list;
    p->config.alternatives_count = count;
    pump_boot_all(p, true, 6);
    pump_kill(p, 6);
    return p;
}

static void list_order_takes_precedence_over_rank(void **state)
{
    (void)state;
    static const bw_node list[] = {3, 5, 4};
    struct pump *p = with_list(list, 3);
    pump_command(p, 2, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 3);
    pump_kill(p, 3);
    suspect(p, 1, 3); /* node 3 has sent its own list since it became leader */
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 5);
    assert_int_equal(p->sent[BW_MSG_ELECTION], 0);
    pump_free(p);
}

static void bully_decides_when_the_list_is_exhausted(void **state)
{
    (void)state;
    static const bw_node list[] = {5, 4};
    struct pump *p = with_list(list, 2);
    pump_kill(p, 5);
    pump_kill(p, 4);
    pump_command(p, 1, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 500 * BW_MS);
    assert_int_equal(p->sent[BW_MSG_FAILOVER], 2);
    assert_true(p->sent[BW_MSG_ELECTION] > 0);
    assert_all_follow(p, 3);
    pump_free(p);
}

static void alternative_with_a_newer_list_starts_an_election(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_next, 6);
    struct bw_message announcement = {.kind = BW_MSG_COORDINATOR, .from = 6, .to = 3, .items = 2};
    static const bw_node list[] = {4, 5};
    announcement.bully.leader = 6;
    announcement.bully.version = 9;
    announcement.data = list;
    pump_step(p, 3, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = 6, .msg = &announcement});
    struct bw_message failover = {.kind = BW_MSG_FAILOVER, .from = 2, .to = 3, .term = 1};
    failover.bully.leader = 6;
    failover.bully.version = 1;
    pump_step(p, 3, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = 2, .msg = &failover});
    assert_false(pump_status(p, 3).leading);
    assert_int_equal(p->sent[BW_MSG_ELECTION], 3);
    run_for(p, 500 * BW_MS);
    assert_int_equal(pump_status(p, 3).leader, 5);
    pump_free(p);
}

static void member_with_an_old_list_starts_an_election(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_next, 6);
    /* a third node names the leader, but sends no list */
    receive(p, 1, BW_MSG_COORDINATOR, 2, 4, 5);
    assert_int_equal(pump_status(p, 1).leader, 5);
    pump_kill(p, 5);
    suspect(p, 1, 5);
    assert_int_equal(p->sent[BW_MSG_FAILOVER], 0);
    assert_int_equal(p->sent[BW_MSG_ELECTION], 5);
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 4);
    pump_free(p);
}

static void several_detectors_make_one_new_leader(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_next, 6);
    pump_event_all(p, BW_EVENT_SUSPECT, 6);
    run_for(p, 500 * BW_MS);
    assert_all_follow(p, 5);
    assert_int_equal(p->sent[BW_MSG_ELECTION], 0);
    pump_free(p);
}

static void bully_decides_when_the_alternative_dies_after_its_reply(void **state)
{
    (void)state;
    struct pump *p = leader_died(&bw_elect_bully_next, 6);
    pump_command(p, 2, BW_COMMAND_CAMPAIGN, 6);
    pump_kill(p, 5);
    receive(p, 2, BW_MSG_OK, 5, p->nodes[2].durable.term, 6);
    run_for(p, p->config.announce_ns + 100 * BW_MS);
    assert_all_follow(p, 4);
    pump_free(p);
}

static void hint_does_not_depose_the_leader(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully_next, 6, 6);
    pump_step(p, 2, (struct bw_event){.kind = BW_EVENT_HINT, .node = 6});
    run_for(p, 500 * BW_MS);
    assert_int_equal(p->sent[BW_MSG_FAILOVER], 0);
    assert_int_equal(p->nodes[6].losses, 0);
    assert_all_follow(p, 6);
    pump_free(p);
}

static void highest_rank_leads_after_a_partition_heals(void **state)
{
    (void)state;
    struct pump *p = settled(&bw_elect_bully_next, 6, 6);
    split_and_heal(p, 3);
    assert_all_follow(p, 6);
    pump_free(p);
}

static void unknown_ids_in_the_list_are_skipped(void **state)
{
    (void)state;
    static const bw_node list[] = {9, 3, 5}; /* 9 has left the group */
    struct pump *p = with_list(list, 3);
    pump_command(p, 2, BW_COMMAND_CAMPAIGN, 6);
    run_for(p, 500 * BW_MS);
    assert_int_equal(pump_total(p), 6);
    assert_all_follow(p, 3);
    pump_free(p);
}

static void init_rejects_a_list_that_is_too_long(void **state)
{
    (void)state;
    static const bw_node list[] = {5};
    struct pump *p = settled(&bw_elect_bully_next, 6, 6);
    struct bw_elector_config config = p->config;
    config.self = 1;
    config.alternatives = list;
    config.alternatives_count = 2000;
    assert_int_equal(p->ops->init(p->nodes[1].memory, &config), BW_ELIMIT);
    pump_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_alternative_takes_over_with_six_messages),
        cmocka_unit_test(a_dead_alternative_costs_one_message_and_one_timeout),
        cmocka_unit_test(next_in_line_leads_at_once_when_it_detects_the_failure),
        cmocka_unit_test(list_order_takes_precedence_over_rank),
        cmocka_unit_test(bully_decides_when_the_list_is_exhausted),
        cmocka_unit_test(alternative_with_a_newer_list_starts_an_election),
        cmocka_unit_test(member_with_an_old_list_starts_an_election),
        cmocka_unit_test(several_detectors_make_one_new_leader),
        cmocka_unit_test(bully_decides_when_the_alternative_dies_after_its_reply),
        cmocka_unit_test(hint_does_not_depose_the_leader),
        cmocka_unit_test(highest_rank_leads_after_a_partition_heals),
        cmocka_unit_test(unknown_ids_in_the_list_are_skipped),
        cmocka_unit_test(init_rejects_a_list_that_is_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
