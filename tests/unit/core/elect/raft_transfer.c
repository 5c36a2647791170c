/* Raft's leadership transfer (thesis §3.10) and reads (thesis §6.4): hand-over without a gap,
 * abort and resume, and never a stale read, whatever arrives late. */
#include "core/base/error.h"
#include "raft_net.h"

#include "unit/unit.h"

static struct net *group(uint32_t nodes, uint64_t seed)
{
    struct net *net = net_running(nodes, seed);
    net_elect(net, 3 * BW_SEC);
    net_run(net, 60 * BW_MS);
    return net;
}

static bw_node other_than(bw_node id)
{
    return id == 1 ? 2 : 1;
}

static void transfer(struct net *net, bw_node from, bw_node to, uint64_t request)
{
    net_command(net, from,
                (struct bw_command){.kind = BW_COMMAND_TRANSFER, .node = to, .request = request});
}

static void a_transfer_takes_a_round_trip_and_the_successor_acts_at_once(void **state)
{
    (void)state;
    struct net *net = group(5, 61);
    bw_node first = net_leader(net), second = other_than(first);
    bw_time start = net->now;
    transfer(net, first, second, 1);
    while (net_leader(net) != second || net->node[second].act_until <= net->now)
        net_run(net, BW_MS);
    assert_true(net->now - start < 20 * BW_MS);
    assert_int_equal(net->node[first].loss, BW_LOSS_TRANSFERRED);
    assert_int_equal(net_answer(net, 1)->error, 0);
    net_free(net);
}

/* The leader's own report that its work is dead frees the voters from their promise, nothing more.
 * A voter that took it for the leader's death would campaign before the successor. */
static void named_successor_leads_although_all_learn_that_the_work_is_dead(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct net *net = group(5, seed);
        bw_node first = net_leader(net);
        for (bw_node second = 1; second <= 5; second++) {
            first = net_leader(net);
            if (second == first)
                continue;
            for (bw_node id = 1; id <= 5; id++) {
                struct bw_event dead = {
                    .kind = BW_EVENT_CONFIRMED_DEAD, .node = first, .alone = true, .handed = true};
                if (id != first)
                    net_step(net, id, &dead, NULL);
            }
            net_run(net, (bw_time)(seed % 4) * BW_MS);
            transfer(net, first, second, 0);
            net_run(net, 300 * BW_MS);
            assert_int_equal(net_leader(net), second);
        }
        net_free(net);
    }
}

static void the_successor_is_brought_up_to_date_first(void **state)
{
    (void)state;
    struct net *net = group(3, 62);
    bw_node first = net_leader(net), second = other_than(first);
    net_isolate(net, second, true);
    for (int i = 0; i < 40; i++)
        net_propose(net, first, 5, 10);
    net_run(net, 50 * BW_MS);
    transfer(net, first, second, 1);
    net_propose(net, first, 1, 11);
    assert_int_equal(net_answer(net, 11)->error, BW_ETRANSFERRING);
    net_run(net, 20 * BW_MS);
    assert_int_equal(net->sent[BW_MSG_RAFT_TIMEOUT_NOW], 0);
    assert_true(net->node[first].act_until > net->now); /* still acting */
    net_heal(net);
    net_run(net, 150 * BW_MS);
    assert_int_equal(net_leader(net), second);
    net_free(net);
}

/* The host may have reported that the work of the first term is dead. A voter that learns of it
 * after the abort still waits for the work of the second term. */
static void leader_acts_in_a_new_term_when_its_transfer_is_aborted(void **state)
{
    (void)state;
    struct net *net = group(3, 63);
    bw_node first = net_leader(net), second = other_than(first);
    bw_term term = net_status(net, first).term;
    net_crash(net, second);
    transfer(net, first, second, 1);
    transfer(net, first, second, 2);
    assert_int_equal(net_answer(net, 2)->error, BW_EBUSY);
    net_run(net, 290 * BW_MS);
    net_propose(net, first, 1, 3);
    assert_int_equal(net_answer(net, 3)->error, BW_ETRANSFERRING);
    net_run(net, 50 * BW_MS);
    assert_int_equal(net_answer(net, 1)->error, BW_ENOQUORUM);
    net_propose(net, first, 1, 4);
    assert_int_equal(net_answer(net, 4)->error, 0);
    net_run(net, 50 * BW_MS);
    assert_int_equal(net_status(net, first).term, term + 1);
    assert_true(net->node[first].act_until > net->now);
    bw_node third = 6 - first - second;
    struct bw_event late = {
        .kind = BW_EVENT_CONFIRMED_DEAD, .node = first, .dead_term = term, .handed = true};
    net_step(net, third, &late, NULL);
    net_crash(net, first);
    net_start(net, second);
    net_run(net, 2 * BW_SEC);
    assert_int_not_equal(net_leader(net), BW_NODE_NONE);
    net_free(net); /* the net checks that windows never overlap */
}

static void the_window_ends_before_timeout_now_is_sent(void **state)
{
    (void)state;
    struct net *net = group(3, 64);
    bw_node first = net_leader(net), second = other_than(first);
    net->hold_kind = BW_MSG_RAFT_TIMEOUT_NOW;
    transfer(net, first, second, 1);
    assert_int_equal(net->sent[BW_MSG_RAFT_TIMEOUT_NOW], 1);
    assert_true(net->node[first].act_until <= net->now);
    net_run(net, 100 * BW_MS);
    assert_true(net->node[first].act_until <= net->now); /* acknowledgements do not extend it */
    net_free(net);
}

/* After the abort the old leader acts and reads again, and only then TIMEOUT_NOW arrives. The net
 * checks windows, reads and leaders per term at every event. */
static void a_timeout_now_delayed_past_the_abort_does_no_harm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct net *net = group(5, seed);
        bw_node first = net_leader(net), second = other_than(first);
        net->hold_kind = BW_MSG_RAFT_TIMEOUT_NOW;
        transfer(net, first, second, 1);
        net_run(net, 340 * BW_MS);
        assert_true(net->node[first].act_until > net->now);
        for (bw_node id = 1; id <= 5 && seed % 2; id++) /* the old leader learns of it late */
            if (id != second)
                net->cut[id][first] = true;
        net_release(net);
        for (int i = 0; i < 100; i++) {
            net_run(net, 3 * BW_MS);
            for (bw_node id = 1; id <= 5; id++) {
                if (!net_status(net, id).leading)
                    continue;
                net_propose(net, id, 1, 9);
                net_read(net, id);
            }
        }
        net_heal(net);
        net_run(net, BW_SEC);
        assert_int_not_equal(net_leader(net), BW_NODE_NONE);
        net_free(net);
    }
}

static void timeout_now_of_an_older_term_is_not_obeyed(void **state)
{
    (void)state;
    struct net *net = group(3, 65);
    bw_node leader = net_leader(net), other = other_than(leader);
    bw_term term = net_status(net, leader).term;
    net_crash(net, leader);
    net_start(net, leader);
    net_run(net, 2 * BW_SEC);
    bw_node second = net_leader(net);
    bw_term now = net_status(net, second).term;
    assert_true(now > term);
    bw_node target = other == second ? leader : other;
    net_inject(net, target,
               (struct bw_message){.kind = BW_MSG_RAFT_TIMEOUT_NOW,
                                   .from = leader == target ? 3 : leader,
                                   .term = term});
    net_run(net, 200 * BW_MS);
    assert_int_equal(net_leader(net), second);
    assert_int_equal(net_status(net, second).term, now);
    net_free(net);
}

/* A peer repeats the notice that the old leader's work is dead. If every notice started a term, the
 * candidate that lost the election would depose the leader that won it. */
static void candidate_keeps_its_term_when_a_death_is_reported(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 1);
    net_start_as(net, 1, true);
    net_inject(net, 1,
               (struct bw_message){
                   .kind = BW_MSG_RAFT_TIMEOUT_NOW, .from = 2, .term = 1, .promise = {.echo = 5}});
    assert_int_equal(net->last[BW_MSG_RAFT_VOTE].term, 2);
    assert_int_equal(net->sent[BW_MSG_RAFT_VOTE], 2);
    struct bw_event dead = {.kind = BW_EVENT_CONFIRMED_DEAD, .node = 2, .dead_term = 1};
    for (int i = 0; i < 9; i++)
        net_step(net, 1, &dead, NULL);
    assert_string_equal(net_status(net, 1).state, "candidate");
    assert_int_equal(net_status(net, 1).term, 2);
    assert_int_equal(net->sent[BW_MSG_RAFT_VOTE], 2);
    net_free(net);
}

static void transfer_to_a_non_member_a_learner_or_itself_is_refused(void **state)
{
    (void)state;
    struct net *net = group(3, 66);
    bw_node leader = net_leader(net);
    transfer(net, leader, 9, 1);
    assert_int_equal(net_answer(net, 1)->error, BW_ENOTMEMBER);
    transfer(net, leader, leader, 2);
    assert_int_equal(net_answer(net, 2)->error, BW_EINVAL);
    transfer(net, other_than(leader), leader, 3);
    assert_int_equal(net_answer(net, 3)->error, BW_ENOTLEADER);
    net_change(net, leader, BW_CHANGE_ADD_LEARNER, 8, 4);
    transfer(net, leader, 8, 5);
    assert_int_equal(net_answer(net, 5)->error, BW_ENOTMEMBER);
    net_free(net);
}

static void a_stopping_or_resigning_leader_hands_over_instead_of_timing_out(void **state)
{
    (void)state;
    for (int stop = 0; stop < 2; stop++) {
        struct net *net = group(5, 67);
        bw_node first = net_leader(net);
        bw_time start = net->now;
        if (stop)
            net_event(net, first, BW_EVENT_STOP, BW_NODE_NONE);
        else
            net_command(net, first, (struct bw_command){.kind = BW_COMMAND_RESIGN});
        assert_int_equal(net->node[first].loss, stop ? BW_LOSS_SHUT_DOWN : BW_LOSS_RESIGNED);
        while (net_leader(net) == BW_NODE_NONE)
            net_run(net, BW_MS);
        assert_true(net->now - start < 20 * BW_MS);
        assert_int_not_equal(net_leader(net), first);
        unsigned sent = net->node[first].announcements;
        net_run(net, BW_SEC);
        if (stop)
            assert_int_equal(net->node[first].announcements, sent);
        net_free(net);
    }
}

static void resigning_while_not_leading_is_ignored(void **state)
{
    (void)state;
    struct net *net = group(3, 68);
    bw_node leader = net_leader(net);
    net_command(net, other_than(leader), (struct bw_command){.kind = BW_COMMAND_RESIGN});
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    net_run(net, BW_SEC);
    assert_int_equal(net_leader(net), leader);
    net_free(net);
}

static void a_read_waits_for_a_round_that_began_after_it(void **state)
{
    (void)state;
    struct net *net = group(5, 71);
    bw_node leader = net_leader(net);
    uint64_t read = net_read(net, leader);
    assert_null(net_answer(net, read));
    unsigned sent = net->sent[BW_MSG_RAFT_APPEND];
    for (int i = 0; i < 50; i++)
        net_read(net, leader); /* all wait for the next round */
    assert_int_equal(net->sent[BW_MSG_RAFT_APPEND], sent);
    net_run(net, 5 * BW_MS);
    assert_non_null(net_answer(net, read));
    assert_int_equal(net_answer(net, read)->error, 0);
    net_run(net, 5 * BW_MS);
    assert_int_equal(net->answers_count, 51);
    net_free(net);
}

static void unaware_deposed_leader_answers_no_read(void **state)
{
    (void)state;
    struct net *net = group(5, 72);
    bw_node first = net_leader(net);
    net_isolate(net, first, true);
    uint64_t read = net_read(net, first);
    net_run(net, 2 * BW_SEC);
    assert_int_equal(net_answer(net, read)->error, BW_ENOTLEADER);
    net_free(net);
}

static void a_new_leader_answers_no_read_before_it_has_committed_in_its_term(void **state)
{
    (void)state;
    struct net *net = group(3, 73);
    net_propose(net, net_leader(net), 5, 3);
    net_run(net, 50 * BW_MS);
    net_crash(net, net_leader(net));
    net->disk_ns = 30 * BW_MS; /* committing takes longer than the round */
    while (net_leader(net) == BW_NODE_NONE)
        net_one(net, BW_TIME_NEVER);
    bw_node leader = net_leader(net);
    uint64_t read = net_read(net, leader);
    while (!net_answer(net, read))
        net_one(net, BW_TIME_NEVER);
    struct bw_raft *raft = net_raft(net, leader);
    assert_int_equal(net_answer(net, read)->error, 0);
    assert_int_equal(bw_raft_term_at(raft, net_answer(net, read)->index),
                     net_status(net, leader).term);
    assert_true(bw_raft_commit_index(raft) >= net_answer(net, read)->index);
    net_free(net);
}

static void reads_are_bounded(void **state)
{
    (void)state;
    struct net *net = group(3, 74);
    bw_node leader = net_leader(net);
    for (uint32_t i = 0; i < BW_RAFT_READS_MAX; i++)
        net_read(net, leader);
    net_command(net, leader, (struct bw_command){.kind = BW_COMMAND_READ, .request = 7});
    assert_int_equal(net_answer(net, 7)->error, BW_EBUSY);
    net_crash(net, other_than(leader));
    net_isolate(net, leader, true);
    net_run(net, BW_SEC); /* all are answered when leadership ends */
    assert_int_equal(net->answers_count, BW_RAFT_READS_MAX + 1);
    net_free(net);
}

static void a_group_of_one_reads_at_once(void **state)
{
    (void)state;
    struct net *net = net_running(1, 75);
    net_run(net, BW_MS);
    assert_int_equal(net_answer(net, net_read(net, 1))->error, 0);
    net_free(net);
}

static void transfer_without_a_name_goes_to_the_most_current_voter(void **state)
{
    (void)state;
    struct net *net = group(3, 75);
    bw_node first = net_leader(net), behind = other_than(first), second = 6 - first - behind;
    net_isolate(net, behind, true);
    net_propose(net, first, 3, 10);
    net_run(net, 40 * BW_MS);
    transfer(net, first, BW_NODE_NONE, 1);
    net_run(net, 100 * BW_MS);
    assert_int_equal(net_leader(net), second);
    assert_int_equal(net_answer(net, 1)->error, 0);
    net_free(net);
}

/* Resigns in favour of `wish` and returns the node that got TIMEOUT_NOW. */
static bw_node resign_for(struct net *net, bw_node leader, bw_node wish)
{
    struct bw_event event = {
        .kind = BW_EVENT_COMMAND, .command = {.kind = BW_COMMAND_RESIGN}, .next_leader = wish};
    net_step(net, leader, &event, NULL);
    return net->last[BW_MSG_RAFT_TIMEOUT_NOW].to;
}

static void resigning_leader_hands_over_to_the_preferred_successor(void **state)
{
    (void)state;
    for (bw_node wish = 1; wish <= 5; wish++) {
        struct net *net = group(5, 76);
        bw_node first = net_leader(net);
        if (wish != first)
            assert_int_equal(resign_for(net, first, wish), wish);
        else
            assert_int_not_equal(resign_for(net, first, wish), first);
        net_free(net);
    }
}

static void preferred_successor_that_lags_or_does_not_vote_is_passed_over(void **state)
{
    (void)state;
    struct net *net = net_new(4, 4, 77);
    net->members[3].ordinary = true;
    for (bw_node id = 1; id <= 4; id++)
        net_start(net, id);
    bw_node first = net_elect(net, 3 * BW_SEC), behind = other_than(first),
            current = 6 - first - behind;
    net_run(net, 60 * BW_MS);
    net_isolate(net, behind, true);
    net_propose(net, first, 3, 10);
    net_run(net, 40 * BW_MS);
    assert_int_equal(resign_for(net, first, behind), current);
    net_run(net, 200 * BW_MS);
    bw_node next = net_elect(net, 3 * BW_SEC);
    net_run(net, 60 * BW_MS);
    assert_int_not_equal(resign_for(net, next, 4), 4);
    net_free(net);
}

static void a_group_of_one_stops_without_a_successor(void **state)
{
    (void)state;
    struct net *net = group(1, 78);
    net_event(net, 1, BW_EVENT_STOP, 1);
    assert_int_equal(net->node[1].loss, BW_LOSS_SHUT_DOWN);
    assert_int_equal(net->sent[BW_MSG_RAFT_TIMEOUT_NOW], 0);
    assert_string_equal(net_status(net, 1).state, "stopped");
    net_free(net);
}

static struct bw_message timeout_now(bw_node from, bw_term term)
{
    return (struct bw_message){.kind = BW_MSG_RAFT_TIMEOUT_NOW, .from = from, .term = term};
}

static void a_leader_a_candidate_and_a_learner_ignore_timeout_now(void **state)
{
    (void)state;
    struct net *net = net_new(4, 4, 79);
    net->config.pre_vote = false;
    net->members[3].ordinary = true;
    net_start_as(net, 1, true);
    net_start_as(net, 4, true);
    net_inject(net, 4, timeout_now(2, 1));
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    assert_int_equal(net->sent[BW_MSG_RAFT_VOTE], 0);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    net_inject(net, 1, timeout_now(2, 1));
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    assert_int_equal(net_status(net, 1).term, 1);
    net_inject(net, 1,
               (struct bw_message){
                   .kind = BW_MSG_RAFT_VOTE_REPLY, .flags = BW_FLAG_YES, .from = 2, .term = 1});
    assert_true(net_status(net, 1).leading);
    net_inject(net, 1, timeout_now(2, 2));
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    assert_true(net_status(net, 1).leading);
    net_free(net);
}

static void timeout_now_is_obeyed_only_from_the_leader_of_the_term(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 80);
    net_start_as(net, 1, true);
    net_inject(net, 1, (struct bw_message){.kind = BW_MSG_RAFT_APPEND, .from = 2, .term = 1});
    net_inject(net, 1, timeout_now(3, 1));
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    assert_int_equal(net_status(net, 1).term, 1);
    net_inject(net, 1, timeout_now(3, 5)); /* the leader of a term that it had not heard of */
    assert_int_equal(net_status(net, 1).term, 6);
    assert_int_equal(net->last[BW_MSG_RAFT_VOTE].flags & BW_FLAG_TRANSFER, BW_FLAG_TRANSFER);
    net_free(net);
}

/* Another voter obeys a late TIMEOUT_NOW while the leader has released its window. */
static void leadership_lost_to_a_third_node_is_not_reported_as_transferred(void **state)
{
    (void)state;
    struct net *net = group(3, 81);
    bw_node first = net_leader(net), second = other_than(first), third = 6 - first - second;
    bw_term term = net_status(net, first).term;
    net->hold_kind = BW_MSG_RAFT_TIMEOUT_NOW;
    transfer(net, first, second, 1);
    bw_index last = bw_raft_last_index(net_raft(net, first));
    net_inject(net, first,
               (struct bw_message){.kind = BW_MSG_RAFT_VOTE,
                                   .flags = BW_FLAG_TRANSFER,
                                   .from = third,
                                   .term = term + 1,
                                   .vote = {.last_index = last, .last_term = term}});
    assert_int_equal(net->node[first].loss, BW_LOSS_TAKEN);
    assert_int_equal(net_answer(net, 1)->error, BW_ENOTLEADER);
    net_free(net);
}

static void followers_refuse_reads(void **state)
{
    (void)state;
    struct net *net = group(3, 82);
    uint64_t request = net_read(net, other_than(net_leader(net)));
    assert_int_equal(net_answer(net, request)->error, BW_ENOTLEADER);
    net_free(net);
}

/* Reads that arrive during a round wait for its end and then share the next one. */
static void reads_during_a_round_share_the_next_one(void **state)
{
    (void)state;
    struct net *net = group(3, 83);
    bw_node leader = net_leader(net);
    net_run(net, 30 * BW_MS);
    unsigned before = net->sent[BW_MSG_RAFT_APPEND];
    net->now += BW_US;
    net_read(net, leader);
    assert_int_equal(net->sent[BW_MSG_RAFT_APPEND], before + 2);
    for (int i = 0; i < 5; i++) {
        net->now += BW_US;
        net_read(net, leader);
    }
    assert_int_equal(net->sent[BW_MSG_RAFT_APPEND], before + 2);
    net_run(net, 3 * BW_MS);
    assert_int_equal(net->sent[BW_MSG_RAFT_APPEND], before + 4);
    net_free(net);
}

/* Node 1 of four leads in term 1. */
static struct net *lead_four(void)
{
    struct net *net = net_new(4, 4, 1);
    net->config.pre_vote = false;
    net_start_as(net, 1, true);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    for (bw_node id = 2; id <= 3; id++)
        net_inject(
            net, 1,
            (struct bw_message){
                .kind = BW_MSG_RAFT_VOTE_REPLY, .flags = BW_FLAG_YES, .from = id, .term = 1});
    net_run(net, BW_MS);
    assert_true(net_status(net, 1).leading);
    return net;
}

static void acknowledge(struct net *net, bw_node from, bw_index index, bw_time sent)
{
    net_inject(
        net, 1,
        (struct bw_message){.kind = BW_MSG_RAFT_APPEND_REPLY,
                            .flags = BW_FLAG_YES,
                            .from = from,
                            .term = 1,
                            .append_reply = {.index = index, .echo = net_local(net, 1, sent)}});
}

/* Stops the leader, which names no successor, and returns the node that got TIMEOUT_NOW. */
static bw_node stop_leader(struct net *net, bw_node leader)
{
    net_event(net, leader, BW_EVENT_STOP, BW_NODE_NONE);
    return net->last[BW_MSG_RAFT_TIMEOUT_NOW].to;
}

static void best_successor_has_the_longest_log_and_the_newest_acknowledgement(void **state)
{
    (void)state;
    for (bw_node best = 2; best <= 4; best++) {
        struct net *net = lead_four();
        for (bw_node id = 2; id <= 4; id++)
            acknowledge(net, id, 1, id == best ? BW_MS : BW_MS / 2);
        assert_int_equal(stop_leader(net, 1), best);
        net_free(net);
        net = lead_four();
        for (bw_node id = 2; id <= 4; id++) /* a longer log counts more */
            acknowledge(net, id, id == best ? 1 : 0, id == best ? BW_MS / 2 : BW_MS);
        assert_int_equal(stop_leader(net, 1), best);
        net_free(net);
    }
}

static void resigning_leader_hands_over_to_the_next_id_that_can_take_it(void **state)
{
    (void)state;
    for (bw_node next = 2; next <= 4; next++) {
        struct net *net = lead_four();
        for (bw_node id = 4; id >= 2; id--) /* those before `next` lack the last entry */
            acknowledge(net, id, id >= next ? 1 : 0, id == 4 ? BW_MS : BW_MS / 2);
        assert_int_equal(resign_for(net, 1, BW_NODE_NONE), next);
        net_free(net);
    }
    struct net *net = lead_four();
    acknowledge(net, 2, 1, BW_MS);
    for (int i = 0; i < 200; i++) { /* 2 does not respond any more */
        acknowledge(net, 3, 1, net->now);
        acknowledge(net, 4, 1, net->now);
        net_run(net, 10 * BW_MS);
    }
    assert_int_equal(resign_for(net, 1, BW_NODE_NONE), 3);
    net_free(net);
}

static void members_without_a_vote_get_no_turn(void **state)
{
    (void)state;
    struct net *net = net_new(4, 4, 92);
    net->members[3].ordinary = true;
    for (bw_node id = 1; id <= 4; id++)
        net_start(net, id);
    bw_node leader = net_elect(net, 3 * BW_SEC);
    for (int turn = 0; turn < 3; turn++) {
        net_run(net, 60 * BW_MS);
        assert_int_equal(resign_for(net, leader, BW_NODE_NONE), leader % 3 + 1);
        leader = net_elect(net, 3 * BW_SEC);
    }
    net_free(net);
}

static void repeated_resignations_reach_every_voter(void **state)
{
    (void)state;
    struct net *net = group(5, 91);
    bw_node leader = net_leader(net), visited = 0;
    for (int turn = 0; turn < 5; turn++) {
        visited |= 1u << leader;
        bw_node next = resign_for(net, leader, BW_NODE_NONE);
        assert_int_equal(next, leader % 5 + 1);
        leader = net_elect(net, 3 * BW_SEC);
        assert_int_equal(leader, next);
        net_run(net, 60 * BW_MS); /* the others acknowledge its entries */
    }
    assert_int_equal(visited, 0x3e);
    net_free(net);
}

static void lagging_successor_gets_more_entries_at_once(void **state)
{
    (void)state;
    struct net *net = lead_four();
    for (bw_index index = 1; index <= 6; index++) { /* its pipeline grows */
        acknowledge(net, 4, index, 0);
        net_propose(net, 1, 1, 7);
    }
    acknowledge(net, 4, 7, 0);
    net_propose(net, 1, 80, 8); /* a proposal sends two batches of 16 */
    net->sent[BW_MSG_RAFT_APPEND] = 0;
    transfer(net, 1, 4, 9);
    assert_int_equal(net->sent[BW_MSG_RAFT_APPEND], 2); /* and the transfer two more */
    assert_int_equal(net->last[BW_MSG_RAFT_APPEND].to, 4);
    assert_int_equal(net->sent[BW_MSG_RAFT_TIMEOUT_NOW], 0);
    net_free(net);
}

static void timeout_now_is_repeated_with_every_heartbeat_of_a_transfer(void **state)
{
    (void)state;
    struct net *net = group(3, 84);
    bw_node first = net_leader(net), second = other_than(first);
    net_run(net, 25 * BW_MS);
    unsigned before = net->sent[BW_MSG_RAFT_TIMEOUT_NOW];
    net->hold_kind = BW_MSG_RAFT_TIMEOUT_NOW; /* it does not arrive */
    transfer(net, first, second, 1);
    assert_int_equal(net->sent[BW_MSG_RAFT_TIMEOUT_NOW], before + 1);
    net_run(net, 62 * BW_MS);
    assert_int_equal(net->sent[BW_MSG_RAFT_TIMEOUT_NOW], before + 4);
    assert_int_equal(net->last[BW_MSG_RAFT_TIMEOUT_NOW].to, second);
    net_free(net);
}

/* A follower that waits for a snapshot must learn that the window has ended, too. */
static void snapshot_sent_during_a_transfer_says_so(void **state)
{
    (void)state;
    struct net *net = lead_four();
    acknowledge(net, 2, 1, 0);
    acknowledge(net, 3, 1, 0);
    net_command(net, 1, (struct bw_command){.kind = BW_COMMAND_COMPACT, .index = 1});
    assert_int_equal(resign_for(net, 1, 2), 2);
    assert_int_equal(net->last[BW_MSG_RAFT_SNAPSHOT].to, 4);
    assert_int_equal(net->last[BW_MSG_RAFT_SNAPSHOT].flags & BW_FLAG_TRANSFER, BW_FLAG_TRANSFER);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transfer_takes_a_round_trip_and_the_successor_acts_at_once),
        cmocka_unit_test(named_successor_leads_although_all_learn_that_the_work_is_dead),
        cmocka_unit_test(the_successor_is_brought_up_to_date_first),
        cmocka_unit_test(leader_acts_in_a_new_term_when_its_transfer_is_aborted),
        cmocka_unit_test(the_window_ends_before_timeout_now_is_sent),
        cmocka_unit_test(a_timeout_now_delayed_past_the_abort_does_no_harm),
        cmocka_unit_test(timeout_now_of_an_older_term_is_not_obeyed),
        cmocka_unit_test(candidate_keeps_its_term_when_a_death_is_reported),
        cmocka_unit_test(transfer_to_a_non_member_a_learner_or_itself_is_refused),
        cmocka_unit_test(a_stopping_or_resigning_leader_hands_over_instead_of_timing_out),
        cmocka_unit_test(resigning_while_not_leading_is_ignored),
        cmocka_unit_test(a_read_waits_for_a_round_that_began_after_it),
        cmocka_unit_test(unaware_deposed_leader_answers_no_read),
        cmocka_unit_test(a_new_leader_answers_no_read_before_it_has_committed_in_its_term),
        cmocka_unit_test(reads_are_bounded),
        cmocka_unit_test(a_group_of_one_reads_at_once),
        cmocka_unit_test(transfer_without_a_name_goes_to_the_most_current_voter),
        cmocka_unit_test(resigning_leader_hands_over_to_the_preferred_successor),
        cmocka_unit_test(preferred_successor_that_lags_or_does_not_vote_is_passed_over),
        cmocka_unit_test(a_group_of_one_stops_without_a_successor),
        cmocka_unit_test(a_leader_a_candidate_and_a_learner_ignore_timeout_now),
        cmocka_unit_test(timeout_now_is_obeyed_only_from_the_leader_of_the_term),
        cmocka_unit_test(leadership_lost_to_a_third_node_is_not_reported_as_transferred),
        cmocka_unit_test(followers_refuse_reads),
        cmocka_unit_test(reads_during_a_round_share_the_next_one),
        cmocka_unit_test(best_successor_has_the_longest_log_and_the_newest_acknowledgement),
        cmocka_unit_test(resigning_leader_hands_over_to_the_next_id_that_can_take_it),
        cmocka_unit_test(members_without_a_vote_get_no_turn),
        cmocka_unit_test(repeated_resignations_reach_every_voter),
        cmocka_unit_test(lagging_successor_gets_more_entries_at_once),
        cmocka_unit_test(timeout_now_is_repeated_with_every_heartbeat_of_a_transfer),
        cmocka_unit_test(snapshot_sent_during_a_transfer_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
