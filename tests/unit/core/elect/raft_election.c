/* Raft elections (§5.2, §5.4.1, thesis §4.2.3, §6.2, §9.6): votes, campaigns, isolated nodes
 * and links that work in one direction only. */
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

/* Node 1 of three runs passively; the others exist only as senders. */
static struct net *one_of_three(void)
{
    struct net *net = net_new(3, 3, 1);
    net_start_as(net, 1, true);
    return net;
}

static bool replied_yes(struct net *net, unsigned kind)
{
    return net->last[kind].flags & BW_FLAG_YES;
}

static void five_servers_elect_one_leader_that_all_know(void **state)
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
    assert_true(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_inject(net, 1, vote(3, 1, 0, 0));
    assert_false(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_inject(net, 1, vote(2, 1, 0, 0));
    assert_true(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
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
    assert_false(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_free(net);
}

static void vote_is_durable_before_the_reply(void **state)
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
        assert_int_equal(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY), cases[i].yes);
        assert_int_equal(net_status(net, 1).term, 5);
        net_free(net);
    }
}

static void timer_restarts_only_on_a_granted_vote_or_valid_append(void **state)
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

static void request_of_a_lower_term_is_answered_with_the_own_term(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net_disk(net, 1, "1", 7);
    net_start_as(net, 1, true);
    net_inject(net, 1, prevote(2, 3, 9, 2));
    assert_int_equal(net->sent[BW_MSG_RAFT_PREVOTE_REPLY], 1);
    assert_int_equal(net->last[BW_MSG_RAFT_PREVOTE_REPLY].term, 7);
    assert_false(replied_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    net_inject(net, 1, vote(2, 3, 9, 2));
    assert_int_equal(net->last[BW_MSG_RAFT_VOTE_REPLY].term, 7);
    net_inject(net, 1, heartbeat(2, 3));
    assert_int_equal(net->last[BW_MSG_RAFT_APPEND_REPLY].term, 7);
    assert_int_equal(net_status(net, 1).term, 7);
    net_free(net);
}

/* One node has a higher term and a log that is too short to win. Without its replies the others
 * would never reach its term; with three of five alive they need its vote. */
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

static void pre_vote_changes_neither_term_nor_vote(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, prevote(2, 1, 0, 0));
    assert_true(replied_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    net_inject(net, 1, prevote(3, 1, 0, 0));
    assert_true(replied_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    assert_int_equal(net_status(net, 1).term, 0);
    net_free(net);
}

static void votes_are_refused_and_terms_ignored_while_a_leader_is_alive(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1));
    net->now += 149 * BW_MS;
    net_inject(net, 1, vote(3, 8, 5, 5));
    assert_false(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_inject(net, 1, prevote(3, 8, 5, 5));
    assert_false(replied_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    assert_int_equal(net_status(net, 1).term, 1);
    net->now += 2 * BW_MS;
    net_inject(net, 1, vote(3, 8, 5, 5));
    assert_true(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_free(net);
}

static void closed_connection_lets_a_voter_vote_at_once(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1));
    net_event(net, 1, BW_EVENT_HINT, 3); /* not the leader */
    net_inject(net, 1, prevote(3, 2, 5, 1));
    assert_false(replied_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    net_event(net, 1, BW_EVENT_HINT, 2);
    net_inject(net, 1, prevote(3, 2, 5, 1));
    assert_true(replied_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    net_free(net);
}

static void hints_elect_a_leader_before_the_timeout_after_a_crash(void **state)
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
    assert_true(quick >= 14); /* in the other runs the votes split and a timeout followed */
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
    assert_false(replied_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
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

static void isolated_follower_returns_without_disruption_with_pre_vote(void **state)
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

static void leader_steps_down_one_timeout_after_losing_its_majority(void **state)
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

/* The leader receives nothing, but all others receive its heartbeats. It must not keep the group
 * without a working leader. */
static void leader_that_can_send_but_not_receive_is_replaced(void **state)
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

static void cutting_one_followers_replies_changes_nothing(void **state)
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

static void impossible_values_from_a_peer_are_ignored(void **state)
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
    msg.append.run[0] = (struct bw_term_run){.term = 4, .count = 1}; /* newer than its leader's */
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

static void the_timer_of_a_leader_or_a_stopped_node_is_not_restarted(void **state)
{
    (void)state;
    struct net *net = net_new(1, 1, 1);
    net_start(net, 1);
    bw_time heartbeat_at = bw_elect_raft.deadline(net->node[1].memory);
    bw_raft_restart_timer(net_raft(net, 1), net_local(net, 1, 0));
    assert_true(bw_elect_raft.deadline(net->node[1].memory) == heartbeat_at);
    net_event(net, 1, BW_EVENT_STOP, 1);
    bw_raft_restart_timer(net_raft(net, 1), net_local(net, 1, 0));
    assert_true(bw_elect_raft.deadline(net->node[1].memory) == BW_TIME_NEVER);
    net_free(net);
}

/* Node 1 of three leads in term 1 with node 2's vote. */
static struct net *lead(bool check_quorum)
{
    struct net *net = net_new(3, 3, 1);
    net->config.pre_vote = false;
    net->config.check_quorum = check_quorum;
    net_start_as(net, 1, true);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    net_inject(net, 1,
               (struct bw_message){
                   .kind = BW_MSG_RAFT_VOTE_REPLY, .flags = BW_FLAG_YES, .from = 2, .term = 1});
    assert_true(net_status(net, 1).leading);
    return net;
}

static void leader_without_check_quorum_stays_until_another_is_elected(void **state)
{
    (void)state;
    struct net *net = lead(false);
    net_run(net, 3 * BW_SEC);
    assert_true(net_status(net, 1).leading);
    net_inject(net, 1, prevote(2, 2, 1, 1));
    assert_int_equal(net->traced, BW_TRACE_IGNORED_LEADER_ALIVE);
    assert_false(replied_yes(net, BW_MSG_RAFT_PREVOTE_REPLY));
    net_inject(net, 1, vote(2, 2, 1, 1));
    assert_true(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    assert_false(net_status(net, 1).leading);
    net_free(net);
}

/* It was paused past its last contact with a majority, and its timer has not fired yet. */
static void leader_that_lost_its_majority_votes_for_a_successor(void **state)
{
    (void)state;
    struct net *net = lead(true);
    net_inject(net, 1, vote(2, 2, 1, 1));
    assert_false(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    assert_true(net_status(net, 1).leading);
    net->now += 151 * BW_MS;
    net_inject(net, 1, vote(2, 2, 1, 1));
    assert_true(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    assert_int_equal(net->node[1].loss, BW_LOSS_TAKEN);
    net_free(net);
}

static void only_voters_are_counted(void **state)
{
    (void)state;
    struct net *net = net_new(5, 3, 1);
    net->configured = 4;
    net->members[3].ordinary = true; /* a learner */
    net_start_as(net, 1, true);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    struct bw_message yes = {.kind = BW_MSG_RAFT_PREVOTE_REPLY,
                             .flags = BW_FLAG_YES,
                             .term = 0,
                             .vote = {.last_term = 1}};
    for (yes.from = 4; yes.from <= 5; yes.from++) {
        net_inject(net, 1, yes);
        assert_int_equal(net->traced, BW_TRACE_IGNORED_NOT_A_MEMBER);
        assert_string_equal(net_status(net, 1).state, "pre-candidate");
    }
    yes.from = 2;
    net_inject(net, 1, yes);
    assert_string_equal(net_status(net, 1).state, "candidate");
    yes.kind = BW_MSG_RAFT_VOTE_REPLY;
    yes.term = 1;
    for (yes.from = 4; yes.from <= 5; yes.from++) {
        net_inject(net, 1, yes);
        assert_int_equal(net->traced, BW_TRACE_IGNORED_NOT_A_MEMBER);
        assert_string_equal(net_status(net, 1).state, "candidate");
    }
    yes.from = 2;
    net_inject(net, 1, yes);
    assert_true(net_status(net, 1).leading);
    net_free(net);
}

static void a_vote_with_an_impossible_wait_is_not_counted(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net->config.pre_vote = false;
    net_start_as(net, 1, true);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    struct bw_message yes = {.kind = BW_MSG_RAFT_VOTE_REPLY,
                             .flags = BW_FLAG_YES,
                             .from = 2,
                             .term = 1,
                             .vote = {.left_ns = -1}};
    net_inject(net, 1, yes);
    assert_string_equal(net_status(net, 1).state, "candidate");
    yes.vote.left_ns = BW_TIME_NEVER / 4 + 1;
    net_inject(net, 1, yes);
    assert_string_equal(net_status(net, 1).state, "candidate");
    yes.vote.left_ns = BW_SEC;
    net_inject(net, 1, yes);
    assert_true(net_status(net, 1).leading);
    net_free(net);
}

static void a_second_start_is_ignored(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 4));
    struct bw_start start = {.durable = {.term = 1}};
    struct bw_event event = {.kind = BW_EVENT_START, .start = &start};
    net_step(net, 1, &event, NULL);
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    assert_int_equal(net_status(net, 1).term, 4);
    assert_int_equal(net_status(net, 1).leader, 2);
    net_free(net);
}

/* The entries reached the disk, the record with the term did not. */
static void a_log_newer_than_the_record_gives_the_term_without_a_vote(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net_disk(net, 1, "13", 1);
    net->node[1].durable.vote = 2;
    net_start_as(net, 1, true);
    assert_int_equal(net_status(net, 1).term, 3);
    net_inject(net, 1, vote(3, 3, 2, 3));
    assert_true(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_free(net);
}

static void preferred_leader_asks_one_period_after_its_start(void **state)
{
    (void)state;
    for (int preferred = 0; preferred < 2; preferred++) {
        struct net *net = net_new(3, 3, 1);
        net_start_as(net, 1, true);
        void *raft = net->node[1].memory;
        struct bw_elector_config config = net->config;
        config.self = 1;
        config.members = net->members;
        config.count = 3;
        assert_int_equal(bw_elect_raft.init(raft, &config), 0);
        struct bw_start start = {0};
        struct bw_event event = {
            .kind = BW_EVENT_START, .start = &start, .next_leader = preferred ? 1 : 2};
        net_step(net, 1, &event, NULL);
        bw_time wait = bw_elect_raft.deadline(raft) - net_local(net, 1, net->now);
        assert_true(preferred ? wait == 20 * BW_MS : wait >= 150 * BW_MS);
        net_free(net);
    }
}

static void an_early_timer_starts_no_election(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net_start(net, 1);
    struct bw_event event = {.kind = BW_EVENT_TIMEOUT};
    net_step(net, 1, &event, NULL);
    assert_false(net_status(net, 1).electing);
    net->now = 300 * BW_MS;
    net_step(net, 1, &event, NULL);
    assert_true(net_status(net, 1).electing);
    net_free(net);
}

/* The leader was elected again since the reported death, so it is alive. */
static void report_of_an_older_death_starts_no_election(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 5));
    bw_time before = bw_elect_raft.deadline(net->node[1].memory);
    struct bw_event dead = {.kind = BW_EVENT_CONFIRMED_DEAD, .node = 2, .dead_term = 4};
    net_step(net, 1, &dead, NULL);
    assert_true(bw_elect_raft.deadline(net->node[1].memory) == before);
    dead.node = 3; /* not the leader */
    net_step(net, 1, &dead, NULL);
    assert_true(bw_elect_raft.deadline(net->node[1].memory) == before);
    dead.node = 2;
    dead.dead_term = 5;
    net_step(net, 1, &dead, NULL);
    assert_true(bw_elect_raft.deadline(net->node[1].memory) < before);
    net_free(net);
}

/* Of three voters that lose leader 4, the named successor asks at once, whatever its id. */
static void named_successor_campaigns_before_the_others(void **state)
{
    (void)state;
    for (bw_node successor = 0; successor <= 3; successor++) {
        struct net *net = net_new(4, 4, 1);
        bw_node first = BW_NODE_NONE;
        bw_time soonest = BW_TIME_NEVER;
        for (bw_node id = 1; id <= 3; id++) {
            net_start_as(net, id, true);
            net_inject(net, id, heartbeat(4, 1));
            struct bw_event gone = {.kind = BW_EVENT_SUSPECT, .node = 4, .next_leader = successor};
            net_step(net, id, &gone, NULL);
            bw_time wait =
                bw_elect_raft.deadline(net->node[id].memory) - net_local(net, id, net->now);
            if (wait < soonest)
                first = id;
            soonest = bw_time_min(soonest, wait);
        }
        assert_true(soonest == 0);
        assert_int_equal(first, successor ? successor : 1);
        net_free(net);
    }
}

/* The delay between campaigns follows from the latency; without one, from the election timeout. */
static void voters_campaign_one_after_the_other_even_if_no_latency_is_known(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net->config.latency_ns = 0;
    net_start_as(net, 2, true);
    net_inject(net, 2, heartbeat(3, 1));
    net_event(net, 2, BW_EVENT_SUSPECT, 3);
    assert_true(bw_elect_raft.deadline(net->node[2].memory) - net_local(net, 2, 0) ==
                150 * BW_MS / 4);
    net_free(net);
}

/* It voted in a transfer, so it has no leader, and another candidate may ask at once. */
static void a_voter_that_left_its_leader_ignores_no_votes(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1));
    struct bw_message transfer = vote(3, 2, 0, 0);
    transfer.flags = BW_FLAG_TRANSFER;
    net_inject(net, 1, transfer);
    assert_true(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    net_inject(net, 1, vote(2, 3, 0, 0));
    assert_true(replied_yes(net, BW_MSG_RAFT_VOTE_REPLY));
    assert_int_equal(net_status(net, 1).term, 3);
    net_free(net);
}

static void every_new_term_and_every_loss_of_the_leader_is_announced_once(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    assert_int_equal(net_status(net, 1).token, BW_TOKEN_NONE);
    net_inject(net, 1, heartbeat(2, 1));
    assert_int_equal(net->node[1].announcements, 1);
    assert_int_equal(net_status(net, 1).token, 1);
    net_inject(net, 1, heartbeat(2, 1));
    assert_int_equal(net->node[1].announcements, 1);
    net_inject(net, 1, heartbeat(2, 4)); /* the same leader under a new token */
    assert_int_equal(net->node[1].announcements, 2);
    assert_int_equal(net->node[1].view.token, 4);
    assert_int_equal(net->traces[BW_TRACE_LEADER], 2);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    assert_int_equal(net->node[1].announcements, 3);
    assert_int_equal(net->node[1].view.leader, BW_NODE_NONE);
    unsigned states = net->traces[BW_TRACE_STATE];
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN}); /* once more */
    assert_int_equal(net->node[1].announcements, 3);
    assert_int_equal(net->traces[BW_TRACE_STATE], states); /* the same role */
    net_inject(net, 1, vote(2, 9, 0, 0));
    assert_int_equal(net->node[1].announcements, 3);
    assert_int_equal(net->traces[BW_TRACE_LEADER], 2); /* a new term without a leader */
    assert_int_equal(net->traces[BW_TRACE_STATE], states + 1);
    net_free(net);
}

static void pre_vote_replies_are_matched_with_their_request(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    struct bw_message yes = {
        .kind = BW_MSG_RAFT_PREVOTE_REPLY, .flags = BW_FLAG_YES, .from = 2, .vote.last_term = 7};
    net_inject(net, 1, yes); /* to a request of another term */
    assert_string_equal(net_status(net, 1).state, "pre-candidate");
    struct bw_message no = {.kind = BW_MSG_RAFT_PREVOTE_REPLY, .from = 2, .term = 6};
    net_inject(net, 1, no); /* a refusal always brings the newer term */
    assert_string_equal(net_status(net, 1).state, "follower");
    assert_int_equal(net_status(net, 1).term, 6);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_servers_elect_one_leader_that_all_know),
        cmocka_unit_test(a_crashed_leader_is_replaced_in_a_higher_term),
        cmocka_unit_test(a_group_of_one_leads_at_once_and_keeps_its_window_open),
        cmocka_unit_test(a_vote_goes_to_one_candidate_per_term),
        cmocka_unit_test(a_vote_survives_a_restart),
        cmocka_unit_test(vote_is_durable_before_the_reply),
        cmocka_unit_test(a_shorter_or_older_log_gets_no_vote),
        cmocka_unit_test(timer_restarts_only_on_a_granted_vote_or_valid_append),
        cmocka_unit_test(request_of_a_lower_term_is_answered_with_the_own_term),
        cmocka_unit_test(a_node_ahead_in_term_with_a_short_log_does_not_block_the_others),
        cmocka_unit_test(pre_vote_changes_neither_term_nor_vote),
        cmocka_unit_test(votes_are_refused_and_terms_ignored_while_a_leader_is_alive),
        cmocka_unit_test(closed_connection_lets_a_voter_vote_at_once),
        cmocka_unit_test(hints_elect_a_leader_before_the_timeout_after_a_crash),
        cmocka_unit_test(hints_can_be_turned_off),
        cmocka_unit_test(isolated_follower_returns_without_disruption_with_pre_vote),
        cmocka_unit_test(leader_steps_down_one_timeout_after_losing_its_majority),
        cmocka_unit_test(leader_that_can_send_but_not_receive_is_replaced),
        cmocka_unit_test(cutting_one_followers_replies_changes_nothing),
        cmocka_unit_test(passive_nodes_wait_for_a_command),
        cmocka_unit_test(the_time_out_is_uniform_and_can_be_restarted),
        cmocka_unit_test(impossible_values_from_a_peer_are_ignored),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(the_timer_of_a_leader_or_a_stopped_node_is_not_restarted),
        cmocka_unit_test(leader_without_check_quorum_stays_until_another_is_elected),
        cmocka_unit_test(leader_that_lost_its_majority_votes_for_a_successor),
        cmocka_unit_test(only_voters_are_counted),
        cmocka_unit_test(a_vote_with_an_impossible_wait_is_not_counted),
        cmocka_unit_test(a_second_start_is_ignored),
        cmocka_unit_test(a_log_newer_than_the_record_gives_the_term_without_a_vote),
        cmocka_unit_test(preferred_leader_asks_one_period_after_its_start),
        cmocka_unit_test(an_early_timer_starts_no_election),
        cmocka_unit_test(report_of_an_older_death_starts_no_election),
        cmocka_unit_test(named_successor_campaigns_before_the_others),
        cmocka_unit_test(voters_campaign_one_after_the_other_even_if_no_latency_is_known),
        cmocka_unit_test(a_voter_that_left_its_leader_ignores_no_votes),
        cmocka_unit_test(every_new_term_and_every_loss_of_the_leader_is_announced_once),
        cmocka_unit_test(pre_vote_replies_are_matched_with_their_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
