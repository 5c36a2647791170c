/* What people type becomes exactly the value they meant, and anything else is refused. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/base/text.h"

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

static void a_number_without_a_unit_is_no_duration(void **state)
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

static void chances_come_in_three_spellings(void **state)
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

static void a_node_list_names_each_once(void **state)
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

static void a_slip_of_the_finger_finds_the_word_that_was_meant(void **state)
{
    (void)state;
    assert_int_equal(bw_text_distance("buly", "bully"), 1);
    assert_int_equal(bw_text_distance("rfat", "raft"), 1);
    assert_int_equal(bw_text_distance("raft", "raft"), 0);
    assert_int_equal(bw_text_distance("", "abc"), 3);
    assert_true(bw_text_similar("algoritm", "algorithm"));
    assert_false(bw_text_similar("raft", "swim"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_exact),
        cmocka_unit_test(a_number_without_a_unit_is_no_duration),
        cmocka_unit_test(ranges_share_a_unit),
        cmocka_unit_test(chances_come_in_three_spellings),
        cmocka_unit_test(a_node_list_names_each_once),
        cmocka_unit_test(a_slip_of_the_finger_finds_the_word_that_was_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
