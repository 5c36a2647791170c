/* A sealed frame is received unchanged by its addressee, or not at all. */
#include "seal_pair.h"

#include <openssl/crypto.h>

static void frame_is_encrypted_and_received_unchanged(void **state)
{
    (void)state;
    struct frame frame = frame_of(one, 2, "the old leader is dead"), nothing = frame_of(two, 1, "");
    struct bw_sealed out;
    assert_null(memmem(frame.bytes, frame.length, "leader", 6));
    assert_int_equal(open_frame(two, &frame, &out), BW_SEAL_FRAME);
    assert_int_equal(out.from, 1);
    assert_int_equal(out.kind, 7);
    assert_false(out.unaddressed);
    assert_memory_equal(out.payload, "the old leader is dead", out.length);
    assert_int_equal(open_frame(one, &nothing, &out), BW_SEAL_FRAME);
    assert_int_equal(out.length, 0);
}

static void equal_payloads_are_encrypted_differently(void **state)
{
    (void)state;
    struct frame first = frame_of(one, 2, "again and again"),
                 second = frame_of(one, 2, "again and again");
    struct frame other = frame_of(one, 3, "again and again");
    assert_memory_not_equal(first.bytes + BW_SEAL_HEADER, second.bytes + BW_SEAL_HEADER, 15);
    assert_memory_not_equal(first.bytes + BW_SEAL_HEADER, other.bytes + BW_SEAL_HEADER, 15);
}

/* Flips each bit of each byte in turn, and tries each length: nothing is accepted, and the frame
 * itself stays valid. */
static void frame_with_a_changed_bit_is_dropped(void **state)
{
    (void)state;
    struct frame frame = frame_of(one, 2, "vote for 1 in term 9"), changed;
    struct bw_sealed out;
    for (size_t at = 0; at < frame.length; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            changed = frame;
            changed.bytes[at] ^= (unsigned char)(1u << bit);
            assert_int_equal(open_frame(two, &changed, &out), BW_EDENIED);
        }
    for (size_t length = 0; length < frame.length; length++) {
        changed = frame;
        changed.length = length;
        assert_int_equal(open_frame(two, &changed, &out), BW_EDENIED);
    }
    changed = frame;
    changed.length++;
    assert_dropped(two, &changed, BW_SEAL_DROP_FORGED);
    assert_received(two, &frame, "vote for 1 in term 9");
}

static void each_drop_reason_has_its_own_counter(void **state)
{
    (void)state;
    struct frame frame = frame_of(one, 2, "x"), bad = frame;
    bad.bytes[0] = 9;
    assert_dropped(two, &bad, BW_SEAL_DROP_VERSION);
    bad = frame;
    bad.bytes[2] = 1;
    assert_dropped(two, &bad, BW_SEAL_DROP_MALFORMED);
    bad = frame;
    bad.bytes[4] ^= 1;
    assert_dropped(two, &bad, BW_SEAL_DROP_KEY);
    bad = frame;
    bad.bytes[8] ^= 1;
    assert_dropped(two, &bad, BW_SEAL_DROP_CLUSTER);
    bad = frame;
    bad.bytes[20] = 3;
    assert_dropped(two, &bad, BW_SEAL_DROP_NOT_FOR_US);
    bad = frame;
    bad.bytes[BW_SEAL_HEADER] ^= 1;
    assert_dropped(two, &bad, BW_SEAL_DROP_FORGED);
    struct frame own = frame_of(two, 1, "x");
    bw_seal_free(one);
    one = seal_of(2, ring);
    assert_int_equal(exchange(one, two, frame_of(one, 1, "x")), 0);
    own.bytes[20] = 2; /* reflected */
    assert_dropped(two, &own, BW_SEAL_DROP_OURSELVES);
}

static void peer_with_wrong_key_neither_receives_nor_sends(void **state)
{
    (void)state;
    struct bw_keyring *wrong = ring_of(KEY_TWO "\n"), *none = bw_keyring_public();
    struct bw_seal *foreign = seal_of(3, wrong), *open = seal_of(4, none);
    struct bw_sealed out;
    struct frame said = frame_of(foreign, 2, "let me in"), loud = frame_of(open, 2, "let me in");
    struct frame to_them = frame_of(two, 3, "secret");
    assert_dropped(two, &said, BW_SEAL_DROP_KEY);
    assert_dropped(two, &loud, BW_SEAL_DROP_KEY);
    assert_dropped(foreign, &to_them, BW_SEAL_DROP_KEY);
    /* The frame is dropped even if it names the right key. */
    memcpy(said.bytes + 4, to_them.bytes + 4, 4);
    assert_int_equal(open_frame(two, &said, &out), BW_EDENIED);
    assert_int_equal(out.drop, BW_SEAL_DROP_FORGED);
    bw_seal_free(foreign);
    bw_seal_free(open);
    bw_keyring_free(wrong);
    bw_keyring_free(none);
}

static void exceeded_bounds_return_errors_without_using_counters(void **state)
{
    (void)state;
    static unsigned char big[BW_SEAL_PAYLOAD_MAX + 1], out[BW_SEAL_FRAME_MAX];
    static struct bw_sealed opened;
    assert_int_equal(bw_seal_make(one, 2, 7, big, sizeof big, out, sizeof out), BW_ELIMIT);
    assert_int_equal(bw_seal_make(one, 2, 7, big, 10, out, 10 + BW_SEAL_OVERHEAD - 1), BW_ELIMIT);
    assert_int_equal(bw_seal_make(one, 2, 255, big, 10, out, sizeof out), BW_EINVAL);
    int made = bw_seal_make(one, 2, 7, big, BW_SEAL_PAYLOAD_MAX, out, sizeof out);
    assert_int_equal(made, BW_SEAL_FRAME_MAX);
    assert_int_equal(bw_seal_open(two, out, (size_t)made, &opened), BW_SEAL_FRAME);
    assert_int_equal(opened.length, BW_SEAL_PAYLOAD_MAX);
    for (bw_node node = 3; node < 10; node++) /* at most eight peers are known */
        frame_of(one, node, "x");
    assert_int_equal(bw_seal_make(one, 10, 7, big, 1, out, sizeof out), BW_ELIMIT);
    bw_seal_forget(one, 9);
    frame_of(one, 10, "x");
}

/* A reused counter would reuse a nonce. */
static void counters_to_a_forgotten_node_are_not_reused(void **state)
{
    (void)state;
    struct frame before = frame_of(one, 2, "same words"), after;
    bw_seal_forget(one, 2);
    after = frame_of(one, 2, "same words");
    assert_memory_not_equal(before.bytes + 40, after.bytes + 40, 8);
    assert_received(two, &before, "same words");
    assert_received(two, &after, "same words");
    assert_false(bw_seal_knows(one, 2));
    struct frame answer = frame_of(two, 1, "who?");
    assert_int_equal(exchange(two, one, answer), 2);
    assert_true(bw_seal_knows(one, 2));
}

/* ---- memory ---- */

static size_t allocations;

static void *count_malloc(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    allocations++;
    return malloc(size);
}

static void *count_realloc(void *block, size_t size, const char *file, int line)
{
    (void)file, (void)line;
    allocations++;
    return realloc(block, size);
}

static void just_free(void *block, const char *file, int line)
{
    (void)file, (void)line;
    free(block);
}

static void a_frame_of_a_known_session_allocates_nothing(void **state)
{
    (void)state;
    struct frame frame = frame_of(one, 2, "warm"), bad;
    assert_received(two, &frame, "warm");
    size_t before = allocations;
    assert_true(before > 0); /* allocations are counted */
    for (unsigned i = 0; i < 1000; i++) {
        frame = frame_of(one, 2, "beat");
        bad = frame;
        bad.bytes[60] ^= 1;
        assert_dropped(two, &bad, BW_SEAL_DROP_FORGED);
        assert_received(two, &frame, "beat");
        assert_dropped(two, &frame, BW_SEAL_DROP_REPLAY);
    }
    assert_int_equal(allocations, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frame_is_encrypted_and_received_unchanged, start_verified,
                                        stop),
        cmocka_unit_test_setup_teardown(equal_payloads_are_encrypted_differently, start_verified,
                                        stop),
        cmocka_unit_test_setup_teardown(frame_with_a_changed_bit_is_dropped, start_verified, stop),
        cmocka_unit_test_setup_teardown(each_drop_reason_has_its_own_counter, start_verified, stop),
        cmocka_unit_test_setup_teardown(peer_with_wrong_key_neither_receives_nor_sends,
                                        start_verified, stop),
        cmocka_unit_test_setup_teardown(exceeded_bounds_return_errors_without_using_counters,
                                        start_verified, stop),
        cmocka_unit_test_setup_teardown(counters_to_a_forgotten_node_are_not_reused, start_verified,
                                        stop),
        cmocka_unit_test_setup_teardown(a_frame_of_a_known_session_allocates_nothing,
                                        start_verified, stop),
    };
    if (CRYPTO_set_mem_functions(count_malloc, count_realloc, just_free) != 1)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
