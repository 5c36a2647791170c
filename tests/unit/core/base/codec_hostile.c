/* Bytes from a hostile peer: no crash, no overrun, clear errors, and never two encodings of one
 * message. The sanitizer build of this test proves the first two. */
#include "random_message.h"
#include "unit/unit.h"

#include "core/base/error.h"

static union message_list list;
static unsigned char again[BW_FRAME_MAX];

/* Decodes a heap copy of exactly `length` bytes, so that a sanitizer sees every read past its
 * end. */
static int decode_copy(const unsigned char *bytes, size_t length, struct bw_message *msg)
{
    unsigned char *copy = test_malloc(length ? length : 1);
    memcpy(copy, bytes, length);
    int error = bw_message_decode(msg, copy, length, list.bytes, sizeof list.bytes);
    test_free(copy);
    return error;
}

static void assert_refused_or_canonical(const unsigned char *bytes, size_t length, size_t *taken)
{
    struct bw_message msg;
    int error = decode_copy(bytes, length, &msg);
    if (error) {
        assert_true(error == BW_EVERSION || error == BW_ETRUNCATED || error == BW_EMALFORMED ||
                    error == BW_ELIMIT);
        return;
    }
    ++*taken;
    assert_int_equal(bw_message_encode(&msg, again, sizeof again), length);
    assert_memory_equal(bytes, again, length);
}

static size_t mutate(struct bw_rng *rng, unsigned char *bytes, size_t length, size_t cap)
{
    for (uint64_t n = 1 + bw_rng_below(rng, 3); n > 0; n--) {
        size_t at = (size_t)bw_rng_below(rng, length);
        switch (bw_rng_below(rng, 5)) {
        case 0:
            bytes[at] = (unsigned char)bw_rng_next(rng);
            break;
        case 1:
            bytes[at] ^= (unsigned char)(1u << bw_rng_below(rng, 8));
            break;
        case 2:
            bytes[at] = bw_rng_chance(rng, 0.5) ? 0xff : 0;
            break;
        case 3:
            length = at > 0 ? at : 1;
            break;
        default:
            if (length < cap) {
                memmove(bytes + at + 1, bytes + at, length - at);
                length++;
            }
            break;
        }
    }
    return length;
}

static void mutated_buffers_are_rejected_or_have_one_encoding(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 6);
    unsigned char bytes[512];
    size_t taken = 0;
    for (uint32_t i = 0; i < 1000000; i++) {
        size_t length;
        if (i % 4 == 0) {
            length = (size_t)bw_rng_below(&rng, 64);
            for (size_t j = 0; j < length; j++)
                bytes[j] = (unsigned char)(bw_rng_next(&rng) >> bw_rng_below(&rng, 8));
            if (length > 1) {
                bytes[0] = BW_CODEC_VERSION;
                bytes[1] = (unsigned char)bw_rng_below(&rng, BW_MSG_COUNT + 1);
            }
        } else {
            struct bw_message msg;
            unsigned kind = 1 + (unsigned)bw_rng_below(&rng, BW_MSG_COUNT - 1);
            random_message(&rng, kind, 12, &msg, &list);
            length = (size_t)bw_message_encode(&msg, bytes, sizeof bytes);
            length = mutate(&rng, bytes, length, sizeof bytes);
        }
        assert_refused_or_canonical(bytes, length, &taken);
    }
    /* otherwise almost every mutation is rejected and the test proves little */
    assert_true(taken > 1000);
}

static int decode(const unsigned char *bytes, size_t length)
{
    struct bw_message msg;
    return decode_copy(bytes, length, &msg);
}

static void unknown_version_is_reported_as_version_error(void **state)
{
    (void)state;
    static const unsigned char next[] = {BW_CODEC_VERSION + 1, 1, 0};
    assert_int_equal(decode(next, sizeof next), BW_EVERSION);
    assert_int_equal(decode(next, 0), BW_ETRUNCATED);
}

/* A PING whose probe number has these bytes. */
static int decode_ping(const unsigned char *number, size_t length)
{
    unsigned char bytes[32] = {1, BW_MSG_PING, 0, 0, 1, 2, 0};
    memcpy(bytes + 7, number, length);
    memset(bytes + 7 + length, 0, 2);
    return decode(bytes, 7 + length + 2);
}

static void overlong_varint_is_rejected(void **state)
{
    (void)state;
    static const unsigned char shortest[] = {5}, padded[] = {0x85, 0};
    assert_int_equal(decode_ping(shortest, sizeof shortest), 0);
    assert_int_equal(decode_ping(padded, sizeof padded), BW_EMALFORMED);
}

static void a_number_beyond_its_width_is_refused(void **state)
{
    (void)state;
    unsigned char number[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    assert_int_equal(decode_ping(number, sizeof number), 0);
    number[sizeof number - 1] = 0x02;
    assert_int_equal(decode_ping(number, sizeof number), BW_EMALFORMED);
    static const unsigned char node[] = {1,    BW_MSG_PING, 0, 0, 0xff, 0xff, 0xff,
                                         0xff, 0x1f,        2, 0, 5,    0,    0};
    assert_int_equal(decode(node, sizeof node), BW_EMALFORMED);
}

static void a_list_that_claims_billions_allocates_and_reads_nothing(void **state)
{
    (void)state;
    static const unsigned char huge[] = {1, BW_MSG_GOSSIP, 0,    0,    1,    2,
                                         0, 0xff,          0xff, 0xff, 0xff, 0x0f};
    assert_int_equal(decode(huge, sizeof huge), BW_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutated_buffers_are_rejected_or_have_one_encoding),
        cmocka_unit_test(unknown_version_is_reported_as_version_error),
        cmocka_unit_test(overlong_varint_is_rejected),
        cmocka_unit_test(a_number_beyond_its_width_is_refused),
        cmocka_unit_test(a_list_that_claims_billions_allocates_and_reads_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
