/* Encoding and decoding frames: a message survives both unchanged, and only whole frames are
 * accepted. */
#include "random_message.h"
#include "unit/unit.h"

#include "core/base/error.h"

static union message_list sent_list, got_list;
static unsigned char frame[BW_FRAME_MAX], again[BW_FRAME_MAX];

static void assert_same_message(const struct bw_message *a, const struct bw_message *b)
{
    struct bw_message left = *a, right = *b;
    left.data = right.data = NULL;
    assert_memory_equal(&left, &right, bw_message_used(a->kind));
    size_t bytes = a->items * bw_message_item_size(a->kind);
    if (bytes > 0)
        assert_memory_equal(a->data, b->data, bytes);
}

static void every_message_kind_survives_encoding_and_decoding(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 1);
    for (unsigned kind = 1; kind < BW_MSG_COUNT; kind++)
        for (unsigned i = 0; i < 300; i++) {
            struct bw_message sent, got;
            random_message(&rng, kind, i < 290 ? 40 : UINT32_MAX, &sent, &sent_list);
            int length = bw_message_encode(&sent, frame, sizeof frame);
            assert_true(length > 0);
            assert_int_equal(bw_message_decode(&got, frame, (size_t)length, got_list.bytes,
                                               sizeof got_list.bytes),
                             0);
            assert_same_message(&sent, &got);
            assert_int_equal(bw_message_encode(&got, again, sizeof again), length);
            assert_memory_equal(frame, again, (size_t)length);
        }
}

static void the_largest_lists_still_fit_a_frame(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 2);
    for (unsigned kind = 1; kind < BW_MSG_COUNT; kind++) {
        struct bw_message sent, got;
        random_message(&rng, kind, UINT32_MAX, &sent, &sent_list);
        sent.items = bw_message_items_max(kind);
        memset(sent_list.bytes, 0, sizeof sent_list.bytes);
        fill_list(&rng, &sent, &sent_list);
        for (uint32_t i = 0; bw_message_item_size(kind) == sizeof(bw_node) && i < sent.items; i++)
            memset(sent_list.bytes + i * sizeof(bw_node), 0xff, sizeof(bw_node));
        int length = bw_message_encode(&sent, frame, sizeof frame);
        assert_true(length > 0);
        assert_int_equal(
            bw_message_decode(&got, frame, (size_t)length, got_list.bytes, sizeof got_list.bytes),
            0);
        assert_same_message(&sent, &got);
    }
}

static void a_frame_cut_anywhere_is_refused(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 3);
    for (unsigned kind = 1; kind < BW_MSG_COUNT; kind++)
        for (unsigned i = 0; i < 20; i++) {
            struct bw_message sent, got;
            random_message(&rng, kind, 20, &sent, &sent_list);
            int length = bw_message_encode(&sent, frame, sizeof frame);
            for (int cut = 0; cut < length; cut++)
                assert_int_equal(bw_message_decode(&got, frame, (size_t)cut, got_list.bytes,
                                                   sizeof got_list.bytes),
                                 BW_ETRUNCATED);
        }
}

static void trailing_bytes_after_a_frame_are_rejected(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 4);
    for (unsigned kind = 1; kind < BW_MSG_COUNT; kind++) {
        struct bw_message sent, got;
        random_message(&rng, kind, 20, &sent, &sent_list);
        int length = bw_message_encode(&sent, frame, sizeof frame - 1);
        frame[length] = 0;
        assert_int_equal(bw_message_decode(&got, frame, (size_t)length + 1, got_list.bytes,
                                           sizeof got_list.bytes),
                         BW_EMALFORMED);
    }
}

static void a_buffer_one_byte_too_small_is_an_error_and_is_not_overrun(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 5);
    for (unsigned kind = 1; kind < BW_MSG_COUNT; kind++) {
        struct bw_message sent, got;
        random_message(&rng, kind, 20, &sent, &sent_list);
        int length = bw_message_encode(&sent, frame, sizeof frame);
        again[length - 1] = 0xa5;
        assert_int_equal(bw_message_encode(&sent, again, (size_t)length - 1), BW_ELIMIT);
        assert_int_equal(again[length - 1], 0xa5);
        size_t bytes = sent.items * bw_message_item_size(kind);
        if (bytes > 0)
            assert_int_equal(
                bw_message_decode(&got, frame, (size_t)length, got_list.bytes, bytes - 1),
                BW_ELIMIT);
    }
}

/* Checks the bytes themselves, so that every change of the format is noticed. */
static void vote_request_encodes_to_the_documented_bytes(void **state)
{
    (void)state;
    static const unsigned char expected[] = {1,
                                             BW_MSG_RAFT_VOTE,
                                             BW_FLAG_TRANSFER,
                                             2,
                                             3,
                                             0xac,
                                             0x02,
                                             7,
                                             0x80,
                                             0x01,
                                             6,
                                             0,
                                             9,
                                             0,
                                             0,
                                             0,
                                             0,
                                             0,
                                             0,
                                             0};
    struct bw_message msg = {.kind = BW_MSG_RAFT_VOTE,
                             .flags = BW_FLAG_TRANSFER,
                             .election = 2,
                             .from = 3,
                             .to = 300,
                             .term = 7,
                             .vote = {.last_index = 128, .last_term = 6, .ended = 9}};
    assert_int_equal(bw_message_encode(&msg, frame, sizeof frame), sizeof expected);
    assert_memory_equal(frame, expected, sizeof expected);
}

static void a_promise_carries_its_echo_in_eight_little_endian_bytes(void **state)
{
    (void)state;
    static const unsigned char expected[] = {
        1, BW_MSG_PROMISE, BW_FLAG_YES, 0, 1, 2, 9, 1, 5, 8, 7, 6, 5, 4, 3, 2, 1};
    struct bw_message msg = {.kind = BW_MSG_PROMISE,
                             .flags = BW_FLAG_YES,
                             .from = 1,
                             .to = 2,
                             .term = 9,
                             .promise = {1, 5, 0x0102030405060708}};
    assert_int_equal(bw_message_encode(&msg, frame, sizeof frame), sizeof expected);
    assert_memory_equal(frame, expected, sizeof expected);
}

static void invalid_messages_are_not_encoded_and_lists_stop_at_the_end(void **state)
{
    (void)state;
    struct bw_rng rng;
    struct bw_message sent;
    bw_rng_init(&rng, 6);
    random_message(&rng, BW_MSG_GOSSIP, 20, &sent, &sent_list);
    sent.items = 20;
    struct bw_counter counters[20];
    for (uint32_t i = 0; i < 20; i++)
        counters[i] = (struct bw_counter){.node = i + 1, .value = UINT64_MAX};
    sent.data = counters;
    int length = bw_message_encode(&sent, frame, sizeof frame);
    assert_true(length > 100);
    memset(again, 0xa5, sizeof again);
    assert_int_equal(bw_message_encode(&sent, again, 40), BW_ELIMIT); /* within the list */
    assert_int_equal(again[40], 0xa5);
    sent.from = BW_NODE_NONE;
    assert_int_equal(bw_message_encode(&sent, frame, sizeof frame), BW_EMALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_kind_survives_encoding_and_decoding),
        cmocka_unit_test(the_largest_lists_still_fit_a_frame),
        cmocka_unit_test(a_frame_cut_anywhere_is_refused),
        cmocka_unit_test(trailing_bytes_after_a_frame_are_rejected),
        cmocka_unit_test(a_buffer_one_byte_too_small_is_an_error_and_is_not_overrun),
        cmocka_unit_test(vote_request_encodes_to_the_documented_bytes),
        cmocka_unit_test(a_promise_carries_its_echo_in_eight_little_endian_bytes),
        cmocka_unit_test(invalid_messages_are_not_encoded_and_lists_stop_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
