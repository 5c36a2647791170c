/* Messages that no correct peer sends end at the check, on the way out and on the way in. */
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

static void time_never_runs_backwards_in_a_message(void **state)
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

static void a_log_position_is_either_nowhere_or_has_a_term(void **state)
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

static void a_snapshot_needs_voters_and_names_them(void **state)
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

static void lists_stay_within_their_bounds_and_name_somebody(void **state)
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

static void news_of_a_member_has_one_of_three_states(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_needs_a_sender_and_a_receiver),
        cmocka_unit_test(unknown_kinds_and_flags_are_refused),
        cmocka_unit_test(detectors_have_neither_term_nor_election),
        cmocka_unit_test(an_announcement_without_a_leader_is_refused),
        cmocka_unit_test(time_never_runs_backwards_in_a_message),
        cmocka_unit_test(an_append_keeps_its_terms_in_order_and_below_its_own),
        cmocka_unit_test(a_log_position_is_either_nowhere_or_has_a_term),
        cmocka_unit_test(a_membership_change_names_a_node_and_an_entry_of_the_batch),
        cmocka_unit_test(a_snapshot_needs_voters_and_names_them),
        cmocka_unit_test(lists_stay_within_their_bounds_and_name_somebody),
        cmocka_unit_test(news_of_a_member_has_one_of_three_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
