/* Stable leader: rounds, two OKs, and that nothing but silence ends a leadership. */
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

static void the_first_round_gives_the_first_node_the_lead(void **state)
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

static void a_mute_follower_disturbs_nobody(void **state)
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

static void a_better_one_does_not_demote_a_working_leader(void **state)
{
    (void)state;
    struct pump *p = settled(5);
    pump_kill(p, 1);
    pump_run(p, 2 * BW_SEC);
    assert_int_equal(pump_agreed(p), 2);
    uint32_t losses = p->nodes[2].losses;
    pump_boot(p, 1, false, BW_NODE_NONE); /* comes back into the round it had led */
    pump_run(p, 4 * BW_SEC);
    assert_int_equal(pump_agreed(p), 2);
    assert_int_equal(p->nodes[2].losses, losses);
    pump_free(p);
}

static void a_follower_that_restarts_demotes_nobody(void **state)
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
    assert_int_equal(p->nodes[3].said.leader, BW_NODE_NONE);
    step_message(p, BW_MSG_STABLE_OK, 1, 3, 0, 1);
    assert_int_equal(p->nodes[3].said.leader, 1);
    step_message(p, BW_MSG_STABLE_OK, 2, 3, 1, 2); /* one OK of a new round */
    assert_int_equal(p->nodes[3].said.leader, BW_NODE_NONE);
    step_message(p, BW_MSG_STABLE_OK, 2, 3, 1, 2);
    assert_int_equal(p->nodes[3].said.leader, 2);
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
    step_message(p, BW_MSG_STABLE_STOP, 1, 3, 4, 2); /* of this round: on to the next */
    assert_int_equal(pump_status(p, 3).term, 5);
    pump_free(p);
}

static void a_suspicion_ends_only_a_silent_leader(void **state)
{
    (void)state;
    struct pump *p = settled(5);
    pump_tell_all(p, BW_EVENT_SUSPECT, 1);
    pump_run(p, 3 * BW_SEC + DELTA / 2);
    assert_int_equal(pump_agreed(p), 1);
    pump_kill(p, 1);
    pump_tell_all(p, BW_EVENT_SUSPECT, 1);
    pump_run(p,
             3 * BW_SEC + 3 * DELTA); /* last heard 3 delta ago: half a delta sooner than alone */
    assert_int_equal(pump_agreed(p), 2);
    pump_free(p);
}

static void who_slept_accuses_nobody(void **state)
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
    pump_tell_all(p, BW_EVENT_LEAVE, 1);
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
    assert_int_equal(p->nodes[2].said.leader, 1);
    assert_true(p->nodes[4].said.leader >= 4);
    assert_int_equal(p->nodes[4].said.leader, p->nodes[5].said.leader);
    p->lost = NULL;
    pump_run(p, 8 * BW_SEC);
    assert_int_not_equal(pump_agreed(p), BW_NODE_NONE);
    pump_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_round_gives_the_first_node_the_lead),
        cmocka_unit_test(in_steady_state_only_the_leader_sends),
        cmocka_unit_test(a_crash_is_over_within_n_plus_4_delta),
        cmocka_unit_test(a_mute_follower_disturbs_nobody),
        cmocka_unit_test(a_better_one_does_not_demote_a_working_leader),
        cmocka_unit_test(a_follower_that_restarts_demotes_nobody),
        cmocka_unit_test(a_leader_needs_two_oks_of_its_own_round),
        cmocka_unit_test(an_old_rounds_message_is_answered_with_the_round),
        cmocka_unit_test(a_suspicion_ends_only_a_silent_leader),
        cmocka_unit_test(who_slept_accuses_nobody),
        cmocka_unit_test(a_leaving_leader_opens_the_next_round),
        cmocka_unit_test(a_transfer_names_the_next_candidate),
        cmocka_unit_test(a_joiner_changes_no_leader),
        cmocka_unit_test(a_partition_has_two_leaders_and_healing_one),
    };
    return cmocka_run_group_tests_name("stable_rounds", tests, NULL, NULL);
}
