/* Raft's membership changes (thesis §4): learners never count; one change at a time; a change
 * applies when its entry is in the log, and is undone when the entry is truncated. */
#include "core/base/error.h"
#include "raft_net.h"

#include "unit/unit.h"

static uint64_t next_request = 500;

/* Asks the leader until it accepts the change, and lets it commit. */
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

/* `nodes` run, the first `configured` form the group, and one of them leads. */
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

/* Node 4 has an empty disk and is not in the group. A voter that missed its removal may still count
 * its vote, so it gives none before the log lists it. */
static void node_that_its_own_log_does_not_list_gives_no_vote(void **state)
{
    (void)state;
    struct net *net = net_new(4, 3, 46);
    struct bw_message vote = {.kind = BW_MSG_RAFT_VOTE,
                              .flags = BW_FLAG_TRANSFER,
                              .from = 1,
                              .term = 1,
                              .vote = {.last_index = 9, .last_term = 1}};
    for (bw_node id = 3; id <= 4; id++)
        net_start_as(net, id, true);
    net_inject(net, 4, vote);
    assert_false(net->last[BW_MSG_RAFT_VOTE_REPLY].flags & BW_FLAG_YES);
    net_inject(net, 3, vote);
    assert_true(net->last[BW_MSG_RAFT_VOTE_REPLY].flags & BW_FLAG_YES);
    net_free(net);
}

static void compact(struct net *net, bw_node id)
{
    net_command(net, id,
                (struct bw_command){.kind = BW_COMMAND_COMPACT, .index = net->node[id].applied});
}

static void come_back_with_an_empty_disk(struct net *net, bw_node id)
{
    net_crash(net, id);
    memset(&net->node[id].disk, 0, sizeof net->node[id].disk);
    net->node[id].durable = (struct bw_durable){0};
    net_start(net, id);
}

/* Node 1 misses that nodes 4 and 5 are removed. They come back with empty disks. The log before
 * their removal, or a snapshot of that time, would make them voters again, and node 1 would win
 * with their votes. */
static void returned_member_gets_the_log_before_its_removal_only_in_a_snapshot(void **state)
{
    (void)state;
    for (int compacted = 0; compacted < 2; compacted++) {
        struct net *net = group(5, 3, 147);
        for (bw_node id = 4; id <= 5; id++) {
            change(net, BW_CHANGE_ADD_LEARNER, id);
            change(net, BW_CHANGE_PROMOTE, id);
        }
        bw_node leader = net_leader(net), stale = leader == 1 ? 2 : 1;
        if (compacted)
            compact(net, leader);
        net_isolate(net, stale, true);
        for (bw_node id = 4; id <= 5; id++) {
            change(net, BW_CHANGE_REMOVE, id);
            come_back_with_an_empty_disk(net, id);
            change(net, BW_CHANGE_ADD_LEARNER, id);
        }
        net_run(net, BW_SEC);
        assert_int_equal(net_leader(net), leader);
        assert_true(bw_raft_needs_snapshot(net_raft(net, leader)));
        assert_false(bw_raft_needs_snapshot(net_raft(net, 4)));
        assert_int_equal(refused(net, BW_CHANGE_PROMOTE, 4), BW_EBUSY);
        for (bw_node a = 1; a <= 5; a++)
            for (bw_node b = 1; b <= 5; b++)
                net->cut[a][b] = (a == stale || a > 3) != (b == stale || b > 3);
        net_run(net, 5 * BW_SEC);
        for (bw_node id = 4; id <= 5; id++)
            assert_int_equal(bw_raft_last_index(net_raft(net, id)), 0);
        assert_false(net_status(net, stale).leading);
        net_heal(net);
        net_run(net, BW_SEC);
        compact(net, net_leader(net));
        net_run(net, BW_SEC);
        assert_false(bw_raft_needs_snapshot(net_raft(net, net_leader(net))));
        for (bw_node id = 4; id <= 5; id++)
            change(net, BW_CHANGE_PROMOTE, id);
        assert_int_equal(voters_of(net, 4), 5);
        net_free(net);
    }
}

/* While the leader has no snapshot for a returned member, it sends one message per period. */
static void waiting_for_a_snapshot_costs_only_heartbeats(void **state)
{
    (void)state;
    struct net *net = group(4, 3, 148);
    change(net, BW_CHANGE_ADD_LEARNER, 4);
    change(net, BW_CHANGE_REMOVE, 4);
    unsigned appends = net->sent[BW_MSG_RAFT_APPEND];
    net_run(net, BW_SEC);
    unsigned to_two = net->sent[BW_MSG_RAFT_APPEND] - appends;
    come_back_with_an_empty_disk(net, 4);
    change(net, BW_CHANGE_ADD_LEARNER, 4);
    appends = net->sent[BW_MSG_RAFT_APPEND];
    net_run(net, BW_SEC);
    assert_in_range(net->sent[BW_MSG_RAFT_APPEND] - appends, to_two, 3 * to_two / 2 + 2);
    assert_true(bw_raft_needs_snapshot(net_raft(net, net_leader(net))));
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

static void dead_learners_do_not_delay_commits(void **state)
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

/* The bug of 2015: a new leader must first commit an entry of its own term. */
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

static void removed_leader_hands_over_when_the_removal_is_committed(void **state)
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

static void removed_server_does_not_disrupt_the_group(void **state)
{
    (void)state;
    struct net *net = group(4, 4, 50);
    bw_node leader = net_leader(net), out = leader == 1 ? 2 : 1;
    net_isolate(net, out, true); /* this node never learns that it was removed */
    change(net, BW_CHANGE_REMOVE, out);
    net_run(net, BW_SEC);
    net_heal(net);
    bw_term term = net_status(net, leader).term;
    net_run(net, 5 * BW_SEC);
    assert_int_equal(net_leader(net), leader);
    assert_int_equal(net_status(net, leader).term, term);
    net_free(net);
}

/* Group {1, 2}: node 2 leads, appends its own removal and loses leadership. Node 1 needs node 2's
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
    net_run(net, BW_SEC); /* the net checks that each entry carries its change */
    assert_int_equal(net->node[behind].applied, net->node[net_leader(net)].applied);
    bw_node members[BW_RAFT_MEMBERS_MAX];
    uint32_t voters;
    struct bw_raft *raft = net_raft(net, behind);
    assert_int_equal(bw_raft_members_at(raft, bw_raft_last_index(raft), members, &voters), 6);
    net_free(net);
}

static void detector_membership_does_not_change_the_voters(void **state)
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

/* Leader 1, cut off, appends its own removal. Another leader commits without that entry and dies:
 * the rest needs the vote of 1. */
static void node_votes_while_its_removal_is_not_committed(void **state)
{
    (void)state;
    struct net *net = group(3, 3, 146);
    bw_node first = net_leader(net);
    net_isolate(net, first, true);
    assert_int_equal(refused(net, BW_CHANGE_REMOVE, first), 0);
    net_run(net, 2 * BW_SEC);
    bw_node second = net_leader(net);
    assert_int_not_equal(second, first);
    net_crash(net, second);
    net_heal(net);
    net_run(net, 60 * BW_SEC);
    assert_int_not_equal(net_leader(net), BW_NODE_NONE);
    net_free(net);
}

/* Node `id` is not a founder. It leads, is cut off, appends its own removal and restarts. After the
 * restart its commit index is 0, and the group as of index 0 does not contain it. */
static void append_own_removal_and_restart(struct net *net, bw_node id)
{
    while (net_leader(net) != id) {
        net_command(net, net_leader(net),
                    (struct bw_command){.kind = BW_COMMAND_TRANSFER, .node = id});
        net_run(net, 500 * BW_MS);
    }
    net_isolate(net, id, true);
    assert_int_equal(refused(net, BW_CHANGE_REMOVE, id), 0);
    net_run(net, 2 * BW_SEC);
    net_crash(net, id);
    net_start(net, id);
}

/* A newer leader commits without the removal of node 4 and dies: the other two need its vote. */
static void restarted_node_votes_while_its_removal_is_not_committed(void **state)
{
    (void)state;
    struct net *net = group(4, 3, 149);
    change(net, BW_CHANGE_ADD_LEARNER, 4);
    change(net, BW_CHANGE_PROMOTE, 4);
    append_own_removal_and_restart(net, 4);
    assert_int_not_equal(net_leader(net), BW_NODE_NONE);
    net_crash(net, net_leader(net));
    net_heal(net);
    net_run(net, 60 * BW_SEC);
    assert_int_not_equal(net_leader(net), BW_NODE_NONE);
    net_free(net);
}

/* The group is {2, 3}, and only node 3 has the entry that removes it: node 2 cannot win. */
static void restarted_node_leads_while_its_removal_is_not_committed(void **state)
{
    (void)state;
    struct net *net = group(3, 2, 150);
    change(net, BW_CHANGE_ADD_LEARNER, 3);
    change(net, BW_CHANGE_PROMOTE, 3);
    change(net, BW_CHANGE_REMOVE, 1);
    append_own_removal_and_restart(net, 3);
    net_heal(net);
    net_run(net, 60 * BW_SEC);
    assert_int_equal(net_leader(net), 2);
    assert_int_equal(voters_of(net, 2), 1);
    net_free(net);
}

static void members_are_changed_only_by_a_leader_and_only_with_an_id(void **state)
{
    (void)state;
    struct net *net = group(3, 3, 55);
    bw_node leader = net_leader(net);
    net_change(net, leader == 1 ? 2 : 1, BW_CHANGE_ADD_LEARNER, 4, 1);
    assert_int_equal(net_answer(net, 1)->error, BW_ENOTLEADER);
    assert_int_equal(refused(net, BW_CHANGE_ADD_LEARNER, BW_NODE_NONE), BW_EINVAL);
    net_free(net);
}

static void a_group_of_the_maximum_size_refuses_another_member(void **state)
{
    (void)state;
    struct net *net = group(1, 1, 56);
    for (bw_node id = 2; id <= BW_RAFT_MEMBERS_MAX; id++)
        change(net, BW_CHANGE_ADD_LEARNER, id);
    assert_int_equal(refused(net, BW_CHANGE_ADD_LEARNER, BW_RAFT_MEMBERS_MAX + 1), BW_ELIMIT);
    change(net, BW_CHANGE_REMOVE, 2);
    assert_int_equal(refused(net, BW_CHANGE_ADD_LEARNER, BW_RAFT_MEMBERS_MAX + 1), 0);
    net_free(net);
}

/* One more than the table holds, without a snapshot in between. */
static void changes_above_the_snapshot_are_bounded(void **state)
{
    (void)state;
    struct net *net = group(1, 1, 57);
    for (uint32_t i = 0; i < BW_RAFT_CHANGES_MAX; i++)
        change(net, i % 2 ? BW_CHANGE_REMOVE : BW_CHANGE_ADD_LEARNER, 2);
    assert_int_equal(bw_raft_changes(net_raft(net, 1)), BW_RAFT_CHANGES_MAX);
    assert_int_equal(refused(net, BW_CHANGE_ADD_LEARNER, 2), BW_ELIMIT);
    net_command(net, 1,
                (struct bw_command){.kind = BW_COMMAND_COMPACT, .index = net->node[1].applied});
    assert_int_equal(refused(net, BW_CHANGE_ADD_LEARNER, 2), 0);
    net_free(net);
}

/* Node 1 follows with a full table of changes. */
static struct net *full_of_changes(void)
{
    struct net *net = net_new(3, 3, 1);
    struct net_log *disk = &net->node[1].disk;
    for (disk->last = 0; disk->last < BW_RAFT_CHANGES_MAX;) {
        disk->last++;
        disk->at[disk->last] = (struct net_entry){
            .term = 1,
            .change = {.op = disk->last % 2 ? BW_CHANGE_ADD_LEARNER : BW_CHANGE_REMOVE, .node = 4}};
    }
    net->node[1].durable = (struct bw_durable){.term = 1, .starts = 1};
    net_start_as(net, 1, true);
    return net;
}

static void a_follower_appends_only_up_to_the_change_that_does_not_fit(void **state)
{
    (void)state;
    struct net *net = full_of_changes();
    struct bw_message msg = {
        .kind = BW_MSG_RAFT_APPEND,
        .from = 2,
        .term = 1,
        .append = {.prev_index = BW_RAFT_CHANGES_MAX,
                   .prev_term = 1,
                   .commit = BW_RAFT_CHANGES_MAX + 4, /* more than fits */
                   .change = {.op = BW_CHANGE_ADD_LEARNER, .entry = 2, .node = 5},
                   .runs = 1,
                   .run = {{.term = 1, .count = 4}}}};
    net_inject(net, 1, msg);
    assert_int_equal(bw_raft_last_index(net_raft(net, 1)), BW_RAFT_CHANGES_MAX + 2);
    assert_int_equal(bw_raft_changes(net_raft(net, 1)), BW_RAFT_CHANGES_MAX);
    assert_int_equal(bw_raft_commit_index(net_raft(net, 1)), BW_RAFT_CHANGES_MAX + 2);
    net_run(net, 0);
    assert_int_equal(net->last[BW_MSG_RAFT_APPEND_REPLY].append_reply.index,
                     BW_RAFT_CHANGES_MAX + 2);
    msg.append.prev_index += 2;
    msg.append.change.entry = 0;
    net_inject(net, 1, msg); /* nothing of it fits */
    assert_int_equal(net->traced, BW_TRACE_IGNORED_FULL);
    assert_int_equal(bw_raft_last_index(net_raft(net, 1)), BW_RAFT_CHANGES_MAX + 2);
    net_free(net);
}

static void a_learner_does_not_campaign(void **state)
{
    (void)state;
    struct net *net = group(4, 3, 58);
    change(net, BW_CHANGE_ADD_LEARNER, 4);
    unsigned asked = net->sent[BW_MSG_RAFT_PREVOTE];
    net_command(net, 4, (struct bw_command){.kind = BW_COMMAND_CAMPAIGN});
    assert_int_equal(net->traced, BW_TRACE_IGNORED_STATE);
    assert_false(net_status(net, 4).electing);
    assert_int_equal(net->sent[BW_MSG_RAFT_PREVOTE], asked);
    net_free(net);
}

/* Nobody's work depends on the window, so the removed leader hands over as if it had resigned. */
static void an_untimed_leader_that_was_removed_hands_over_at_once(void **state)
{
    (void)state;
    struct net *net = net_new(3, 3, 59);
    net->config.untimed = true;
    for (bw_node id = 1; id <= 3; id++)
        net_start(net, id);
    bw_node first = net_elect(net, 3 * BW_SEC);
    net_run(net, 60 * BW_MS);
    assert_int_equal(refused(net, BW_CHANGE_REMOVE, first), 0);
    while (net_status(net, first).leading)
        net_run(net, BW_MS);
    assert_int_equal(net->last[BW_MSG_RAFT_APPEND].flags & BW_FLAG_TRANSFER, BW_FLAG_TRANSFER);
    bw_node next = net_elect(net, BW_SEC);
    assert_int_not_equal(next, first);
    assert_true(net->last[BW_MSG_RAFT_VOTE_REPLY].vote.left_ns == 0);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_votes_while_its_removal_is_not_committed),
        cmocka_unit_test(restarted_node_votes_while_its_removal_is_not_committed),
        cmocka_unit_test(restarted_node_leads_while_its_removal_is_not_committed),
        cmocka_unit_test(a_learner_gets_the_log_and_is_promoted_when_it_has_caught_up),
        cmocka_unit_test(node_that_its_own_log_does_not_list_gives_no_vote),
        cmocka_unit_test(returned_member_gets_the_log_before_its_removal_only_in_a_snapshot),
        cmocka_unit_test(waiting_for_a_snapshot_costs_only_heartbeats),
        cmocka_unit_test(a_learner_counts_in_no_quorum),
        cmocka_unit_test(dead_learners_do_not_delay_commits),
        cmocka_unit_test(a_lagging_or_dead_learner_is_not_promoted),
        cmocka_unit_test(a_second_change_waits_until_the_first_is_committed),
        cmocka_unit_test(a_new_leader_changes_nothing_before_it_has_committed_in_its_term),
        cmocka_unit_test(an_uncommitted_change_is_undone_when_its_entry_is_truncated),
        cmocka_unit_test(the_last_voter_cannot_be_removed),
        cmocka_unit_test(removed_leader_hands_over_when_the_removal_is_committed),
        cmocka_unit_test(removed_server_does_not_disrupt_the_group),
        cmocka_unit_test(a_server_whose_removal_is_uncommitted_may_still_be_needed),
        cmocka_unit_test(membership_survives_snapshot_and_restart),
        cmocka_unit_test(a_batch_holds_at_most_one_change),
        cmocka_unit_test(detector_membership_does_not_change_the_voters),
        cmocka_unit_test(members_are_changed_only_by_a_leader_and_only_with_an_id),
        cmocka_unit_test(a_group_of_the_maximum_size_refuses_another_member),
        cmocka_unit_test(changes_above_the_snapshot_are_bounded),
        cmocka_unit_test(a_follower_appends_only_up_to_the_change_that_does_not_fit),
        cmocka_unit_test(a_learner_does_not_campaign),
        cmocka_unit_test(an_untimed_leader_that_was_removed_hands_over_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
