/* The bully family, one instance at a time: what announcements, epochs, timers and lists hold in
 * detail. Member 2 of 1, 2, 3, 4. */
#include "one_bully.h"

static void status_and_announcements_tell_who_leads(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
    bully(&w, BW_MSG_ELECTION, 4, 9, BW_NODE_NONE);
    assert_int_equal(status_of(&w).term, 9); /* the newest epoch */
    bully(&w, BW_MSG_NOTICE, 4, 9, BW_NODE_NONE);
    assert_true(announced(&w)->act_from == w.now && announced(&w)->act_until == BW_TIME_NEVER);
    assert_true(status_of(&w).act_until == BW_TIME_NEVER);
    bully(&w, BW_MSG_COORDINATOR, 4, 10, 4);
    assert_true(traced(&w, BW_TRACE_STEP_DOWN) && !traced(&w, BW_TRACE_STATE));
    assert_int_equal(announced(&w)->reason, BW_LOSS_TAKEN);
    assert_true(announced(&w)->act_from == 0 && announced(&w)->act_until == 0);
    assert_true(status_of(&w).act_until == 0);
    bully(&w, BW_MSG_ELECTION, 4, 20, BW_NODE_NONE);
    assert_int_equal(status_of(&w).term, 10); /* the epoch of its leader */
    command(&w, BW_COMMAND_CAMPAIGN, 4);
    assert_true(traced(&w, BW_TRACE_STATE) && !traced(&w, BW_TRACE_STEP_DOWN));
    assert_int_equal(announced(&w)->reason, BW_LOSS_NONE);
    close_world(&w);
}

static const struct bw_trace_note *trace_of(const struct world *w, enum bw_trace_code code)
{
    for (uint32_t i = 0; i < w->actions.count; i++)
        if (w->at[i].kind == BW_ACTION_TRACE && w->at[i].trace.code == code)
            return &w->at[i].trace;
    fail_msg("no such trace record");
    return NULL;
}

static void traces_of_ignored_messages_tell_why(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 4);
    bully(&w, BW_MSG_COORDINATOR, 1, 3, 3);
    assert_int_equal(trace_of(&w, BW_TRACE_IGNORED_OLD)->a, 3);
    assert_int_equal(trace_of(&w, BW_TRACE_IGNORED_OLD)->b, 5); /* our epoch */
    bully(&w, BW_MSG_ELECTION, 3, 9, BW_NODE_NONE);
    assert_int_equal(trace_of(&w, BW_TRACE_IGNORED_STATE)->a, BW_MSG_ELECTION);
    assert_int_equal(trace_of(&w, BW_TRACE_IGNORED_STATE)->b, 0); /* our state */
    bully(&w, BW_MSG_OK, 3, 9, BW_NODE_NONE);
    assert_int_equal(trace_of(&w, BW_TRACE_IGNORED_LATE)->a, 9);
    assert_int_equal(trace_of(&w, BW_TRACE_IGNORED_LATE)->b, 0);
    close_world(&w);
}

static void answers_of_an_earlier_round_are_forgotten(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully_notify, BW_NODE_NONE);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    bully(&w, BW_MSG_ALIVE, 3, 6, BW_NODE_NONE);
    time_passes(&w);
    assert_int_equal(sent(&w, BW_MSG_NOTICE)->to, 3);
    time_passes(&w); /* 3 does not announce itself: round 7 */
    bully(&w, BW_MSG_ALIVE, 4, 7, BW_NODE_NONE);
    assert_int_equal(messages(&w), 0); /* 3 has not answered yet */
    close_world(&w);
}

/* Where the order of ranks may be overridden, the members above must learn of the leader too. */
static void leader_repeats_itself_to_all_who_might_follow(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct world w;
        open_bully(&w, bullies[i], 2);
        bully(&w, BW_MSG_ALIVE, 3, 6, BW_NODE_NONE);
        bool all = bullies[i] == &bw_elect_bully_next || bullies[i] == &bw_elect_bully_candidates;
        assert_int_equal(messages(&w), all ? 3 : 1);
        close_world(&w);
    }
}

static void round_of_the_known_epoch_is_not_joined(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
    bully(&w, BW_MSG_ELECTION, 1, 5, BW_NODE_NONE); /* its leader may be known to others */
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->term, 6);
    close_world(&w);
    open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
    bully(&w, BW_MSG_ELECTION, 1, 7, BW_NODE_NONE);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->term, 7);
    close_world(&w);
}

static void leader_tells_why_it_gives_up(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 2);
    command(&w, BW_COMMAND_TRANSFER, 4);
    assert_int_equal(announced(&w)->reason, BW_LOSS_TRANSFERRED);
    close_world(&w);
    open_bully(&w, &bw_elect_bully, 2);
    command(&w, BW_COMMAND_TRANSFER, 2);
    assert_true(status_of(&w).leading);
    command(&w, BW_COMMAND_RESIGN, 2); /* RESIGN names no successor */
    assert_int_equal(announced(&w)->reason, BW_LOSS_RESIGNED);
    close_world(&w);
}

static void failed_member_is_named_until_it_is_trusted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct world w;
        open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
        command(&w, BW_COMMAND_CAMPAIGN, 3);
        assert_int_equal(sent(&w, BW_MSG_ELECTION)->bully.leader, 3);
        bully(&w, BW_MSG_OK, 4, 6, BW_NODE_NONE);
        if (i > 0)
            about(&w, BW_EVENT_TRUST, i == 1 ? 1 : 3);
        time_passes(&w);
        assert_int_equal(sent(&w, BW_MSG_ELECTION)->bully.leader, i == 2 ? BW_NODE_NONE : 3);
        close_world(&w);
    }
}

static void campaign_that_names_ourselves_keeps_us(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 2);
    command(&w, BW_COMMAND_CAMPAIGN, 2);
    assert_null(announced(&w));
    assert_true(status_of(&w).leading);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->bully.leader, BW_NODE_NONE);
    close_world(&w);
}

static void best_answer_stays_when_another_member_leaves(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully_notify, BW_NODE_NONE);
    command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
    bully(&w, BW_MSG_ALIVE, 3, 6, BW_NODE_NONE);
    about(&w, BW_EVENT_LEAVE, 1);
    time_passes(&w);
    assert_int_equal(sent(&w, BW_MSG_NOTICE)->to, 3);
    close_world(&w);
}

static void third_member_announces_a_newer_or_higher_leader(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, 3);
    bully(&w, BW_MSG_COORDINATOR, 1, 5, 4);
    assert_int_equal(status_of(&w).leader, 4);
    bully(&w, BW_MSG_COORDINATOR, 1, 6, 4);
    assert_int_equal(status_of(&w).term, 6);
    close_world(&w);
}

static void silent_leader_is_dropped_only_if_it_is_suspected(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
    bully(&w, BW_MSG_COORDINATOR, 4, 6, 4);
    time_passes(&w);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->bully.leader, BW_NODE_NONE);
    assert_int_equal(status_of(&w).leader, 4);
    close_world(&w);
    open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
    about(&w, BW_EVENT_SUSPECT, 4);
    bully(&w, BW_MSG_COORDINATOR, 3, 6, 4);
    time_passes(&w);
    assert_int_equal(sent(&w, BW_MSG_ELECTION)->bully.leader, 4);
    assert_int_equal(status_of(&w).leader, BW_NODE_NONE);
    close_world(&w);
}

static void node_without_a_leader_starts_an_election_after_the_first_message(void **state)
{
    (void)state;
    struct world w;
    open_bully(&w, &bw_elect_bully, BW_NODE_NONE);
    about(&w, BW_EVENT_TRUST, 3);
    assert_true(w.ops->deadline(w.memory) == BW_TIME_NEVER); /* still passive */
    bw_time due = w.now + w.config.announce_ns;
    bully(&w, BW_MSG_ELECTION, 4, 6, BW_NODE_NONE);
    assert_true(w.ops->deadline(w.memory) == due);
    w.now += BW_MS;
    bully(&w, BW_MSG_ELECTION, 4, 6, BW_NODE_NONE);
    assert_true(w.ops->deadline(w.memory) == due); /* not postponed */
    close_world(&w);
}

/* An election whose result is known gets the result instead of an answer. */
static void election_is_answered_unless_its_result_is_known(void **state)
{
    (void)state;
    static const struct {
        bw_node leader, failed;
        bw_term term;
        bool busy, decided;
    } cases[] = {{4, BW_NODE_NONE, 5, false, true},
                 {4, 4, 5, false, false},
                 {4, BW_NODE_NONE, 6, false, false},
                 {4, BW_NODE_NONE, 5, true, false},
                 {BW_NODE_NONE, 4, 5, false, false}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world w;
        open_bully(&w, &bw_elect_bully, cases[i].leader);
        if (cases[i].busy)
            command(&w, BW_COMMAND_CAMPAIGN, BW_NODE_NONE);
        bully(&w, BW_MSG_ELECTION, 1, cases[i].term, cases[i].failed);
        assert_int_equal(sent(&w, BW_MSG_COORDINATOR) != NULL, cases[i].decided);
        assert_int_equal(sent(&w, BW_MSG_OK) != NULL, !cases[i].decided);
        close_world(&w);
    }
}

/* ---- bully-next-in-line ---- */

static void coordinator_with_list(struct world *w, bw_term term, uint64_t version,
                                  const bw_node *list, uint32_t items)
{
    receive(w, (struct bw_message){.kind = BW_MSG_COORDINATOR,
                                   .from = 4,
                                   .term = term,
                                   .data = list,
                                   .items = items,
                                   .bully = {.leader = 4, .version = version}});
}

static void list_is_replaced_by_a_newer_leadership_or_version(void **state)
{
    (void)state;
    static const bw_node three[BW_ALTERNATIVES_MAX] = {3, 1}, one[BW_ALTERNATIVES_MAX] = {1, 3};
    static const struct {
        bw_term term;
        uint64_t version;
        bw_node first;
    } cases[] = {{7, 1, 1}, {6, 10, 1}, {6, 9, 3}};
    for (unsigned i = 0; i < 3; i++) {
        struct world w;
        open_bully(&w, &bw_elect_bully_next, 4);
        coordinator_with_list(&w, 6, 9, three, 1);
        coordinator_with_list(&w, cases[i].term, cases[i].version, one, 1);
        about(&w, BW_EVENT_SUSPECT, 4);
        assert_int_equal(sent(&w, BW_MSG_FAILOVER)->to, cases[i].first);
        time_passes(&w); /* the list has one member only */
        assert_null(sent(&w, BW_MSG_FAILOVER));
        assert_non_null(sent(&w, BW_MSG_ELECTION));
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_and_announcements_tell_who_leads),
        cmocka_unit_test(traces_of_ignored_messages_tell_why),
        cmocka_unit_test(answers_of_an_earlier_round_are_forgotten),
        cmocka_unit_test(leader_repeats_itself_to_all_who_might_follow),
        cmocka_unit_test(round_of_the_known_epoch_is_not_joined),
        cmocka_unit_test(leader_tells_why_it_gives_up),
        cmocka_unit_test(failed_member_is_named_until_it_is_trusted),
        cmocka_unit_test(campaign_that_names_ourselves_keeps_us),
        cmocka_unit_test(best_answer_stays_when_another_member_leaves),
        cmocka_unit_test(third_member_announces_a_newer_or_higher_leader),
        cmocka_unit_test(silent_leader_is_dropped_only_if_it_is_suspected),
        cmocka_unit_test(node_without_a_leader_starts_an_election_after_the_first_message),
        cmocka_unit_test(election_is_answered_unless_its_result_is_known),
        cmocka_unit_test(list_is_replaced_by_a_newer_leadership_or_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
