/* Which tokens may act, and which bytes are a valid register. */
#include "fence/register.h"

#include "unit/unit.h"

static struct bw_guard_verdict ask(bw_token highest, bool closed, bw_token token)
{
    struct bw_guard_state state = {.highest = highest, .closed = closed};
    return bw_guard_decide(&state, token);
}

static void same_token_is_accepted_again(void **state)
{
    (void)state;
    assert_int_equal(ask(7, false, 7).error, 0);
    assert_false(ask(7, false, 7).raise);
}

static void the_first_and_every_newer_token_raise_the_register(void **state)
{
    (void)state;
    assert_true(ask(0, false, 1).raise);
    assert_true(ask(7, false, 8).raise);
    assert_true(ask(7, false, UINT64_MAX).raise);
    assert_int_equal(ask(7, false, UINT64_MAX).error, 0);
}

static void older_token_is_stale_and_does_not_raise(void **state)
{
    (void)state;
    for (bw_token token = 1; token < 7; token++) {
        struct bw_guard_verdict verdict = ask(7, false, token);
        assert_int_equal(verdict.error, BW_ESTALE);
        assert_false(verdict.raise);
        assert_int_equal(verdict.token, token);
        assert_int_equal(verdict.highest, 7);
    }
    assert_int_equal(ask(UINT64_MAX, false, UINT64_MAX - 1).error, BW_ESTALE);
}

static void missing_token_is_rejected(void **state)
{
    (void)state;
    assert_int_equal(ask(0, false, 0).error, BW_ENOTOKEN);
    assert_int_equal(ask(7, false, 0).error, BW_ENOTOKEN);
    assert_int_equal(ask(7, true, 0).error, BW_ENOTOKEN);
}

static void closed_register_accepts_only_the_recovery_token(void **state)
{
    (void)state;
    assert_int_equal(ask(7, true, 7).error, 0);
    assert_int_equal(ask(7, true, 8).error, BW_EBUSY);
    assert_false(ask(7, true, 8).raise);
    assert_int_equal(ask(7, true, 6).error, BW_ESTALE);
}

static void explanation_names_both_tokens(void **state)
{
    char why[BW_GUARD_WHY_MAX + 1];
    (void)state;
    struct bw_guard_verdict verdict = ask(42, false, 41);
    assert_int_equal(bw_guard_explain(&verdict, "ledger", why), BW_ESTALE);
    assert_non_null(strstr(why, "token 41 is older than 42"));
    assert_non_null(strstr(why, "ledger"));
}

/* ---- bytes ---- */

static void encoded_register_decodes_to_the_same_state(void **state)
{
    const bw_token tokens[] = {1, 255, 256, UINT64_C(0x0123456789abcdef), UINT64_MAX};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof tokens / sizeof *tokens; i++) {
        uint8_t bytes[BW_REGISTER_BYTES];
        struct bw_guard_state in = {.highest = tokens[i / 2], .closed = i % 2}, out;
        uint32_t version;
        bw_register_encode(&in, bytes);
        assert_int_equal(bw_register_decode(bytes, sizeof bytes, &out, &version), 0);
        assert_int_equal(out.highest, in.highest);
        assert_int_equal(out.closed, in.closed);
    }
}

static void crc32c_matches_the_published_test_vector(void **state)
{
    (void)state;
    assert_int_equal(bw_crc32c((const uint8_t *)"123456789", 9), 0xE3069283); /* RFC 3720, B.4 */
}

static void truncated_register_is_rejected_at_every_length(void **state)
{
    uint8_t bytes[BW_REGISTER_BYTES];
    struct bw_guard_state in = {.highest = 42}, out;
    uint32_t version;
    (void)state;
    bw_register_encode(&in, bytes);
    for (size_t length = 0; length < sizeof bytes; length++) {
        uint8_t torn[BW_REGISTER_BYTES] = {0}; /* cut short, and filled up with zeros */
        memcpy(torn, bytes, length);
        assert_int_equal(bw_register_decode(bytes, length, &out, &version), BW_EDAMAGED);
        assert_int_equal(bw_register_decode(torn, sizeof torn, &out, &version), BW_EDAMAGED);
        assert_int_equal(out.highest, 0);
    }
}

static void register_is_rejected_when_any_bit_flips(void **state)
{
    uint8_t bytes[BW_REGISTER_BYTES];
    struct bw_guard_state in = {.highest = 42}, out;
    uint32_t version;
    (void)state;
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bw_register_encode(&in, bytes);
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
        assert_int_equal(bw_register_decode(bytes, sizeof bytes, &out, &version), BW_EDAMAGED);
    }
}

static void seal(uint8_t bytes[BW_REGISTER_BYTES])
{
    uint32_t crc = bw_crc32c(bytes, 24);
    for (unsigned i = 0; i < 4; i++)
        bytes[24 + i] = (uint8_t)(crc >> 8 * i);
}

static void valid_register_of_another_version_returns_eversion(void **state)
{
    uint8_t bytes[BW_REGISTER_BYTES + 1] = {0};
    struct bw_guard_state in = {.highest = 42}, out;
    uint32_t version;
    (void)state;
    bw_register_encode(&in, bytes);
    bytes[8] = 2;
    seal(bytes);
    assert_int_equal(bw_register_decode(bytes, BW_REGISTER_BYTES, &out, &version), BW_EVERSION);
    assert_int_equal(version, 2);
    assert_int_equal(out.highest, 0);
}

static void unknown_flags_and_zero_token_are_damage(void **state)
{
    uint8_t bytes[BW_REGISTER_BYTES + 1] = {0};
    struct bw_guard_state in = {.highest = 42}, none = {0}, out;
    uint32_t version;
    (void)state;
    bw_register_encode(&in, bytes);
    assert_int_equal(bw_register_decode(bytes, sizeof bytes, &out, &version), BW_EDAMAGED);
    bytes[12] = 2; /* a flag of the future */
    seal(bytes);
    assert_int_equal(bw_register_decode(bytes, BW_REGISTER_BYTES, &out, &version), BW_EDAMAGED);
    bw_register_encode(&none, bytes); /* no token at all is never written */
    assert_int_equal(bw_register_decode(bytes, BW_REGISTER_BYTES, &out, &version), BW_EDAMAGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_token_is_accepted_again),
        cmocka_unit_test(the_first_and_every_newer_token_raise_the_register),
        cmocka_unit_test(older_token_is_stale_and_does_not_raise),
        cmocka_unit_test(missing_token_is_rejected),
        cmocka_unit_test(closed_register_accepts_only_the_recovery_token),
        cmocka_unit_test(explanation_names_both_tokens),
        cmocka_unit_test(encoded_register_decodes_to_the_same_state),
        cmocka_unit_test(crc32c_matches_the_published_test_vector),
        cmocka_unit_test(truncated_register_is_rejected_at_every_length),
        cmocka_unit_test(register_is_rejected_when_any_bit_flips),
        cmocka_unit_test(valid_register_of_another_version_returns_eversion),
        cmocka_unit_test(unknown_flags_and_zero_token_are_damage),
    };
    return cmocka_run_group_tests_name("fence register", tests, NULL, NULL);
}
