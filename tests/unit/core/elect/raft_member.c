/* Raft's membership changes (thesis §4): learners never count, one change at a time, in force from
 * the moment the entry is in the log and undone when it is truncated. */
#include "core/base/error.h"
#include "raft_net.h"

#include "unit/unit.h"

static uint64_t next_request = 500;

/* Asks the leader until it is taken and lets it commit. */
static void change(struct net *net, enum bw_change_op op, bw_node node)
{
    uint64_t request = next_request++;
    for (int i = 0; i < 50; i++) {
        net_change(net, net_leader(net), op, node, request);
        if (net_answer(net, request)->error == 0)
            break;
        net_run(net, 20 * BW_MS);
    }
    assert_int_equal(net_answer(net, request)->error, 0);
    net_run(net, 100 * BW_MS);
}

static int refused(struct net *net, enum bw_change_op op, bw_node node)
{
    uint64_t request = next_request++;
    net_change(net, net_leader(net), op, node, request);
    return net_answer(net, request)->error;
}

static uint32_t voters_of(struct net *net, bw_node id)
{
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters;
    struct bw_raft *raft = net_raft(net, id);
    bw_raft_members_at(raft, bw_raft_last_index(raft), members, &voters);
    return voters;
}

/* `nodes` run, the first `configured` are the group, and one of them leads. */
static struct net *group(uint32_t nodes, uint32_t configured, uint64_t seed)
{
    struct net *net = net_new(nodes, configured, seed);
    for (bw_node id = 1; id <= nodes; id++)
        net_start(net, id);
    net_elect(net, 3 * BW_SEC);
    net_run(net, 60 * BW_MS);
    return net;
}

static void a_learner_gets_the_log_and_is_promoted_when_it_has_caught_up(void **state)
{
    (void)state;
    struct net *net = group(4, 3, 41);
    for (int i = 0; i < 20; i++)
        net_propose(net, net_leader(net), 5, 10);
    change(net, BW_CHANGE_ADD_LEARNER, 4);
    assert_int_equal(net->node[4].applied, net->node[net_leader(net)].applied);
    assert_false(bw_raft_is_voter(net_raft(net, 1), 4));
    change(net, BW_CHANGE_PROMOTE, 4);
    for (bw_node id = 1; id <= 4; id++)
        assert_true(bw_raft_is_voter(net_raft(net, id), 4));
    net_free(net);
}

static void a_learner_counts_in_no_quorum(void **state)
{
    (void)state;
    struct net *net = group(4, 3, 42);
    change(net, BW_CHANGE_ADD_LEARNER, 4);
    bw_node leader = net_leader(net);
    for (bw_node id = 1; id <= 3; id++)
        if (id != leader)
            net_crash(net, id);
    bw_index committed = net->committed_last;
    net_propose(net, leader, 1, 10); /* leader and learner hold it: not a majority of three */
    net_run(net, 100 * BW_MS);
    assert_int_equal(net->committed_last, committed);
    net_run(net, 100 * BW_MS);
    assert_int_equal(net_leader(net), BW_NODE_NONE);
    net_run(net, 3 * BW_SEC);
    assert_int_equal(net_leader(net), BW_NODE_NONE);
    net_free(net);
}

static void dead_learners_hold_nothing_up(void **state)
{
    (void)state;
    struct net *net = group(5, 2, 43);
    net_crash(net, 3);
    net_crash(net, 4);
    net_crash(net, 5);
    for (bw_node id = 3; id <= 5; id++)
        change(net, BW_CHANGE_ADD_LEARNER, id);
    bw_index committed = net->committed_last;
    net_propose(net, net_leader(net), 1, 10);
    net_run(net, 50 * BW_MS);
    assert_int_equal(net->committed_last, committed + 1);
    net_free(net);
}

static void a_lagging_or_dead_learner_is_not_promoted(void **state)
{
    (void)state;
    struct net *net = group(4, 3, 44);
    net_crash(net, 4);
    change(net, BW_CHANGE_ADD_LEARNER, 4);
    assert_int_equal(refused(net, BW_CHANGE_PROMOTE, 4), BW_EBUSY);
    net_free(net);
}

static void a_second_change_waits_until_the_first_is_committed(void **state)
{
    (void)state;
    struct net *net = group(5, 3, 45);
    bw_node leader = net_leader(net);
    net_isolate(net, leader, true);
    assert_int_equal(refused(net, BW_CHANGE_ADD_LEARNER, 4), 0);
    assert_int_equal(refused(net, BW_CHANGE_ADD_LEARNER, 5), BW_EBUSY);
    net_heal(net);
    net_run(net, 100 * BW_MS);
    assert_int_equal(refused(net, BW_CHANGE_ADD_LEARNER, 5), 0);
    net_free(net);
}

/* The bug of 2015: a new leader must commit in its own term first. */
static void a_new_leader_changes_nothing_before_it_has_committed_in_its_term(void **state)
{
    (void)state;
    struct net *net = group(4, 3, 46);
    bw_node first = net_leader(net);
    net_crash(net, first);
    while (net_leader(net) == BW_NODE_NONE)
        net_one(net, BW_TIME_NEVER);
    assert_int_equal(refused(net, BW_CHANGE_ADD_LEARNER, 4), BW_EBUSY);
    net_run(net, 50 * BW_MS);
    assert_int_equal(refused(net, BW_CHANGE_ADD_LEARNER, 4), 0);
    net_free(net);
}

static void an_uncommitted_change_is_undone_when_its_entry_is_truncated(void **state)
{
    (void)state;
    struct net *net = group(4, 3, 47);
    bw_node first = net_leader(net), lost = first == 1 ? 2 : 1;
    net_isolate(net, first, true);
    assert_int_equal(refused(net, BW_CHANGE_REMOVE, lost), 0);
    assert_int_equal(voters_of(net, first), 2);
    net_run(net, 2 * BW_SEC);
    net_heal(net);
    net_run(net, 2 * BW_SEC);
    assert_int_equal(voters_of(net, first), 3);
    assert_true(bw_raft_is_voter(net_raft(net, first), lost));
    net_free(net);
}

static void the_last_voter_cannot_be_removed(void **state)
{
    (void)state;
    struct net *net = group(1, 1, 48);
    assert_int_equal(refused(net, BW_CHANGE_REMOVE, 1), BW_ENOQUORUM);
    assert_int_equal(refused(net, BW_CHANGE_REMOVE, 2), BW_ENOTMEMBER);
    assert_int_equal(refused(net, BW_CHANGE_PROMOTE, 1), BW_EINVAL);
    assert_int_equal(refused(net, BW_CHANGE_ADD_LEARNER, 1), BW_EINVAL);
    assert_int_equal(refused(net, BW_CHANGE_NONE, 1), BW_EINVAL);
    net_free(net);
}

static void a_removed_leader_hands_over_when_that_is_committed(void **state)
{
    (void)state;
    struct net *net = group(3, 3, 49);
    bw_node first = net_leader(net);
    bw_time start = net->now;
    assert_int_equal(refused(net, BW_CHANGE_REMOVE, first), 0);
    assert_true(net_status(net, first).leading);
    while (net_leader(net) == first || net_leader(net) == BW_NODE_NONE)
        net_run(net, BW_MS);
    assert_true(net->now - start < 60 * BW_MS);
    assert_int_equal(net->node[first].loss, BW_LOSS_RESIGNED);
    net_run(net, 3 * BW_SEC);
    assert_int_not_equal(net_leader(net), first);
    assert_int_equal(voters_of(net, net_leader(net)), 2);
    net_free(net);
}

static void a_removed_server_disturbs_nobody(void **state)
{
    (void)state;
    struct net *net = group(4, 4, 50);
    bw_node leader = net_leader(net), out = leader == 1 ? 2 : 1;
    net_isolate(net, out, true); /* it never hears that it is out */
    change(net, BW_CHANGE_REMOVE, out);
    net_run(net, BW_SEC);
    net_heal(net);
    bw_term term = net_status(net, leader).term;
    net_run(net, 5 * BW_SEC);
    assert_int_equal(net_leader(net), leader);
    assert_int_equal(net_status(net, leader).term, term);
    net_free(net);
}

/* Group {1, 2}, node 2 leads, appends its own removal and loses its lead: node 1 needs node 2's
 * vote and has the shorter log. */
static void a_server_whose_removal_is_uncommitted_may_still_be_needed(void **state)
{
    (void)state;
    struct net *net = group(2, 2, 51);
    bw_node leader = net_leader(net), other = leader == 1 ? 2 : 1;
    net_isolate(net, leader, true);
    assert_int_equal(refused(net, BW_CHANGE_REMOVE, leader), 0);
    net_run(net, 2 * BW_SEC);
    assert_int_equal(net_leader(net), BW_NODE_NONE);
    net_heal(net);
    net_run(net, 3 * BW_SEC);
    assert_int_equal(net_leader(net), other);
    assert_int_equal(voters_of(net, other), 1);
    net_free(net);
}

static void membership_survives_snapshot_and_restart(void **state)
{
    (void)state;
    struct net *net = group(5, 3, 52);
    change(net, BW_CHANGE_ADD_LEARNER, 4);
    change(net, BW_CHANGE_PROMOTE, 4);
    bw_node leader = net_leader(net);
    net_command(
        net, leader,
        (struct bw_command){.kind = BW_COMMAND_COMPACT, .index = net->node[leader].applied});
    change(net, BW_CHANGE_ADD_LEARNER, 5); /* gets the snapshot */
    assert_true(bw_raft_is_voter(net_raft(net, 5), 4));
    assert_int_equal(voters_of(net, 5), 4);
    for (bw_node id = 1; id <= 5; id++)
        net_crash(net, id);
    for (bw_node id = 1; id <= 5; id++)
        net_start(net, id);
    net_run(net, 3 * BW_SEC);
    for (bw_node id = 1; id <= 5; id++)
        assert_int_equal(voters_of(net, id), 4);
    net_free(net);
}

static void a_batch_holds_at_most_one_change(void **state)
{
    (void)state;
    struct net *net = group(6, 3, 53);
    bw_node leader = net_leader(net), behind = leader == 1 ? 2 : 1;
    net_isolate(net, behind, true);
    for (bw_node id = 4; id <= 6; id++)
        change(net, BW_CHANGE_ADD_LEARNER, id);
    net_heal(net);
    net_run(net, BW_SEC); /* the net checks that every entry's change goes along */
    assert_int_equal(net->node[behind].applied, net->node[net_leader(net)].applied);
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters;
    struct bw_raft *raft = net_raft(net, behind);
    assert_int_equal(bw_raft_members_at(raft, bw_raft_last_index(raft), members, &voters), 6);
    net_free(net);
}

static void the_detectors_membership_is_not_the_electorate(void **state)
{
    (void)state;
    struct net *net = group(3, 3, 54);
    bw_node leader = net_leader(net);
    net_event(net, leader, BW_EVENT_JOIN, 9);
    net_event(net, leader, BW_EVENT_LEAVE, leader == 1 ? 2 : 1);
    assert_int_equal(voters_of(net, leader), 3);
    assert_false(bw_raft_is_voter(net_raft(net, leader), 9));
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_learner_gets_the_log_and_is_promoted_when_it_has_caught_up),
        cmocka_unit_test(a_learner_counts_in_no_quorum),
        cmocka_unit_test(dead_learners_hold_nothing_up),
        cmocka_unit_test(a_lagging_or_dead_learner_is_not_promoted),
        cmocka_unit_test(a_second_change_waits_until_the_first_is_committed),
        cmocka_unit_test(a_new_leader_changes_nothing_before_it_has_committed_in_its_term),
        cmocka_unit_test(an_uncommitted_change_is_undone_when_its_entry_is_truncated),
        cmocka_unit_test(the_last_voter_cannot_be_removed),
        cmocka_unit_test(a_removed_leader_hands_over_when_that_is_committed),
        cmocka_unit_test(a_removed_server_disturbs_nobody),
        cmocka_unit_test(a_server_whose_removal_is_uncommitted_may_still_be_needed),
        cmocka_unit_test(membership_survives_snapshot_and_restart),
        cmocka_unit_test(a_batch_holds_at_most_one_change),
        cmocka_unit_test(the_detectors_membership_is_not_the_electorate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
