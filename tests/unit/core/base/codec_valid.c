/* The check rejects messages that no correct peer sends, both when encoding and when decoding. */
#include "random_message.h"
#include "unit/unit.h"

#include "core/base/error.h"

static union message_list list;

static struct bw_message of_kind(unsigned kind)
{
    struct bw_rng rng;
    struct bw_message msg;
    bw_rng_init(&rng, kind);
    random_message(&rng, kind, 8, &msg, &list);
    assert_int_equal(bw_message_check(&msg), 0);
    return msg;
}

static struct bw_message append_of_two_runs(void)
{
    struct bw_message msg = of_kind(BW_MSG_RAFT_APPEND);
    msg.term = 9;
    msg.append = (struct bw_append_part){
        .prev_index = 10, .prev_term = 3, .commit = 8, .runs = 2, .run = {{3, 2}, {5, 1}}};
    assert_int_equal(bw_message_check(&msg), 0);
    return msg;
}

static void every_message_needs_a_sender_and_a_receiver(void **state)
{
    (void)state;
    for (unsigned kind = 1; kind < BW_MSG_COUNT; kind++) {
        struct bw_message msg = of_kind(kind);
        msg.from = BW_NODE_NONE;
        assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
        msg = of_kind(kind);
        msg.to = BW_NODE_NONE;
        assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    }
}

static void unknown_kinds_and_flags_are_refused(void **state)
{
    (void)state;
    struct bw_message msg = of_kind(BW_MSG_PING);
    msg.kind = BW_MSG_COUNT;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg.kind = BW_MSG_NONE;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_PING);
    msg.flags = 0x40;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
}

static void detectors_have_neither_term_nor_election(void **state)
{
    (void)state;
    struct bw_message msg = of_kind(BW_MSG_HEARTBEAT);
    msg.term = 1;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_HEARTBEAT);
    msg.election = 1;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_ELECTION);
    msg.election = BW_ELECTIONS_MAX;
    assert_int_equal(bw_message_check(&msg), BW_ELIMIT);
}

static void an_announcement_without_a_leader_is_refused(void **state)
{
    (void)state;
    struct bw_message msg = of_kind(BW_MSG_COORDINATOR);
    msg.bully.leader = BW_NODE_NONE;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_RING_COORDINATOR);
    msg.ring.best = BW_NODE_NONE;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_INVITATION);
    msg.group.leader = BW_NODE_NONE;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
}

static void negative_times_in_a_message_are_rejected(void **state)
{
    (void)state;
    struct bw_message msg = of_kind(BW_MSG_PROMISE);
    msg.promise.left_ns = -1;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_RAFT_APPEND_REPLY);
    msg.append_reply.echo = -1;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_RAFT_VOTE_REPLY);
    msg.vote.left_ns = INT64_MIN;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
}

static void an_append_keeps_its_terms_in_order_and_below_its_own(void **state)
{
    (void)state;
    struct bw_message msg = append_of_two_runs();
    msg.append.run[1].term = 3;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = append_of_two_runs();
    msg.append.run[0].term = 2;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = append_of_two_runs();
    msg.append.run[1].term = 10;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = append_of_two_runs();
    msg.append.run[0].count = 0;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = append_of_two_runs();
    msg.append.runs = BW_RAFT_APPEND_RUNS_MAX + 1;
    assert_int_equal(bw_message_check(&msg), BW_ELIMIT);
}

static void log_position_has_a_term_unless_index_is_zero(void **state)
{
    (void)state;
    struct bw_message msg = append_of_two_runs();
    msg.append.prev_index = 0;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = append_of_two_runs();
    msg.append.prev_index = UINT64_MAX - 1;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_RAFT_VOTE);
    msg.vote = (struct bw_vote_part){.last_index = 4, .last_term = 0};
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg.vote = (struct bw_vote_part){.last_index = 4, .last_term = msg.term + 1};
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
}

static void a_membership_change_names_a_node_and_an_entry_of_the_batch(void **state)
{
    (void)state;
    struct bw_message msg = append_of_two_runs();
    msg.append.change = (struct bw_change){.op = BW_CHANGE_REMOVE, .entry = 2, .node = 4};
    assert_int_equal(bw_message_check(&msg), 0);
    msg.append.change.entry = 3;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg.append.change = (struct bw_change){.op = BW_CHANGE_REMOVE, .entry = 0, .node = 0};
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg.append.change = (struct bw_change){.op = BW_CHANGE_REMOVE + 1, .entry = 0, .node = 1};
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg.append.change = (struct bw_change){.op = BW_CHANGE_NONE, .entry = 0, .node = 1};
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
}

static void snapshot_lists_at_least_one_voter(void **state)
{
    (void)state;
    struct bw_message msg = of_kind(BW_MSG_RAFT_SNAPSHOT);
    msg.snapshot.voters = 0;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_RAFT_SNAPSHOT);
    msg.snapshot.voters = msg.items + 1;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_RAFT_SNAPSHOT);
    msg.snapshot.last_index = 0;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
}

static void lists_are_bounded_and_contain_no_zero_id(void **state)
{
    (void)state;
    for (unsigned kind = 1; kind < BW_MSG_COUNT; kind++) {
        struct bw_message msg = of_kind(kind);
        msg.items = bw_message_items_max(kind) + 1;
        msg.data = list.bytes;
        assert_int_equal(bw_message_check(&msg), BW_ELIMIT);
    }
    struct bw_message msg = of_kind(BW_MSG_READY);
    static const bw_node nobody[] = {3, 0};
    msg.items = 2;
    msg.data = nobody;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg.data = NULL;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
}

static void swim_update_has_one_of_three_states(void **state)
{
    (void)state;
    struct bw_message msg = of_kind(BW_MSG_SWIM_ACK);
    struct bw_swim_update update = {7, 1, BW_MEMBER_DEAD, 8};
    msg.items = 1;
    msg.data = &update;
    assert_int_equal(bw_message_check(&msg), 0);
    update.status = BW_MEMBER_DEAD + 1;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
}

static void every_time_of_a_message_is_checked(void **state)
{
    (void)state;
    struct bw_message msg = of_kind(BW_MSG_PROMISE);
    msg.promise.echo = -1;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = append_of_two_runs();
    msg.append.echo = -1;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_RAFT_VOTE);
    msg.vote.ended = -1;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    msg = of_kind(BW_MSG_RAFT_SNAPSHOT);
    assert_int_equal(bw_message_check(&msg), 0);
    msg.snapshot.echo = -1;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
}

static void waits_and_entries_are_bounded_in_number(void **state)
{
    (void)state;
    struct bw_message msg = of_kind(BW_MSG_RAFT_VOTE_REPLY);
    msg.flags = BW_FLAG_WAITS;
    msg.vote.waits = (struct bw_raft_waits){.count = BW_RAFT_WAITS_MAX, .span_ns = 9};
    for (unsigned i = 0; i < BW_RAFT_WAITS_MAX; i++)
        msg.vote.waits.at[i].left_ns = 5;
    assert_int_equal(bw_message_check(&msg), 0);
    msg.vote.waits.count++;
    assert_int_equal(bw_message_check(&msg), BW_ELIMIT);
    msg = append_of_two_runs();
    msg.append.run[0].count = UINT32_MAX;
    assert_int_equal(bw_message_check(&msg), BW_EMALFORMED);
    assert_int_equal(bw_message_items_max(BW_MSG_COUNT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_needs_a_sender_and_a_receiver),
        cmocka_unit_test(unknown_kinds_and_flags_are_refused),
        cmocka_unit_test(detectors_have_neither_term_nor_election),
        cmocka_unit_test(an_announcement_without_a_leader_is_refused),
        cmocka_unit_test(negative_times_in_a_message_are_rejected),
        cmocka_unit_test(an_append_keeps_its_terms_in_order_and_below_its_own),
        cmocka_unit_test(log_position_has_a_term_unless_index_is_zero),
        cmocka_unit_test(a_membership_change_names_a_node_and_an_entry_of_the_batch),
        cmocka_unit_test(snapshot_lists_at_least_one_voter),
        cmocka_unit_test(lists_are_bounded_and_contain_no_zero_id),
        cmocka_unit_test(swim_update_has_one_of_three_states),
        cmocka_unit_test(every_time_of_a_message_is_checked),
        cmocka_unit_test(waits_and_entries_are_bounded_in_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
