/* The error table: every code has a name and a text, and says whether trying again can help. */
#include "core/base/error.h"

#include "unit/unit.h"

static const int codes[] = {
#define X(name, code, text, retry) BW_##name,
    BW_ERROR_MAP(X)
#undef X
};

#define CODES (sizeof codes / sizeof codes[0])

static void every_code_is_negative_and_unlike_the_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODES; i++) {
        assert_true(codes[i] < 0);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(codes[i], codes[j]);
    }
}

static void every_code_has_its_own_name_and_a_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODES; i++) {
        assert_string_not_equal(bw_error_name(codes[i]), "UNKNOWN");
        assert_true(strlen(bw_error_text(codes[i])) > 5);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(bw_error_name(codes[i]), bw_error_name(codes[j]));
    }
}

static void a_number_that_is_no_code_is_an_unknown_error(void **state)
{
    (void)state;
    assert_string_equal(bw_error_name(1), "UNKNOWN");
    assert_string_equal(bw_error_text(-9999), "unknown error");
    assert_false(bw_error_retryable(-9999));
}

static void trying_again_helps_against_a_wrong_leader_but_not_against_bad_bytes(void **state)
{
    (void)state;
    assert_true(bw_error_retryable(BW_ENOTLEADER));
    assert_true(bw_error_retryable(BW_ENOQUORUM));
    assert_false(bw_error_retryable(BW_EMALFORMED));
    assert_false(bw_error_retryable(BW_ESTALE));
    assert_string_equal(bw_error_name(BW_EMALFORMED), "EMALFORMED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_is_negative_and_unlike_the_others),
        cmocka_unit_test(every_code_has_its_own_name_and_a_text),
        cmocka_unit_test(a_number_that_is_no_code_is_an_unknown_error),
        cmocka_unit_test(trying_again_helps_against_a_wrong_leader_but_not_against_bad_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
