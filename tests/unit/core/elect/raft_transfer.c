/* Raft's transfer of leadership (thesis §3.10) and reads (thesis §6.4): hand over without a gap,
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

static bw_node somebody_but(bw_node id)
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
    bw_node first = net_leader(net), second = somebody_but(first);
    bw_time start = net->now;
    transfer(net, first, second, 1);
    while (net_leader(net) != second || net->node[second].act_until <= net->now)
        net_run(net, BW_MS);
    assert_true(net->now - start < 20 * BW_MS);
    assert_int_equal(net->node[first].loss, BW_LOSS_TRANSFERRED);
    assert_int_equal(net_answer(net, 1)->error, 0);
    net_free(net);
}

/* The leader's own word that its work is dead frees the voters from their promise, and no more: who
 * took it for the leader's end would stand for election before the successor has heard of it. */
static void the_peer_that_is_named_leads_although_all_hear_that_the_work_is_dead(void **state)
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
    bw_node first = net_leader(net), second = somebody_but(first);
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

static void a_transfer_to_a_dead_server_is_aborted_and_work_resumes(void **state)
{
    (void)state;
    struct net *net = group(3, 63);
    bw_node first = net_leader(net), second = somebody_but(first);
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
    assert_int_equal(net_status(net, first).term, term);
    assert_true(net->node[first].act_until > net->now);
    net_free(net);
}

static void the_window_ends_before_timeout_now_is_sent(void **state)
{
    (void)state;
    struct net *net = group(3, 64);
    bw_node first = net_leader(net), second = somebody_but(first);
    net->hold_kind = BW_MSG_RAFT_TIMEOUT_NOW;
    transfer(net, first, second, 1);
    assert_int_equal(net->sent[BW_MSG_RAFT_TIMEOUT_NOW], 1);
    assert_true(net->node[first].act_until <= net->now);
    net_run(net, 100 * BW_MS);
    assert_true(net->node[first].act_until <= net->now); /* acknowledgements extend nothing */
    net_free(net);
}

/* The abort is over, the old leader acts and reads again, and only now TIMEOUT_NOW arrives. The net
 * checks windows, reads and leaders per term all the time. */
static void a_timeout_now_delayed_past_the_abort_does_no_harm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct net *net = group(5, seed);
        bw_node first = net_leader(net), second = somebody_but(first);
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
    bw_node leader = net_leader(net), other = somebody_but(leader);
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

static void a_transfer_to_a_stranger_a_learner_or_itself_is_refused(void **state)
{
    (void)state;
    struct net *net = group(3, 66);
    bw_node leader = net_leader(net);
    transfer(net, leader, 9, 1);
    assert_int_equal(net_answer(net, 1)->error, BW_ENOTMEMBER);
    transfer(net, leader, leader, 2);
    assert_int_equal(net_answer(net, 2)->error, BW_EINVAL);
    transfer(net, somebody_but(leader), leader, 3);
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
    net_command(net, somebody_but(leader), (struct bw_command){.kind = BW_COMMAND_RESIGN});
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

static void a_deposed_leader_that_does_not_know_it_answers_no_read(void **state)
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
    net_crash(net, somebody_but(leader));
    net_isolate(net, leader, true);
    net_run(net, BW_SEC); /* all of them are answered when the leadership ends */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transfer_takes_a_round_trip_and_the_successor_acts_at_once),
        cmocka_unit_test(the_peer_that_is_named_leads_although_all_hear_that_the_work_is_dead),
        cmocka_unit_test(the_successor_is_brought_up_to_date_first),
        cmocka_unit_test(a_transfer_to_a_dead_server_is_aborted_and_work_resumes),
        cmocka_unit_test(the_window_ends_before_timeout_now_is_sent),
        cmocka_unit_test(a_timeout_now_delayed_past_the_abort_does_no_harm),
        cmocka_unit_test(timeout_now_of_an_older_term_is_not_obeyed),
        cmocka_unit_test(a_transfer_to_a_stranger_a_learner_or_itself_is_refused),
        cmocka_unit_test(a_stopping_or_resigning_leader_hands_over_instead_of_timing_out),
        cmocka_unit_test(resigning_while_not_leading_is_ignored),
        cmocka_unit_test(a_read_waits_for_a_round_that_began_after_it),
        cmocka_unit_test(a_deposed_leader_that_does_not_know_it_answers_no_read),
        cmocka_unit_test(a_new_leader_answers_no_read_before_it_has_committed_in_its_term),
        cmocka_unit_test(reads_are_bounded),
        cmocka_unit_test(a_group_of_one_reads_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
