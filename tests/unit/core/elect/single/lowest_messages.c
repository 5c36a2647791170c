/* Lowest id, one instance at a time: messages that are late, repeated or forged, and events in
 * every state. Member 2 of 1, 2, 3, 4, or another one. */
#include "one_elector.h"

static void prepare_lowest(struct world *w, bw_node self)
{
    prepare(w, &bw_elect_lowest);
    w->config.self = self;
    w->config.count = 4;
    bw_elector_defaults(&w->config, 5 * BW_MS, PERIOD);
}

static void open_lowest(struct world *w, bw_node self)
{
    prepare_lowest(w, self);
    assert_int_equal(open(w), 0);
    start(w, false);
}

static void lowest(struct world *w, enum bw_message_kind kind, bw_node from, bw_term term,
                   bw_node leader)
{
    receive(w, (struct bw_message){
                   .kind = (uint8_t)kind, .from = from, .term = term, .bully = {.leader = leader}});
}

/* Node 2 follows node 1, which announced itself in epoch 5. */
static void open_follower(struct world *w)
{
    open_lowest(w, 2);
    assert_int_equal(status_of(w).leader, 1);
    assert_true(status_of(w).electing);
    lowest(w, BW_MSG_COORDINATOR, 1, 5, 1);
    assert_false(status_of(w).electing);
}

static void node_that_resigned_leads_when_no_other_member_is_left(void **state)
{
    (void)state;
    struct world w;
    open_lowest(&w, 1);
    assert_true(status_of(&w).leading);
    about(&w, BW_EVENT_SUSPECT, 3);
    about(&w, BW_EVENT_SUSPECT, 4);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    assert_int_equal(status_of(&w).leader, 2);
    about(&w, BW_EVENT_LEAVE, 2);
    assert_true(status_of(&w).leading);
    close_world(&w);
}

static void node_that_resigned_leads_again_when_its_successor_is_silent(void **state)
{
    (void)state;
    struct world w;
    open_lowest(&w, 1);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT}); /* too early */
    assert_false(status_of(&w).leading);
    time_passes(&w);
    assert_true(status_of(&w).leading);
    assert_null(sent(&w, BW_MSG_ELECTION));
    close_world(&w);
}

static void silent_leader_is_asked_once_without_a_period(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct world w;
        prepare_lowest(&w, 2);
        w.config.period_ns = i ? PERIOD : 0;
        assert_int_equal(open(&w), 0);
        start(&w, false);
        time_passes(&w);
        assert_int_equal(sent(&w, BW_MSG_ELECTION)->to, 1);
        assert_int_equal(w.ops->deadline(w.memory) < BW_TIME_NEVER, i);
        close_world(&w);
    }
}

static void leader_outbids_what_contradicts_it(void **state)
{
    (void)state;
    struct world w;
    open_lowest(&w, 1);
    bw_term term = status_of(&w).term;
    lowest(&w, BW_MSG_COORDINATOR, 2, term, 1); /* what we know */
    assert_false(acted(&w));
    lowest(&w, BW_MSG_COORDINATOR, 2, term + 1, 1);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->term, term + 2);
    lowest(&w, BW_MSG_COORDINATOR, 3, term + 2, 3);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->term, term + 3);
    lowest(&w, BW_MSG_ALIVE, 3, term + 3, BW_NODE_NONE);
    assert_false(acted(&w));
    lowest(&w, BW_MSG_ALIVE, 3, term + 4, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->term, term + 5);
    close_world(&w);
}

static void question_to_the_leader_is_answered_with_the_newest_epoch(void **state)
{
    (void)state;
    struct world w;
    open_lowest(&w, 1);
    bw_term term = status_of(&w).term;
    lowest(&w, BW_MSG_ELECTION, 3, term, 1); /* it takes us for dead */
    assert_int_equal(messages(&w), 1);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->to, 3);
    lowest(&w, BW_MSG_ELECTION, 3, term + 4, BW_NODE_NONE);
    assert_int_equal(messages(&w), 3);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->term, term + 4);
    close_world(&w);
}

static void follower_ignores_claims_for_itself_and_for_strangers(void **state)
{
    (void)state;
    struct world w;
    open_follower(&w);
    lowest(&w, BW_MSG_COORDINATOR, 3, 5, 2);
    assert_false(acted(&w));
    lowest(&w, BW_MSG_COORDINATOR, 3, 5, 9);
    assert_false(acted(&w));
    assert_int_equal(status_of(&w).leader, 1);
    close_world(&w);
}

static void claim_of_another_member_confirms_the_leader_only_if_it_is_news(void **state)
{
    (void)state;
    struct world w;
    open_follower(&w);
    bw_time before = w.ops->deadline(w.memory);
    w.now += BW_SEC;
    lowest(&w, BW_MSG_COORDINATOR, 3, 5, 1);
    assert_true(w.ops->deadline(w.memory) == before);
    lowest(&w, BW_MSG_COORDINATOR, 3, 6, 1);
    assert_true(w.ops->deadline(w.memory) == before + BW_SEC);
    assert_int_equal(status_of(&w).term, 6);
    close_world(&w);
    open_lowest(&w, 2);
    bw_term term = status_of(&w).term;
    lowest(&w, BW_MSG_COORDINATOR, 3, term, 1); /* we wait for the leader's announcement */
    assert_false(status_of(&w).electing);
    close_world(&w);
}

/* It means that 1 and we are dead, but we are not. */
static void claim_of_a_higher_id_makes_us_lead(void **state)
{
    (void)state;
    struct world w;
    open_follower(&w);
    lowest(&w, BW_MSG_COORDINATOR, 3, 6, 3);
    assert_true(status_of(&w).leading);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->term, 7);
    close_world(&w);
}

static void notice_counts_unless_it_is_old(void **state)
{
    (void)state;
    struct world w;
    open_lowest(&w, 1);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    lowest(&w, BW_MSG_COORDINATOR, 2, 6, 2);
    lowest(&w, BW_MSG_NOTICE, 3, 5, BW_NODE_NONE);
    assert_false(status_of(&w).leading);
    lowest(&w, BW_MSG_NOTICE, 2, 7, BW_NODE_NONE);
    assert_true(status_of(&w).leading);
    close_world(&w);
}

/* 1 is below the floor since 2 leads. A hand-over by 1 does not make it a candidate again. */
static void hand_over_by_a_lower_member_does_not_bring_it_back(void **state)
{
    (void)state;
    struct world w;
    open_lowest(&w, 3);
    lowest(&w, BW_MSG_COORDINATOR, 2, 5, 2);
    assert_int_equal(status_of(&w).leader, 2);
    about(&w, BW_EVENT_SUSPECT, 2);
    assert_true(status_of(&w).leading);
    lowest(&w, BW_MSG_NOTICE, 1, 9, BW_NODE_NONE);
    assert_true(status_of(&w).leading);
    lowest(&w, BW_MSG_ALIVE, 1, 8, BW_NODE_NONE); /* sent before */
    assert_true(status_of(&w).leading);
    lowest(&w, BW_MSG_ALIVE, 1, status_of(&w).term, BW_NODE_NONE);
    assert_int_equal(status_of(&w).leader, 1);
    close_world(&w);
}

/* 1 resigned to us and abstains. If we followed it, no member would lead until 1 is asked, and then
 * 1 would hand over again. */
static void successor_keeps_leadership_when_a_resigned_member_sends_messages(void **state)
{
    (void)state;
    struct world w;
    open_follower(&w);
    lowest(&w, BW_MSG_NOTICE, 1, 6, BW_NODE_NONE);
    assert_true(status_of(&w).leading);
    bw_term term = status_of(&w).term;
    lowest(&w, BW_MSG_COORDINATOR, 1, 5, 1); /* late: it led in this epoch */
    assert_true(status_of(&w).leading);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->bully.leader, 2);
    lowest(&w, BW_MSG_COORDINATOR, 1, term, 2); /* it answers a late message of ours */
    assert_true(status_of(&w).leading);
    lowest(&w, BW_MSG_COORDINATOR, 1, term, 1); /* it leads again */
    assert_int_equal(status_of(&w).leader, 1);
    close_world(&w);
}

static void leader_that_failed_by_command_counts_again_when_it_is_trusted(void **state)
{
    (void)state;
    struct world w;
    open_follower(&w);
    command(&w, BW_COMMAND_CAMPAIGN, 2); /* names ourselves: nothing changes */
    assert_int_equal(status_of(&w).leader, 1);
    command(&w, BW_COMMAND_CAMPAIGN, 1);
    assert_true(status_of(&w).leading);
    about(&w, BW_EVENT_TRUST, 3);
    assert_true(status_of(&w).leading);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->to, 3);
    about(&w, BW_EVENT_TRUST, 2);
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_TRUST, 9);
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_TRUST, 1);
    assert_int_equal(status_of(&w).leader, 1);
    close_world(&w);
}

static void hint_is_left_to_the_detector(void **state)
{
    (void)state;
    struct world w;
    open_follower(&w);
    about(&w, BW_EVENT_HINT, 1);
    assert_false(acted(&w));
    assert_int_equal(w.actions.count, 1);
    close_world(&w);
}

static void leader_that_leaves_hands_over(void **state)
{
    (void)state;
    struct world w;
    open_lowest(&w, 1);
    about(&w, BW_EVENT_LEAVE, 1);
    assert_int_equal(sent(&w, BW_MSG_NOTICE)->to, 2);
    assert_int_equal(announced(&w)->reason, BW_LOSS_SHUT_DOWN);
    assert_string_equal(status_of(&w).state, "stopped");
    close_world(&w);
}

/* The failed member is named in the question to the leader. */
static void trusted_member_is_no_longer_reported_as_failed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct world w;
        open_follower(&w);
        command(&w, BW_COMMAND_CAMPAIGN, 4);
        if (i > 0)
            about(&w, BW_EVENT_TRUST, i == 1 ? 3 : 4);
        time_passes(&w);
        assert_int_equal(sent(&w, BW_MSG_ELECTION)->bully.leader, i == 2 ? BW_NODE_NONE : 4);
        close_world(&w);
    }
}

static void only_the_claimant_of_an_old_epoch_is_answered(void **state)
{
    (void)state;
    struct world w;
    open_follower(&w);
    lowest(&w, BW_MSG_COORDINATOR, 3, 4, 3);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->bully.leader, 1);
    lowest(&w, BW_MSG_COORDINATOR, 3, 4, 4);
    assert_int_equal(messages(&w), 0);
    lowest(&w, BW_MSG_ALIVE, 3, 4, BW_NODE_NONE);
    assert_true(traced(&w, BW_TRACE_IGNORED_STATE));
    close_world(&w);
}

static void two_leaders_are_traced(void **state)
{
    (void)state;
    struct world w;
    open_lowest(&w, 1);
    bw_term term = status_of(&w).term;
    lowest(&w, BW_MSG_COORDINATOR, 3, term, 3);
    assert_true(traced(&w, BW_TRACE_SPLIT_BRAIN));
    lowest(&w, BW_MSG_COORDINATOR, 3, term + 9, 1);
    assert_false(traced(&w, BW_TRACE_SPLIT_BRAIN));
    assert_int_equal(messages(&w), 3);
    close_world(&w);
}

static void campaign_asks_only_a_new_leader(void **state)
{
    (void)state;
    struct world w;
    open_lowest(&w, 3);
    command(&w, BW_COMMAND_CAMPAIGN, 4);
    assert_null(sent(&w, BW_MSG_ELECTION));
    command(&w, BW_COMMAND_CAMPAIGN, 1);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->to, 2);
    close_world(&w);
}

static void leader_greets_only_members_that_are_new(void **state)
{
    (void)state;
    struct world w;
    open_lowest(&w, 1);
    about(&w, BW_EVENT_JOIN, 4); /* known */
    assert_int_equal(w.actions.count, 0);
    about(&w, BW_EVENT_JOIN, 5);
    assert_true(traced(&w, BW_TRACE_MEMBER_JOINED) && !traced(&w, BW_TRACE_MEMBER_LEFT));
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR)->to, 5);
    about(&w, BW_EVENT_LEAVE, 5);
    assert_true(traced(&w, BW_TRACE_MEMBER_LEFT) && !traced(&w, BW_TRACE_MEMBER_JOINED));
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_LEAVE, 5);
    assert_int_equal(w.actions.count, 0);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_that_resigned_leads_when_no_other_member_is_left),
        cmocka_unit_test(node_that_resigned_leads_again_when_its_successor_is_silent),
        cmocka_unit_test(silent_leader_is_asked_once_without_a_period),
        cmocka_unit_test(leader_outbids_what_contradicts_it),
        cmocka_unit_test(question_to_the_leader_is_answered_with_the_newest_epoch),
        cmocka_unit_test(follower_ignores_claims_for_itself_and_for_strangers),
        cmocka_unit_test(claim_of_another_member_confirms_the_leader_only_if_it_is_news),
        cmocka_unit_test(claim_of_a_higher_id_makes_us_lead),
        cmocka_unit_test(notice_counts_unless_it_is_old),
        cmocka_unit_test(hand_over_by_a_lower_member_does_not_bring_it_back),
        cmocka_unit_test(successor_keeps_leadership_when_a_resigned_member_sends_messages),
        cmocka_unit_test(leader_that_failed_by_command_counts_again_when_it_is_trusted),
        cmocka_unit_test(hint_is_left_to_the_detector),
        cmocka_unit_test(leader_that_leaves_hands_over),
        cmocka_unit_test(trusted_member_is_no_longer_reported_as_failed),
        cmocka_unit_test(only_the_claimant_of_an_old_epoch_is_answered),
        cmocka_unit_test(two_leaders_are_traced),
        cmocka_unit_test(campaign_asks_only_a_new_leader),
        cmocka_unit_test(leader_greets_only_members_that_are_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
