/* Raft elections (§5.2, §5.4.1, thesis §4.2.3, §6.2, §9.6): who votes for whom, who campaigns
 * when, and what neither an isolated node nor a half-broken link can do. */
#include "core/base/error.h"
#include "raft_net.h"

#include "unit/unit.h"

static struct bw_message vote(bw_node from, bw_term term, bw_index last, bw_term last_term)
{
    return (struct bw_message){.kind = BW_MSG_RAFT_VOTE,
                               .from = from,
                               .term = term,
                               .vote = {.last_index = last, .last_term = last_term}};
}

static struct bw_message prevote(bw_node from, bw_term term, bw_index last, bw_term last_term)
{
    struct bw_message msg = vote(from, term, last, last_term);
    msg.kind = BW_MSG_RAFT_PREVOTE;
    return msg;
}

static struct bw_message heartbeat(bw_node from, bw_term term)
{
    return (struct bw_message){.kind = BW_MSG_RAFT_APPEND, .from = from, .term = term};
}

/* Node 1 of three runs, passive; the others exist only as senders. */
static struct net *one_of_three(void)
{
    struct net *net = net_new(3, 3, 1);
    net_start_as(net, 1, true);
    return net;
}

static bool said_yes(struct net *net, unsigned kind)
{
    return net->last[kind].flags & BW_FLAG_YES;
}

static void five_servers_elect_one_leader_and_all_learn_it(void **state)
{
    (void)state;
    struct net *net = net_running(5, 11);
    bw_node leader = net_elect(net, 2 * BW_SEC);
    net_run(net, 100 * BW_MS);
    for (bw_node id = 1; id <= 5; id++) {
        assert_int_equal(net->node[id].view.leader, leader);
        assert_int_equal(net->node[id].view.token, net_status(net, leader).term);
    }
    net_free(net);
}

static void a_crashed_leader_is_replaced_in_a_higher_term(void **state)
{
    (void)state;
    struct net *net = net_running(5, 12);
    bw_node first = net_elect(net, 2 * BW_SEC);
    bw_term term = net_status(net, first).term;
    net_crash(net, first);
    bw_node second = net_elect(net, 2 * BW_SEC);
    assert_int_not_equal(second, first);
    assert_true(net_status(net, second).term > term);
    net_free(net);
}

static void a_group_of_one_leads_at_once_and_keeps_its_window_open(void **state)
{
    (void)state;
    struct net *net = net_running(1, 13);
    assert_true(net_status(net, 1).leading);
    net_run(net, 10 * BW_SEC);
    assert_true(net->node[1].act_until > net->now);
    assert_int_equal(net_status(net, 1).term, 1);
    net_free(net);
}

static void a_vote_goes_to_one_candidate_per_term(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, vote(2, 1, 0, 0));
    assert_true(said_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_inject(net, 1, vote(3, 1, 0, 0));
    assert_false(said_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_inject(net, 1, vote(2, 1, 0, 0));
    assert_true(said_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_free(net);
}

static void a_vote_survives_a_restart(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, vote(2, 1, 0, 0));
    net_crash(net, 1);
    net_start_as(net, 1, true);
    net_inject(net, 1, vote(3, 1, 0, 0));
    assert_false(said_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_free(net);
}

static void a_vote_is_not_spoken_of_before_it_is_durable(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net->disk_ns = 5 * BW_MS;
    net_inject(net, 1, vote(2, 1, 0, 0));
    net_run(net, 4 * BW_MS);
    assert_int_equal(net->sent[BW_MSG_RAFT_VOTE_REPLY], 0);
    net_run(net, 2 * BW_MS);
    assert_int_equal(net->sent[BW_MSG_RAFT_VOTE_REPLY], 1);
    assert_int_equal(net->node[1].durable.vote, 2);
    net_free(net);
}

static void a_shorter_or_older_log_gets_no_vote(void **state)
{
    (void)state;
    static const struct {
        bw_index index;
        bw_term term;
        bool yes;
    } cases[] = {{3, 2, true}, {4, 2, true}, {1, 3, true}, {2, 2, false}, {9, 1, false}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct net *net = net_new(3, 3, 1);
        net_disk(net, 1, "122", 2);
        net_start_as(net, 1, true);
        net_inject(net, 1, vote(2, 5, cases[i].index, cases[i].term));
        assert_int_equal(said_yes(net, BW_MSG_RAFT_VOTE_REPLY), cases[i].yes);
        assert_int_equal(net_status(net, 1).term, 5);
        net_free(net);
    }
}

static void only_a_granted_vote_and_a_valid_append_start_the_timer_anew(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net_disk(net, 1, "1", 1);
    net_start(net, 1);
    bw_time due = bw_elect_raft.deadline(net->node[1].memory);
    net->now = 100 * BW_MS;
    net_inject(net, 1, vote(2, 2, 0, 0)); /* log too short */
    net_inject(net, 1, prevote(2, 3, 1, 1));
    net_inject(net, 1, heartbeat(3, 1)); /* old term */
    assert_true(bw_elect_raft.deadline(net->node[1].memory) == due);
    net_inject(net, 1, vote(2, 3, 1, 1));
    assert_true(bw_elect_raft.deadline(net->node[1].memory) >=
                net_local(net, 1, net->now) + 150 * BW_MS);
    net->now = 130 * BW_MS;
    net_inject(net, 1, heartbeat(2, 3));
    assert_true(bw_elect_raft.deadline(net->node[1].memory) >=
                net_local(net, 1, net->now) + 150 * BW_MS);
    net_free(net);
}

static void requests_of_a_lower_term_are_answered_with_the_own_term(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net_disk(net, 1, "1", 7);
    net_start_as(net, 1, true);
    net_inject(net, 1, prevote(2, 3, 9, 2));
    assert_int_equal(net->sent[BW_MSG_RAFT_PREVOTE_REPLY], 1);
    assert_int_equal(net->last[BW_MSG_RAFT_PREVOTE_REPLY].term, 7);
    assert_false(said_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    net_inject(net, 1, vote(2, 3, 9, 2));
    assert_int_equal(net->last[BW_MSG_RAFT_VOTE_REPLY].term, 7);
    net_inject(net, 1, heartbeat(2, 3));
    assert_int_equal(net->last[BW_MSG_RAFT_APPEND_REPLY].term, 7);
    assert_int_equal(net_status(net, 1).term, 7);
    net_free(net);
}

/* One node got ahead in term and its log is too short to win; without its answers the others would
 * never reach its term, and with three of five alive they need its vote. */
static void a_node_ahead_in_term_with_a_short_log_does_not_block_the_others(void **state)
{
    (void)state;
    struct net *net = net_new(5, 5, 3);
    net_disk(net, 1, "112", 2);
    net_disk(net, 2, "112", 2);
    net_disk(net, 3, "1", 9);
    for (bw_node id = 1; id <= 3; id++)
        net_start(net, id);
    bw_node leader = net_elect(net, 5 * BW_SEC);
    assert_int_not_equal(leader, 3);
    assert_true(net_status(net, leader).term > 9);
    net_free(net);
}

static void a_pre_vote_changes_no_term_and_binds_nobody(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, prevote(2, 1, 0, 0));
    assert_true(said_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    net_inject(net, 1, prevote(3, 1, 0, 0));
    assert_true(said_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    assert_int_equal(net_status(net, 1).term, 0);
    net_free(net);
}

static void while_a_leader_is_heard_votes_are_refused_and_terms_not_taken_over(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1));
    net->now += 149 * BW_MS;
    net_inject(net, 1, vote(3, 8, 5, 5));
    assert_false(said_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_inject(net, 1, prevote(3, 8, 5, 5));
    assert_false(said_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    assert_int_equal(net_status(net, 1).term, 1);
    net->now += 2 * BW_MS;
    net_inject(net, 1, vote(3, 8, 5, 5));
    assert_true(said_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_free(net);
}

static void a_closed_connection_makes_a_voter_forget_that_it_heard_the_leader(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1));
    net_event(net, 1, BW_EVENT_HINT, 3); /* not the leader */
    net_inject(net, 1, prevote(3, 2, 5, 1));
    assert_false(said_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    net_event(net, 1, BW_EVENT_HINT, 2);
    net_inject(net, 1, prevote(3, 2, 5, 1));
    assert_true(said_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    net_free(net);
}

static void with_hints_a_crash_is_followed_by_a_leader_long_before_the_time_out(void **state)
{
    (void)state;
    unsigned quick = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct net *net = net_running(5, seed);
        bw_node leader = net_elect(net, 3 * BW_SEC);
        net_run(net, 100 * BW_MS);
        net_crash(net, leader);
        bw_time start = net->now;
        for (bw_node id = 1; id <= 5; id++)
            net_event(net, id, BW_EVENT_HINT, leader);
        while (net_leader(net) == BW_NODE_NONE)
            net_run(net, BW_MS);
        quick += net->now - start < 20 * BW_MS;
        net_free(net);
    }
    assert_true(quick >= 14); /* the rest split their votes and waited for a time-out */
}

static void hints_can_be_turned_off(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net->config.hints = false;
    net_start_as(net, 1, true);
    net_inject(net, 1, heartbeat(2, 1));
    net_event(net, 1, BW_EVENT_HINT, 2);
    net_inject(net, 1, prevote(3, 2, 5, 1));
    assert_false(said_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    net_free(net);
}

static void isolate_and_return(bool pre_vote, bw_term *before, bw_term *after, bool *same_leader)
{
    struct net *net = net_new(5, 5, 21);
    net->config.pre_vote = pre_vote;
    for (bw_node id = 1; id <= 5; id++)
        net_start(net, id);
    bw_node leader = net_elect(net, 3 * BW_SEC);
    *before = net_status(net, leader).term;
    bw_node apart = leader == 1 ? 2 : 1;
    net_isolate(net, apart, true);
    net_run(net, 10 * 300 * BW_MS);
    net_heal(net);
    net_run(net, 2 * BW_SEC);
    *after = net_status(net, net_leader(net)).term;
    *same_leader = net_leader(net) == leader;
    net_free(net);
}

static void an_isolated_follower_comes_back_without_disturbing_thanks_to_pre_vote(void **state)
{
    (void)state;
    bw_term before, after;
    bool same;
    isolate_and_return(true, &before, &after, &same);
    assert_int_equal(after, before);
    assert_true(same);
    isolate_and_return(false, &before, &after, &same);
    assert_true(after > before);
}

static void a_leader_without_a_majority_steps_down_after_one_time_out(void **state)
{
    (void)state;
    struct net *net = net_running(5, 22);
    bw_node leader = net_elect(net, 3 * BW_SEC);
    net_run(net, 200 * BW_MS);
    net_isolate(net, leader, true);
    bw_time cut = net->now;
    while (net_status(net, leader).leading)
        net_run(net, BW_MS);
    assert_true(net->now - cut <= 155 * BW_MS);
    assert_int_equal(net->node[leader].loss, BW_LOSS_UNREACHABLE);
    assert_int_equal(net->node[leader].view.leader, BW_NODE_NONE);
    net_free(net);
}

/* It hears nobody, but all hear it: it must not keep the group without a leader that works. */
static void a_leader_that_can_send_but_not_hear_is_replaced(void **state)
{
    (void)state;
    struct net *net = net_running(5, 23);
    bw_node deaf = net_elect(net, 3 * BW_SEC);
    for (bw_node id = 1; id <= 5; id++)
        net->cut[id][deaf] = true;
    net_run(net, 2 * BW_SEC);
    bw_node leader = net_leader(net);
    assert_int_not_equal(leader, BW_NODE_NONE);
    assert_int_not_equal(leader, deaf);
    bw_term term = net_status(net, leader).term;
    net_run(net, 3 * BW_SEC);
    assert_int_equal(net_leader(net), leader);
    assert_int_equal(net_status(net, leader).term, term);
    net_free(net);
}

static void cutting_only_the_way_back_of_one_follower_changes_nothing(void **state)
{
    (void)state;
    struct net *net = net_running(5, 24);
    bw_node leader = net_elect(net, 3 * BW_SEC);
    bw_term term = net_status(net, leader).term;
    bw_node mute = leader == 1 ? 2 : 1;
    for (bw_node id = 1; id <= 5; id++)
        net->cut[mute][id] = true;
    net_run(net, 3 * BW_SEC);
    assert_int_equal(net_leader(net), leader);
    assert_int_equal(net_status(net, leader).term, term);
    net_free(net);
}

static void passive_nodes_wait_for_a_command(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 25);
    for (bw_node id = 1; id <= 3; id++)
        net_start_as(net, id, true);
    net_run(net, 5 * BW_SEC);
    assert_int_equal(net->sent[BW_MSG_RAFT_PREVOTE], 0);
    net_command(net, 2, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    net_run(net, 100 * BW_MS);
    assert_int_equal(net_leader(net), 2);
    net_free(net);
}

static void the_time_out_is_uniform_and_can_be_restarted(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    bw_time now = net_local(net, 1, 0), low = BW_TIME_NEVER, high = 0;
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        bw_raft_restart_timer(net_raft(net, 1), now);
        bw_time span = bw_elect_raft.deadline(net->node[1].memory) - now;
        low = bw_time_min(low, span);
        high = bw_time_max(high, span);
        sum += (double)span;
    }
    assert_true(low >= 150 * BW_MS && low < 151 * BW_MS);
    assert_true(high <= 300 * BW_MS && high > 299 * BW_MS);
    assert_true(sum / 10000 > 223e6 && sum / 10000 < 227e6);
    net_free(net);
}

static void impossible_numbers_from_a_peer_are_ignored(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, vote(2, UINT64_MAX, 0, 0));
    net_inject(net, 1, heartbeat(2, UINT64_MAX / 2));
    struct bw_message msg = heartbeat(2, 1);
    msg.append.prev_index = 5; /* without a term */
    net_inject(net, 1, msg);
    msg = heartbeat(2, 3);
    msg.append.runs = 1;
    msg.append.run[0] = (struct bw_term_run){.term = 4, .count = 1}; /* newer than its leader */
    net_inject(net, 1, msg);
    msg.append.runs = 99;
    net_inject(net, 1, msg);
    assert_int_equal(net_status(net, 1).term, 0);
    assert_int_equal(bw_raft_last_index(net_raft(net, 1)), 0);
    net_inject(net, 1, heartbeat(1, 1)); /* from ourselves */
    assert_int_equal(net_status(net, 1).leader, BW_NODE_NONE);
    net_free(net);
}

static void bad_settings_are_refused(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    struct bw_elector_config config = net->config;
    void *memory = malloc(bw_elect_raft.bytes(&config));
    config.members = net->members;
    config.count = 3;
    assert_int_equal(bw_elect_raft.init(memory, &config), BW_EINVAL); /* no self */
    config.self = 1;
    assert_int_equal(bw_elect_raft.init(memory, &config), 0);
    config.timeout_max_ns = 1;
    assert_int_equal(bw_elect_raft.init(memory, &config), BW_EINVAL);
    free(memory);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_servers_elect_one_leader_and_all_learn_it),
        cmocka_unit_test(a_crashed_leader_is_replaced_in_a_higher_term),
        cmocka_unit_test(a_group_of_one_leads_at_once_and_keeps_its_window_open),
        cmocka_unit_test(a_vote_goes_to_one_candidate_per_term),
        cmocka_unit_test(a_vote_survives_a_restart),
        cmocka_unit_test(a_vote_is_not_spoken_of_before_it_is_durable),
        cmocka_unit_test(a_shorter_or_older_log_gets_no_vote),
        cmocka_unit_test(only_a_granted_vote_and_a_valid_append_start_the_timer_anew),
        cmocka_unit_test(requests_of_a_lower_term_are_answered_with_the_own_term),
        cmocka_unit_test(a_node_ahead_in_term_with_a_short_log_does_not_block_the_others),
        cmocka_unit_test(a_pre_vote_changes_no_term_and_binds_nobody),
        cmocka_unit_test(while_a_leader_is_heard_votes_are_refused_and_terms_not_taken_over),
        cmocka_unit_test(a_closed_connection_makes_a_voter_forget_that_it_heard_the_leader),
        cmocka_unit_test(with_hints_a_crash_is_followed_by_a_leader_long_before_the_time_out),
        cmocka_unit_test(hints_can_be_turned_off),
        cmocka_unit_test(an_isolated_follower_comes_back_without_disturbing_thanks_to_pre_vote),
        cmocka_unit_test(a_leader_without_a_majority_steps_down_after_one_time_out),
        cmocka_unit_test(a_leader_that_can_send_but_not_hear_is_replaced),
        cmocka_unit_test(cutting_only_the_way_back_of_one_follower_changes_nothing),
        cmocka_unit_test(passive_nodes_wait_for_a_command),
        cmocka_unit_test(the_time_out_is_uniform_and_can_be_restarted),
        cmocka_unit_test(impossible_numbers_from_a_peer_are_ignored),
        cmocka_unit_test(bad_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
