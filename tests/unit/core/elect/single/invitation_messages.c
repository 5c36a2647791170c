/* The invitation algorithm, one instance at a time: messages that are late, repeated or forged, and
 * events in every state. Member 2 of 1, 2, 3, 4. */
#include "one_elector.h"

static void prepare_group(struct world *w)
{
    prepare(w, &bw_elect_invitation);
    w->config.count = 4;
    bw_elector_defaults(&w->config, 5 * BW_MS, PERIOD);
}

/* Node 2 coordinates group 1, in which it is alone. */
static void open_group(struct world *w)
{
    prepare_group(w);
    assert_int_equal(open(w), 0);
    start(w, true);
}

static void group(struct world *w, enum bw_message_kind kind, bw_node from, bw_term term,
                  struct bw_group_part part, uint8_t flags)
{
    receive(w,
            (struct bw_message){
                .kind = (uint8_t)kind, .flags = flags, .from = from, .term = term, .group = part});
}

static struct bw_group_part of(bw_node leader)
{
    return (struct bw_group_part){.leader = leader, .size = 1};
}

/* Node 2 leads group 1, with member 3 and, if asked for, member 1. */
static void open_leader(struct world *w, bool two)
{
    open_group(w);
    command(w, BW_COMMAND_CAMPAIGN, 3);
    assert_int_equal(sent(w, BW_MSG_INVITATION)->to, 3);
    group(w, BW_MSG_ACCEPT, 3, 1, of(2), 0);
    if (two)
        group(w, BW_MSG_ACCEPT, 1, 1, of(2), 0);
    time_passes(w);
    assert_int_equal(sent(w, BW_MSG_READY)->to, 3);
    assert_true(status_of(w).leading);
}

/* Node 2 has accepted the invitation to group 7 of node 3. */
static void open_joining(struct world *w)
{
    open_group(w);
    group(w, BW_MSG_INVITATION, 3, 7, of(3), BW_FLAG_YES);
    assert_int_equal(sent(w, BW_MSG_ACCEPT)->to, 3);
    assert_string_equal(status_of(w).state, "joining");
}

static void open_member(struct world *w)
{
    open_joining(w);
    group(w, BW_MSG_READY, 3, 7, of(3), 0);
    assert_string_equal(status_of(w).state, "member");
}

static void senseless_group_settings_are_refused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct world w;
        prepare_group(&w);
        w.config.answer_ns = i == 0 ? 0 : w.config.answer_ns;
        w.config.period_ns = i == 1 ? 0 : w.config.period_ns;
        assert_int_equal(open(&w), BW_EINVAL);
        close_world(&w);
    }
}

static void events_before_the_start_are_ignored(void **state)
{
    (void)state;
    struct world w;
    prepare_group(&w);
    assert_int_equal(open(&w), 0);
    group(&w, BW_MSG_ARE_YOU_COORDINATOR, 1, 1, of(1), 0);
    assert_false(acted(&w));
    start(&w, true);
    group(&w, BW_MSG_ARE_YOU_COORDINATOR, 1, 1, of(1), 0);
    assert_int_equal(sent(&w, BW_MSG_COORDINATOR_ANSWER)->to, 1);
    close_world(&w);
}

static void messages_with_our_own_id_or_about_strangers_are_ignored(void **state)
{
    (void)state;
    struct world w;
    open_leader(&w, false);
    group(&w, BW_MSG_ACCEPT, 2, 1, of(2), 0);
    assert_false(acted(&w));
    assert_false(w.ops->ready(w.memory, 2));
    group(&w, BW_MSG_INVITATION, 1, 9, of(9), BW_FLAG_YES);
    assert_false(acted(&w));
    group(&w, BW_MSG_INVITATION, 1, 9, of(2), BW_FLAG_YES); /* by ourselves */
    assert_false(acted(&w));
    assert_true(status_of(&w).leading);
    close_world(&w);
}

static void coordinator_invites_each_leader_once_and_as_many_as_fit(void **state)
{
    (void)state;
    struct world w;
    open_group(&w);
    command(&w, BW_COMMAND_CAMPAIGN, 1);
    assert_int_equal(sent(&w, BW_MSG_INVITATION)->to, 1);
    group(&w, BW_MSG_COORDINATOR_ANSWER, 1, 1, of(3), 0);
    assert_int_equal(sent(&w, BW_MSG_INVITATION)->to, 3);
    group(&w, BW_MSG_COORDINATOR_ANSWER, 3, 1, of(4), 0);
    assert_int_equal(sent(&w, BW_MSG_INVITATION)->to, 4);
    group(&w, BW_MSG_COORDINATOR_ANSWER, 3, 1, of(4), 0);
    assert_int_equal(messages(&w), 0);
    group(&w, BW_MSG_COORDINATOR_ANSWER, 3, 1, of(2), 0); /* it follows us */
    assert_int_equal(messages(&w), 0);
    group(&w, BW_MSG_COORDINATOR_ANSWER, 3, 1, of(BW_NODE_NONE), 0);
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_LEAVE, 4);
    about(&w, BW_EVENT_JOIN, 5);
    group(&w, BW_MSG_COORDINATOR_ANSWER, 3, 1, of(5), BW_FLAG_YES); /* not to an invitation */
    assert_int_equal(messages(&w), 0);
    group(&w, BW_MSG_COORDINATOR_ANSWER, 3, 1, of(5), 0);
    assert_int_equal(sent(&w, BW_MSG_INVITATION)->to, 5);
    about(&w, BW_EVENT_JOIN, 6);
    group(&w, BW_MSG_COORDINATOR_ANSWER, 3, 1, of(6), 0); /* the table is full */
    assert_int_equal(messages(&w), 0);
    close_world(&w);
}

/* Members that left are neither awaited nor invited, and give no rank. */
static void coordinator_does_not_wait_for_a_member_that_left(void **state)
{
    (void)state;
    struct world w;
    open_group(&w);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    assert_int_equal(messages(&w), 3);
    struct bw_group_part yes = {.leader = 4, .size = 1, .counter = 1};
    group(&w, BW_MSG_COORDINATOR_ANSWER, 4, 1, yes, BW_FLAG_YES);
    about(&w, BW_EVENT_LEAVE, 4);
    about(&w, BW_EVENT_SUSPECT, 1);
    about(&w, BW_EVENT_SUSPECT, 3);
    time_passes(&w); /* invites at once: no higher coordinator is left */
    assert_int_equal(messages(&w), 0);
    time_passes(&w);
    assert_true(status_of(&w).leading);
    close_world(&w);
    open_group(&w);
    command(&w, BW_COMMAND_CAMPAIGN, 4);
    bw_time answer = w.ops->deadline(w.memory);
    about(&w, BW_EVENT_LEAVE, 4);
    w.now = answer;
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT});
    assert_true(status_of(&w).leading);
    close_world(&w);
}

static void timer_that_fires_early_does_nothing(void **state)
{
    (void)state;
    struct world w;
    open_member(&w);
    step(&w, (struct bw_event){.kind = BW_EVENT_TIMEOUT});
    assert_int_equal(w.actions.count, 0);
    time_passes(&w);
    assert_int_equal(sent(&w, BW_MSG_ARE_YOU_THERE)->to, 3);
    close_world(&w);
}

static void leader_that_resigned_waits_for_its_successor(void **state)
{
    (void)state;
    struct world w;
    const struct bw_group_part other = {.leader = 3, .size = 1, .counter = 9};
    const struct bw_group_part ours = {.leader = 3, .size = 1, .counter = 1};
    open_leader(&w, true);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    const struct bw_message *ready = sent(&w, BW_MSG_READY);
    const bw_node *list = ready->data;
    assert_int_equal(ready->to, 3);
    assert_true(ready->items == 2 && list[0] == 1 && list[1] == 2);
    assert_string_equal(status_of(&w).state, "handing-over");
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    assert_false(acted(&w));
    command(&w, BW_COMMAND_TRANSFER, 3);
    assert_false(acted(&w));
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    assert_false(acted(&w));
    send_failed(
        &w, (struct bw_message){.kind = BW_MSG_ARE_YOU_THERE, .to = 2, .term = 1, .group = of(2)});
    assert_false(acted(&w));
    group(&w, BW_MSG_INVITATION, 3, 9, ours, 0); /* without TRANSFER */
    assert_false(acted(&w));
    group(&w, BW_MSG_INVITATION, 3, 9, other, BW_FLAG_TRANSFER);
    assert_false(acted(&w));
    group(&w, BW_MSG_INVITATION, 3, 9, ours, BW_FLAG_TRANSFER);
    assert_int_equal(sent(&w, BW_MSG_ACCEPT)->term, 9);
    close_world(&w);
    open_leader(&w, false);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    time_passes(&w); /* the successor is silent */
    assert_string_equal(status_of(&w).state, "coordinator");
    close_world(&w);
}

static void successor_is_the_highest_member_that_is_not_suspected(void **state)
{
    (void)state;
    struct world w;
    open_leader(&w, true);
    about(&w, BW_EVENT_SUSPECT, 3);
    about(&w, BW_EVENT_STOP, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_READY)->to, 1);
    assert_int_equal(sent(&w, BW_MSG_READY)->items, 1);
    close_world(&w);
    open_leader(&w, false);
    about(&w, BW_EVENT_LEAVE, 3);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    assert_int_equal(messages(&w), 0);
    assert_int_equal(announced(&w)->reason, BW_LOSS_RESIGNED);
    close_world(&w);
}

static void acceptance_counts_only_for_the_present_group(void **state)
{
    (void)state;
    struct world w;
    open_leader(&w, false);
    group(&w, BW_MSG_ACCEPT, 1, 9, of(2), 0);
    assert_false(acted(&w));
    group(&w, BW_MSG_ACCEPT, 1, 1, of(4), 0);
    assert_false(acted(&w));
    group(&w, BW_MSG_ACCEPT, 1, 1, of(2), 0); /* after the invitation was closed */
    assert_int_equal(sent(&w, BW_MSG_READY)->to, 1);
    assert_true(w.ops->ready(w.memory, 1));
    close_world(&w);
}

static void only_ready_of_our_leader_and_group_makes_us_a_member(void **state)
{
    (void)state;
    struct world w;
    open_joining(&w);
    group(&w, BW_MSG_READY, 1, 7, of(3), 0);
    assert_false(acted(&w));
    group(&w, BW_MSG_READY, 3, 6, of(3), 0);
    assert_false(acted(&w));
    group(&w, BW_MSG_READY, 3, 7, of(3), 0);
    assert_int_equal(announced(&w)->leader, 3);
    group(&w, BW_MSG_READY, 3, 7, of(3), 0);
    assert_false(acted(&w));
    close_world(&w);
}

static void member_follows_only_invitations_that_concern_its_group(void **state)
{
    (void)state;
    static const struct {
        bw_node from, leader;
        bw_term term, counter;
        uint8_t flags;
        bool accepts, answers;
    } cases[] = {
        {1, 1, 9, 7, 0, false, true},                 /* a foreign group: "ask my leader" */
        {1, 1, 9, 6, BW_FLAG_TRANSFER, false, true},  /* handed over by another group */
        {1, 1, 9, 7, BW_FLAG_TRANSFER, true, false},  /* handed over by our leader */
        {3, 3, 8, 0, 0, true, false},                 /* our leader restarted */
        {3, 3, 7, 0, 0, false, false},                /* a repetition */
        {3, 3, 6, 0, 0, false, true},                 /* an old one */
        {3, 1, 9, 0, BW_FLAG_FORWARDED, true, false}, /* our leader merged with another group */
        {4, 1, 9, 0, BW_FLAG_FORWARDED, false, true}, /* forwarded by another member */
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world w;
        open_member(&w);
        struct bw_group_part part = {
            .leader = cases[i].leader, .size = 1, .counter = cases[i].counter};
        group(&w, BW_MSG_INVITATION, cases[i].from, cases[i].term, part, cases[i].flags);
        assert_int_equal(sent(&w, BW_MSG_ACCEPT) != NULL, cases[i].accepts);
        assert_int_equal(sent(&w, BW_MSG_COORDINATOR_ANSWER) != NULL, cases[i].answers);
        close_world(&w);
    }
}

static void member_believes_only_its_leader_about_its_group(void **state)
{
    (void)state;
    struct world w;
    open_member(&w);
    group(&w, BW_MSG_THERE_ANSWER, 1, 7, of(3), 0);
    assert_false(acted(&w));
    group(&w, BW_MSG_THERE_ANSWER, 3, 6, of(3), 0);
    assert_false(acted(&w));
    about(&w, BW_EVENT_HINT, 1);
    assert_int_equal(messages(&w), 0);
    about(&w, BW_EVENT_HINT, 3);
    assert_int_equal(sent(&w, BW_MSG_ARE_YOU_THERE)->to, 3);
    group(&w, BW_MSG_THERE_ANSWER, 3, 7, of(3), BW_FLAG_YES);
    assert_true(w.ops->deadline(w.memory) >= w.now + 2 * PERIOD);
    group(&w, BW_MSG_THERE_ANSWER, 3, 7, of(3), 0);
    assert_string_equal(status_of(&w).state, "coordinator");
    about(&w, BW_EVENT_HINT, 2);
    assert_int_equal(messages(&w), 0);
    group(&w, BW_MSG_THERE_ANSWER, 3, 7, of(3), 0);
    assert_false(acted(&w));
    close_world(&w);
}

static void campaign_of_a_member_leaves_or_checks_its_leader(void **state)
{
    (void)state;
    struct world w;
    open_member(&w);
    command(&w, BW_COMMAND_CAMPAIGN, 1);
    assert_int_equal(sent(&w, BW_MSG_ARE_YOU_THERE)->to, 3);
    command(&w, BW_COMMAND_CAMPAIGN, 3);
    assert_string_equal(status_of(&w).state, "coordinator");
    command(&w, BW_COMMAND_CAMPAIGN, 2); /* names no other node: checks for groups */
    assert_int_equal(messages(&w), 3);
    assert_non_null(sent(&w, BW_MSG_ARE_YOU_COORDINATOR));
    command(&w, BW_COMMAND_CAMPAIGN, 9);
    assert_non_null(sent(&w, BW_MSG_ARE_YOU_COORDINATOR));
    close_world(&w);
}

static void lost_leader_makes_a_member_recover(void **state)
{
    (void)state;
    struct world w;
    open_joining(&w);
    about(&w, BW_EVENT_SUSPECT, 1);
    assert_string_equal(status_of(&w).state, "joining");
    about(&w, BW_EVENT_SUSPECT, 2); /* ourselves */
    about(&w, BW_EVENT_JOIN, 2);
    assert_false(acted(&w));
    about(&w, BW_EVENT_SUSPECT, 3);
    assert_string_equal(status_of(&w).state, "coordinator");
    close_world(&w);
    open_joining(&w);
    send_failed(&w, (struct bw_message){.kind = BW_MSG_ACCEPT, .to = 3, .term = 6, .group = of(3)});
    assert_string_equal(status_of(&w).state, "joining");
    send_failed(&w, (struct bw_message){
                        .kind = BW_MSG_COORDINATOR_ANSWER, .to = 3, .term = 7, .group = of(3)});
    assert_string_equal(status_of(&w).state, "joining");
    send_failed(&w, (struct bw_message){.kind = BW_MSG_ACCEPT, .to = 3, .term = 7, .group = of(3)});
    assert_string_equal(status_of(&w).state, "coordinator");
    about(&w, BW_EVENT_LEAVE, 2);
    assert_string_equal(status_of(&w).state, "stopped");
    close_world(&w);
}

static void hand(struct world *w, bw_node from, bw_term term, bw_node leader, uint8_t flags)
{
    static const bw_node list[] = {2, 9, 1, 4, 3, 3};
    receive(w, (struct bw_message){.kind = BW_MSG_READY,
                                   .flags = flags,
                                   .from = from,
                                   .term = term,
                                   .data = list,
                                   .items = 6,
                                   .group = of(leader)});
}

static void successor_invites_the_members_of_the_old_group(void **state)
{
    (void)state;
    struct world w;
    open_member(&w);
    hand(&w, 1, 7, 3, BW_FLAG_TRANSFER);
    assert_false(acted(&w));
    hand(&w, 3, 6, 3, BW_FLAG_TRANSFER);
    assert_false(acted(&w));
    hand(&w, 3, 7, 3, BW_FLAG_TRANSFER);
    assert_true(status_of(&w).leading);
    assert_int_equal(messages(&w), 2); /* 1 and 4: not 2, not 9, and at most four */
    assert_int_equal(sent(&w, BW_MSG_INVITATION)->to, 1);
    assert_int_equal(sent(&w, BW_MSG_INVITATION)->group.counter, 7);
    hand(&w, 3, 7, 3, BW_FLAG_TRANSFER);
    assert_false(acted(&w));
    close_world(&w);
    open_joining(&w);
    hand(&w, 3, 7, 3, BW_FLAG_TRANSFER);
    assert_true(status_of(&w).leading);
    close_world(&w);
}

/* Its report of the dead work overtook the hand-over. */
static void lost_leader_may_still_hand_over_to_a_node_that_is_alone(void **state)
{
    (void)state;
    struct world w;
    for (unsigned i = 0; i < 6; i++) {
        open_member(&w);
        about(&w, BW_EVENT_SUSPECT, 3);
        if (i == 4)
            group(&w, BW_MSG_ACCEPT, 1, 8, of(2), 0);
        for (unsigned k = 0; k < 4 && i == 5; k++)
            time_passes(&w);
        assert_int_equal(status_of(&w).leading, i == 5);
        hand(&w, i == 1 ? 1 : 3, i == 2 ? 6 : 7, 3, i == 3 ? 0 : BW_FLAG_TRANSFER);
        assert_int_equal(sent(&w, BW_MSG_INVITATION) != NULL, i == 0);
        close_world(&w);
    }
}

static void coordinator_waits_for_the_answers_it_needs(void **state)
{
    (void)state;
    struct world w;
    open_group(&w);
    command(&w, BW_COMMAND_CAMPAIGN, 3); /* inviting */
    bw_time answer = w.ops->deadline(w.memory);
    time_passes(&w);
    assert_false(status_of(&w).leading);
    assert_true(w.ops->deadline(w.memory) > answer);
    about(&w, BW_EVENT_SUSPECT, 3); /* nothing is left to wait for */
    assert_true(w.ops->deadline(w.memory) == w.now);
    time_passes(&w);
    assert_true(status_of(&w).leading);
    bw_time pause = w.ops->deadline(w.memory);
    about(&w, BW_EVENT_SUSPECT, 4); /* not while it pauses */
    assert_true(w.ops->deadline(w.memory) == pause);
    close_world(&w);
    open_group(&w);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE); /* asking */
    time_passes(&w);
    assert_false(status_of(&w).leading);
    about(&w, BW_EVENT_SUSPECT, 1);
    about(&w, BW_EVENT_SUSPECT, 3);
    assert_true(w.ops->deadline(w.memory) > w.now);
    about(&w, BW_EVENT_SUSPECT, 4);
    assert_true(w.ops->deadline(w.memory) == w.now);
    close_world(&w);
    open_member(&w);
    bw_time ask = w.ops->deadline(w.memory);
    about(&w, BW_EVENT_SUSPECT, 1);
    assert_true(w.ops->deadline(w.memory) == ask);
    close_world(&w);
}

static void leader_answers_an_invitation_with_one_of_its_own_once(void **state)
{
    (void)state;
    struct world w;
    open_leader(&w, false);
    group(&w, BW_MSG_INVITATION, 1, 9, of(1), 0); /* a group without a leader yields to ours */
    assert_int_equal(sent(&w, BW_MSG_INVITATION)->to, 1);
    group(&w, BW_MSG_INVITATION, 1, 9, of(1), 0);
    assert_int_equal(messages(&w), 0);
    assert_true(status_of(&w).leading);
    close_world(&w);
}

static void announcements_tell_who_leads_and_since_when(void **state)
{
    (void)state;
    struct world w;
    open_leader(&w, false);
    bw_time since = w.now;
    struct bw_elector_status status = status_of(&w);
    assert_true(announced(&w)->act_from == since && announced(&w)->act_until == BW_TIME_NEVER);
    assert_true(status.act_from == since && status.act_until == BW_TIME_NEVER);
    assert_true(status.leader == 2 && !status.electing);
    command(&w, BW_COMMAND_RESIGN, BW_NODE_NONE);
    status = status_of(&w);
    assert_true(traced(&w, BW_TRACE_STEP_DOWN) && traced(&w, BW_TRACE_STATE));
    assert_true(announced(&w)->act_from == 0 && announced(&w)->act_until == 0);
    assert_true(status.leader == BW_NODE_NONE && status.electing && status.act_until == 0);
    close_world(&w);
    open_member(&w);
    status = status_of(&w);
    assert_true(status.leader == 3 && !status.electing && !status.leading);
    assert_true(status.act_from == 0 && status.act_until == 0);
    about(&w, BW_EVENT_SUSPECT, 3);
    assert_false(traced(&w, BW_TRACE_STEP_DOWN));
    assert_int_equal(status_of(&w).leader, BW_NODE_NONE);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(senseless_group_settings_are_refused),
        cmocka_unit_test(events_before_the_start_are_ignored),
        cmocka_unit_test(messages_with_our_own_id_or_about_strangers_are_ignored),
        cmocka_unit_test(coordinator_invites_each_leader_once_and_as_many_as_fit),
        cmocka_unit_test(coordinator_does_not_wait_for_a_member_that_left),
        cmocka_unit_test(timer_that_fires_early_does_nothing),
        cmocka_unit_test(leader_that_resigned_waits_for_its_successor),
        cmocka_unit_test(successor_is_the_highest_member_that_is_not_suspected),
        cmocka_unit_test(acceptance_counts_only_for_the_present_group),
        cmocka_unit_test(only_ready_of_our_leader_and_group_makes_us_a_member),
        cmocka_unit_test(member_follows_only_invitations_that_concern_its_group),
        cmocka_unit_test(member_believes_only_its_leader_about_its_group),
        cmocka_unit_test(campaign_of_a_member_leaves_or_checks_its_leader),
        cmocka_unit_test(lost_leader_makes_a_member_recover),
        cmocka_unit_test(successor_invites_the_members_of_the_old_group),
        cmocka_unit_test(lost_leader_may_still_hand_over_to_a_node_that_is_alone),
        cmocka_unit_test(coordinator_waits_for_the_answers_it_needs),
        cmocka_unit_test(leader_answers_an_invitation_with_one_of_its_own_once),
        cmocka_unit_test(announcements_tell_who_leads_and_since_when),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
