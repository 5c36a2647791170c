/* A valid text becomes exactly the value it denotes; every other text is rejected. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/base/parse_values.h"

#include <string.h>

static bw_time duration(const char *text)
{
    bw_time out = -1;
    int error = bw_text_duration(text, strlen(text), &out);
    return error ? error : out;
}

static void durations_are_exact(void **state)
{
    (void)state;
    assert_int_equal(duration("10s"), 10 * BW_SEC);
    assert_int_equal(duration("250ms"), 250 * BW_MS);
    assert_int_equal(duration("1.5s"), 1500 * BW_MS);
    assert_int_equal(duration("100us"), 100 * BW_US);
    assert_int_equal(duration("0.000000001s"), 1);
    assert_int_equal(duration("1h30m"), 5400 * BW_SEC);
    assert_int_equal(duration("2min"), 120 * BW_SEC);
    assert_int_equal(duration("0"), 0);
}

static void number_without_a_unit_is_rejected_as_duration(void **state)
{
    (void)state;
    const char *wrong[] = {"",    "10",   "s",   "1.s",  ".5s", "1,5s",
                           "-1s", "10 s", "10S", "1e3s", "5sec"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(duration(wrong[i]), BW_EINVAL);
    assert_int_equal(duration("99999999999h"), BW_ELIMIT);
}

static void ranges_share_a_unit(void **state)
{
    (void)state;
    bw_time low, high;
    assert_int_equal(bw_text_range("1ms..5ms", 8, &low, &high), 0);
    assert_true(low == BW_MS && high == 5 * BW_MS);
    assert_int_equal(bw_text_range("300..600ms", 10, &low, &high), 0);
    assert_true(low == 300 * BW_MS && high == 600 * BW_MS);
    assert_int_equal(bw_text_range("1.5s..2.5s", 10, &low, &high), 0);
    assert_true(low == 1500 * BW_MS && high == 2500 * BW_MS);
    assert_int_equal(bw_text_range("7ms", 3, &low, &high), 0);
    assert_true(low == 7 * BW_MS && high == 7 * BW_MS);
    assert_int_equal(bw_text_range("5ms..1ms", 8, &low, &high), BW_EINVAL);
    assert_int_equal(bw_text_range("..5ms", 5, &low, &high), BW_EINVAL);
    assert_int_equal(bw_text_range("5ms..", 5, &low, &high), BW_EINVAL);
}

static void ratios_have_three_spellings(void **state)
{
    (void)state;
    double p;
    assert_int_equal(bw_text_ratio("0.1", 3, &p), 0);
    assert_float_equal(p, 0.1, 1e-12);
    assert_int_equal(bw_text_ratio("10%", 3, &p), 0);
    assert_float_equal(p, 0.1, 1e-12);
    assert_int_equal(bw_text_ratio("200ppm", 6, &p), 0);
    assert_float_equal(p, 0.0002, 1e-12);
    assert_int_equal(bw_text_ratio("101%", 4, &p), BW_ELIMIT);
    assert_int_equal(bw_text_ratio("%", 1, &p), BW_EINVAL);
    assert_int_equal(bw_text_ratio("-0.1", 4, &p), BW_EINVAL);
}

static void node_list_rejects_duplicates(void **state)
{
    (void)state;
    bw_node ids[4];
    uint32_t count;
    assert_int_equal(bw_text_nodes("3,1,2", 5, ids, 4, &count), 0);
    assert_int_equal(count, 3);
    assert_true(ids[0] == 3 && ids[1] == 1 && ids[2] == 2);
    assert_int_equal(bw_text_nodes("1,1", 3, ids, 4, &count), BW_EINVAL);
    assert_int_equal(bw_text_nodes("0", 1, ids, 4, &count), BW_EINVAL);
    assert_int_equal(bw_text_nodes("1,", 2, ids, 4, &count), BW_EINVAL);
    assert_int_equal(bw_text_nodes("1,2,3,4,5", 9, ids, 4, &count), BW_ELIMIT);
}

static void misspelled_word_finds_the_intended_one(void **state)
{
    (void)state;
    assert_int_equal(bw_text_distance("buly", "bully"), 1);
    assert_int_equal(bw_text_distance("rfat", "raft"), 1);
    assert_int_equal(bw_text_distance("raft", "raft"), 0);
    assert_int_equal(bw_text_distance("", "abc"), 3);
    assert_true(bw_text_similar("algoritm", "algorithm"));
    assert_false(bw_text_similar("raft", "swim"));
}

static int range_of(const char *text)
{
    bw_time low = -1, high = -1;
    return bw_text_range(text, strlen(text), &low, &high);
}

static void malformed_ranges_are_rejected(void **state)
{
    (void)state;
    static const char *const wrong[] = {"x..5s", "5..1s500ms", "5..0", "5", "1.2.3s", "1{", "1..2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(range_of(wrong[i]), BW_EINVAL);
    assert_int_equal(range_of("0..5s"), 0);
    assert_int_equal(range_of("999999999999999..5h"), BW_ELIMIT);
}

static void numbers_have_a_bounded_length(void **state)
{
    (void)state;
    uint64_t number;
    double decimal;
    assert_int_equal(duration("999999999999999999ns"), 999999999999999999); /* 18 digits */
    assert_int_equal(duration("1000000000000000000ns"), BW_EINVAL);
    assert_int_equal(bw_text_number("18446744073709551615", 20, UINT64_MAX, &number), 0);
    assert_true(number == UINT64_MAX);
    assert_int_equal(bw_text_number("18446744073709551616", 20, UINT64_MAX, &number), BW_ELIMIT);
    assert_int_equal(bw_text_decimal("", 0, &decimal), BW_EINVAL);
    assert_int_equal(bw_text_decimal("1.", 2, &decimal), BW_EINVAL);
    assert_int_equal(bw_text_decimal("1.5", 3, &decimal), 0);
    assert_true(decimal == 1.5);
}

static void overlong_words_resemble_nothing(void **state)
{
    (void)state;
    char word[64];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = 0;
    assert_int_equal(bw_text_distance(word, "x"), 40);
    assert_int_equal(bw_text_distance("x", word), 40);
    word[40] = 0;
    assert_int_equal(bw_text_distance(word, "x"), 39);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_exact),
        cmocka_unit_test(number_without_a_unit_is_rejected_as_duration),
        cmocka_unit_test(ranges_share_a_unit),
        cmocka_unit_test(ratios_have_three_spellings),
        cmocka_unit_test(node_list_rejects_duplicates),
        cmocka_unit_test(misspelled_word_finds_the_intended_one),
        cmocka_unit_test(malformed_ranges_are_rejected),
        cmocka_unit_test(numbers_have_a_bounded_length),
        cmocka_unit_test(overlong_words_resemble_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
