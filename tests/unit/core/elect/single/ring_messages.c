/* The ring elections, one instance at a time: messages that are late, repeated, forged or
 * undeliverable, and events in every state. Member 2 of the ring 1, 2, 3, 4. */
#include "one_ring.h"

static void senseless_ring_settings_are_refused(void **state)
{
    (void)state;
    static const bw_node with_nonmember[] = {1, 2, 3, 9}, twice[] = {1, 2, 3, 3};
    for (unsigned i = 0; i < 5; i++) {
        struct world w;
        prepare_ring(&w, &bw_elect_ring_max);
        w.config.announce_ns = i == 0 ? 0 : w.config.announce_ns;
        w.config.answer_ns = i == 1 ? 0 : w.config.answer_ns;
        w.config.period_ns = i == 2 ? 0 : w.config.period_ns;
        w.config.order = i == 3 ? with_nonmember : i == 4 ? twice : NULL;
        assert_int_equal(open(&w), BW_EINVAL);
        close_world(&w);
    }
}

static void sender_of_an_old_round_gets_the_current_leader(void **state)
{
    (void)state;
    struct world w;
    open_ring(&w, &bw_elect_ring_max);
    coordinator(&w, 5, 3, 3, 0);
    election(&w, 4, 1, 1, 1);
    assert_int_equal(sent(&w, BW_MSG_RING_COORDINATOR)->to, 1);
    assert_int_equal(sent(&w, BW_MSG_RING_COORDINATOR)->ring.best, 3);
    coordinator(&w, 4, 1, BW_NODE_NONE, 0);
    assert_non_null(sent(&w, BW_MSG_RING_COORDINATOR));
    hs(&w, BW_MSG_HS_FROM, 4, (struct bw_hs_part){.value = 1, .max = 1}, 0);
    assert_non_null(sent(&w, BW_MSG_RING_COORDINATOR));
    hs(&w, BW_MSG_HS_OK, 4, (struct bw_hs_part){.value = 1, .max = 1}, 0);
    assert_int_equal(messages(&w), 0);
    hs(&w, BW_MSG_HS_NO, 4, (struct bw_hs_part){.value = 1, .max = 1}, 0);
    assert_int_equal(messages(&w), 0);
    election(&w, 4, 2, 2, 1); /* our own message of an old round */
    assert_int_equal(messages(&w), 0);
    close_world(&w);
}

/* It may lead the other side of a healed partition: both sides meet in a new round. */
static void old_announcement_of_a_higher_leader_causes_a_round(void **state)
{
    (void)state;
    struct world w;
    open_ring(&w, &bw_elect_ring_max);
    coordinator(&w, 5, 3, 3, 0);
    bw_time late = w.ops->deadline(w.memory);
    about(&w, BW_EVENT_SUSPECT, 4);
    coordinator(&w, 4, 4, 4, 0); /* suspected: we tell it our leader */
    assert_int_equal(sent(&w, BW_MSG_RING_COORDINATOR)->to, 4);
    assert_true(w.ops->deadline(w.memory) == late);
    about(&w, BW_EVENT_SUSPECT, 4);
    close_world(&w);
    open_ring(&w, &bw_elect_ring_max);
    coordinator(&w, 5, 3, 3, 0);
    coordinator(&w, 4, 4, 4, 0);
    assert_int_equal(messages(&w), 0);
    assert_true(w.ops->deadline(w.memory) < w.now + PERIOD);
    time_passes(&w);
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->term, 6);
    close_world(&w);
}

static void announcement_of_a_suspected_leader_is_believed_briefly(void **state)
{
    (void)state;
    struct world w;
    open_ring(&w, &bw_elect_ring_max);
    about(&w, BW_EVENT_SUSPECT, 4);
    coordinator(&w, 5, 3, 4, 0);
    assert_int_equal(status_of(&w).leader, 4);
    assert_true(w.ops->deadline(w.memory) <= w.now + 3 * PERIOD);
    coordinator(&w, 5, 3, 3, 0); /* of the same round, but not suspected */
    assert_int_equal(status_of(&w).leader, 3);
    coordinator(&w, 6, 4, 4, 0); /* it announces itself: it lives */
    assert_int_equal(status_of(&w).leader, 4);
    assert_true(w.ops->deadline(w.memory) > w.now + 30 * PERIOD);
    coordinator(&w, 6, 3, 4, 0);
    assert_true(w.ops->deadline(w.memory) <= w.now + 3 * PERIOD);
    about(&w, BW_EVENT_TRUST, 4);
    assert_true(w.ops->deadline(w.memory) > w.now + 30 * PERIOD);
    close_world(&w);
}

static void announcement_of_a_lower_leader_in_the_same_round_is_ignored(void **state)
{
    (void)state;
    struct world w;
    open_ring(&w, &bw_elect_ring_max);
    coordinator(&w, 5, 4, 4, 0);
    coordinator(&w, 5, 3, 3, 0);
    assert_false(acted(&w));
    assert_int_equal(status_of(&w).leader, 4);
    coordinator(&w, 5, 4, 4, 0); /* a repetition */
    assert_non_null(sent(&w, BW_MSG_RING_COORDINATOR));
    close_world(&w);
}

static void winner_is_told_alone_without_announcement_laps(void **state)
{
    (void)state;
    struct world w;
    prepare_ring(&w, &bw_elect_ring_max);
    w.config.announce = false;
    assert_int_equal(open(&w), 0);
    start(&w, true);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    assert_true(w.ops->deadline(w.memory) == BW_TIME_NEVER);
    election(&w, 1, 2, 3, 4);
    assert_int_equal(messages(&w), 1);
    assert_int_equal(sent(&w, BW_MSG_RING_COORDINATOR)->to, 3);
    assert_int_equal(sent(&w, BW_MSG_RING_COORDINATOR)->ring.initiator, 3);
    about(&w, BW_EVENT_TRUST, 4); /* causes no round: only its winner would know the result */
    assert_true(w.ops->deadline(w.memory) == BW_TIME_NEVER);
    election(&w, 0, 1, 1, 1);
    assert_int_equal(messages(&w), 0);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    election(&w, 2, 2, 2, 4);
    assert_int_equal(messages(&w), 0);
    assert_true(status_of(&w).leading);
    close_world(&w);
}

static void idle_node_that_was_left_out_starts_a_newer_round(void **state)
{
    (void)state;
    struct world w;
    open_ring(&w, &bw_elect_ring_max);
    coordinator(&w, 9, 1, 1, 0);
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->term, 10);
    assert_int_equal(status_of(&w).leader, BW_NODE_NONE);
    coordinator(&w, 10, 3, 3, 0);
    coordinator(&w, 12, 1, 1, 0); /* settled: starts it soon */
    assert_int_equal(messages(&w), 0);
    time_passes(&w);
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->term, 13);
    close_world(&w);
}

static void leader_yields_to_a_candidate_of_its_own_round(void **state)
{
    (void)state;
    struct world w;
    open_leader(&w);
    election(&w, 1, 3, 3, 1);
    assert_int_equal(announced(&w)->reason, BW_LOSS_TAKEN);
    assert_true(status_of(&w).electing);
    coordinator(&w, 1, 3, 3, 0);
    assert_int_equal(status_of(&w).leader, 3);
    close_world(&w);
}

static void resigned_node_leads_again_only_if_it_is_appointed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct world w;
        open_leader(&w);
        command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
        assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->ring.best, BW_NODE_NONE);
        coordinator(&w, 2, i == 1 ? 2 : 1, 2, i ? BW_FLAG_TRANSFER : 0);
        assert_int_equal(status_of(&w).leading, i > 0);
        const struct bw_message *msg = sent(&w, BW_MSG_RING_COORDINATOR);
        if (i > 0) /* handed to us, or a lap of the member that appointed us */
            assert_int_equal(msg->ring.initiator, i == 1 ? 2 : 1);
        else
            assert_null(msg);
        close_world(&w);
    }
}

static void hint_about_the_leader_starts_a_round_once(void **state)
{
    (void)state;
    struct world w;
    open_ring(&w, &bw_elect_ring_max);
    coordinator(&w, 5, 4, 4, 0);
    about(&w, BW_EVENT_HINT, 3);
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_HINT, 4);
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->term, 6);
    about(&w, BW_EVENT_HINT, 4);
    assert_int_equal(messages(&w), 0);
    assert_int_equal(status_of(&w).leader, 4); /* a hint proves nothing */
    close_world(&w);
}

static void messages_about_strangers_are_ignored(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct world w;
        open_ring(&w, rings[i]);
        election(&w, 5, 9, 1, 1);
        assert_false(acted(&w));
        election(&w, 5, 1, 9, 1);
        assert_false(acted(&w));
        coordinator(&w, 5, 1, 9, 0);
        assert_false(acted(&w));
        hs(&w, BW_MSG_HS_FROM, 5, (struct bw_hs_part){.value = 9, .max = 1}, 0);
        assert_false(acted(&w));
        assert_int_equal(status_of(&w).term, 0);
        close_world(&w);
    }
}

static void undelivered_message_goes_to_the_next_live_member(void **state)
{
    (void)state;
    struct world w;
    open_ring(&w, &bw_elect_ring_max);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    send_failed(&w, undelivered(BW_MSG_RING_ELECTION, 1, 3, 2));
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->to, 4);
    struct bw_message many = undelivered(BW_MSG_RING_ELECTION, 1, 3, 2);
    many.items = CAP + 1;
    send_failed(&w, many);
    assert_false(acted(&w));
    send_failed(&w, undelivered(BW_MSG_RING_ELECTION, 2, 3, 2));
    assert_false(acted(&w));
    send_failed(&w, undelivered(BW_MSG_HEARTBEAT, 1, 3, 2));
    assert_false(acted(&w));
    send_failed(&w, undelivered(BW_MSG_CLAIM, 1, 3, 2));
    assert_false(acted(&w));
    about(&w, BW_EVENT_SUSPECT, 4);
    about(&w, BW_EVENT_SUSPECT, 1);
    send_failed(&w, undelivered(BW_MSG_RING_COORDINATOR, 1, 3, 2));
    assert_false(acted(&w));
    send_failed(&w, undelivered(BW_MSG_RING_ELECTION, 1, 4, 3)); /* not ours: dropped */
    assert_false(acted(&w));
    send_failed(&w, undelivered(BW_MSG_RING_ELECTION, 1, 3, 2)); /* all others are dead */
    assert_null(sent(&w, BW_MSG_RING_ELECTION));
    assert_true(status_of(&w).leading);
    close_world(&w);
}

static void dead_initiator_causes_a_new_round_while_one_is_needed(void **state)
{
    (void)state;
    struct world w;
    open_ring(&w, &bw_elect_ring_max);
    election(&w, 1, 3, 3, 1); /* we pass it on and wait */
    assert_true(status_of(&w).electing);
    send_failed(&w, undelivered(BW_MSG_RING_COORDINATOR, 1, 3, 3));
    assert_int_equal(messages(&w), 0);
    send_failed(&w,
                (struct bw_message){.kind = BW_MSG_HS_OK, .to = 3, .term = 1, .hs = {.value = 3}});
    assert_int_equal(messages(&w), 0);
    struct bw_message appoints = undelivered(BW_MSG_RING_COORDINATOR, 1, 3, 3);
    appoints.flags = BW_FLAG_TRANSFER;
    appoints.ring.best = 4; /* the lap of a member that appointed another one */
    send_failed(&w, appoints);
    assert_int_equal(messages(&w), 0);
    appoints.ring.best = 3;
    send_failed(&w, appoints);
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->term, 2);
    send_failed(&w, undelivered(BW_MSG_RING_ELECTION, 2, 3, 3));
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->term, 3);
    send_failed(
        &w, (struct bw_message){.kind = BW_MSG_HS_FROM, .to = 3, .term = 3, .hs = {.value = 3}});
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->term, 4);
    coordinator(&w, 4, 4, 4, 0);
    send_failed(&w, undelivered(BW_MSG_RING_ELECTION, 4, 3, 3)); /* the round has a result */
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_LEAVE, 3);
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_LEAVE, 4); /* the leader */
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->term, 5);
    close_world(&w);
}

static void leader_that_leaves_or_stops_hands_over_to_the_highest_live_member(void **state)
{
    (void)state;
    struct world w;
    open_leader(&w);
    about(&w, BW_EVENT_LEAVE, 2);
    assert_int_equal(announced(&w)->reason, BW_LOSS_SHUT_DOWN);
    assert_true(w.ops->deadline(w.memory) == BW_TIME_NEVER);
    close_world(&w);
    open_leader(&w);
    about(&w, BW_EVENT_SUSPECT, 4);
    step(&w, (struct bw_event){.kind = BW_EVENT_JOIN, .node = 1, .member = {.id = 1}});
    step(&w, (struct bw_event){.kind = BW_EVENT_JOIN, .node = 1, .member = {1, 7, 0}});
    about(&w, BW_EVENT_STOP, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_RING_COORDINATOR)->to, 1); /* its priority is higher */
    close_world(&w);
    open_leader(&w);
    about(&w, BW_EVENT_SUSPECT, 1);
    about(&w, BW_EVENT_SUSPECT, 3);
    about(&w, BW_EVENT_SUSPECT, 4);
    about(&w, BW_EVENT_STOP, BW_NODE_NONE);
    assert_int_equal(messages(&w), 0);
    assert_int_equal(announced(&w)->reason, BW_LOSS_SHUT_DOWN);
    close_world(&w);
}

static void campaign_starts_one_round_and_keeps_our_own_leadership(void **state)
{
    (void)state;
    struct world w;
    open_leader(&w);
    command(&w, BW_COMMAND_CAMPAIGN, 2);
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->term, 2);
    assert_true(status_of(&w).leading);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    assert_int_equal(messages(&w), 0);
    close_world(&w);
    open_ring(&w, &bw_elect_ring_max);
    coordinator(&w, 5, 4, 4, 0);
    command(&w, BW_COMMAND_CAMPAIGN, 3);
    assert_int_equal(status_of(&w).leader, 4);
    coordinator(&w, 6, 4, 4, 0);
    command(&w, BW_COMMAND_CAMPAIGN, 4);
    assert_int_equal(status_of(&w).leader, BW_NODE_NONE);
    close_world(&w);
}

static void timer_that_fires_early_does_nothing(void **state)
{
    (void)state;
    struct world w;
    open_leader(&w);
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT});
    assert_false(acted(&w));
    time_passes(&w);
    assert_int_equal(sent(&w, BW_MSG_RING_COORDINATOR)->ring.best, 2);
    coordinator(&w, 2, 4, 4, 0);
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT});
    assert_false(acted(&w));
    time_passes(&w); /* the leader is silent */
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->term, 3);
    close_world(&w);
}

static void return_of_a_member_causes_a_round_only_if_it_may_lead(void **state)
{
    (void)state;
    struct world w;
    prepare_ring(&w, &bw_elect_ring_max);
    assert_int_equal(open(&w), 0);
    struct bw_start begin = {.passive = true, .leader = 3};
    step(&w, (struct bw_event){.kind = BW_EVENT_START, .start = &begin});
    about(&w, BW_EVENT_TRUST, 3); /* of the leader, before we heard of any round */
    assert_true(w.ops->deadline(w.memory) == BW_TIME_NEVER);
    coordinator(&w, 5, 3, 3, 0);
    bw_time late = w.ops->deadline(w.memory);
    about(&w, BW_EVENT_TRUST, 1);
    assert_true(w.ops->deadline(w.memory) == late);
    about(&w, BW_EVENT_SUSPECT, BW_NODE_NONE);
    about(&w, BW_EVENT_SUSPECT, 2); /* ourselves */
    assert_false(acted(&w));
    about(&w, BW_EVENT_TRUST, 4);
    assert_true(w.ops->deadline(w.memory) < w.now + PERIOD);
    assert_true(w.ops->ready(w.memory, 4));
    about(&w, BW_EVENT_SUSPECT, 4);
    assert_false(w.ops->ready(w.memory, 4));
    close_world(&w);
}

static void member_that_joins_takes_its_place_by_id(void **state)
{
    (void)state;
    struct world w;
    prepare(&w, &bw_elect_ring_max);
    for (unsigned i = 0; i < 3; i++)
        w.members[i].id = i + 2;
    w.config.self = 4;
    assert_int_equal(open(&w), 0);
    start(&w, true);
    about(&w, BW_EVENT_JOIN, 1);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->to, 1); /* 4 is the last of the ring */
    about(&w, BW_EVENT_LEAVE, 1);
    about(&w, BW_EVENT_LEAVE, 1);
    send_failed(&w, undelivered(BW_MSG_RING_ELECTION, 1, 1, 4)); /* it is no longer in the ring */
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->to, 2);
    /* an event that contradicts itself */
    step(&w, (struct bw_event){.kind = BW_EVENT_JOIN, .node = 2, .member = {.id = 5}});
    about(&w, BW_EVENT_LEAVE, 5);
    send_failed(&w, undelivered(BW_MSG_RING_ELECTION, 1, 2, 4));
    assert_int_equal(sent(&w, BW_MSG_RING_ELECTION)->to, 3);
    close_world(&w);
}

static void announcements_tell_who_leads_since_when_and_why(void **state)
{
    (void)state;
    struct world w;
    open_leader(&w);
    bw_time since = w.now;
    assert_true(traced(&w, BW_TRACE_WON) && traced(&w, BW_TRACE_STATE));
    assert_true(announced(&w)->act_from == since && announced(&w)->act_until == BW_TIME_NEVER);
    assert_true(status_of(&w).act_from == since && status_of(&w).act_until == BW_TIME_NEVER);
    w.now += BW_SEC;
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    election(&w, 2, 2, 2, 4); /* re-elected: it has led all the time */
    assert_int_equal(announced(&w)->term, 2);
    assert_int_equal(announced(&w)->reason, BW_LOSS_NONE);
    assert_true(announced(&w)->act_from == since);
    coordinator(&w, 3, 4, 4, 0);
    assert_true(traced(&w, BW_TRACE_LEADER) && !traced(&w, BW_TRACE_STATE));
    assert_int_equal(announced(&w)->reason, BW_LOSS_TAKEN);
    assert_true(announced(&w)->act_from == 0 && announced(&w)->act_until == 0);
    assert_true(status_of(&w).act_from == 0 && status_of(&w).act_until == 0);
    coordinator(&w, 3, 4, 4, 0);
    assert_null(announced(&w)); /* no news */
    coordinator(&w, 4, 4, 4, 0);
    assert_int_equal(announced(&w)->term, 4);
    about(&w, BW_EVENT_SUSPECT, 4);
    assert_false(traced(&w, BW_TRACE_STEP_DOWN)); /* only a leader steps down */
    assert_int_equal(announced(&w)->reason, BW_LOSS_NONE);
    close_world(&w);
    open_leader(&w);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    assert_true(traced(&w, BW_TRACE_STEP_DOWN));
    close_world(&w);
}

static void round_that_fails_ends_only_the_leadership_of_others(void **state)
{
    (void)state;
    struct world w;
    open_leader(&w);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    time_passes(&w);
    assert_true(status_of(&w).leading);
    coordinator(&w, 9, 4, 4, 0);
    about(&w, BW_EVENT_HINT, 4);
    time_passes(&w);
    assert_int_equal(status_of(&w).leader, BW_NODE_NONE);
    close_world(&w);
}

static void leader_at_the_start_must_be_another_member(void **state)
{
    (void)state;
    static const bw_node leaders[] = {1, 2, 9};
    for (unsigned i = 0; i < 3; i++) {
        struct world w;
        prepare_ring(&w, &bw_elect_ring_max);
        assert_int_equal(open(&w), 0);
        struct bw_start begin = {.passive = true, .leader = leaders[i]};
        step(&w, (struct bw_event){.kind = BW_EVENT_START, .start = &begin});
        assert_int_equal(status_of(&w).leader, i ? BW_NODE_NONE : 1);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(senseless_ring_settings_are_refused),
        cmocka_unit_test(sender_of_an_old_round_gets_the_current_leader),
        cmocka_unit_test(old_announcement_of_a_higher_leader_causes_a_round),
        cmocka_unit_test(announcement_of_a_suspected_leader_is_believed_briefly),
        cmocka_unit_test(announcement_of_a_lower_leader_in_the_same_round_is_ignored),
        cmocka_unit_test(winner_is_told_alone_without_announcement_laps),
        cmocka_unit_test(idle_node_that_was_left_out_starts_a_newer_round),
        cmocka_unit_test(leader_yields_to_a_candidate_of_its_own_round),
        cmocka_unit_test(resigned_node_leads_again_only_if_it_is_appointed),
        cmocka_unit_test(hint_about_the_leader_starts_a_round_once),
        cmocka_unit_test(messages_about_strangers_are_ignored),
        cmocka_unit_test(undelivered_message_goes_to_the_next_live_member),
        cmocka_unit_test(dead_initiator_causes_a_new_round_while_one_is_needed),
        cmocka_unit_test(leader_that_leaves_or_stops_hands_over_to_the_highest_live_member),
        cmocka_unit_test(campaign_starts_one_round_and_keeps_our_own_leadership),
        cmocka_unit_test(timer_that_fires_early_does_nothing),
        cmocka_unit_test(return_of_a_member_causes_a_round_only_if_it_may_lead),
        cmocka_unit_test(member_that_joins_takes_its_place_by_id),
        cmocka_unit_test(announcements_tell_who_leads_since_when_and_why),
        cmocka_unit_test(round_that_fails_ends_only_the_leadership_of_others),
        cmocka_unit_test(leader_at_the_start_must_be_another_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
