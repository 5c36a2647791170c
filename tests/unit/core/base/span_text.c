/* Durations are written as users write them, and the option parser reads them back. */
#include "unit/unit.h"

#include "core/base/parse_values.h"
#include "core/base/rng.h"

#include <string.h>

static void exact(bw_time span, const char *text)
{
    char out[BW_SPAN_TEXT];
    assert_string_equal(bw_span_exact(out, span), text);
}

static void rounded(bw_time span, const char *text)
{
    char out[BW_SPAN_TEXT];
    assert_string_equal(bw_span_round(out, span), text);
}

static void durations_have_one_unit_below_a_minute(void **state)
{
    (void)state;
    exact(0, "0s");
    exact(7, "7ns");
    exact(1500, "1.5us");
    exact(250 * BW_MS, "250ms");
    exact(BW_SEC, "1s");
    exact(4650 * BW_MS, "4.65s");
    exact(9801980198, "9.801s");
    exact(-1500 * BW_MS, "-1.5s");
    exact(BW_TIME_NEVER, "never");
}

static void longer_durations_have_hours_and_minutes(void **state)
{
    (void)state;
    exact(60 * BW_SEC, "1m");
    exact(77429 * BW_MS, "1m17.429s");
    exact(3600 * BW_SEC, "1h");
    exact(5400 * BW_SEC, "1h30m");
    exact(3605 * BW_SEC, "1h5s");
    exact(35290 * BW_SEC, "9h48m10s");
}

static void rounding_keeps_about_three_digits(void **state)
{
    (void)state;
    rounded(999999999, "1s");
    rounded(9801980198, "9.8s");
    rounded(12345 * BW_MS, "12.3s");
    rounded(2345678, "2.35ms");
    rounded(35290400 * BW_MS, "9h48m10s");
    rounded(59990 * BW_MS, "1m");
    rounded(-9801980198, "-9.8s");
    rounded(BW_TIME_NEVER, "never");
    rounded(12, "12ns");
}

static void option_parser_reads_every_text_back(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 3);
    for (int i = 0; i < 200000; i++) {
        char out[BW_SPAN_TEXT], again[BW_SPAN_TEXT];
        bw_time top = (bw_time)1 << bw_rng_below(&rng, 63), read = -1;
        bw_time span = bw_rng_between(&rng, 0, top);
        bw_span_exact(out, span);
        assert_true(strlen(out) < sizeof out);
        assert_int_equal(bw_text_duration(out, strlen(out), &read), 0);
        assert_true(read <= span && span - read < BW_MS);
        assert_string_equal(bw_span_exact(again, read), out);
        bw_span_round(out, span);
        assert_int_equal(bw_text_duration(out, strlen(out), &read), 0);
        assert_true(read - span <= span / 100 + 1 && span - read <= span / 100 + 1);
    }
}

static void extreme_durations_fit_into_the_text(void **state)
{
    (void)state;
    char out[BW_SPAN_TEXT];
    assert_true(strlen(bw_span_exact(out, BW_TIME_NEVER - 1)) < sizeof out);
    assert_true(strlen(bw_span_exact(out, INT64_MIN)) < sizeof out);
    assert_true(strlen(bw_span_round(out, INT64_MIN)) < sizeof out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_have_one_unit_below_a_minute),
        cmocka_unit_test(longer_durations_have_hours_and_minutes),
        cmocka_unit_test(rounding_keeps_about_three_digits),
        cmocka_unit_test(option_parser_reads_every_text_back),
        cmocka_unit_test(extreme_durations_fit_into_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
