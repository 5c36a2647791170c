/* How unverified senders become verified, and how little a crowd of them costs. */
#include "seal_pair.h"

static void sender_is_notified_when_its_first_frame_is_lost(void **state)
{
    (void)state;
    struct bw_sealed out;
    struct frame hello = frame_of(one, 2, "hello"), challenge, answer, again;
    assert_dropped(two, &hello, BW_SEAL_DROP_UNVERIFIED);
    hello = frame_of(one, 2, "hello");
    assert_int_equal(open_frame(two, &hello, &out), BW_SEAL_REPLY);
    assert_int_equal(out.from, 1);
    challenge = reply_of(&out);
    assert_int_equal(open_frame(one, &challenge, &out), BW_SEAL_REPLY);
    assert_true(out.lost);
    assert_int_equal(out.from, 2);
    answer = reply_of(&out);
    again = frame_of(one, 2, "hello again");
    assert_int_equal(open_frame(two, &answer, &out), BW_SEAL_REPLY);
    assert_true(out.met);
    assert_false(out.restarted);
    assert_received(two, &again, "hello again");
    answer = reply_of(&out);
    assert_int_equal(open_frame(one, &answer, &out), BW_SEAL_NOTHING);
    assert_true(out.met);
    struct frame back = frame_of(two, 1, "welcome");
    assert_received(one, &back, "welcome");
}

static void handshake_before_first_frame_loses_nothing(void **state)
{
    (void)state;
    struct frame greeting = {.length = 0};
    int made = bw_seal_start_handshake(one, 2, greeting.bytes, sizeof greeting.bytes);
    assert_true(made > 0);
    greeting.length = (size_t)made;
    assert_int_equal(exchange(one, two, greeting), 3);
    struct frame first = frame_of(one, 2, "first"), back = frame_of(two, 1, "back");
    assert_received(two, &first, "first");
    assert_received(one, &back, "back");
}

static void simultaneous_handshakes_succeed(void **state)
{
    (void)state;
    struct bw_sealed out;
    struct frame from_one = frame_of(one, 2, "x"), from_two = frame_of(two, 1, "x");
    assert_int_equal(open_frame(two, &from_one, &out), BW_SEAL_REPLY);
    struct frame to_one = reply_of(&out);
    assert_int_equal(open_frame(one, &from_two, &out), BW_SEAL_REPLY);
    struct frame to_two = reply_of(&out);
    exchange(two, one, to_one);
    exchange(one, two, to_two);
    struct frame first = frame_of(one, 2, "first"), back = frame_of(two, 1, "back");
    assert_received(two, &first, "first");
    assert_received(one, &back, "back");
}

static void peer_can_be_verified_by_address_without_its_id(void **state)
{
    (void)state;
    struct frame join = frame_of(one, BW_NODE_NONE, "join");
    struct bw_sealed out;
    assert_int_equal(exchange(one, two, join), 3);
    assert_true(bw_seal_knows(one, 2));
    join = frame_of(one, BW_NODE_NONE, "join");
    assert_int_equal(open_frame(two, &join, &out), BW_SEAL_FRAME);
    assert_true(out.unaddressed);
    assert_int_equal(out.from, 1);
    assert_dropped(two, &join, BW_SEAL_DROP_REPLAY);
}

static void anonymous_client_gets_an_answer(void **state)
{
    (void)state;
    struct bw_seal *client = seal_of(BW_NODE_NONE, ring);
    struct frame query = frame_of(client, BW_NODE_NONE, "status?"), view;
    struct bw_sealed out;
    assert_int_equal(exchange(client, two, query), 3);
    query = frame_of(client, BW_NODE_NONE, "status?");
    assert_int_equal(open_frame(two, &query, &out), BW_SEAL_FRAME);
    assert_int_equal(out.from, BW_NODE_NONE);
    view = frame_of(two, BW_NODE_NONE, "fine");
    assert_received(client, &view, "fine");
    assert_dropped(client, &view, BW_SEAL_DROP_REPLAY);
    assert_dropped(two, &query, BW_SEAL_DROP_REPLAY);
    bw_seal_free(client);
}

static void replaced_client_session_is_not_accepted_again(void **state)
{
    (void)state;
    struct bw_seal *first = seal_of(BW_NODE_NONE, ring);
    struct bw_sealed out;
    struct frame query = frame_of(first, 2, "status?"), challenge, answer;
    assert_int_equal(open_frame(two, &query, &out), BW_SEAL_REPLY);
    challenge = reply_of(&out);
    assert_int_equal(open_frame(first, &challenge, &out), BW_SEAL_REPLY);
    answer = reply_of(&out);
    assert_int_equal(open_frame(two, &answer, &out), BW_SEAL_REPLY);
    query = frame_of(first, 2, "status?");
    assert_received(two, &query, "status?");
    for (unsigned i = 0; i < BW_SEAL_CLIENTS_MAX; i++) {
        struct bw_seal *other = seal_of(BW_NODE_NONE, ring);
        exchange(other, two, frame_of(other, 2, "status?"));
        query = frame_of(other, 2, "me too");
        assert_received(two, &query, "me too");
        bw_seal_free(other);
    }
    assert_dropped(two, &answer, BW_SEAL_DROP_ANSWER);
    query = frame_of(first, 2, "still there?");
    assert_dropped(two, &query, BW_SEAL_DROP_UNVERIFIED);
    bw_seal_free(first);
}

static void flood_of_unverified_senders_gets_few_challenges_and_uses_no_memory(void **state)
{
    (void)state;
    struct bw_seal_counts counts;
    struct bw_sealed out;
    struct bw_seal *three = seal_of(3, ring);
    handshake(one, 2, two);
    unsigned challenged = 0;
    for (unsigned i = 0; i < 5000; i++) {
        struct frame recorded = frame_of(three, 2, "recorded");
        challenged += open_frame(two, &recorded, &out) == BW_SEAL_REPLY;
    }
    bw_seal_counts(two, &counts);
    assert_true(challenged <= BW_SEAL_HANDSHAKES_PER_SECOND);
    assert_true(challenged > BW_SEAL_HANDSHAKES_PER_SECOND / 2);
    assert_int_equal(counts.dropped[BW_SEAL_DROP_FLOOD], 5000 - challenged);
    assert_int_equal(counts.peers, 1);
    /* A verified sender is received all the time; the unverified one is verified in the next
     * second. */
    struct frame known = frame_of(one, 2, "known");
    assert_received(two, &known, "known");
    bw_seal_clock(two, 1001 * BW_SEC);
    handshake(three, 2, two);
    bw_seal_free(three);
}

static void a_flood_of_recorded_challenges_gets_few_answers(void **state)
{
    (void)state;
    struct bw_sealed out;
    unsigned answered = 0;
    struct frame hello = frame_of(one, 2, "hello"), challenge;
    assert_int_equal(open_frame(two, &hello, &out), BW_SEAL_REPLY);
    challenge = reply_of(&out);
    for (unsigned i = 0; i < 5000; i++)
        answered += open_frame(one, &challenge, &out) == BW_SEAL_REPLY;
    assert_true(answered > 0 && answered <= BW_SEAL_HANDSHAKES_PER_SECOND);
    struct frame foreign = frame_of(two, 1, "x"); /* challenges have their own limit */
    assert_dropped(one, &foreign, BW_SEAL_DROP_UNVERIFIED);
}

static void peers_beyond_the_limit_are_counted_and_not_verified(void **state)
{
    (void)state;
    struct bw_seal_counts counts;
    for (bw_node node = 11; node < 11 + 20; node++) {
        struct bw_seal *peer = seal_of(node, ring);
        exchange(peer, two, frame_of(peer, 2, "x"));
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

/* Every second peer has a foreign key and is never accepted. */
static void ten_thousand_temporary_peers_leave_no_memory_in_use(void **state)
{
    (void)state;
    struct bw_seal_counts counts;
    struct bw_keyring *foreign = ring_of(KEY_TWO "\n");
    const uint32_t crowd = 10000;
    uint32_t forgotten = 0;
    handshake(one, 2, two);
    for (uint32_t i = 0; i < crowd; i++) {
        bool ours = i % 2 == 0;
        struct bw_seal *peer = seal_of(11 + i, ours ? ring : foreign);
        bw_seal_clock(two, (1000 + i) * BW_SEC); /* one second's challenges are enough for each */
        exchange(peer, two, frame_of(peer, 2, "x"));
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
    struct frame still = frame_of(one, 2, "still here");
    assert_received(two, &still, "still here");
    bw_keyring_free(foreign);
}

/* The same node, restarted again and again. */
static void thousands_of_sessions_of_one_node_use_one_slot(void **state)
{
    (void)state;
    struct bw_seal_counts counts;
    for (uint32_t i = 0; i < 5000; i++) {
        struct bw_seal *peer = seal_of(11, ring);
        bw_seal_clock(two, (1000 + i) * BW_SEC);
        exchange(peer, two, frame_of(peer, 2, "x"));
        struct frame frame = frame_of(peer, 2, "it is me");
        assert_received(two, &frame, "it is me");
        bw_seal_free(peer);
    }
    bw_seal_counts(two, &counts);
    assert_int_equal(counts.peers, 1);
    assert_int_equal(counts.met, 5000);
}

static void two_processes_with_one_id_are_distinguished(void **state)
{
    (void)state;
    struct bw_seal *double_of_one = seal_of(1, ring);
    struct bw_sealed out;
    handshake(one, 2, two);
    struct frame hello = frame_of(double_of_one, 2, "me"), challenge, answer;
    assert_int_equal(open_frame(two, &hello, &out), BW_SEAL_REPLY);
    challenge = reply_of(&out);
    assert_dropped(one, &challenge, BW_SEAL_DROP_ANSWER); /* another session was challenged */
    assert_int_equal(open_frame(double_of_one, &challenge, &out), BW_SEAL_REPLY);
    answer = reply_of(&out);
    assert_int_equal(open_frame(two, &answer, &out), BW_SEAL_REPLY);
    assert_true(out.met && out.restarted);
    bw_seal_free(double_of_one);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, start_unverified, stop)
    const struct CMUnitTest tests[] = {
        STORY(sender_is_notified_when_its_first_frame_is_lost),
        STORY(handshake_before_first_frame_loses_nothing),
        STORY(simultaneous_handshakes_succeed),
        STORY(peer_can_be_verified_by_address_without_its_id),
        STORY(anonymous_client_gets_an_answer),
        STORY(replaced_client_session_is_not_accepted_again),
        STORY(flood_of_unverified_senders_gets_few_challenges_and_uses_no_memory),
        STORY(a_flood_of_recorded_challenges_gets_few_answers),
        STORY(peers_beyond_the_limit_are_counted_and_not_verified),
        STORY(ten_thousand_temporary_peers_leave_no_memory_in_use),
        STORY(thousands_of_sessions_of_one_node_use_one_slot),
        STORY(two_processes_with_one_id_are_distinguished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
