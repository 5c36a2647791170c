/* When a Raft leader may act (window.c): from after every promise to its predecessors, until before
 * the promises to itself end, on clocks that drift. The net checks all the time that no two windows
 * overlap in real time. */
#include "raft_net.h"

#include "unit/unit.h"

#define LEASE ((bw_time)(150e6 * 0.99 / 1.01)) /* T (1 - rho) / (1 + rho) */

static struct bw_message heartbeat(bw_node from, bw_term term, bw_time echo, uint8_t flags)
{
    return (struct bw_message){.kind = BW_MSG_RAFT_APPEND,
                               .flags = flags,
                               .from = from,
                               .term = term,
                               .append = {.echo = echo}};
}

static void ask_vote(struct net *net, bw_node from, bw_term term)
{
    net_inject(net, 1,
               (struct bw_message){.kind = BW_MSG_RAFT_VOTE,
                                   .flags = BW_FLAG_TRANSFER,
                                   .from = from,
                                   .term = term,
                                   .vote = {.last_index = 9, .last_term = 1}});
}

static bw_time left(struct net *net)
{
    assert_true(net->last[BW_MSG_RAFT_VOTE_REPLY].flags & BW_FLAG_YES);
    return net->last[BW_MSG_RAFT_VOTE_REPLY].vote.left_ns;
}

static struct net *one_of_three(void)
{
    struct net *net = net_new(3, 3, 1);
    net_start_as(net, 1, true);
    return net;
}

static void a_vote_tells_how_long_the_promise_to_another_still_binds(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1, 5, 0));
    net->now += 40 * BW_MS;
    ask_vote(net, 3, 2);
    assert_int_equal(left(net), 110 * BW_MS);
    ask_vote(net, 2, 3); /* to whom the promise was given */
    assert_int_equal(left(net), 0);
    net->now += 111 * BW_MS;
    ask_vote(net, 3, 4);
    assert_int_equal(left(net), 0);
    net_free(net);
}

/* The promise to the leader before the last must not be forgotten over the promise to the last. */
static void a_promise_to_an_earlier_leader_outlives_a_newer_one(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1, 5, 0));
    net->now += 10 * BW_MS;
    net_inject(net, 1, heartbeat(3, 2, 5, 0));
    ask_vote(net, 3, 3);
    assert_int_equal(left(net), 140 * BW_MS);
    net_free(net);
}

static void a_confirmed_death_voids_the_promise(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1, 5, 0));
    net_event(net, 1, BW_EVENT_SUSPECT, 2); /* proves nothing */
    ask_vote(net, 3, 2);
    assert_int_equal(left(net), 150 * BW_MS);
    net_event(net, 1, BW_EVENT_CONFIRMED_DEAD, 2);
    ask_vote(net, 3, 3);
    assert_int_equal(left(net), 0);
    net_free(net);
}

static void a_restarted_voter_assumes_a_whole_promise(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    ask_vote(net, 3, 1);
    net_crash(net, 1);
    net_start_as(net, 1, true);
    ask_vote(net, 3, 2); /* it never acknowledged anything */
    assert_int_equal(left(net), 0);
    net_inject(net, 1, heartbeat(2, 3, 5, 0));
    assert_int_equal(net->node[1].durable.promised_ns, 150 * BW_MS);
    net->now += 100 * BW_MS;
    net_crash(net, 1);
    net_start_as(net, 1, true);
    ask_vote(net, 3, 4);
    assert_int_equal(left(net), 150 * BW_MS);
    net_free(net);
}

static void a_lease_given_back_frees_the_voter_unless_the_news_is_old(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1, 10, 0));
    net_inject(net, 1, heartbeat(2, 1, 20, BW_FLAG_TRANSFER));
    net_inject(net, 1, heartbeat(2, 1, 30, 0)); /* after the abort */
    net_inject(net, 1, heartbeat(2, 1, 20, BW_FLAG_TRANSFER));
    ask_vote(net, 3, 2);
    assert_int_equal(left(net), 150 * BW_MS);
    net_inject(net, 1, heartbeat(2, 5, 60, 0));
    net_inject(net, 1, heartbeat(2, 5, 70, BW_FLAG_TRANSFER));
    ask_vote(net, 3, 6);
    assert_int_equal(left(net), 0);
    net_free(net);
}

/* Node 1 of three leads in term 1 with node 2's vote. */
static struct net *leading(bw_time left_ns)
{
    struct net *net = net_new(3, 3, 1);
    net->config.pre_vote = false;
    net_start_as(net, 1, true);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    net_inject(net, 1,
               (struct bw_message){.kind = BW_MSG_RAFT_VOTE_REPLY,
                                   .flags = BW_FLAG_YES,
                                   .from = 2,
                                   .term = 1,
                                   .vote = {.left_ns = left_ns}});
    net_run(net, 0);
    assert_true(net_status(net, 1).leading);
    return net;
}

static void acknowledge(struct net *net, bw_time sent, bw_index index)
{
    net_inject(
        net, 1,
        (struct bw_message){.kind = BW_MSG_RAFT_APPEND_REPLY,
                            .flags = BW_FLAG_YES,
                            .from = 2,
                            .term = 1,
                            .append_reply = {.index = index, .echo = net_local(net, 1, sent)}});
}

static void the_window_counts_from_when_the_append_was_sent(void **state)
{
    (void)state;
    struct net *net = leading(0);
    struct bw_elector_status status = net_status(net, 1);
    assert_true(status.act_from == status.act_until); /* elected is not yet "may act" */
    net->now = 15 * BW_MS;
    acknowledge(net, 0, 0);
    assert_true(net_status(net, 1).act_until == status.act_until); /* nothing committed yet */
    acknowledge(net, 0, 1);
    status = net_status(net, 1);
    assert_int_equal(status.act_from, net_local(net, 1, 15 * BW_MS));
    assert_int_equal(status.act_until, net_local(net, 1, 0) + LEASE);
    net_free(net);
}

static void the_winner_waits_until_the_last_promise_has_ended_on_the_slowest_clock(void **state)
{
    (void)state;
    struct net *net = leading(100 * BW_MS);
    acknowledge(net, 0, 1);
    bw_time from = net_local(net, 1, 0) + (bw_time)(100e6 * 1.01 / 0.99) + 1;
    assert_int_equal(net_status(net, 1).act_from, from);
    assert_int_equal(net_status(net, 1).act_until, net_local(net, 1, 0) + LEASE);
    net_free(net);
}

static void a_window_is_extended_in_steps_worth_saying(void **state)
{
    (void)state;
    struct net *net = leading(0);
    acknowledge(net, 0, 1);
    uint32_t said = net->node[1].announcements;
    net->now = 30 * BW_MS;
    acknowledge(net, 9 * BW_MS, 1);
    assert_int_equal(net->node[1].announcements, said);
    acknowledge(net, 10 * BW_MS, 1);
    assert_int_equal(net->node[1].announcements, said + 1);
    assert_int_equal(net_status(net, 1).act_until, net_local(net, 1, 10 * BW_MS) + LEASE);
    net_free(net);
}

static void an_acknowledgement_from_the_future_is_ignored(void **state)
{
    (void)state;
    struct net *net = leading(0);
    acknowledge(net, 0, 1);
    bw_time until = net_status(net, 1).act_until;
    acknowledge(net, BW_SEC, 1);
    assert_int_equal(net_status(net, 1).act_until, until);
    net_free(net);
}

/* Longer ones would only keep winners waiting. */
static void unasked_a_promise_is_no_longer_than_the_shortest_time_out(void **state)
{
    (void)state;
    struct net *net = net_new(5, 5, 81);
    for (bw_node id = 1; id <= 5; id++)
        net_start(net, id);
    bw_node first = net_elect(net, 3 * BW_SEC);
    net_run(net, 100 * BW_MS);
    bw_time crashed = net->now;
    net_crash(net, first);
    bw_node second = net_elect(net, 3 * BW_SEC);
    bw_time won = net->now;
    while (net->node[second].act_until <= net->now || net->node[second].act_from > net->now)
        net_run(net, 5 * BW_MS);
    assert_true(net->now - bw_time_max(won, crashed + net->config.timeout_min_ns) < 50 * BW_MS);
    net_free(net);
}

/* Found dead within a time-out, followed when the promises have ended, or as soon as the death is
 * sure.
 */
static void a_longer_promise_is_waited_out_unless_the_death_is_confirmed(void **state)
{
    (void)state;
    for (int confirmed = 0; confirmed < 2; confirmed++) {
        struct net *net = net_new(5, 5, 82);
        net->config.promise_ns = 10 * BW_SEC;
        for (bw_node id = 1; id <= 5; id++)
            net_start(net, id);
        bw_node first = net_elect(net, 3 * BW_SEC);
        net_run(net, 12 * BW_SEC); /* promises of the start have ended */
        bw_time crashed = net->now;
        net_crash(net, first);
        for (bw_node id = 1; confirmed && id <= 5; id++)
            if (id != first)
                net_event(net, id, BW_EVENT_CONFIRMED_DEAD, first);
        bw_node second = net_elect(net, 3 * BW_SEC);
        assert_true(net->now - crashed < 3 * BW_SEC);
        while (net->node[second].act_until <= net->now || net->node[second].act_from > net->now)
            net_run(net, 5 * BW_MS);
        if (confirmed)
            assert_true(net->now - crashed < BW_SEC);
        else
            assert_true(net->now - crashed > 9 * BW_SEC);
        net_free(net);
    }
}

/* Three with a promise of ten seconds; the leader of a while is gone, which its connections tell.
 */
static struct net *left_by_a_long_leader(uint64_t seed, bw_node *gone)
{
    struct net *net = net_new(3, 3, seed);
    net->config.promise_ns = 10 * BW_SEC;
    for (bw_node id = 1; id <= 3; id++)
        net_start(net, id);
    *gone = net_elect(net, 3 * BW_SEC);
    net_run(net, 12 * BW_SEC);
    net_crash(net, *gone);
    for (bw_node id = 1; id <= 3; id++)
        if (id != *gone)
            net_event(net, id, BW_EVENT_HINT, *gone);
    return net;
}

/* A connection that closes is quicker than the word of the guardian: the successor has been
 * elected, and its voters have promised to it, when they hear that they owe its predecessor
 * nothing. */
static void a_death_that_is_heard_after_the_votes_ends_the_wait_too(void **state)
{
    (void)state;
    for (bw_time late = 0; late < 400 * BW_MS; late += 40 * BW_MS) {
        bw_node first;
        struct net *net = left_by_a_long_leader(83, &first);
        bw_node second = net_elect(net, BW_SEC);
        net_run(net, late);
        assert_true(net_status(net, second).act_from > net->now + 8 * BW_SEC);
        for (bw_node id = 3; id >= 1; id--) /* the leader hears it first, or last */
            if (id != first)
                net_event(net, id, BW_EVENT_CONFIRMED_DEAD, first);
        bw_time heard = net->now;
        bw_node third = net_elect(net, BW_SEC);
        while (net->node[third].act_until <= net->now || net->node[third].act_from > net->now)
            net_run(net, 5 * BW_MS);
        assert_true(net->now - heard < BW_SEC);
        net_free(net);
    }
}

static void a_candidate_that_hears_of_the_death_does_not_count_older_votes(void **state)
{
    (void)state;
    for (bw_time early = 0; early < 12 * BW_MS; early += BW_MS / 2) {
        bw_node first;
        struct net *net = left_by_a_long_leader(84, &first);
        net_run(net, early); /* somewhere between the first question and the last vote */
        for (bw_node id = 1; id <= 3; id++)
            if (id != first)
                net_event(net, id, BW_EVENT_CONFIRMED_DEAD, first);
        bw_time heard = net->now;
        bw_node second = net_elect(net, BW_SEC);
        while (net->node[second].act_until <= net->now || net->node[second].act_from > net->now)
            net_run(net, 5 * BW_MS);
        assert_true(net->now - heard < BW_SEC);
        net_free(net);
    }
}

/* Leaders come and go by hints, cuts and restarts while clocks run as differently as allowed. */
static void churn(struct net *net, double drift, uint64_t seed)
{
    for (bw_node id = 1; id <= 5; id++) {
        net->node[id].rate = id % 2 ? 1 - drift : 1 + drift;
        net_start(net, id);
    }
    struct bw_rng rng;
    bw_rng_init(&rng, seed);
    for (int i = 0; i < 60; i++) {
        net_run(net, 40 * BW_MS + (bw_time)bw_rng_below(&rng, 100) * BW_MS);
        bw_node leader = net_leader(net);
        if (leader == BW_NODE_NONE)
            continue;
        net_heal(net);
        net_isolate(net, leader, true); /* it acts until its window ends */
        for (bw_node id = 1; id <= 5; id++)
            net_event(net, id, BW_EVENT_HINT, leader);
    }
}

static void windows_never_overlap_while_clocks_keep_the_bound(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct net *net = net_new(5, 5, seed);
        if (seed % 3 == 0)
            net->config.promise_ns = 2 * net->config.timeout_min_ns;
        churn(net, 0.01, seed);
        net_free(net);
    }
}

static void beyond_the_bound_they_do_overlap(void **state)
{
    (void)state;
    uint32_t overlaps = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct net *net = net_new(5, 5, seed);
        net->let_overlap = true;
        churn(net, 0.2, seed);
        overlaps += net->overlaps;
        net_free(net);
    }
    assert_true(overlaps > 0); /* the checker can fail */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vote_tells_how_long_the_promise_to_another_still_binds),
        cmocka_unit_test(a_promise_to_an_earlier_leader_outlives_a_newer_one),
        cmocka_unit_test(a_confirmed_death_voids_the_promise),
        cmocka_unit_test(a_restarted_voter_assumes_a_whole_promise),
        cmocka_unit_test(a_lease_given_back_frees_the_voter_unless_the_news_is_old),
        cmocka_unit_test(the_window_counts_from_when_the_append_was_sent),
        cmocka_unit_test(the_winner_waits_until_the_last_promise_has_ended_on_the_slowest_clock),
        cmocka_unit_test(a_window_is_extended_in_steps_worth_saying),
        cmocka_unit_test(an_acknowledgement_from_the_future_is_ignored),
        cmocka_unit_test(unasked_a_promise_is_no_longer_than_the_shortest_time_out),
        cmocka_unit_test(a_longer_promise_is_waited_out_unless_the_death_is_confirmed),
        cmocka_unit_test(a_death_that_is_heard_after_the_votes_ends_the_wait_too),
        cmocka_unit_test(a_candidate_that_hears_of_the_death_does_not_count_older_votes),
        cmocka_unit_test(windows_never_overlap_while_clocks_keep_the_bound),
        cmocka_unit_test(beyond_the_bound_they_do_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
