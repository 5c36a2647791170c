/* How strangers come to be believed, and how little a crowd of them costs. */
#include "seal_pair.h"

static void the_first_frame_is_lost_and_its_sender_is_told(void **state)
{
    (void)state;
    struct bw_sealed out;
    struct frame hello = say(one, 2, "hello"), challenge, answer, again;
    assert_dropped(two, &hello, BW_SEAL_DROP_STRANGER);
    hello = say(one, 2, "hello");
    assert_int_equal(hear(two, &hello, &out), BW_SEAL_REPLY);
    assert_int_equal(out.from, 1);
    challenge = reply_of(&out);
    assert_int_equal(hear(one, &challenge, &out), BW_SEAL_REPLY);
    assert_true(out.lost);
    assert_int_equal(out.from, 2);
    answer = reply_of(&out);
    again = say(one, 2, "hello again");
    assert_int_equal(hear(two, &answer, &out), BW_SEAL_REPLY);
    assert_true(out.met);
    assert_false(out.restarted);
    assert_heard(two, &again, "hello again");
    answer = reply_of(&out);
    assert_int_equal(hear(one, &answer, &out), BW_SEAL_NOTHING);
    assert_true(out.met);
    struct frame back = say(two, 1, "welcome");
    assert_heard(one, &back, "welcome");
}

static void a_greeting_loses_nothing(void **state)
{
    (void)state;
    struct frame greeting = {.length = 0};
    int made = bw_seal_greet(one, 2, greeting.bytes, sizeof greeting.bytes);
    assert_true(made > 0);
    greeting.length = (size_t)made;
    assert_int_equal(shake(one, two, greeting), 3);
    struct frame first = say(one, 2, "first"), back = say(two, 1, "back");
    assert_heard(two, &first, "first");
    assert_heard(one, &back, "back");
}

static void both_at_once_meet_all_the_same(void **state)
{
    (void)state;
    struct bw_sealed out;
    struct frame from_one = say(one, 2, "x"), from_two = say(two, 1, "x");
    assert_int_equal(hear(two, &from_one, &out), BW_SEAL_REPLY);
    struct frame to_one = reply_of(&out);
    assert_int_equal(hear(one, &from_two, &out), BW_SEAL_REPLY);
    struct frame to_two = reply_of(&out);
    shake(two, one, to_one);
    shake(one, two, to_two);
    struct frame first = say(one, 2, "first"), back = say(two, 1, "back");
    assert_heard(two, &first, "first");
    assert_heard(one, &back, "back");
}

static void who_is_met_by_address_need_not_be_known_by_id(void **state)
{
    (void)state;
    struct frame join = say(one, BW_NODE_NONE, "join");
    struct bw_sealed out;
    assert_int_equal(shake(one, two, join), 3);
    assert_true(bw_seal_knows(one, 2));
    join = say(one, BW_NODE_NONE, "join");
    assert_int_equal(hear(two, &join, &out), BW_SEAL_FRAME);
    assert_true(out.unaddressed);
    assert_int_equal(out.from, 1);
    assert_dropped(two, &join, BW_SEAL_DROP_REPLAY);
}

static void an_anonymous_client_asks_and_is_answered(void **state)
{
    (void)state;
    struct bw_seal *client = seal_of(BW_NODE_NONE, ring);
    struct frame query = say(client, BW_NODE_NONE, "status?"), view;
    struct bw_sealed out;
    assert_int_equal(shake(client, two, query), 3);
    query = say(client, BW_NODE_NONE, "status?");
    assert_int_equal(hear(two, &query, &out), BW_SEAL_FRAME);
    assert_int_equal(out.from, BW_NODE_NONE);
    view = say(two, BW_NODE_NONE, "fine");
    assert_heard(client, &view, "fine");
    assert_dropped(client, &view, BW_SEAL_DROP_REPLAY);
    assert_dropped(two, &query, BW_SEAL_DROP_REPLAY);
    bw_seal_free(client);
}

static void many_clients_take_turns_in_a_few_places_and_none_comes_back(void **state)
{
    (void)state;
    struct bw_seal *first = seal_of(BW_NODE_NONE, ring);
    struct bw_sealed out;
    struct frame query = say(first, 2, "status?"), challenge, answer;
    assert_int_equal(hear(two, &query, &out), BW_SEAL_REPLY);
    challenge = reply_of(&out);
    assert_int_equal(hear(first, &challenge, &out), BW_SEAL_REPLY);
    answer = reply_of(&out);
    assert_int_equal(hear(two, &answer, &out), BW_SEAL_REPLY);
    query = say(first, 2, "status?");
    assert_heard(two, &query, "status?");
    for (unsigned i = 0; i < BW_SEAL_CLIENTS_MAX; i++) {
        struct bw_seal *other = seal_of(BW_NODE_NONE, ring);
        shake(other, two, say(other, 2, "status?"));
        query = say(other, 2, "me too");
        assert_heard(two, &query, "me too");
        bw_seal_free(other);
    }
    assert_dropped(two, &answer, BW_SEAL_DROP_ANSWER);
    query = say(first, 2, "still there?");
    assert_dropped(two, &query, BW_SEAL_DROP_STRANGER);
    bw_seal_free(first);
}

static void a_flood_of_strangers_gets_few_challenges_and_leaves_no_trace(void **state)
{
    (void)state;
    struct bw_seal_counts counts;
    struct bw_sealed out;
    struct bw_seal *three = seal_of(3, ring);
    meet(one, 2, two);
    unsigned challenged = 0;
    for (unsigned i = 0; i < 5000; i++) {
        struct frame recorded = say(three, 2, "recorded");
        challenged += hear(two, &recorded, &out) == BW_SEAL_REPLY;
    }
    bw_seal_counts(two, &counts);
    assert_true(challenged <= BW_SEAL_GREETINGS_PER_SECOND);
    assert_true(challenged > BW_SEAL_GREETINGS_PER_SECOND / 2);
    assert_int_equal(counts.dropped[BW_SEAL_DROP_FLOOD], 5000 - challenged);
    assert_int_equal(counts.peers, 1);
    /* Who is known is heard all along; the next second the stranger is met. */
    struct frame known = say(one, 2, "known");
    assert_heard(two, &known, "known");
    bw_seal_clock(two, 1001 * BW_SEC);
    meet(three, 2, two);
    bw_seal_free(three);
}

static void a_flood_of_recorded_challenges_gets_few_answers(void **state)
{
    (void)state;
    struct bw_sealed out;
    unsigned answered = 0;
    struct frame hello = say(one, 2, "hello"), challenge;
    assert_int_equal(hear(two, &hello, &out), BW_SEAL_REPLY);
    challenge = reply_of(&out);
    for (unsigned i = 0; i < 5000; i++)
        answered += hear(one, &challenge, &out) == BW_SEAL_REPLY;
    assert_true(answered > 0 && answered <= BW_SEAL_GREETINGS_PER_SECOND);
    struct frame stranger = say(two, 1, "x"); /* asking strangers has its own allowance */
    assert_dropped(one, &stranger, BW_SEAL_DROP_STRANGER);
}

static void more_peers_than_there_is_room_for_are_counted_and_not_believed(void **state)
{
    (void)state;
    struct bw_seal_counts counts;
    for (bw_node node = 11; node < 11 + 20; node++) {
        struct bw_seal *peer = seal_of(node, ring);
        shake(peer, two, say(peer, 2, "x"));
        bw_seal_free(peer);
    }
    bw_seal_counts(two, &counts);
    assert_int_equal(counts.peers, 8);
    assert_int_equal(counts.met, 8);
    assert_int_equal(counts.dropped[BW_SEAL_DROP_FULL], 12);
}

static bool keeps_one(void *context, bw_node node)
{
    (void)context;
    return node == 1;
}

/* Every other one with a key of its own, whom nobody hears. */
static void ten_thousand_who_come_and_go_leave_no_trace(void **state)
{
    (void)state;
    struct bw_seal_counts counts;
    struct bw_keyring *foreign = ring_of(KEY_TWO "\n");
    const uint32_t crowd = 10000;
    uint32_t forgotten = 0;
    meet(one, 2, two);
    for (uint32_t i = 0; i < crowd; i++) {
        bool ours = i % 2 == 0;
        struct bw_seal *peer = seal_of(11 + i, ours ? ring : foreign);
        bw_seal_clock(two, (1000 + i) * BW_SEC); /* a second's challenges are enough for each */
        shake(peer, two, say(peer, 2, "x"));
        assert_int_equal(bw_seal_knows(two, 11 + i), ours);
        bw_seal_free(peer);
        forgotten += i % 5 == 0 ? bw_seal_sweep(two, keeps_one, NULL) : 0;
        bw_seal_counts(two, &counts);
        assert_true(counts.peers <= 4);
    }
    forgotten += bw_seal_sweep(two, keeps_one, NULL);
    bw_seal_counts(two, &counts);
    assert_int_equal(forgotten, crowd / 2);
    assert_int_equal(counts.peers, 1);
    assert_int_equal(counts.dropped[BW_SEAL_DROP_FULL], 0);
    assert_int_equal(counts.dropped[BW_SEAL_DROP_KEY] + counts.dropped[BW_SEAL_DROP_FORGED],
                     crowd / 2);
    struct frame still = say(one, 2, "still here");
    assert_heard(two, &still, "still here");
    bw_keyring_free(foreign);
}

/* The same node, started again and again. */
static void thousands_of_sessions_of_one_node_take_one_place(void **state)
{
    (void)state;
    struct bw_seal_counts counts;
    for (uint32_t i = 0; i < 5000; i++) {
        struct bw_seal *peer = seal_of(11, ring);
        bw_seal_clock(two, (1000 + i) * BW_SEC);
        shake(peer, two, say(peer, 2, "x"));
        struct frame frame = say(peer, 2, "it is me");
        assert_heard(two, &frame, "it is me");
        bw_seal_free(peer);
    }
    bw_seal_counts(two, &counts);
    assert_int_equal(counts.peers, 1);
    assert_int_equal(counts.met, 5000);
}

static void two_processes_of_one_id_are_told_apart(void **state)
{
    (void)state;
    struct bw_seal *double_of_one = seal_of(1, ring);
    struct bw_sealed out;
    meet(one, 2, two);
    struct frame hello = say(double_of_one, 2, "me"), challenge, answer;
    assert_int_equal(hear(two, &hello, &out), BW_SEAL_REPLY);
    challenge = reply_of(&out);
    assert_dropped(one, &challenge, BW_SEAL_DROP_ANSWER); /* not about us */
    assert_int_equal(hear(double_of_one, &challenge, &out), BW_SEAL_REPLY);
    answer = reply_of(&out);
    assert_int_equal(hear(two, &answer, &out), BW_SEAL_REPLY);
    assert_true(out.met && out.restarted);
    bw_seal_free(double_of_one);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, start_strangers, stop)
    const struct CMUnitTest tests[] = {
        STORY(the_first_frame_is_lost_and_its_sender_is_told),
        STORY(a_greeting_loses_nothing),
        STORY(both_at_once_meet_all_the_same),
        STORY(who_is_met_by_address_need_not_be_known_by_id),
        STORY(an_anonymous_client_asks_and_is_answered),
        STORY(many_clients_take_turns_in_a_few_places_and_none_comes_back),
        STORY(a_flood_of_strangers_gets_few_challenges_and_leaves_no_trace),
        STORY(a_flood_of_recorded_challenges_gets_few_answers),
        STORY(more_peers_than_there_is_room_for_are_counted_and_not_believed),
        STORY(ten_thousand_who_come_and_go_leave_no_trace),
        STORY(thousands_of_sessions_of_one_node_take_one_place),
        STORY(two_processes_of_one_id_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
