/* Stable leader: rounds, two OKs, and that only silence ends a leadership. */
#include "core/base/error.h"
#include "ring_pump.h"

#define OPS   (&bw_elect_stable)
#define DELTA (100 * BW_MS)

static struct pump *settled(uint32_t n)
{
    struct pump *p = pump_new(OPS, n, NULL);
    pump_boot_all(p, false, BW_NODE_NONE);
    pump_run(p, BW_SEC);
    assert_int_equal(pump_agreed(p), 1);
    return p;
}

static void step_message(struct pump *p, enum bw_message_kind kind, bw_node from, bw_node to,
                         bw_term round, bw_node candidate)
{
    struct bw_message msg = {.kind = (uint8_t)kind, .from = from, .to = to, .term = round};
    msg.bully.leader = candidate;
    pump_step(p, to, (struct bw_event){.kind = BW_EVENT_MESSAGE, .node = from, .msg = &msg});
}

static void first_round_elects_the_first_node(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 7; n++) {
        struct pump *p = settled(n);
        assert_true(p->nodes[1].led_at <= DELTA + PUMP_LATENCY);
        pump_free(p);
    }
}

static bw_node outsider;
static uint64_t from_others;

static bool count_others(const struct bw_message *msg)
{
    from_others += msg->from != outsider;
    return false;
}

static void in_steady_state_only_the_leader_sends(void **state)
{
    (void)state;
    struct pump *p = settled(5);
    uint64_t before = pump_total(p);
    outsider = 1;
    from_others = 0;
    p->lost = count_others;
    pump_run(p, 11 * BW_SEC);
    assert_int_equal(from_others, 0);
    assert_int_equal(pump_total(p) - before, 100 * 4);
    pump_free(p);
}

static void a_crash_is_over_within_n_plus_4_delta(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 9; n++) {
        for (bw_time phase = 0; phase < DELTA; phase += 17 * BW_MS) {
            struct pump *p = settled(n);
            pump_run(p, BW_SEC + phase);
            pump_kill(p, 1);
            pump_run(p, BW_SEC + phase + (bw_time)(n + 4) * DELTA);
            assert_int_equal(pump_agreed(p), 2);
            pump_free(p);
        }
    }
}

static bool follower_is_mute(const struct bw_message *msg)
{
    return msg->from == 3;
}

static void follower_that_cannot_send_does_not_disturb_the_group(void **state)
{
    (void)state;
    struct pump *p = settled(5);
    uint64_t elections = p->elections;
    p->lost = follower_is_mute;
    for (bw_node id = 1; id <= 5; id++)
        if (id != 3)
            pump_step(p, id, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = 3});
    for (bw_node other = 1; other <= 5; other++)
        pump_step(p, 3, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = other});
    pump_run(p, 10 * BW_SEC);
    p->lost = NULL;
    pump_run(p, 12 * BW_SEC);
    assert_int_equal(pump_agreed(p), 1);
    assert_int_equal(p->elections, elections);
    pump_free(p);
}

static void higher_rank_does_not_demote_a_working_leader(void **state)
{
    (void)state;
    struct pump *p = settled(5);
    pump_kill(p, 1);
    pump_run(p, 2 * BW_SEC);
    assert_int_equal(pump_agreed(p), 2);
    uint32_t losses = p->nodes[2].losses;
    pump_boot(p, 1, false, BW_NODE_NONE); /* restarts in the round that it led */
    pump_run(p, 4 * BW_SEC);
    assert_int_equal(pump_agreed(p), 2);
    assert_int_equal(p->nodes[2].losses, losses);
    pump_free(p);
}

static void restarted_follower_does_not_demote_the_leader(void **state)
{
    (void)state;
    struct pump *p = settled(5);
    pump_kill(p, 1);
    pump_run(p, 2 * BW_SEC);
    pump_kill(p, 4);
    pump_boot(p, 4, false, BW_NODE_NONE);
    assert_int_equal(pump_status(p, 4).term, 1);
    pump_run(p, 3 * BW_SEC);
    assert_int_equal(pump_agreed(p), 2);
    assert_int_equal(p->nodes[2].losses, 0);
    pump_free(p);
}

static void a_leader_needs_two_oks_of_its_own_round(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    pump_boot(p, 3, false, BW_NODE_NONE);
    step_message(p, BW_MSG_STABLE_OK, 1, 3, 0, 1);
    assert_int_equal(p->nodes[3].announced.leader, BW_NODE_NONE);
    step_message(p, BW_MSG_STABLE_OK, 1, 3, 0, 1);
    assert_int_equal(p->nodes[3].announced.leader, 1);
    step_message(p, BW_MSG_STABLE_OK, 2, 3, 1, 2); /* one OK of a new round */
    assert_int_equal(p->nodes[3].announced.leader, BW_NODE_NONE);
    step_message(p, BW_MSG_STABLE_OK, 2, 3, 1, 2);
    assert_int_equal(p->nodes[3].announced.leader, 2);
    pump_free(p);
}

static void an_old_rounds_message_is_answered_with_the_round(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    pump_boot(p, 3, false, BW_NODE_NONE);
    step_message(p, BW_MSG_STABLE_START, 1, 3, 4, 2);
    assert_int_equal(p->nodes[3].durable.term, 4);
    uint64_t before = pump_total(p);
    step_message(p, BW_MSG_STABLE_STOP, 1, 3, 3, 1);
    assert_int_equal(pump_status(p, 3).term, 4);
    step_message(p, BW_MSG_STABLE_OK, 1, 3, 3, 1);
    assert_int_equal(pump_total(p) - before, 2);
    assert_int_equal(p->sent[BW_MSG_STABLE_OK], 0);
    step_message(p, BW_MSG_STABLE_STOP, 1, 3, 4, 2); /* STOP of this round: next round */
    assert_int_equal(pump_status(p, 3).term, 5);
    pump_free(p);
}

static void a_suspicion_ends_only_a_silent_leader(void **state)
{
    (void)state;
    struct pump *p = settled(5);
    pump_event_all(p, BW_EVENT_SUSPECT, 1);
    pump_run(p, 3 * BW_SEC + DELTA / 2);
    assert_int_equal(pump_agreed(p), 1);
    pump_kill(p, 1);
    pump_event_all(p, BW_EVENT_SUSPECT, 1);
    pump_run(p,
             /* last received 3 delta ago: half a delta sooner than without a suspicion */
             3 * BW_SEC + 3 * DELTA);
    assert_int_equal(pump_agreed(p), 2);
    pump_free(p);
}

static void paused_node_sends_no_stop(void **state)
{
    (void)state;
    struct pump *p = settled(3);
    bw_time slept = p->now;
    p->nodes[3].dead = true; /* paused: no messages, no timers */
    pump_run(p, slept + 20 * DELTA);
    p->nodes[3].dead = false;
    pump_run(p, slept + 30 * DELTA);
    assert_int_equal(pump_agreed(p), 1);
    assert_int_equal(p->nodes[1].losses, 0);
    pump_free(p);
}

static void a_leaving_leader_opens_the_next_round(void **state)
{
    (void)state;
    struct pump *p = settled(5);
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_STOP});
    assert_int_equal(p->nodes[1].last_loss, BW_LOSS_SHUT_DOWN);
    pump_kill(p, 1);
    pump_event_all(p, BW_EVENT_LEAVE, 1);
    pump_run(p, BW_SEC + DELTA + 5 * PUMP_LATENCY);
    assert_int_equal(pump_agreed(p), 2);
    pump_free(p);
}

static void a_transfer_names_the_next_candidate(void **state)
{
    (void)state;
    struct pump *p = settled(5);
    pump_command(p, 1, BW_COMMAND_TRANSFER, 4);
    assert_int_equal(p->nodes[1].last_loss, BW_LOSS_TRANSFERRED);
    pump_run(p, 2 * BW_SEC);
    assert_int_equal(pump_agreed(p), 4);
    pump_command(p, 4, BW_COMMAND_RESIGN, BW_NODE_NONE);
    pump_run(p, 3 * BW_SEC);
    assert_int_equal(pump_agreed(p), 5);
    pump_free(p);
}

static void a_joiner_changes_no_leader(void **state)
{
    (void)state;
    struct pump *p = settled(4);
    pump_kill(p, 1);
    pump_run(p, 2 * BW_SEC);
    p->count = p->config.count = 5;
    pump_boot(p, 5, false, BW_NODE_NONE);
    for (bw_node id = 2; id <= 4; id++)
        pump_step(p, id, (struct bw_event){.kind = BW_EVENT_JOIN, .node = 5, .member = {.id = 5}});
    pump_run(p, 4 * BW_SEC);
    assert_int_equal(pump_agreed(p), 2);
    assert_int_equal(p->nodes[2].losses, 0);
    pump_free(p);
}

static bool between_sides(const struct bw_message *msg)
{
    return (msg->from <= 3) != (msg->to <= 3);
}

static void a_partition_has_two_leaders_and_healing_one(void **state)
{
    (void)state;
    struct pump *p = settled(5);
    p->lost = between_sides;
    pump_run(p, 5 * BW_SEC);
    assert_int_equal(p->nodes[2].announced.leader, 1);
    assert_true(p->nodes[4].announced.leader >= 4);
    assert_int_equal(p->nodes[4].announced.leader, p->nodes[5].announced.leader);
    p->lost = NULL;
    pump_run(p, 8 * BW_SEC);
    assert_int_not_equal(pump_agreed(p), BW_NODE_NONE);
    pump_free(p);
}

static void stable_needs_a_period_and_a_possible_latency(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    struct bw_elector_config config = p->config;
    void *memory = malloc(OPS->bytes(&config));
    config.self = 1;
    config.period_ns = 0;
    assert_int_equal(OPS->init(memory, &config), BW_EINVAL);
    config.period_ns = DELTA;
    config.latency_ns = -1;
    assert_int_equal(OPS->init(memory, &config), BW_EINVAL);
    config.latency_ns = 0;
    assert_int_equal(OPS->init(memory, &config), 0);
    free(memory);
    pump_free(p);
}

/* Suspected members are passed over; the last member is followed by the first one. */
static void next_round_belongs_to_the_next_member_that_is_not_suspected(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    pump_boot(p, 1, true, BW_NODE_NONE);
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = 2});
    step_message(p, BW_MSG_STABLE_START, 2, 1, 4, 2);
    step_message(p, BW_MSG_STABLE_STOP, 2, 1, 4, 2);
    assert_int_equal(p->nodes[1].durable.vote, 3);
    assert_int_equal(p->nodes[1].durable.term, 5);
    step_message(p, BW_MSG_STABLE_STOP, 2, 1, 5, 3);
    assert_int_equal(p->nodes[1].durable.vote, 1);
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = 3});
    assert_false(OPS->ready(p->nodes[1].memory, 3));
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_TRUST, .node = 3});
    assert_true(OPS->ready(p->nodes[1].memory, 3));
    pump_free(p);
    p = pump_new(OPS, 3, NULL);
    pump_boot(p, 1, true, BW_NODE_NONE);
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = 3});
    step_message(p, BW_MSG_STABLE_STOP, 2, 1, 4, 2);
    assert_int_equal(p->nodes[1].durable.vote, 1);
    assert_int_equal(p->nodes[1].durable.term, 6); /* round 5 would belong to 3 */
    pump_free(p);
}

static void messages_about_strangers_or_by_ourselves_change_nothing(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    pump_boot(p, 3, false, BW_NODE_NONE);
    bw_term before = pump_status(p, 3).term;
    step_message(p, BW_MSG_STABLE_START, 1, 3, 9, 7); /* candidate 7 is not a member */
    assert_int_equal(pump_status(p, 3).term, before);
    step_message(p, BW_MSG_STABLE_OK, 1, 3, 9, 3); /* only we send OKs of our round */
    step_message(p, BW_MSG_STABLE_OK, 1, 3, 9, 3);
    assert_int_equal(p->nodes[3].announced.leader, BW_NODE_NONE);
    pump_free(p);
}

/* A node that waits passively takes part as soon as it receives a message of its own round. */
static void passive_node_enters_the_round_it_receives(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    pump_boot(p, 3, true, BW_NODE_NONE);
    assert_false(pump_status(p, 3).electing);
    step_message(p, BW_MSG_STABLE_START, 1, 3, 0, 1);
    assert_true(pump_status(p, 3).electing);
    pump_free(p);
}

static void hint_shortens_the_wait_for_a_silent_candidate_only(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    pump_boot(p, 3, false, BW_NODE_NONE);
    bw_time before = OPS->deadline(p->nodes[3].memory);
    pump_step(p, 3, (struct bw_event){.kind = BW_EVENT_HINT, .node = 2}); /* not the candidate */
    assert_true(OPS->deadline(p->nodes[3].memory) == before);
    pump_step(p, 3, (struct bw_event){.kind = BW_EVENT_HINT, .node = 1});
    assert_true(OPS->deadline(p->nodes[3].memory) < before);
    pump_free(p);
    p = settled(3); /* node 1 leads: a hint about itself means nothing */
    before = OPS->deadline(p->nodes[1].memory);
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_HINT, .node = 1});
    assert_true(OPS->deadline(p->nodes[1].memory) == before);
    pump_free(p);
    p = pump_new(OPS, 3, NULL);
    pump_boot(p, 3, true, BW_NODE_NONE); /* passive: nothing is awaited */
    pump_step(p, 3, (struct bw_event){.kind = BW_EVENT_HINT, .node = 1});
    assert_true(OPS->deadline(p->nodes[3].memory) == BW_TIME_NEVER);
    pump_free(p);
}

static void node_that_left_stops_and_one_that_joins_itself_does_not(void **state)
{
    (void)state;
    struct pump *p = settled(3);
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_JOIN, .node = 1, .member = {.id = 1}});
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = 1}); /* never itself */
    assert_true(pump_status(p, 1).leading);
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_LEAVE, .node = 1});
    assert_int_equal(p->nodes[1].last_loss, BW_LOSS_SHUT_DOWN);
    assert_true(OPS->deadline(p->nodes[1].memory) == BW_TIME_NEVER);
    pump_free(p);
}

/* START could not be delivered to the candidate. That counts only in its own round, before it was
 * heard. */
static void failed_start_ends_only_a_round_whose_candidate_was_not_heard(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 3, NULL);
    pump_boot(p, 3, false, BW_NODE_NONE);
    struct bw_message start = {.kind = BW_MSG_STABLE_START, .from = 3, .to = 1, .term = 7};
    struct bw_event failed = {.kind = BW_EVENT_SEND_FAILED, .node = 1, .msg = &start};
    pump_step(p, 3, failed); /* of another round */
    assert_int_equal(pump_status(p, 3).term, 0);
    step_message(p, BW_MSG_STABLE_OK, 1, 3, 0, 1);
    start.term = 0;
    pump_step(p, 3, failed); /* it has answered since */
    assert_int_equal(pump_status(p, 3).term, 0);
    step_message(p, BW_MSG_STABLE_OK, 1, 3, 0, 1);
    pump_step(p, 3, failed); /* it leads */
    assert_int_equal(pump_status(p, 3).term, 0);
    pump_free(p);
}

static void campaign_keeps_a_fresh_round_unless_its_candidate_failed(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        struct pump *p = pump_new(OPS, 3, NULL);
        pump_boot(p, 3, which != 3, BW_NODE_NONE);
        if (which == 1)
            pump_step(p, 3, (struct bw_event){.kind = BW_EVENT_SUSPECT, .node = 1});
        pump_command(p, 3, BW_COMMAND_CAMPAIGN, which == 2 ? 1 : BW_NODE_NONE);
        assert_int_equal(p->nodes[3].durable.vote, which == 0 ? 1 : 2);
        pump_free(p);
    }
}

static void stopping_candidate_opens_a_round_only_for_others(void **state)
{
    (void)state;
    struct pump *p = pump_new(OPS, 1, NULL); /* alone */
    pump_boot(p, 1, false, BW_NODE_NONE);
    uint64_t before = pump_total(p);
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_STOP});
    assert_int_equal(pump_total(p), before);
    assert_int_equal(p->nodes[1].durable.term, 0);
    pump_free(p);
    p = pump_new(OPS, 3, NULL); /* passive: its round never began */
    pump_boot(p, 1, true, BW_NODE_NONE);
    pump_step(p, 1, (struct bw_event){.kind = BW_EVENT_STOP});
    assert_int_equal(pump_total(p), 0);
    pump_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_round_elects_the_first_node),
        cmocka_unit_test(in_steady_state_only_the_leader_sends),
        cmocka_unit_test(a_crash_is_over_within_n_plus_4_delta),
        cmocka_unit_test(follower_that_cannot_send_does_not_disturb_the_group),
        cmocka_unit_test(higher_rank_does_not_demote_a_working_leader),
        cmocka_unit_test(restarted_follower_does_not_demote_the_leader),
        cmocka_unit_test(a_leader_needs_two_oks_of_its_own_round),
        cmocka_unit_test(an_old_rounds_message_is_answered_with_the_round),
        cmocka_unit_test(a_suspicion_ends_only_a_silent_leader),
        cmocka_unit_test(paused_node_sends_no_stop),
        cmocka_unit_test(a_leaving_leader_opens_the_next_round),
        cmocka_unit_test(a_transfer_names_the_next_candidate),
        cmocka_unit_test(a_joiner_changes_no_leader),
        cmocka_unit_test(a_partition_has_two_leaders_and_healing_one),
        cmocka_unit_test(stable_needs_a_period_and_a_possible_latency),
        cmocka_unit_test(next_round_belongs_to_the_next_member_that_is_not_suspected),
        cmocka_unit_test(messages_about_strangers_or_by_ourselves_change_nothing),
        cmocka_unit_test(passive_node_enters_the_round_it_receives),
        cmocka_unit_test(hint_shortens_the_wait_for_a_silent_candidate_only),
        cmocka_unit_test(node_that_left_stops_and_one_that_joins_itself_does_not),
        cmocka_unit_test(failed_start_ends_only_a_round_whose_candidate_was_not_heard),
        cmocka_unit_test(campaign_keeps_a_fresh_round_unless_its_candidate_failed),
        cmocka_unit_test(stopping_candidate_opens_a_round_only_for_others),
    };
    return cmocka_run_group_tests_name("stable_rounds", tests, NULL, NULL);
}
