/* When a Raft leader may act (window.c): after all promises to its predecessors have ended, and
 * until before the promises to itself end, on clocks that drift. The net checks at every event that
 * no two windows overlap in real time. */
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

static void vote_reports_the_remaining_time_of_a_promise(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1, 5, 0));
    net->now += 40 * BW_MS;
    ask_vote(net, 3, 2);
    assert_int_equal(left(net), 110 * BW_MS);
    ask_vote(net, 2, 3); /* the node that got the promise */
    assert_int_equal(left(net), 0);
    net->now += 111 * BW_MS;
    ask_vote(net, 3, 4);
    assert_int_equal(left(net), 0);
    net_free(net);
}

/* A promise to the latest leader must not replace the promise to the one before. */
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
    net_event(net, 1, BW_EVENT_SUSPECT, 2); /* not proof */
    ask_vote(net, 3, 2);
    assert_int_equal(left(net), 150 * BW_MS);
    net_event(net, 1, BW_EVENT_CONFIRMED_DEAD, 2);
    ask_vote(net, 3, 3);
    assert_int_equal(left(net), 0);
    net_free(net);
}

/* Node 2 led again since the reported death, so its newer window stays open. */
static void an_older_death_does_not_void_a_newer_promise(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    struct bw_event dead = {.kind = BW_EVENT_CONFIRMED_DEAD, .node = 2, .dead_term = 4};
    net_inject(net, 1, heartbeat(2, 5, 5, 0));
    net_step(net, 1, &dead, NULL);
    net_step(net, 1, &dead, NULL); /* repeated */
    ask_vote(net, 3, 6);
    assert_int_equal(left(net), 150 * BW_MS);
    dead.dead_term = 5;
    net_step(net, 1, &dead, NULL);
    ask_vote(net, 3, 7);
    assert_int_equal(left(net), 0);
    net_inject(net, 1, heartbeat(2, 8, 6, 0)); /* it leads again */
    ask_vote(net, 3, 9);
    assert_int_equal(left(net), 150 * BW_MS);
    net_free(net);
}

static void a_restarted_voter_assumes_a_whole_promise(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    ask_vote(net, 3, 1);
    net_crash(net, 1);
    net_start_as(net, 1, true);
    ask_vote(net, 3, 2); /* node 3 never acknowledged anything */
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

static void released_lease_frees_the_voter_unless_the_release_is_stale(void **state)
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

/* An append that the network delivers after a newer one changes nothing: the leader has given up
 * its window since it sent the late one. */
static void late_append_does_not_renew_a_released_promise(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1, 10, 0));
    net_inject(net, 1, heartbeat(2, 1, 20, BW_FLAG_TRANSFER));
    net_inject(net, 1, heartbeat(2, 1, 15, 0));
    ask_vote(net, 3, 2);
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
    assert_true(status.act_from == status.act_until); /* elected, but may not act yet */
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

static void window_is_announced_only_after_a_minimum_extension(void **state)
{
    (void)state;
    struct net *net = leading(0);
    acknowledge(net, 0, 1);
    uint32_t announced = net->node[1].announcements;
    net->now = 30 * BW_MS;
    acknowledge(net, 9 * BW_MS, 1);
    assert_int_equal(net->node[1].announcements, announced);
    acknowledge(net, 10 * BW_MS, 1);
    assert_int_equal(net->node[1].announcements, announced + 1);
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

/* A longer promise would only make winners wait. */
static void default_promise_is_the_shortest_timeout(void **state)
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

/* The dead leader is noticed within a timeout. Its successor acts when the promises have ended, or
 * as soon as the death is confirmed. */
static void successor_waits_for_a_longer_promise_unless_death_is_confirmed(void **state)
{
    (void)state;
    for (int confirmed = 0; confirmed < 2; confirmed++) {
        struct net *net = net_new(5, 5, 82);
        net->config.promise_ns = 10 * BW_SEC;
        for (bw_node id = 1; id <= 5; id++)
            net_start(net, id);
        bw_node first = net_elect(net, 3 * BW_SEC);
        net_run(net, 12 * BW_SEC); /* promises from the start have ended */
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

/* Makes three nodes whose promises last ten seconds. Their leader has crashed, and its connections
 * are closed. */
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

/* A connection closes before the guardian reports. The successor is already elected, and its voters
 * have promised to it, when they learn that their promise to its predecessor is void. */
static void death_confirmed_after_the_votes_ends_the_wait(void **state)
{
    (void)state;
    for (bw_time late = 0; late < 400 * BW_MS; late += 40 * BW_MS) {
        bw_node first;
        struct net *net = left_by_a_long_leader(83, &first);
        bw_node second = net_elect(net, BW_SEC);
        net_run(net, late);
        assert_true(net_status(net, second).act_from > net->now + 8 * BW_SEC);
        for (bw_node id = 3; id >= 1; id--) /* the leader learns it first, or last */
            if (id != first)
                net_event(net, id, BW_EVENT_CONFIRMED_DEAD, first);
        bw_time confirmed_at = net->now;
        bw_node third = net_elect(net, BW_SEC);
        while (net->node[third].act_until <= net->now || net->node[third].act_from > net->now)
            net_run(net, 5 * BW_MS);
        assert_true(net->now - confirmed_at < BW_SEC);
        net_free(net);
    }
}

/* A vote that was sent before its voter learned of the death reports a wait for the dead leader. */
static void candidate_discards_older_waits_when_the_death_is_confirmed(void **state)
{
    (void)state;
    for (bw_time early = 0; early < 12 * BW_MS; early += BW_MS / 2) {
        bw_node first;
        struct net *net = left_by_a_long_leader(84, &first);
        struct bw_event dead = {.kind = BW_EVENT_CONFIRMED_DEAD, .node = first, .dead_term = 1};
        net_run(net, early); /* between the first vote request and the last vote */
        for (bw_node id = 1; id <= 3; id++)
            if (id != first)
                net_step(net, id, &dead, NULL);
        bw_time confirmed_at = net->now;
        bw_node second = net_elect(net, BW_SEC);
        while (net->node[second].act_until <= net->now || net->node[second].act_from > net->now)
            net_run(net, 5 * BW_MS);
        assert_true(net->now - confirmed_at < BW_SEC);
        net_free(net);
    }
}

/* Leaders change by hints, cuts and restarts while the clocks differ as much as allowed. */
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
        net_isolate(net, leader, true); /* the isolated leader acts until its window ends */
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

static void windows_overlap_when_clocks_exceed_the_bound(void **state)
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

static void an_untimed_node_neither_promises_nor_waits(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net->config.untimed = true;
    net_start_as(net, 1, true);
    net_inject(net, 1, heartbeat(2, 1, 10, 0));
    net_event(net, 1, BW_EVENT_HINT, 2);
    ask_vote(net, 3, 2);
    assert_true(net->last[BW_MSG_RAFT_VOTE_REPLY].flags & BW_FLAG_YES);
    assert_int_equal(left(net), 0);
    net_free(net);
}

/* Node 1 adopts these waits from leader 2, then votes for node 3; returns what its vote reports. */
static struct bw_raft_waits reported(struct bw_raft_waits waits)
{
    struct net *net = one_of_three();
    struct bw_message msg = heartbeat(2, 1, 10, BW_FLAG_WAITS);
    msg.append.waits = waits;
    net_inject(net, 1, msg);
    net_event(net, 1, BW_EVENT_CONFIRMED_DEAD, 2); /* no promise to node 2 itself */
    ask_vote(net, 3, 2);
    struct bw_raft_waits out = net->last[BW_MSG_RAFT_VOTE_REPLY].vote.waits;
    if (out.count > 0) /* a restart must wait at least as long */
        assert_true(net->node[1].durable.promised_ns >= out.span_ns);
    net_free(net);
    return out;
}

static void a_wait_longer_than_the_own_promise_is_adopted_and_persisted(void **state)
{
    (void)state;
    struct bw_raft_waits out = reported((struct bw_raft_waits){
        .count = 1, .span_ns = 20 * BW_SEC, .at = {{.node = 9, .term = 1, .left_ns = BW_SEC}}});
    assert_int_equal(out.count, 1);
    assert_int_equal(out.at[0].node, 9);
    assert_true(out.at[0].left_ns >= BW_SEC && out.span_ns == 20 * BW_SEC);
}

static void impossible_waits_are_ignored(void **state)
{
    (void)state;
    struct bw_raft_waits waits = {.count = 1, .span_ns = BW_SEC, .at = {{.node = 9, .left_ns = 0}}};
    assert_int_equal(reported(waits).count, 0);
    waits.at[0].left_ns = BW_SEC + 1;
    assert_int_equal(reported(waits).count, 0);
    waits.at[0].left_ns = BW_SEC;
    waits.span_ns = BW_TIME_NEVER / 4 + 1;
    assert_int_equal(reported(waits).count, 0);
    waits = (struct bw_raft_waits){.count = BW_RAFT_WAITS_MAX + 1, .span_ns = BW_SEC};
    for (uint32_t i = 0; i < BW_RAFT_WAITS_MAX; i++)
        waits.at[i] = (struct bw_raft_wait){.node = 7 + i, .left_ns = BW_SEC};
    assert_int_equal(reported(waits).count, BW_RAFT_WAITS_MAX); /* no more than there are */
}

/* A restarted voter waits for an unknown leader. */
static void the_death_of_no_node_ends_no_wait(void **state)
{
    (void)state;
    struct net *net = one_of_three();
    net_inject(net, 1, heartbeat(2, 1, 10, 0));
    net_crash(net, 1);
    net_start_as(net, 1, true);
    net_event(net, 1, BW_EVENT_CONFIRMED_DEAD, BW_NODE_NONE);
    ask_vote(net, 3, 2);
    assert_int_equal(left(net), 150 * BW_MS);
    net_free(net);
}

static void heartbeats_of_many_elections_fall_on_the_same_ticks(void **state)
{
    (void)state;
    for (int together = 0; together < 2; together++) {
        struct net *net = net_new(3, 3, 1);
        net->config.pre_vote = false;
        net->config.together = together;
        net->node[1].offset = 7 * BW_MS;
        net_start_as(net, 1, true);
        net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
        net_inject(net, 1,
                   (struct bw_message){
                       .kind = BW_MSG_RAFT_VOTE_REPLY, .flags = BW_FLAG_YES, .from = 2, .term = 1});
        assert_true(bw_elect_raft.deadline(net->node[1].memory) ==
                    (together ? 20 * BW_MS : 27 * BW_MS));
        net_free(net);
    }
}

/* Five leaders within one promise: one more than the table names. Their deaths end only the waits
 * that the node can still tell apart. */
static void a_wait_that_no_longer_has_a_name_outlives_every_report_of_a_death(void **state)
{
    (void)state;
    struct net *net = net_new(7, 7, 1);
    net_start_as(net, 1, true);
    for (bw_node leader = 2; leader <= 6; leader++)
        net_inject(net, 1, heartbeat(leader, leader, 10, 0));
    for (bw_node leader = 2; leader <= 6; leader++)
        net_event(net, 1, BW_EVENT_CONFIRMED_DEAD, leader);
    ask_vote(net, 7, 9);
    assert_int_equal(left(net), 150 * BW_MS);
    assert_int_equal(net->last[BW_MSG_RAFT_VOTE_REPLY].vote.waits.count, 1);
    assert_int_equal(net->last[BW_MSG_RAFT_VOTE_REPLY].vote.waits.at[0].node, BW_NODE_NONE);
    net->now += 150 * BW_MS;
    ask_vote(net, 7, 10);
    assert_int_equal(left(net), 0);
    net_free(net);
}

/* An expired wait makes space without leaving anything behind. */
static void an_expired_wait_is_replaced_without_a_trace(void **state)
{
    (void)state;
    struct net *net = net_new(7, 7, 1);
    net_start_as(net, 1, true);
    for (bw_node leader = 2; leader <= 5; leader++)
        net_inject(net, 1, heartbeat(leader, leader, 10, 0));
    net->now += 150 * BW_MS;
    net_inject(net, 1, heartbeat(6, 6, 10, 0));
    net_event(net, 1, BW_EVENT_CONFIRMED_DEAD, 6);
    ask_vote(net, 7, 9);
    assert_int_equal(left(net), 0);
    net_free(net);
}

/* A message has space for three waits; the last one stands for all that do not fit. */
static void waits_that_do_not_fit_are_combined_without_a_name(void **state)
{
    (void)state;
    struct net *net = net_new(7, 7, 1);
    net_start_as(net, 1, true);
    for (bw_node leader = 2; leader <= 5; leader++) {
        net_inject(net, 1, heartbeat(leader, leader, 10, 0));
        net->now += 10 * BW_MS;
    }
    ask_vote(net, 7, 9);
    const struct bw_raft_waits *waits = &net->last[BW_MSG_RAFT_VOTE_REPLY].vote.waits;
    assert_int_equal(waits->count, 3);
    assert_int_equal(waits->at[0].node, 5);
    assert_int_equal(waits->at[0].term, 5);
    assert_int_equal(waits->at[1].node, 4);
    assert_int_equal(waits->at[2].node, BW_NODE_NONE);
    assert_int_equal(waits->at[2].term, 0);
    assert_int_equal(waits->at[2].left_ns, 120 * BW_MS); /* the longer of both */
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vote_reports_the_remaining_time_of_a_promise),
        cmocka_unit_test(a_promise_to_an_earlier_leader_outlives_a_newer_one),
        cmocka_unit_test(a_confirmed_death_voids_the_promise),
        cmocka_unit_test(an_older_death_does_not_void_a_newer_promise),
        cmocka_unit_test(a_restarted_voter_assumes_a_whole_promise),
        cmocka_unit_test(released_lease_frees_the_voter_unless_the_release_is_stale),
        cmocka_unit_test(late_append_does_not_renew_a_released_promise),
        cmocka_unit_test(the_window_counts_from_when_the_append_was_sent),
        cmocka_unit_test(the_winner_waits_until_the_last_promise_has_ended_on_the_slowest_clock),
        cmocka_unit_test(window_is_announced_only_after_a_minimum_extension),
        cmocka_unit_test(an_acknowledgement_from_the_future_is_ignored),
        cmocka_unit_test(default_promise_is_the_shortest_timeout),
        cmocka_unit_test(successor_waits_for_a_longer_promise_unless_death_is_confirmed),
        cmocka_unit_test(death_confirmed_after_the_votes_ends_the_wait),
        cmocka_unit_test(candidate_discards_older_waits_when_the_death_is_confirmed),
        cmocka_unit_test(windows_never_overlap_while_clocks_keep_the_bound),
        cmocka_unit_test(windows_overlap_when_clocks_exceed_the_bound),
        cmocka_unit_test(an_untimed_node_neither_promises_nor_waits),
        cmocka_unit_test(a_wait_longer_than_the_own_promise_is_adopted_and_persisted),
        cmocka_unit_test(impossible_waits_are_ignored),
        cmocka_unit_test(the_death_of_no_node_ends_no_wait),
        cmocka_unit_test(heartbeats_of_many_elections_fall_on_the_same_ticks),
        cmocka_unit_test(a_wait_that_no_longer_has_a_name_outlives_every_report_of_a_death),
        cmocka_unit_test(an_expired_wait_is_replaced_without_a_trace),
        cmocka_unit_test(waits_that_do_not_fit_are_combined_without_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
