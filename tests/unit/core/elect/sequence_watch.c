/* The sequential recipe: the lowest leads, everybody else watches exactly one. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/elect/sequence.h"

static const struct bw_sequence_entry three[] = {{4, 40}, {7, 70}, {9, 90}};

static struct bw_sequence contender(uint64_t own)
{
    struct bw_sequence self;
    bw_sequence_init(&self, own);
    assert_int_equal(self.verdict, BW_SEQUENCE_LIST);
    assert_int_equal(bw_sequence_listed(&self, three, 3), 0);
    return self;
}

static void the_lowest_number_leads(void **state)
{
    (void)state;
    struct bw_sequence self = contender(4);
    assert_int_equal(self.verdict, BW_SEQUENCE_LEAD);
    assert_int_equal(self.watch.number, 0);
}

static void the_others_watch_their_predecessor_and_nobody_else(void **state)
{
    (void)state;
    struct bw_sequence self = contender(9);
    assert_int_equal(self.verdict, BW_SEQUENCE_WATCH);
    assert_int_equal(self.watch.number, 7);
    assert_int_equal(self.watch.owner, 70);
    assert_int_equal(self.leader.owner, 40);
    assert_false(bw_sequence_vanished(&self, 4));
    assert_int_equal(self.verdict, BW_SEQUENCE_WATCH);
}

static void a_vanished_predecessor_means_list_again_not_lead(void **state)
{
    (void)state;
    struct bw_sequence self = contender(9);
    assert_true(bw_sequence_vanished(&self, 7));
    assert_int_equal(self.verdict, BW_SEQUENCE_LIST);
    static const struct bw_sequence_entry two[] = {{4, 40}, {9, 90}};
    assert_int_equal(bw_sequence_listed(&self, two, 2), 0);
    assert_int_equal(self.verdict, BW_SEQUENCE_WATCH);
    assert_int_equal(self.watch.number, 4);
    assert_true(bw_sequence_vanished(&self, 4));
    assert_int_equal(bw_sequence_listed(&self, &two[1], 1), 0);
    assert_int_equal(self.verdict, BW_SEQUENCE_LEAD);
}

static void without_an_own_entry_everything_is_lost(void **state)
{
    (void)state;
    struct bw_sequence self = contender(8);
    assert_int_equal(self.verdict, BW_SEQUENCE_GONE);
    self = contender(4);
    assert_false(bw_sequence_vanished(&self, 4));
    assert_int_equal(self.verdict, BW_SEQUENCE_GONE);
    assert_int_equal(bw_sequence_listed(&self, NULL, 0), 0);
    assert_int_equal(self.verdict, BW_SEQUENCE_GONE);
}

static void a_list_out_of_order_decides_nothing(void **state)
{
    (void)state;
    static const struct bw_sequence_entry mixed[] = {{7, 70}, {4, 40}}, twice[] = {{4, 1}, {4, 2}};
    struct bw_sequence self = contender(4);
    assert_int_equal(bw_sequence_listed(&self, mixed, 2), BW_EINVAL);
    assert_int_equal(self.verdict, BW_SEQUENCE_LIST);
    assert_int_equal(bw_sequence_listed(&self, twice, 2), BW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_number_leads),
        cmocka_unit_test(the_others_watch_their_predecessor_and_nobody_else),
        cmocka_unit_test(a_vanished_predecessor_means_list_again_not_lead),
        cmocka_unit_test(without_an_own_entry_everything_is_lost),
        cmocka_unit_test(a_list_out_of_order_decides_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
