/* A sealed frame: heard as it was said, by whom it was for, or not at all. */
#include "seal_pair.h"

#include <openssl/crypto.h>

static void what_is_said_is_heard_and_not_readable_on_the_way(void **state)
{
    (void)state;
    struct frame frame = say(one, 2, "the old leader is dead"), nothing = say(two, 1, "");
    struct bw_sealed out;
    assert_null(memmem(frame.bytes, frame.length, "leader", 6));
    assert_int_equal(hear(two, &frame, &out), BW_SEAL_FRAME);
    assert_int_equal(out.from, 1);
    assert_int_equal(out.kind, 7);
    assert_false(out.unaddressed);
    assert_memory_equal(out.payload, "the old leader is dead", out.length);
    assert_int_equal(hear(one, &nothing, &out), BW_SEAL_FRAME);
    assert_int_equal(out.length, 0);
}

static void one_payload_never_looks_the_same_twice(void **state)
{
    (void)state;
    struct frame first = say(one, 2, "again and again"), second = say(one, 2, "again and again");
    struct frame other = say(one, 3, "again and again");
    assert_memory_not_equal(first.bytes + BW_SEAL_HEADER, second.bytes + BW_SEAL_HEADER, 15);
    assert_memory_not_equal(first.bytes + BW_SEAL_HEADER, other.bytes + BW_SEAL_HEADER, 15);
}

/* Each bit of each byte in turn, and each length: nothing of it is heard, and the frame itself is
 * still good afterwards. */
static void a_changed_bit_anywhere_is_noticed(void **state)
{
    (void)state;
    struct frame frame = say(one, 2, "vote for 1 in term 9"), changed;
    struct bw_sealed out;
    for (size_t at = 0; at < frame.length; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            changed = frame;
            changed.bytes[at] ^= (unsigned char)(1u << bit);
            assert_int_equal(hear(two, &changed, &out), BW_EDENIED);
        }
    for (size_t length = 0; length < frame.length; length++) {
        changed = frame;
        changed.length = length;
        assert_int_equal(hear(two, &changed, &out), BW_EDENIED);
    }
    changed = frame;
    changed.length++;
    assert_dropped(two, &changed, BW_SEAL_DROP_FORGED);
    assert_heard(two, &frame, "vote for 1 in term 9");
}

static void each_reason_has_its_own_count(void **state)
{
    (void)state;
    struct frame frame = say(one, 2, "x"), bad = frame;
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
    struct frame own = say(two, 1, "x");
    bw_seal_free(one);
    one = seal_of(2, ring);
    assert_int_equal(shake(one, two, say(one, 1, "x")), 0);
    own.bytes[20] = 2; /* reflected */
    assert_dropped(two, &own, BW_SEAL_DROP_OURSELVES);
}

static void who_is_given_the_wrong_key_hears_and_says_nothing(void **state)
{
    (void)state;
    struct bw_keyring *wrong = ring_of(KEY_TWO "\n"), *none = bw_keyring_public();
    struct bw_seal *stranger = seal_of(3, wrong), *open = seal_of(4, none);
    struct bw_sealed out;
    struct frame said = say(stranger, 2, "let me in"), loud = say(open, 2, "let me in");
    struct frame to_them = say(two, 3, "secret");
    assert_dropped(two, &said, BW_SEAL_DROP_KEY);
    assert_dropped(two, &loud, BW_SEAL_DROP_KEY);
    assert_dropped(stranger, &to_them, BW_SEAL_DROP_KEY);
    /* Also when it names the right key. */
    memcpy(said.bytes + 4, to_them.bytes + 4, 4);
    assert_int_equal(hear(two, &said, &out), BW_EDENIED);
    assert_int_equal(out.drop, BW_SEAL_DROP_FORGED);
    bw_seal_free(stranger);
    bw_seal_free(open);
    bw_keyring_free(wrong);
    bw_keyring_free(none);
}

static void bounds_are_errors_and_spend_nothing(void **state)
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
    for (bw_node node = 3; node < 10; node++) /* eight peers are known at the most */
        say(one, node, "x");
    assert_int_equal(bw_seal_make(one, 10, 7, big, 1, out, sizeof out), BW_ELIMIT);
    bw_seal_forget(one, 9);
    say(one, 10, "x");
}

/* A counter that came again would give a nonce twice. */
static void a_forgotten_node_is_not_spoken_to_with_old_counters(void **state)
{
    (void)state;
    struct frame before = say(one, 2, "same words"), after;
    bw_seal_forget(one, 2);
    after = say(one, 2, "same words");
    assert_memory_not_equal(before.bytes + 40, after.bytes + 40, 8);
    assert_heard(two, &before, "same words");
    assert_heard(two, &after, "same words");
    assert_false(bw_seal_knows(one, 2));
    struct frame answer = say(two, 1, "who?");
    assert_int_equal(shake(two, one, answer), 2);
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
    struct frame frame = say(one, 2, "warm"), bad;
    assert_heard(two, &frame, "warm");
    size_t before = allocations;
    assert_true(before > 0); /* they are counted */
    for (unsigned i = 0; i < 1000; i++) {
        frame = say(one, 2, "beat");
        bad = frame;
        bad.bytes[60] ^= 1;
        assert_dropped(two, &bad, BW_SEAL_DROP_FORGED);
        assert_heard(two, &frame, "beat");
        assert_dropped(two, &frame, BW_SEAL_DROP_REPLAY);
    }
    assert_int_equal(allocations, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_said_is_heard_and_not_readable_on_the_way,
                                        start_acquainted, stop),
        cmocka_unit_test_setup_teardown(one_payload_never_looks_the_same_twice, start_acquainted,
                                        stop),
        cmocka_unit_test_setup_teardown(a_changed_bit_anywhere_is_noticed, start_acquainted, stop),
        cmocka_unit_test_setup_teardown(each_reason_has_its_own_count, start_acquainted, stop),
        cmocka_unit_test_setup_teardown(who_is_given_the_wrong_key_hears_and_says_nothing,
                                        start_acquainted, stop),
        cmocka_unit_test_setup_teardown(bounds_are_errors_and_spend_nothing, start_acquainted,
                                        stop),
        cmocka_unit_test_setup_teardown(a_forgotten_node_is_not_spoken_to_with_old_counters,
                                        start_acquainted, stop),
        cmocka_unit_test_setup_teardown(a_frame_of_a_known_session_allocates_nothing,
                                        start_acquainted, stop),
    };
    if (CRYPTO_set_mem_functions(count_malloc, count_realloc, just_free) != 1)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
