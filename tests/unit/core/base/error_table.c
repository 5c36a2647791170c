/* The error table: every code has a name, a text and a flag that says whether a retry can
 * succeed. */
#include "core/base/error.h"
#include "core/base/message.h"
#include "core/base/trace.h"

#include "unit/unit.h"

static const int codes[] = {
#define X(name, code, text, retry) BW_##name,
    BW_ERROR_MAP(X)
#undef X
};

#define CODES (sizeof codes / sizeof codes[0])

static void every_error_code_is_negative_and_unique(void **state)
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

static void undefined_code_is_an_unknown_error(void **state)
{
    (void)state;
    assert_string_equal(bw_error_name(1), "UNKNOWN");
    assert_string_equal(bw_error_text(-9999), "unknown error");
    assert_false(bw_error_retryable(-9999));
}

static void not_leader_is_retryable_and_malformed_is_not(void **state)
{
    (void)state;
    assert_true(bw_error_retryable(BW_ENOTLEADER));
    assert_true(bw_error_retryable(BW_ENOQUORUM));
    assert_false(bw_error_retryable(BW_EMALFORMED));
    assert_false(bw_error_retryable(BW_ESTALE));
    assert_string_equal(bw_error_name(BW_EMALFORMED), "EMALFORMED");
}

static void unknown_codes_of_traces_and_messages_have_a_name(void **state)
{
    (void)state;
    assert_string_equal(bw_trace_name(BW_TRACE_WON), "WON");
    assert_string_equal(bw_trace_name(BW_TRACE_COUNT), "UNKNOWN");
    assert_string_equal(bw_trace_text(BW_TRACE_COUNT), "unknown");
    assert_string_not_equal(bw_trace_text(BW_TRACE_WON), "unknown");
    assert_string_equal(bw_message_name(BW_MSG_COUNT), "NONE");
    assert_string_equal(bw_message_name(BW_MSG_CLAIM), "CLAIM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_code_is_negative_and_unique),
        cmocka_unit_test(every_code_has_its_own_name_and_a_text),
        cmocka_unit_test(undefined_code_is_an_unknown_error),
        cmocka_unit_test(not_leader_is_retryable_and_malformed_is_not),
        cmocka_unit_test(unknown_codes_of_traces_and_messages_have_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
